//! What the engine knows of the cluster: plain objects, decoded by the shell, one form for every
//! API version. Nothing here is computed; these are the facts that come in.

mod budget;
mod group;
mod meta;
mod owner;
mod pod;
mod time;
mod unavailable;

pub use budget::{
    BasicMinCount, Budget, BudgetKey, BudgetKind, BudgetSpec, BudgetStatus, BuiltinBudget,
    Condition, ConditionStatus, Grant, LabelSelector, Operator, PendingReplacement, Requirement,
    Scope, Threshold, UnhealthyPolicy,
};
pub(crate) use budget::{BudgetId, Covering};
pub use group::{GroupApi, GroupPolicy, PodGroup, TemplateRef, Workload, WorkloadEntry};
pub use meta::{ControllerRef, GroupKind, ObjectKey, ResourceVersion};
pub use owner::{Owner, OwnerPods, PodTemplate};
pub use pod::{DisruptionTarget, GroupReference, LwsMember, Phase, Pod};
pub use time::Timestamp;
pub use unavailable::{LabelGroups, Operation, Target, UnavailableSpec};
