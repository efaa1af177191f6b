//! An allowed eviction has a grant in every covering budget, as far as its instance had been told.
//! (That a denied one has none after refunds is L5.)

use holdfast_core::invariant::Invariant;
use holdfast_core::model::{Budget, Grant, Operation};

use crate::chaos::clients::{Allowed, Asked};
use crate::chaos::count::{concerns, selects};
use crate::chaos::run::Run;

/// An allow without any grant, because no budget covers the pod.
pub fn after_pass(run: &mut Run, asked: &Asked) {
    run.checked(Invariant::S3);
    let truth = run.world.true_view();
    let told = run.world.view_of(asked.instance);
    let Some(pod) = told.pods.get(&asked.pod) else { return };
    let asked_of = |budget: &Budget| selects(budget, pod) && concerns(budget, asked.operation);
    for budget in told.budgets.values().filter(|budget| asked_of(budget)) {
        let stands = truth
            .budgets
            .get(&budget.key)
            .is_some_and(|now| now.uid == budget.uid && selects(now, pod));
        let gone = !truth.pods.contains_key(&asked.pod);
        run.require(Invariant::S3, gone || !stands, || {
            format!("instance {} was told of {}", asked.instance, budget.key)
        });
    }
}

pub fn after_allow(run: &mut Run, asked: &Asked, allowed: &Allowed) {
    run.checked(Invariant::S3);
    if run.taken.contains_key(&allowed.uid) {
        return;
    }
    let truth = run.world.true_view();
    let told = run.world.view_of(asked.instance);
    let Some(pod) = told.pods.get(&allowed.pod) else { return };
    let gone = truth.pods.get(&allowed.pod).is_none_or(|pod| pod.uid != allowed.uid);
    let going = truth.pods.get(&allowed.pod).is_none_or(|pod| pod.terminating);
    // With its pod ends what was allowed to be done to that pod alone.
    if asked.operation != Operation::Evict && (gone || going) {
        return;
    }
    let asked_of = |budget: &Budget| selects(budget, pod) && concerns(budget, asked.operation);
    let covering = told.budgets.values().filter(|budget| asked_of(budget));
    for budget in covering.filter_map(|told| truth.budgets.get(&told.key)) {
        let known = told.budgets[&budget.key].uid == budget.uid && selects(budget, pod);
        // When the pod is gone, the grant may have passed to the next of the name already.
        let is_of = |g: &Grant| g.uid == allowed.uid || (gone && g.pod == pod.key.name);
        let recorded = budget.status.grants.iter().any(is_of);
        run.require(Invariant::S3, !known || recorded, || {
            format!("{} has no grant in {}", allowed.eviction, budget.key)
        });
    }
}
