//! An allowed eviction has a grant in every covering budget. (That a denied one has none after refunds is L5.)
//!
//! A budget counts that the instance had been told of, or that has covered the pod for so long that an
//! answer which rests on fresh data knows of it (semantics 6). A budget is identified by kind and name: one that was
//! deleted and created again with the same selector has covered the pod all the time.

use holdfast_audit::objects as audit;
use holdfast_core::invariant::Invariant;
use holdfast_core::model::Operation;

use crate::audited;
use crate::chaos::clients::{Allowed, Asked};
use crate::chaos::run::Run;

/// Which budgets cover a pod is known as of five seconds before the decision, on a clock that may run at 0.8 times the
/// rate. Nothing is decided before the request came.
const FRESH_MS: i64 = 6_250;

/// An allow without any grant, because no budget covers the pod.
pub fn after_pass(run: &mut Run, asked: &Asked) {
    run.checked(Invariant::S3);
    let state = run.auditor.state();
    let Some(pod) = state.pods.get(&audited::name(&asked.pod)) else { return };
    for budget in run.auditor.covering(pod).filter(|b| concerns(b, asked.operation)) {
        run.require(Invariant::S3, !is_known(run, asked, budget, pod), || {
            format!("instance {} let {} pass, which {} covers", asked.instance, pod.key, budget.key)
        });
    }
}

pub fn after_allow(run: &mut Run, asked: &Asked, allowed: &Allowed) {
    run.checked(Invariant::S3);
    if run.auditor.loss(&allowed.uid).is_some() {
        return;
    }
    let told = &run.world.view_of(asked.instance).state;
    let name = audited::name(&allowed.pod);
    let Some(pod) = told.pods.get(&name) else { return };
    let stored = run.auditor.state().pods.get(&name);
    let gone = stored.is_none_or(|pod| pod.uid != allowed.uid);
    let going = stored.is_none_or(|pod| pod.terminating);
    // With its pod ends what was allowed to be done to that pod alone.
    if asked.operation != Operation::Evict && (gone || going) {
        return;
    }
    for budget in run.auditor.covering(pod).filter(|b| concerns(b, asked.operation)) {
        // When the pod is gone, the grant may have passed to the next of the name already.
        let is_of = |g: &audit::Grant| g.uid == allowed.uid || (gone && g.pod == allowed.pod.name);
        // The predecessor of a budget that was created again may have the grant.
        let allow = run.auditor.in_flight().iter().find(|allow| allow.id == allowed.eviction);
        let recorded = budget.status.grants.iter().any(is_of)
            || allow.is_some_and(|allow| allow.budgets.contains(&budget.key));
        run.require(Invariant::S3, recorded || !is_known(run, asked, budget, pod), || {
            format!("{} has no grant in {}", allowed.eviction, budget.key)
        });
    }
}

/// Whether the instance must know that a budget of this name covers this pod.
fn is_known(run: &Run, asked: &Asked, budget: &audit::Budget, pod: &audit::Pod) -> bool {
    let told = &run.world.view_of(asked.instance).state;
    let told = told.budgets.get(&budget.key).is_some_and(|told| told.covers(pod));
    // A list that was sent before the budget was created again counts only for an instance that had learned of its
    // predecessor's deletion by then.
    let missed = run.missed.get(&budget.key).is_some_and(|missed| missed.contains(&asked.instance));
    let since = if missed {
        run.auditor.created_at(&budget.key)
    } else {
        run.auditor.covers_since(&budget.key)
    };
    told || since.is_some_and(|since| since + FRESH_MS <= asked.at.0)
}

/// Whether the budget has a say in it.
fn concerns(budget: &audit::Budget, operation: Operation) -> bool {
    operation == Operation::Evict || budget.unavailable.is_some()
}
