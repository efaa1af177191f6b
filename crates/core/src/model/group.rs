use super::{ControllerRef, ObjectKey, ResourceVersion};

/// Which API serves a `PodGroup` or Workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupApi {
    /// `scheduling.k8s.io`, any version.
    Kubernetes,
    /// `scheduling.holdfast.dev`, for clusters without the above.
    Holdfast,
}

/// A `PodGroup` object of any release or draft: one object is one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroup {
    pub api: GroupApi,
    pub key: ObjectKey,
    pub uid: String,
    pub version: ResourceVersion,
    pub terminating: bool,
    pub controller: Option<ControllerRef>,
    /// The inline policy; `Absent` in the KEP-5832 draft shape, where the template has it.
    pub policy: GroupPolicy,
    pub template: Option<TemplateRef>,
    /// `disruptionMode` is `PodGroup` (1.36) or `all` (1.37): the group has no surplus.
    pub disrupt_whole: bool,
    pub composite_parent: Option<String>,
}

/// The Workload, and the entry in it, that a `PodGroup` was made from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TemplateRef {
    pub workload: String,
    pub template: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupPolicy {
    Gang {
        min_count: i64,
    },
    /// No minCount: each pod stands alone for the scheduler.
    Basic,
    Absent,
}

/// A Workload object of any release or draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub api: GroupApi,
    pub key: ObjectKey,
    pub uid: String,
    pub version: ResourceVersion,
    /// `podGroups` (1.35, KEP-5682 draft) or `podGroupTemplates` (1.36+, KEP-5832 draft).
    pub entries: Vec<WorkloadEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadEntry {
    pub name: String,
    pub policy: GroupPolicy,
    /// Only the KEP-5682 draft has it.
    pub replicas: Option<i64>,
}
