//! After the faults a denied request leaves no grant, then all grants end, and then all recorded sizes of groups.

use holdfast_core::invariant::Invariant;

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
    }
}
