//! After the faults every status converges to what an engine shows that has just listed everything, and
//! to what the auditor counts.

use holdfast_core::invariant::Invariant;

use crate::audited;
use crate::chaos::run::Run;

pub fn at_rest(run: &mut Run) {
    run.checked(Invariant::L1);
    let fresh = run.world.fresh_engine();
    for budget in run.world.budgets() {
        let Some(mut computed) = fresh.status(&budget.key) else { continue };
        // They only ever rise, and a fresh engine has seen no deletion.
        computed.watermarks.clone_from(&budget.status.watermarks);
        run.require(Invariant::L1, budget.status == computed, || {
            format!("{} is {:#?}\nand should be {computed:#?}", budget.key, budget.status)
        });
        run.require_none(run.auditor.judge_status(&audited::budget(budget)));
    }
}
