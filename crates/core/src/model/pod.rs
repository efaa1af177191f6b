use std::collections::BTreeMap;

use super::{ControllerRef, ObjectKey, ResourceVersion, Timestamp};

/// The part of a Pod that the engine reads.
#[allow(clippy::struct_excessive_bools, reason = "facts about a pod, each of its own")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub key: ObjectKey,
    pub uid: String,
    pub version: ResourceVersion,
    pub labels: BTreeMap<String, String>,
    pub controller: Option<ControllerRef>,
    pub phase: Phase,
    /// Condition `Ready` is `True`.
    pub ready: bool,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// Condition `DisruptionTarget`, if it is `True`.
    pub disruption_target: Option<DisruptionTarget>,
    /// The group that the pod names (semantics 3, rules 2 to 4).
    pub reference: Option<GroupReference>,
    /// Present when the pod carries the `LeaderWorkerSet` group-key label (semantics 3, rule 1).
    pub lws: Option<LwsMember>,
    /// `metadata.generation`: grows with every change of the spec; 0 on API servers before 1.34.
    pub generation: i64,
    /// No in-place update of it is half done, and no label says that it is unavailable.
    pub settled: bool,
    /// Its status shows the spec that it has.
    pub applied: bool,
    /// Annotation `pub.kruise.io/no-protect`: no `PodUnavailableBudget` stands in its way.
    pub no_protect: bool,
    /// An annotation names its `PodUnavailableBudget`, true or not.
    pub related: bool,
}

impl Pod {
    /// Succeeded or Failed: the pod has ended and will not run again.
    pub fn is_terminal(&self) -> bool {
        self.phase.is_terminal()
    }

    /// An eviction has taken it.
    pub(crate) fn is_evicted(&self) -> bool {
        self.terminating && self.is_targeted()
    }

    /// The Eviction API is about to delete it, or has done so.
    pub fn is_targeted(&self) -> bool {
        self.disruption_target.as_ref().is_some_and(DisruptionTarget::is_eviction)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

impl Phase {
    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionTarget {
    pub reason: String,
    pub since: Timestamp,
}

impl DisruptionTarget {
    /// Reason that the Eviction API writes before it deletes a pod.
    pub const EVICTION_API: &str = "EvictionByEvictionAPI";
    /// Reason that the kubelet writes; such a pod is ending and the mark is not stale.
    pub const KUBELET: &str = "TerminationByKubelet";

    pub fn is_eviction(&self) -> bool {
        self.reason == Self::EVICTION_API
    }
}

/// How a pod names the replica that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupReference {
    /// `spec.schedulingGroup.podGroupName` (1.36+) or `spec.workloadRef.podGroupName` (KEP-5832 draft).
    PodGroup { name: String },
    /// `spec.workloadRef {name, podGroup, podGroupReplicaKey}` (1.35) or
    /// `spec.workload {name, podGroup}` (KEP-5682 draft).
    WorkloadEntry { workload: String, entry: String, replica_key: Option<String> },
    /// Annotation `holdfast.dev/pod-group`.
    Annotation { name: String },
}

/// What a pod's `leaderworkerset.sigs.k8s.io/` labels and annotations say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LwsMember {
    /// Label `name`: the `LeaderWorkerSet`.
    pub lws: String,
    /// Label `group-key`: stable across the group's recreation.
    pub group_key: String,
    /// Label `group-index`, if it is a number.
    pub group_index: Option<i64>,
    /// Annotation `size`, if it is a number from 1 to the largest int32.
    pub size: Option<i64>,
}
