//! Pod groups and gangs: which `PodGroup` a pod belongs to, and when a whole gang may start.
//!
//! Two shapes of the same thing, by [`GroupApi`]:
//!
//! ```text
//!   Kubernetes   the cluster serves PodGroups     pods name theirs in spec.schedulingGroup
//!                                                 kube-scheduler starts gangs whole
//!   Holdfast     it does not                      pods name theirs in an annotation, and are gated;
//!                                                 the gates of a whole gang are lifted at once
//! ```
//!
//! [`World`] is what the watches have told. It is sans-IO like the engine of budgets, and asked two
//! questions: where a pod that is about to be created belongs ([`World::place`]), and what is to be
//! done now ([`World::plan`]). An answer is a function of what is there: whatever was not done, or was
//! lost on the way, is in the next answer again.
//!
//! Budgets know nothing of this: they read the `PodGroups` like everybody's.

mod choose;
mod gangs;
mod memory;
mod model;
mod name;
mod order;
mod place;
mod plan;
mod room;
mod slot;
mod world;

pub use crate::model::GroupApi;
pub use model::{
    Constraints, Group, GroupStatus, HostPort, JobSize, Kind, LwsPlace, Namespace, Node, NodeTerm,
    Owner, OwnerSpec, Pod, Policy, Priority, ReplicatedJob, Requirement, Resources, Seen, Taint,
    TaintEffect, Test, Toleration, TolerationTest,
};
pub use order::{Action, Counts, NewGroup, NewWorkload, Placement, Plan, Template};
pub use world::{Settings, World};

/// On a workload or its namespace: `"true"` asks for pod groups.
pub const ASKS: &str = "holdfast.dev/pod-groups";

/// On a pod, in the shape Holdfast: the `PodGroup` that it belongs to.
pub const POD_GROUP: &str = "holdfast.dev/pod-group";

/// On a `StatefulSet`: how many consecutive ordinals make a group.
pub const GROUP_SIZE: &str = "holdfast.dev/group-size";

/// On a `PodGroup` of ours: which of its workload's groups it is. At most one that lives has it.
pub const SLOT: &str = "holdfast.dev/slot";

/// On a `PodGroup` of ours with policy basic: the minCount that budgets go by.
pub const MIN_COUNT: &str = "holdfast.dev/min-count";

/// Holds pods back until their gang may start.
pub const GATE: &str = "holdfast.dev/gang";

/// On `PodGroups` of shape Holdfast, while pods that have not finished name them.
pub const PROTECTION: &str = "scheduling.holdfast.dev/podgroup-protection";

/// Of a `PodGroup` whose pods can never wait for each other.
pub const GANG_IMPOSSIBLE: &str = "GangImpossible";

/// Of a `PodGroup` of shape Holdfast.
pub const SCHEDULED: &str = "PodGroupScheduled";

/// Of shape Holdfast.
pub const GROUP_API_VERSION: &str = "scheduling.holdfast.dev/v1alpha1";
