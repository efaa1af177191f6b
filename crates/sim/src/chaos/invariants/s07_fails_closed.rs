//! A budget that cannot be computed allows nothing, and says why.

use holdfast_core::invariant::Invariant;

use crate::audited;
use crate::chaos::run::Run;
use crate::world::Written;

pub fn after_write(run: &mut Run, Written { after, view, by, .. }: &Written) {
    let budget = audited::budget(after);
    let (allowed, condition) = (budget.status.allowed, &budget.status.condition);
    let says = condition.as_ref().is_some_and(|(is_true, _)| *is_true);
    run.require(Invariant::S7, says == (allowed > 0), || {
        format!("{} allows {allowed} and says {condition:?}", after.key)
    });
    let Some(why) = run.auditor.closed(&budget, &view.state) else { return };
    run.checked(Invariant::S7);
    let explained = condition.as_ref().is_some_and(|(_, message)| !message.is_empty());
    run.require(Invariant::S7, allowed == 0 && explained, || {
        format!("instance {by} lets {} allow {allowed} ({condition:?}), but {why}", after.key)
    });
}
