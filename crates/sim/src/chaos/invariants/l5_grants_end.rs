//! After the faults a denied request leaves no grant, then all grants end, and then all recorded sizes of groups.

use holdfast_audit::count;
use holdfast_core::invariant::Invariant;
use holdfast_core::model::Scope;

use crate::audited;
use crate::chaos::clients::Outcome;
use crate::chaos::rest::keeps_a_size;
use crate::chaos::run::Run;

pub fn after_refunds(run: &mut Run) {
    run.checked(Invariant::L5);
    for budget in run.world.budgets() {
        for grant in &budget.status.grants {
            let outcome = run.requests.get(&grant.eviction).map(|asked| asked.outcome);
            let denied =
                outcome == Some(Outcome::Denied) && !run.history.renewals.contains(&grant.eviction);
            run.require(Invariant::L5, !denied, || {
                format!("{} was denied and left a grant in {}", grant.eviction, budget.key)
            });
        }
    }
}

pub fn at_rest(run: &mut Run) {
    for budget in run.world.budgets() {
        let status = &budget.status;
        let none = status.grants.is_empty() && status.disrupted_pods.is_empty();
        run.require(Invariant::L5, none, || {
            format!("{} still holds {:?}", budget.key, status.grants)
        });
    }
}

pub fn after_sizes(run: &mut Run) {
    for budget in run.world.budgets() {
        let pending = &budget.status.pending_replacements;
        run.require(Invariant::L5, !keeps_a_size(budget), || {
            format!("{} still keeps the size of a group: {pending:?}", budget.key)
        });
        // A source that has all its replicas is remembered no more. A budget with a total of its own does not count them.
        let own = audited::budget(budget);
        let (state, memory) = (run.auditor.state(), run.auditor.memory());
        let counted = count(&own, state, memory, &|_| false);
        let is_whole = counted.closed.is_none() && counted.healthy >= counted.expected;
        let has_total = budget.spec.unavailable.as_ref().is_some_and(|of| of.total.is_some());
        let counts = budget.spec.scope == Scope::Workload && !has_total;
        let is_over = !counts || !is_whole || pending.is_empty();
        run.require(Invariant::L5, is_over, || {
            format!("{} has all its replicas and still waits for {pending:?}", budget.key)
        });
    }
}
