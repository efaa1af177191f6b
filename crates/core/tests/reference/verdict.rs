//! Semantics 6: may this pod be evicted? Everything is synced and nothing is under way here; the
//! answers that depend on that are the tests' own business.

use std::collections::BTreeSet;

use holdfast_core::model::{
    Budget, BudgetKey, BuiltinBudget, ObjectKey, Phase, Pod, Scope, UnhealthyPolicy,
};
use holdfast_core::verdict::{AllowReason, DenyReason};

use super::budget::{evaluate, healthy_selected, is_healthy, is_healthy_replica, unit};
use super::replica::{min_count, replica_of};
use super::{Snapshot, is_valid, matches, selects};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The grants that the eviction must hold, and their cost, in reservation order.
    Allow {
        reason: AllowReason,
        grants: Vec<(BudgetKey, i64)>,
    },
    Deny(Refusal),
}

/// Every budget of ours that blocks and why. Which of several reasons becomes the headline is not
/// ruled, so all of them are acceptable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    pub budgets: BTreeSet<BudgetKey>,
    pub reasons: BTreeSet<DenyReason>,
}

pub fn answer(world: &Snapshot, key: &ObjectKey, precondition: Option<&str>) -> Answer {
    let unrecorded = |reason| Answer::Allow { reason, grants: Vec::new() };
    let Some(pod) = world.pod(key) else { return unrecorded(AllowReason::PodGone) };
    if precondition.is_some_and(|uid| uid != pod.uid) {
        return unrecorded(AllowReason::UidMismatch);
    }
    if pod.is_terminal() || pod.terminating {
        return unrecorded(AllowReason::PodEnded);
    }

    let mut refusal = Refusal::default();
    let mut grants = Vec::new();
    for budget in world.budgets.iter().filter(|budget| selects(budget, pod)) {
        match by_budget(world, budget, pod) {
            Ok(cost) => grants.push((budget.key.clone(), cost)),
            Err(reason) => {
                refusal.budgets.insert(budget.key.clone());
                refusal.reasons.insert(reason);
            }
        }
    }
    if !builtin_handler_allows(world, pod) {
        refusal.reasons.insert(DenyReason::BuiltinBudget);
    }
    if !refusal.reasons.is_empty() {
        return Answer::Deny(refusal);
    }
    grants.sort();
    let reason = if grants.is_empty() { AllowReason::NotCovered } else { AllowReason::Granted };
    Answer::Allow { reason, grants }
}

/// The cost, or why not.
fn by_budget(world: &Snapshot, budget: &Budget, pod: &Pod) -> Result<i64, DenyReason> {
    // Rule 0: a renewal is decided anew, and costs no less than its grant.
    let held = world.grants.iter().find(|g| g.budget == budget.key && g.uid == pod.uid);
    let held = held.map_or(0, |held| held.cost);
    // Rule 1, of which the unrecorded half is done.
    if pod.phase == Phase::Pending {
        return Ok(held);
    }
    // What this pod already holds is part of this eviction (an earlier try, or the first half of this one), so it is
    // still to be paid for.
    let mut others = world.clone();
    others.grants.retain(|grant| grant.uid != pod.uid);
    let cost = match unit(world, budget) {
        Scope::Pod => by_pods(&others, budget, pod),
        Scope::Workload => by_replicas(&others, budget, pod),
    };
    cost.map(|cost| cost.max(held))
}

/// Upstream 2.1, steps 9 and 10, on the truth instead of on the counters of the status.
fn by_pods(world: &Snapshot, budget: &Budget, pod: &Pod) -> Result<i64, DenyReason> {
    if !pod.ready && budget.spec.unhealthy_policy == UnhealthyPolicy::AlwaysAllow {
        return Ok(0);
    }
    let count = evaluate(world, budget);
    if count.failure.is_some() {
        return Err(DenyReason::FailedClosed);
    }
    if !pod.ready && count.healthy >= count.desired && count.desired > 0 {
        return Ok(0);
    }
    if count.allowed >= 1 { Ok(1) } else { Err(DenyReason::BudgetExhausted) }
}

fn by_replicas(world: &Snapshot, budget: &Budget, pod: &Pod) -> Result<i64, DenyReason> {
    let always = budget.spec.unhealthy_policy == UnhealthyPolicy::AlwaysAllow;
    // Rule 3.
    if !pod.ready && always {
        return Ok(0);
    }
    // Rule 4.
    let Some(replica) = replica_of(world, pod) else { return Err(DenyReason::MissingReference) };
    let count = evaluate(world, budget);
    // A pod in phase Unknown does not close the budget, but its own unresolved replica closes itself
    // (semantics 3: unresolved is fail closed).
    if count.failure.is_some() || min_count(world, budget, &replica).is_none() {
        return Err(DenyReason::FailedClosed);
    }
    let while_enough =
        if count.healthy >= count.desired { Ok(0) } else { Err(DenyReason::BudgetExhausted) };
    // Rule 6.
    if !is_healthy_replica(world, budget, &replica) {
        // Grants alone do not make it broken: they may be refunded.
        let ungranted = Snapshot { grants: Vec::new(), ..world.clone() };
        let broken = !is_healthy_replica(&ungranted, budget, &replica);
        return if always && broken { Ok(0) } else { while_enough };
    }
    // Rule 5b.
    if !is_healthy(world, budget, pod) {
        return while_enough;
    }
    // Rules 5 and 7.
    let needed = min_count(world, budget, &replica).expect("a healthy replica is resolved");
    if healthy_selected(world, budget, &replica) > needed {
        Ok(0)
    } else if count.allowed >= 1 {
        Ok(1)
    } else {
        Err(DenyReason::BudgetExhausted)
    }
}

/// The handler behind us, by its own counters (upstream 2.1, steps 6 to 10).
fn builtin_handler_allows(world: &Snapshot, pod: &Pod) -> bool {
    if pod.phase == Phase::Pending {
        return true;
    }
    let covering: Vec<&BuiltinBudget> = world
        .builtin
        .iter()
        .filter(|budget| budget.key.namespace == pod.key.namespace)
        .filter(|budget| budget.selector.as_ref().is_some_and(|s| is_valid(s) && matches(s, pod)))
        .collect();
    let budget = match covering[..] {
        [] => return true,
        [budget] => budget,
        _ => return false,
    };
    if !pod.ready
        && (budget.unhealthy_policy == UnhealthyPolicy::AlwaysAllow
            || (budget.current_healthy >= budget.desired_healthy && budget.desired_healthy > 0))
    {
        return true;
    }
    budget.observed_generation >= budget.generation
        && budget.disrupted_pods <= 2000
        && budget.disruptions_allowed > 0
}
