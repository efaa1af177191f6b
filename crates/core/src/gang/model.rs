//! What gangs are decided by: plain objects, decoded by the shell.

use std::collections::BTreeMap;
use std::fmt;

use crate::io::Change;
use crate::model::{
    Condition, ControllerRef, GroupKind, ObjectKey, PodGroup, ResourceVersion, Timestamp, Workload,
};

/// What a watch tells.
#[derive(Clone, Debug)]
pub enum Seen {
    Pod(Change<Pod>),
    Node(Change<Node>),
    Namespace(Change<Namespace>),
    Owner(Change<Owner>),
    Group(Change<Group>),
    Workload(Change<Workload>),
    /// A complete list of this kind begins. The objects follow as `Applied`.
    ListBegan(Kind),
    /// Objects of the kind that the list did not hold are gone, and the kind is synced from now on.
    ListEnded(Kind),
    /// That is a normal state: synced, and empty.
    NotServed(Kind),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Pod,
    Node,
    Namespace,
    /// One of [`Owner::KINDS`].
    Owner(GroupKind),
    Group,
    Workload,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod => f.write_str("Pods"),
            Self::Node => f.write_str("Nodes"),
            Self::Namespace => f.write_str("Namespaces"),
            Self::Owner(kind) => write!(f, "{}s", kind.kind),
            Self::Group => f.write_str("PodGroups"),
            Self::Workload => f.write_str("Workloads"),
        }
    }
}

/// By resource name, in thousandths: of a CPU, a byte, a device, a pod.
pub type Resources = BTreeMap<String, i64>;

#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Pod {
    /// The name is empty in an admission request if the API server has yet to make one up.
    pub key: ObjectKey,
    pub uid: String,
    pub version: ResourceVersion,
    pub created: Timestamp,
    pub controller: Option<ControllerRef>,
    /// Of labels and annotations, those of `LeaderWorkerSet` and `JobSet`.
    pub lws: Option<LwsPlace>,
    /// The `PodGroup` that it names: by `spec.schedulingGroup` in shape Kubernetes, by annotation in shape
    /// Holdfast.
    pub group: Option<String>,
    /// It brings a group of another kind, which is not ours to look after: of another scheduler, or of an API of
    /// another shape.
    pub foreign: bool,
    /// Static: mirrored by the API server.
    pub mirror: bool,
    pub node: Option<String>,
    /// Succeeded or Failed.
    pub finished: bool,
    pub terminating: bool,
    /// Has [`super::GATE`].
    pub gated: bool,
    /// Has gates of others.
    pub held: bool,
    /// The scheduler has said that there is no place for it.
    pub unschedulable: bool,
    pub priority: Priority,
    pub requests: Resources,
    pub constraints: Constraints,
}

impl Pod {
    /// Neither finished nor on its way out.
    pub(super) fn is_lasting(&self) -> bool {
        !self.finished && !self.terminating
    }

    /// Of the `PodGroup` that it names.
    pub(super) fn group_key(&self) -> Option<ObjectKey> {
        Some(ObjectKey::new(&*self.key.namespace, &**self.group.as_ref()?))
    }
}

/// A pod of a `LeaderWorkerSet`, by its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LwsPlace {
    pub name: String,
    pub group_index: i64,
    /// 0 is the leader.
    pub worker_index: i64,
    /// Annotation `leaderworkerset.sigs.k8s.io/size`, if readable.
    pub size: Option<i64>,
    /// Annotation `leaderworkerset.sigs.k8s.io/leader-name`, of workers.
    pub leader: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    /// `spec.priority`, 0 if absent.
    pub value: i64,
    pub class: Option<String>,
    pub preemption: Option<String>,
}

/// Where a pod may run, as far as it is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Constraints {
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity: one term must hold. None: there is none.
    pub affinity: Option<Vec<NodeTerm>>,
    pub tolerations: Vec<Toleration>,
    /// Host ports, as `TCP 0.0.0.0:80`.
    pub ports: Vec<HostPort>,
    /// What else there is that we do not look at, in words: `pod anti-affinity`, `volumes`.
    pub unknown: Vec<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    pub protocol: String,
    /// `0.0.0.0` for all.
    pub ip: String,
    pub port: i64,
}

/// All must hold. A term without any holds for no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeTerm {
    pub expressions: Vec<Requirement>,
    /// Of `metadata.name`, the only field there is.
    pub fields: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    pub key: String,
    pub test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
    /// Of a later release, or unreadable: holds for no node.
    Unreadable,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    /// Empty with Exists: all keys.
    pub key: String,
    pub test: TolerationTest,
    /// None: all effects.
    pub effect: Option<TaintEffect>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TolerationTest {
    Exists,
    Equal(String),
    /// Of a later release: tolerates nothing.
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintEffect {
    NoSchedule,
    NoExecute,
    PreferNoSchedule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: TaintEffect,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub version: ResourceVersion,
    pub terminating: bool,
    pub labels: BTreeMap<String, String>,
    /// With `node.kubernetes.io/unschedulable` if `spec.unschedulable` is set.
    pub taints: Vec<Taint>,
    pub allocatable: Resources,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub name: String,
    pub version: ResourceVersion,
    pub terminating: bool,
    /// Annotation [`super::ASKS`] is `"true"`.
    pub asks: bool,
}

/// A workload, or a controller between it and its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub group_kind: GroupKind,
    /// Of the API that it was read by: `v1`.
    pub api_version: String,
    pub key: ObjectKey,
    pub uid: String,
    pub version: ResourceVersion,
    pub terminating: bool,
    pub controller: Option<ControllerRef>,
    /// Annotation [`super::ASKS`]; None if absent. `"true"` asks; anything else declines, also for the namespace.
    pub asks: Option<bool>,
    pub spec: OwnerSpec,
}

impl Owner {
    pub const KINDS: [(&str, &str); 4] = [
        (crate::model::Owner::LWS_GROUP, "LeaderWorkerSet"),
        (crate::model::Owner::JOBSET_GROUP, "JobSet"),
        ("batch", "Job"),
        ("apps", "StatefulSet"),
    ];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerSpec {
    LeaderWorkerSet {
        replicas: i64,
        /// `spec.leaderWorkerTemplate.size`
        size: i64,
        /// `spec.startupPolicy` is `LeaderReady`.
        leader_ready: bool,
        /// Annotation `leaderworkerset.sigs.k8s.io/exclusive-topology` is there.
        exclusive: bool,
        /// restartPolicy is None or Default: losing one pod does not take the group.
        keeps_group: bool,
    },
    JobSet {
        /// Annotation `alpha.jobset.sigs.k8s.io/exclusive-topology` is there.
        exclusive: bool,
        jobs: Vec<ReplicatedJob>,
    },
    Job(JobSize),
    StatefulSet {
        replicas: i64,
        /// `spec.ordinals.start`
        start: i64,
        /// Annotation [`super::GROUP_SIZE`], if it is a number >= 1.
        group_size: Option<i64>,
        /// `podManagementPolicy` is not Parallel.
        ordered: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicatedJob {
    pub name: String,
    pub size: JobSize,
    pub depends: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSize {
    pub parallelism: i64,
    pub completions: Option<i64>,
    /// Pods that are not made again, because they succeeded or failed for good.
    pub succeeded: i64,
}

/// A `PodGroup`, with what budgets do not read of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its policy is basic where the object's is, whatever [`super::MIN_COUNT`] says.
    pub object: PodGroup,
    pub created: Timestamp,
    pub generation: i64,
    /// Annotation [`super::SLOT`].
    pub slot: Option<String>,
    /// Has the finalizer [`super::PROTECTION`].
    pub protected: bool,
    pub status: GroupStatus,
}

impl Group {
    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStatus {
    pub scheduled_pods: i64,
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Gang { min_count: i64 },
    Basic,
}
