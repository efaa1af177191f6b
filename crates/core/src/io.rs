//! The engine's two alphabets: what comes in and what goes out.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::model::{
    Budget, BudgetKey, BudgetKind, BudgetStatus, BuiltinBudget, ControllerRef, GroupApi, GroupKind,
    ObjectKey, Operation, Owner, Pod, PodGroup, ResourceVersion, Timestamp, Workload,
};
use crate::verdict::Verdict;

/// What the world tells the engine.
#[derive(Clone, Debug)]
pub enum Input {
    Pod(Change<Pod>),
    Budget(Change<Budget>),
    BuiltinBudget(Change<BuiltinBudget>),
    PodGroup(Change<PodGroup>),
    Workload(Change<Workload>),
    Owner(Change<Owner>),
    /// A complete list of this kind begins. The objects follow as `Applied`.
    ListBegan(Kind),
    /// The list, as of this version, is complete: objects of the kind that it did not hold are gone,
    /// and the kind is synced from now on.
    ListEnded(Kind, ResourceVersion),
    /// Answer to [`Command::ListNamespace`].
    Snapshot {
        kind: Kind,
        namespace: String,
        outcome: SnapshotOutcome,
    },
    /// The namespaces in which the API server asks us about deletes and updates of pods, from now on.
    Intercepted(BTreeSet<String>),
    /// Whether this instance does the housekeeping, from now on. It does until told otherwise.
    Lead(bool),
    /// The API server does not serve this kind. That is a normal state: synced, and empty.
    NotServed(Kind),
    /// The API server has ceased to serve a kind that nothing can be decided without. Everything is
    /// denied until the next complete list of it.
    Lost(Kind),
    /// A complete list of this kind, which is under way, is older than what the watch had delivered before the
    /// list was sent: etcd was restored from a backup. The list replaces all that is known of the kind.
    Restored(Kind),
    /// The object exists but cannot be decoded. A budget allows nothing until it can be read, and a pod counts as
    /// present and unhealthy. The last readable state of other kinds stays in force.
    Unreadable {
        kind: Kind,
        key: ObjectKey,
        why: String,
        salvaged: Option<Box<Salvaged>>,
    },
    /// An eviction to decide.
    Evict(Eviction),
    /// Answer to [`Command::ReadPod`].
    PodRead {
        token: u64,
        outcome: PodReadOutcome,
    },
    /// Answer to [`Command::WriteStatus`] and [`Command::ReadBudget`].
    StatusWritten {
        budget: BudgetKey,
        /// As in the command: a budget may be deleted and created again before the answer comes.
        uid: String,
        outcome: WriteOutcome,
    },
    /// Answer to [`Command::ReadScale`].
    ScaleRead {
        namespace: String,
        owner: ControllerRef,
        outcome: ScaleOutcome,
    },
    /// Time has passed.
    Tick,
}

impl Input {
    /// The namespace of the object that this input is about, if it is about one.
    pub fn namespace(&self) -> Option<&str> {
        self.subject().map(|(_, key, _)| key.namespace.as_str())
    }

    /// Kind, key and version of the object that this input is about, if it is about one.
    pub fn subject(&self) -> Option<(Kind, &ObjectKey, &ResourceVersion)> {
        Some(match self {
            Self::Pod(change) => (Kind::Pod, &change.object().key, &change.object().version),
            Self::Budget(change) => {
                let budget = change.object();
                (budget.key.kind.watched(), &budget.key.object, &budget.version)
            }
            Self::BuiltinBudget(change) => {
                (Kind::BuiltinBudget, &change.object().key, &change.object().version)
            }
            Self::PodGroup(change) => {
                let group = change.object();
                (Kind::PodGroup(group.api), &group.key, &group.version)
            }
            Self::Workload(change) => {
                let workload = change.object();
                (Kind::Workload(workload.api), &workload.key, &workload.version)
            }
            Self::Owner(change) => {
                let owner = change.object();
                (Kind::Owner(owner.group_kind.clone()), &owner.key, &owner.version)
            }
            _ => return None,
        })
    }
}

impl BudgetKind {
    /// The kind that its objects are watched as.
    pub fn watched(self) -> Kind {
        match self {
            Self::PodDisruptionBudget => Kind::Budget,
            Self::PodUnavailableBudget => Kind::UnavailableBudget,
        }
    }
}

/// What could be read of a pod or a budget that cannot be decoded as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Salvaged {
    /// Without its status: never Ready.
    Pod(Pod),
    /// Without its status. A selector that cannot be read is the one that selects every pod.
    Budget(Budget),
}

/// A watch event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    Applied(T),
    /// The object's last state. Of a pod it carries the evidence of why it went.
    Deleted(T),
}

impl<T> Change<T> {
    pub fn object(&self) -> &T {
        match self {
            Self::Applied(object) | Self::Deleted(object) => object,
        }
    }
}

/// The kinds that the shell watches. The engine denies until each is synced or not served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Pod,
    Budget,
    /// `PodUnavailableBudget`.
    UnavailableBudget,
    BuiltinBudget,
    PodGroup(GroupApi),
    Workload(GroupApi),
    Owner(GroupKind),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let api = |api: &GroupApi| match api {
            GroupApi::Kubernetes => "scheduling.k8s.io",
            GroupApi::Holdfast => "scheduling.holdfast.dev",
        };
        match self {
            Self::Pod => f.write_str("pods"),
            Self::Budget => f.write_str("poddisruptionbudgets.policy.holdfast.dev"),
            Self::UnavailableBudget => f.write_str("podunavailablebudgets.policy.kruise.io"),
            Self::BuiltinBudget => f.write_str("poddisruptionbudgets.policy"),
            Self::PodGroup(group) => write!(f, "podgroups.{}", api(group)),
            Self::Workload(group) => write!(f, "workloads.{}", api(group)),
            Self::Owner(kind) => write!(f, "{kind}"),
        }
    }
}

/// A request to disrupt one pod: to evict it, mostly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Unique among all requests of all instances; it is recorded with the grant.
    pub id: String,
    pub pod: ObjectKey,
    pub operation: Operation,
    /// The pod as it is now, where the API server sends it along.
    pub object: Option<Box<Pod>>,
    /// For an update or a resize: the generation that the pod will have.
    pub generation: i64,
    /// It is the system at work, which no `PodUnavailableBudget` stands in the way of.
    pub exempt: bool,
    /// `deleteOptions.preconditions.uid`; for other operations that of the pod itself.
    pub uid: Option<String>,
    pub requester: String,
    pub dry_run: bool,
    /// The API server has just seen the pod running and will delete whatever has its name by then, as
    /// it does in native mode: a pod that turns out to be gone or going is asked about again.
    pub by_name: bool,
    /// The engine answers by this time at the latest, with a denial if it must.
    pub deadline: Timestamp,
}

#[derive(Clone, Debug)]
pub enum PodReadOutcome {
    Found(Box<Pod>),
    NotFound,
    /// The API server did not answer, or not with a pod.
    Failed(String),
}

/// What became of a status write.
#[derive(Clone, Debug)]
pub enum WriteOutcome {
    /// The object as it stands now: the result of our write, or, after a conflict, what a fresh
    /// read showed. The engine finds out by itself which of its grants it holds.
    Current(Box<Budget>),
    /// The budget does not exist any more.
    Gone,
    /// The API server refused: nothing was written.
    Rejected(String),
    /// Nobody knows whether it was written. The engine counts it as granted and reads again.
    Unknown(String),
}

#[derive(Clone, Debug)]
pub enum SnapshotOutcome {
    /// All objects of the kind in the namespace as of this version, as `Applied` and `Unreadable` inputs.
    Listed { version: ResourceVersion, objects: Vec<Input> },
    /// The API server has just said that it does not serve the kind.
    NotServed,
    /// Nobody knows; the engine asks again when it needs to.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleOutcome {
    Found {
        uid: String,
        replicas: i64,
    },
    /// The kind has a scale subresource, but this object does not exist.
    NotFound,
    /// The kind has none; the text names the resource, as in `daemonsets.apps`.
    NotImplemented(String),
    Failed(String),
}

/// What the engine wants done. Only `Event`, `ClearDisruptionTarget` and `Relate` are safe to lose: no decision rests on
/// them. The shell executes every other command, and answers every read and write, with a failure if it must. Without
/// the answer the engine never
///
/// - writes the budget again (`WriteStatus`, `ReadBudget`),
/// - lists the kind in that namespace again (`ListNamespace`),
/// - knows a scale that changes, so that budgets that need it allow by an old number, or nothing (`ReadScale`),
/// - ends a grant that has expired; an eviction that waits for the read is denied at its deadline (`ReadPod`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Answer the eviction with this id. Exactly one per `Evict`.
    Reply { eviction: String, verdict: Verdict },
    /// Replace the budget's status, if it still has this uid and resource version. At most one per
    /// budget is under way at any time. Answer with [`Input::StatusWritten`], always.
    WriteStatus {
        budget: BudgetKey,
        uid: String,
        version: ResourceVersion,
        status: Arc<BudgetStatus>,
    },
    /// Read the budget afresh because the outcome of a write is unknown. Answer with
    /// [`Input::StatusWritten`], always.
    ReadBudget { budget: BudgetKey, uid: String },
    /// Read the pod from the API server, not from a cache. Answer with [`Input::PodRead`], always.
    ReadPod { token: u64, pod: ObjectKey },
    /// Read the `/scale` subresource. Answer with [`Input::ScaleRead`], always.
    ReadScale { namespace: String, owner: ControllerRef },
    /// List the kind in one namespace, by a consistent read: another instance has seen more of it than we have, or
    /// the list of the namespace's budgets is too old to decide by. Answer with [`Input::Snapshot`], always.
    ListNamespace { kind: Kind, namespace: String },
    /// Set the pod's stale condition `DisruptionTarget` to False (k/k `stale_pod_disruption`).
    ClearDisruptionTarget { pod: ObjectKey, uid: String },
    /// Write Kruise's annotation into the pod, if it is still this one: its `PodUnavailableBudget`, by name.
    Relate { pod: ObjectKey, uid: String, budget: String },
    /// Publish a Kubernetes Event.
    Event(Event),
    /// Call `handle` with [`Input::Tick`] at this time. The newest one replaces all earlier ones.
    WakeAt(Timestamp),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub regarding: Regarding,
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regarding {
    Budget {
        key: BudgetKey,
        uid: String,
    },
    Pod {
        key: ObjectKey,
        uid: String,
    },
    /// A workload, or a `PodGroup`.
    Object {
        api_version: String,
        kind: String,
        key: ObjectKey,
        uid: String,
    },
}
