use std::collections::BTreeSet;

use super::{GroupKind, LabelSelector};

/// What a `PodUnavailableBudget` of `policy.kruise.io` has besides thresholds and selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnavailableSpec {
    /// Instead of a selector: the pods of this workload.
    pub target: Option<Target>,
    /// What it protects from.
    pub operations: BTreeSet<Operation>,
    /// `protectTotalReplicas`: so many units there should be, whatever the workloads say.
    pub total: Option<i64>,
    /// Pods that are counted and not protected.
    pub ignored: Option<LabelSelector>,
    /// `podGroupPolicy`: the unit is a group of pods.
    pub groups: Option<LabelGroups>,
}

impl Default for UnavailableSpec {
    fn default() -> Self {
        Self {
            target: None,
            operations: Operation::ALL.iter().copied().collect(),
            total: None,
            ignored: None,
            groups: None,
        }
    }
}

/// A workload by name; its uid is not known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub group_kind: GroupKind,
    pub name: String,
}

/// Pods of one owner with the same value of a label form a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelGroups {
    pub label: String,
    /// Available pods that an available group has at least.
    pub min_ready: i64,
}

/// The voluntary ways to lose a pod, for good or for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    #[default]
    Evict,
    Delete,
    Update,
    Resize,
}

impl Operation {
    pub const ALL: &[Self] = &[Self::Evict, Self::Delete, Self::Update, Self::Resize];

    /// As the API spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Evict => "EVICT",
            Self::Delete => "DELETE",
            Self::Update => "UPDATE",
            Self::Resize => "RESIZE",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|operation| operation.name() == name)
    }

    /// The pod stays, and is available again when its status shows what was changed.
    pub fn keeps_pod(self) -> bool {
        matches!(self, Self::Update | Self::Resize)
    }
}
