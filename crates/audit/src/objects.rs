//! The stored objects, as far as docs/semantics.md speaks of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub type Labels = BTreeMap<String, String>;

/// Milliseconds on any clock that does not go back.
pub type Millis = i64;

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub namespace: String,
    pub name: String,
}

impl Name {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// API group and kind, without the version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    pub group: String,
    pub kind: String,
}

impl Kind {
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }

    pub fn lws() -> Self {
        Self::new(LWS_GROUP, "LeaderWorkerSet")
    }

    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

pub const LWS_GROUP: &str = "leaderworkerset.x-k8s.io";
pub const JOBSET_GROUP: &str = "jobset.x-k8s.io";

/// The owner reference with `controller: true`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Controller {
    pub kind: Kind,
    pub name: String,
    pub uid: String,
}

#[allow(clippy::struct_excessive_bools, reason = "independent facts about one pod")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub key: Name,
    pub uid: String,
    /// 0 if it is not a number.
    pub version: u64,
    pub labels: Labels,
    pub controller: Option<Controller>,
    pub phase: Phase,
    pub ready: bool,
    pub terminating: bool,
    /// Condition `DisruptionTarget` with reason `EvictionByEvictionAPI`.
    pub evicted: bool,
    pub reference: Option<Reference>,
    pub lws: Option<LwsMember>,
    pub generation: i64,
    /// No in-place update is half done and no label marks the pod as unavailable.
    pub settled: bool,
    /// The status shows the spec that is stored.
    pub applied: bool,
}

impl Pod {
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running && !self.terminating
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

/// How a pod names its replica (semantics 3, rules 2 to 4).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    PodGroup(String),
    Entry { workload: String, entry: String, replica_key: Option<String> },
    Annotation(String),
}

/// Labels and annotations `leaderworkerset.sigs.k8s.io/...` of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LwsMember {
    pub set: String,
    pub group_key: String,
    pub group_index: Option<i64>,
    pub size: Option<i64>,
}

/// Which API serves a `PodGroup` or Workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    Kubernetes,
    Holdfast,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroup {
    pub api: Api,
    pub key: Name,
    pub uid: String,
    pub version: u64,
    pub terminating: bool,
    pub controller: Option<Controller>,
    pub policy: Policy,
    pub template: Option<Template>,
    /// `disruptionMode: all`.
    pub whole: bool,
    pub composite: bool,
}

/// The Workload and the entry that a `PodGroup` was made from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Template {
    pub workload: String,
    pub entry: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Gang(i64),
    Basic,
    Absent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub api: Api,
    pub key: Name,
    pub uid: String,
    pub version: u64,
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub policy: Policy,
    pub replicas: Option<i64>,
}

/// A workload controller's object.
#[allow(clippy::struct_excessive_bools, reason = "independent facts about one owner")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub kind: Kind,
    pub key: Name,
    pub uid: String,
    pub version: u64,
    pub terminating: bool,
    /// A finished or suspended Job or `JobSet`.
    pub ended: bool,
    pub controller: Option<Controller>,
    pub replicas: Option<i64>,
    pub group_size: Option<i64>,
    /// A `LeaderWorkerSet` that keeps the rest of a group when one pod is lost.
    pub keeps_group: bool,
    /// The pod templates of a `LeaderWorkerSet`, Job, `JobSet` or `StatefulSet`. Holdfast reads no others.
    pub templates: Vec<PodTemplate>,
    /// Annotation `holdfast.dev/pod-groups: "true"`.
    pub grouped: bool,
}

/// A pod as its controller will create it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTemplate {
    /// With the labels that the controller always adds, if their values are known.
    pub labels: Labels,
    /// The group that the template names.
    pub reference: Option<Reference>,
}

impl Owner {
    /// Whether the controller adds this label to every pod, with a value that the owner does not tell.
    pub fn has_varying_label(&self, label: &str) -> bool {
        let of_set = label == "apps.kubernetes.io/pod-index"
            || label == "statefulset.kubernetes.io/pod-name"
            || label == "controller-revision-hash";
        let of_job = label.starts_with("batch.kubernetes.io/")
            || label == "job-name"
            || label == "controller-uid";
        let kind = &self.kind;
        if kind.is(LWS_GROUP, "LeaderWorkerSet") {
            of_set || label.starts_with("leaderworkerset.sigs.k8s.io/")
        } else if kind.is(JOBSET_GROUP, "JobSet") {
            of_job || label.starts_with("jobset.sigs.k8s.io/")
        } else {
            (of_set && kind.is("apps", "StatefulSet")) || (of_job && kind.is("batch", "Job"))
        }
    }
}

/// Kind, namespace and name. A budget keeps this identity when it is deleted and created again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BudgetKey {
    /// A `PodUnavailableBudget`.
    pub unavailable: bool,
    pub key: Name,
}

impl fmt::Display for BudgetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    pub key: BudgetKey,
    pub uid: String,
    pub version: u64,
    /// The object cannot be decoded. Without a readable selector it covers its whole namespace.
    pub unreadable: bool,
    pub selector: Option<Selector>,
    pub min_available: Option<Threshold>,
    pub max_unavailable: Option<Threshold>,
    pub always_allow: bool,
    pub scope: Scope,
    pub basic_min_count: Option<i64>,
    /// Only of a `PodUnavailableBudget`.
    pub unavailable: Option<Unavailable>,
    pub status: Status,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    Pod,
    Replica,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Threshold {
    Count(i64),
    Percent(i64),
    Invalid,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    pub labels: Labels,
    pub expressions: Vec<Expression>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    pub key: String,
    pub operator: String,
    pub values: Vec<String>,
}

impl Selector {
    pub fn matches(&self, labels: &Labels) -> bool {
        self.may_match(labels, &|_| false)
    }

    /// Whether a pod with these labels matches, for some values of the labels that it has besides and that vary.
    pub fn may_match(&self, labels: &Labels, varies: &dyn Fn(&str) -> bool) -> bool {
        let is_open = |key: &String| !labels.contains_key(key) && varies(key);
        let holds = |e: &Expression| {
            let value = labels.get(&e.key);
            match e.operator.as_str() {
                "In" => is_open(&e.key) || value.is_some_and(|v| e.values.contains(v)),
                "NotIn" => value.is_none_or(|v| !e.values.contains(v)),
                "Exists" => is_open(&e.key) || value.is_some(),
                "DoesNotExist" => !is_open(&e.key) && value.is_none(),
                // Unreadable fails closed: the budget covers the pod.
                _ => true,
            }
        };
        self.labels.iter().all(|(k, v)| is_open(k) || labels.get(k) == Some(v))
            && self.expressions.iter().all(holds)
    }
}

/// What a `PodUnavailableBudget` has besides thresholds and selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unavailable {
    pub total: Option<i64>,
    pub groups: Option<LabelGroups>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelGroups {
    pub label: String,
    pub min_ready: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub allowed: i64,
    /// In the budget's unit.
    pub healthy: i64,
    pub desired: i64,
    pub expected: i64,
    /// Condition `DisruptionAllowed`: whether it is True, and its message.
    pub condition: Option<(bool, String)>,
    pub grants: Vec<Grant>,
}

/// A recorded permission to disrupt one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub pod: String,
    pub uid: String,
    /// The request that wrote or last renewed the grant.
    pub eviction: String,
    pub operation: Operation,
    /// The grant is for the pod with this uid alone. Otherwise it passes to the next pod of the name.
    pub pinned: bool,
}

impl Budget {
    /// Whether the budget has a say about this pod.
    pub fn covers(&self, pod: &Pod) -> bool {
        self.key.key.namespace == pod.key.namespace && self.selects(&pod.labels)
    }

    pub fn selects(&self, labels: &Labels) -> bool {
        match &self.selector {
            Some(selector) => selector.matches(labels),
            None => self.unreadable,
        }
    }

    /// Whether the budget may cover a pod of this template.
    pub fn may_select(&self, owner: &Owner, template: &PodTemplate) -> bool {
        let varies = |label: &str| owner.has_varying_label(label);
        let has = |label: &String| template.labels.contains_key(label) || varies(label);
        let is_grouped = self.groups().is_none_or(|groups| has(&groups.label));
        is_grouped
            && match &self.selector {
                Some(selector) => selector.may_match(&template.labels, &varies),
                None => self.unreadable,
            }
    }

    /// Whether the thresholds mean nothing without the number of expected units.
    pub fn needs_expected(&self) -> bool {
        let not_a_number = |t: &Option<Threshold>| !matches!(t, None | Some(Threshold::Count(_)));
        self.max_unavailable.is_some() || not_a_number(&self.min_available)
    }

    pub fn groups(&self) -> Option<&LabelGroups> {
        self.unavailable.as_ref()?.groups.as_ref()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    Pod(Pod),
    Budget(Budget),
    PodGroup(PodGroup),
    Workload(Workload),
    Owner(Owner),
}

impl Object {
    pub fn name(&self) -> &Name {
        match self {
            Self::Pod(pod) => &pod.key,
            Self::Budget(budget) => &budget.key.key,
            Self::PodGroup(group) => &group.key,
            Self::Workload(workload) => &workload.key,
            Self::Owner(owner) => &owner.key,
        }
    }

    pub fn version(&self) -> u64 {
        match self {
            Self::Pod(pod) => pod.version,
            Self::Budget(budget) => budget.version,
            Self::PodGroup(group) => group.version,
            Self::Workload(workload) => workload.version,
            Self::Owner(owner) => owner.version,
        }
    }
}

/// The voluntary ways to lose a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Evict,
    Delete,
    /// An update or a resize: the pod stays.
    Change,
}

/// The names of the budgets that hold a record of something.
pub type BudgetKeys = BTreeSet<BudgetKey>;
