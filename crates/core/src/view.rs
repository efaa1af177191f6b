//! What the engine knows and would decide, for people to look at. Nothing here decides anything.

use crate::model::{BudgetKey, BudgetSpec, BudgetStatus, Grant, Phase};
use crate::verdict::DenyReason;

/// [`BudgetView::failure`] while a scale is being read: it will pass.
pub const PROCESSING: &str = "still being processed";

/// A budget with everything that it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetView {
    pub key: BudgetKey,
    pub spec: BudgetSpec,
    pub unit: Unit,
    /// In its unit.
    pub desired: i64,
    pub healthy: i64,
    pub expected: i64,
    pub allowed: i64,
    /// Why it allows nothing, whatever its numbers say.
    pub failure: Option<String>,
    /// It can never allow a disruption that breaks a unit: it needs as many as there will ever be, which
    /// is this many.
    pub never: Option<i64>,
    /// As computed now, written or not.
    pub status: BudgetStatus,
    /// Live, those too that somebody else has written into `disruptedPods`.
    pub grants: Vec<Grant>,
    /// Empty where pods are counted.
    pub replicas: Vec<ReplicaView>,
    /// Pods outside of the replicas above: all of them, where pods are counted.
    pub pods: Vec<PodView>,
}

impl BudgetView {
    /// Every pod that it selects.
    pub fn all_pods(&self) -> impl Iterator<Item = &PodView> {
        self.replicas.iter().flat_map(|replica| &replica.pods).chain(&self.pods)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Pod,
    Replica,
    /// A group by label, of a `PodUnavailableBudget`.
    Group,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Replica => "replica",
            Self::Group => "group",
        }
    }
}

/// A replica as one budget sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaView {
    pub label: String,
    pub state: ReplicaState,
    /// Its group has the basic policy, which says no minCount; a budget's annotation may.
    pub basic: bool,
    /// Healthy pods that it needs, if that is known.
    pub min: Option<i64>,
    pub healthy_pods: i64,
    pub pods: Vec<PodView>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    Healthy,
    Broken,
    /// Its `PodGroup` is being deleted, or it is beyond the scale.
    Leaving,
    /// Says what is missing.
    Unresolved(String),
}

impl ReplicaState {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Broken => "broken",
            Self::Leaving => "leaving",
            Self::Unresolved(_) => "unresolved",
        }
    }
}

#[allow(clippy::struct_excessive_bools, reason = "facts about a pod, each of its own")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    pub name: String,
    /// Counts as healthy for this budget.
    pub healthy: bool,
    pub ready: bool,
    pub terminating: bool,
    pub phase: Phase,
    /// Somebody may disrupt it: it has a live grant, in this budget or another.
    pub granted: bool,
    /// The replica that it names, counted or not.
    pub replica: Option<String>,
    /// How many budgets select it.
    pub budgets: usize,
}

/// What one budget says to the eviction of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpinionView {
    pub budget: BudgetKey,
    pub answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// At this cost, in its unit.
    Allow { cost: i64 },
    /// The pod has a grant already.
    Granted { cost: i64 },
    /// It does not protect this pod.
    Pass,
    Deny {
        reason: DenyReason,
        /// The arithmetic.
        message: String,
        /// Units that have to be healthy besides those that are, if that is what it takes.
        missing: Option<i64>,
        /// The replica that would break, or is broken.
        replica: Option<String>,
    },
}
