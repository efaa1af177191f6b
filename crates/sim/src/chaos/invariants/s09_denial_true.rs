//! A denial names a budget that truly blocks. Looked at when the instance has been told everything
//! and nothing of its own is under way: then what it should know is plain.

use holdfast_core::invariant::Invariant;
use holdfast_core::verdict::{Denial, DenyReason};

use crate::audited;
use crate::chaos::clients::Asked;
use crate::chaos::run::Run;

pub fn after_denial(run: &mut Run, asked: &Asked, denial: &Denial) {
    run.require(Invariant::S9, !denial.message.is_empty(), || "a denial says nothing".to_owned());
    let mut instance = run.world.instance(asked.instance);
    let plain = instance.calls_waiting().is_empty()
        && instance.answers_waiting() == 0
        && instance.kinds_waiting().is_empty();
    // Of fewer kinds it can tell less.
    let older = run.older == Some(asked.instance);
    if !plain || older || denial.reason != DenyReason::BudgetExhausted {
        return;
    }
    run.checked(Invariant::S9);
    let state = run.auditor.state();
    let Some(pod) = state.pods.get(&audited::name(&asked.pod)) else { return };
    let operation = audited::operation(asked.operation);
    for key in denial.causes.iter().filter_map(|cause| cause.budget.as_ref()) {
        let Some(budget) = state.budgets.get(&audited::budget_key(key)) else { continue };
        let truly = budget.covers(pod) && run.auditor.blocks(budget, pod, operation);
        run.require(Invariant::S9, truly, || {
            format!("{key} does not block {pod:?}: {}", denial.message)
        });
    }
}
