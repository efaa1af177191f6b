use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use litemap::LiteMap;
use smallvec::SmallVec;

use super::{ObjectKey, Operation, ResourceVersion, Timestamp, UnavailableSpec};

/// Kind, namespace and name. Several budgets on one pod are reserved in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetKey {
    pub kind: BudgetKind,
    pub object: ObjectKey,
}

/// Budgets are named in many places; the name is shared.
pub(crate) type BudgetId = Arc<BudgetKey>;

/// Budgets that select one pod, in reservation order: hardly ever more than two.
pub(crate) type Covering = SmallVec<[BudgetId; 2]>;

impl BudgetKey {
    pub fn pdb(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind: BudgetKind::PodDisruptionBudget, object: ObjectKey::new(namespace, name) }
    }

    pub fn unavailable(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind: BudgetKind::PodUnavailableBudget, object: ObjectKey::new(namespace, name) }
    }
}

impl fmt::Display for BudgetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BudgetKind {
    PodDisruptionBudget,
    PodUnavailableBudget,
}

impl BudgetKind {
    pub fn short(self) -> &'static str {
        match self {
            Self::PodDisruptionBudget => "PDB",
            Self::PodUnavailableBudget => "PUB",
        }
    }
}

/// A `PodDisruptionBudget` of `policy.holdfast.dev/v1` (or, in native mode, of `policy/v1`), or a
/// `PodUnavailableBudget` of `policy.kruise.io`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    pub key: BudgetKey,
    pub uid: String,
    pub version: ResourceVersion,
    pub generation: i64,
    pub spec: BudgetSpec,
    pub status: BudgetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetSpec {
    pub min_available: Option<Threshold>,
    pub max_unavailable: Option<Threshold>,
    /// None selects nothing; the empty selector selects every pod of the namespace.
    pub selector: Option<LabelSelector>,
    pub unhealthy_policy: UnhealthyPolicy,
    pub scope: Scope,
    /// Annotation `holdfast.dev/basic-group-min-count`.
    pub basic_min_count: BasicMinCount,
    /// Of a `PodUnavailableBudget`, and of it alone.
    pub unavailable: Option<Box<UnavailableSpec>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Threshold {
    Count(i64),
    /// `"30%"` is `Percent(30)`.
    Percent(i64),
    /// Neither a number nor a percentage; the text says what is wrong.
    Invalid(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnhealthyPolicy {
    #[default]
    IfHealthyBudget,
    AlwaysAllow,
}

/// The unit that a budget counts. `PodGroup`, the KEP's newer name, is decoded as `Workload`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    Pod,
    Workload,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BasicMinCount {
    #[default]
    Absent,
    Count(i64),
    /// The annotation's text, which is not a whole number >= 1.
    Unreadable(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    pub match_labels: BTreeMap<String, String>,
    pub match_expressions: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    pub values: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Other(String),
}

/// The status as it stands on the API server, or as the engine wants it written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetStatus {
    pub observed_generation: i64,
    /// Upstream's map: pod name to time. Entries that no grant explains are somebody else's and
    /// count as grants until removed.
    pub disrupted_pods: BTreeMap<String, Timestamp>,
    pub disruptions_allowed: i64,
    pub current_healthy: i64,
    pub desired_healthy: i64,
    pub expected_pods: i64,
    pub disruptions_allowed_replicas: i64,
    pub current_healthy_replicas: i64,
    pub desired_healthy_replicas: i64,
    pub expected_replicas: i64,
    pub conditions: Vec<Condition>,
    pub grants: Vec<Grant>,
    /// Kind to the highest resource version of the events that this status was computed from. An
    /// instance that has not seen as much must not decide by this budget (semantics 6.2).
    pub watermarks: LiteMap<String, ResourceVersion>,
    /// Pods that a grant took and that have not been replaced yet (semantics 3 and 4).
    pub pending_replacements: Vec<PendingReplacement>,
}

/// What a budget remembers of a pod that it granted away, until the pod's controller has replaced it. The grant
/// itself ends when the pod is terminating, and then the pod's group looks smaller than it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReplacement {
    pub pod: String,
    pub uid: String,
    /// Identity of the pod's group, as the engine encodes it. Empty without a size.
    pub replica: String,
    /// How many pods a group has that is disrupted as a whole; 0 for other groups.
    pub size: i64,
    /// Uid of the controller that all pods of the group had then. Empty if they had several, or without a size.
    pub controller: String,
    /// Where the number of expected replicas came from, as the engine encodes it.
    pub sources: Vec<String>,
    /// Labels of the pod, by which an edited selector still matches or not. Empty without sources.
    pub labels: BTreeMap<String, String>,
    /// How old the size was when this was written, in whole minutes; 0 without a size.
    pub age_seconds: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: String,
    pub status: ConditionStatus,
    pub reason: String,
    pub message: String,
    pub observed_generation: i64,
    pub last_transition: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// A recorded permission to disrupt one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub pod: String,
    /// Empty for a `disruptedPods` entry that somebody else wrote and that no live pod matched yet.
    pub uid: String,
    /// The replica as a person reads it; empty for scope Pod.
    pub replica: String,
    /// Units of the budget that it spends: 0 or 1.
    pub cost: i64,
    /// Who asked, cut to 128 bytes.
    pub requester: String,
    /// Whole seconds.
    pub granted_at: Timestamp,
    /// The request that wrote or last renewed it; a refund removes only its own.
    pub eviction: String,
    /// Uids of all budgets that this eviction needs a grant in, in reservation order. Not names: that a
    /// budget of the same name does not have the grant says nothing of its predecessor.
    pub budgets: Vec<String>,
    pub operation: Operation,
    /// `metadata.generation` that the pod has when an update or a resize has been stored.
    pub generation: i64,
    /// Several evictions by name were allowed by it. When one of them has taken the pod, another may yet
    /// take the next of that name.
    pub shared: bool,
    /// The age of the grant in whole seconds when the status was written. Clocks of instances differ, so the object
    /// carries an age and not only a time.
    pub age_seconds: i64,
    /// The eviction has the pod's uid as a precondition, so it cannot hit another pod of the name.
    pub pinned: bool,
    /// The pod had the condition `DisruptionTarget` before the grant. The condition is no evidence of this eviction.
    pub targeted_before: bool,
}

impl Grant {
    /// Returns whether the operation cannot hit another pod of the name: all operations but evictions by name. The
    /// grant ends with the pod.
    pub fn is_exact(&self) -> bool {
        self.operation != Operation::Evict || self.pinned
    }

    /// Returns whether the grant ends when its pod terminates with the condition of the Eviction API.
    pub fn ends_by_evidence(&self) -> bool {
        self.is_exact() || !(self.shared || self.targeted_before)
    }

    /// Whether whoever has it needs no other for this operation. What was free because the pod would stay,
    /// or because nobody protects it from that, pays for nothing else.
    pub fn stands_for(&self, operation: Operation) -> bool {
        self.cost > 0 || self.operation == operation || !self.operation.keeps_pod()
    }
}

/// A built-in `policy/v1` `PodDisruptionBudget`, watched in webhook mode because the built-in eviction
/// handler runs behind us and decides by these counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltinBudget {
    pub key: ObjectKey,
    pub version: ResourceVersion,
    pub generation: i64,
    pub selector: Option<LabelSelector>,
    pub unhealthy_policy: UnhealthyPolicy,
    pub observed_generation: i64,
    pub disruptions_allowed: i64,
    pub current_healthy: i64,
    pub desired_healthy: i64,
    pub disrupted_pods: usize,
}
