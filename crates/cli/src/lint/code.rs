//! The codes. A code keeps its meaning for ever; docs/lint.md lists them.

use holdfast_core::described;
use serde::{Serialize, Serializer};

described! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Code {
        /// The budget selects no pod
        SelectsNothing,
        /// The budget can never allow a disruption
        NeverAllows,
        /// Several budgets cover a pod
        SeveralBudgets,
        /// The budget counts pods, and they stand or fall in replicas
        CountsPodsOfReplicas,
        /// A pod names a PodGroup, Workload or template that does not exist
        MissingReference,
        /// A group has the basic policy, which says no minCount
        BasicGroup,
        /// The budget counts replicas, and a pod names none
        NoReplica,
        /// There is only one replica, or pod
        OnlyOne,
        /// The percentage rounds to no room at all
        NoRoomInPercent,
        /// The workload of a PodUnavailableBudget has no scale
        NoScale,
        /// The budget cannot be computed
        NotComputed,
        /// The object cannot be read
        Unreadable,
        /// The budget is in a namespace in which Holdfast is not asked
        NotEnforced,
        /// The budget covers several workloads
        SeveralWorkloads,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Info,
    Warning,
    Error,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// As SARIF has it.
    pub fn level(self) -> &'static str {
        match self {
            Self::Info => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Code {
    /// `HF001` and so on, in the order above: new ones go to the end.
    pub fn id(self) -> String {
        format!("HF{:03}", self as usize + 1)
    }

    pub fn severity(self) -> Severity {
        match self {
            Self::SelectsNothing
            | Self::SeveralBudgets
            | Self::CountsPodsOfReplicas
            | Self::OnlyOne
            | Self::NotEnforced => Severity::Warning,
            Self::SeveralWorkloads => Severity::Info,
            Self::NeverAllows
            | Self::MissingReference
            | Self::BasicGroup
            | Self::NoReplica
            | Self::NoRoomInPercent
            | Self::NoScale
            | Self::NotComputed
            | Self::Unreadable => Severity::Error,
        }
    }

    /// What to do about it.
    pub fn fix(self) -> &'static str {
        match self {
            Self::SelectsNothing => "mend the selector, or delete the budget",
            Self::NeverAllows => "leave room for one: maxUnavailable 1, or a smaller minAvailable",
            Self::SeveralBudgets => "keep one budget per pod",
            Self::CountsPodsOfReplicas => {
                "set spec.budgetScope: Workload, and count replicas in the threshold; policy/v1 has the field in native mode only, so use policy.holdfast.dev/v1 elsewhere"
            }
            Self::MissingReference => "create what is missing, or mend the pod's reference",
            Self::BasicGroup => {
                "give the group a gang policy, or set annotation holdfast.dev/basic-group-min-count on the budget"
            }
            Self::NoReplica => {
                "set spec.schedulingGroup.podGroupName or annotation holdfast.dev/pod-group on the pods"
            }
            Self::OnlyOne => {
                "run two or more, or delete the budget and accept that it goes at once"
            }
            Self::NoRoomInPercent => "use a number, a lower percentage, or more replicas",
            Self::NoScale => "set spec.protectTotalReplicas, or an integer minAvailable",
            Self::NotComputed => {
                "mend what the message names; an integer minAvailable needs no total"
            }
            Self::Unreadable => "mend the manifest",
            Self::NotEnforced => "move the workload to another namespace",
            Self::SeveralWorkloads => "one budget per workload is easier to reason about",
        }
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.id())
    }
}
