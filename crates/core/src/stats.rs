//! Numbers for whoever operates the engine. No decision reads them.

use crate::invariant::Violations;

/// How things stand, and what has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Budgets that are counted in replicas.
    pub workload_budgets: usize,
    pub budgets: BudgetStates,
    /// Pods that cannot be decoded, and so count as unhealthy.
    pub unreadable_pods: usize,
    /// Grants that count against a budget now. An eviction under two budgets has two.
    pub grants: usize,
    /// Budgets whose status is to be looked at, and requests that wait for a budget's writer.
    pub queued: usize,
    pub counters: Counters,
}

/// How many there are, and how many of them somebody should look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetStates {
    pub all: usize,
    /// Can never allow a disruption: as many are needed as there will ever be.
    pub impossible: usize,
    /// Say so in their condition `BudgetConfigured`.
    pub misconfigured: usize,
    /// Cannot be computed, and so allow nothing.
    pub uncountable: usize,
    /// Cannot be decoded. They are among the uncountable ones.
    pub unreadable: usize,
}

/// Only ever grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Statuses computed of budgets that are counted in pods, and in replicas.
    pub pod_reconciliations: u64,
    pub workload_reconciliations: u64,
    /// Of those, how many found that pods cannot be told into replicas of one workload.
    pub misconfigured: u64,
    /// Looks at a status and requests for a grant that were put into a queue.
    pub queue_adds: u64,
    /// Of those, how many because an earlier write was refused or lost to another.
    pub queue_retries: u64,
    /// What the engine found wrong with itself, and denied for.
    pub violations: Violations,
}
