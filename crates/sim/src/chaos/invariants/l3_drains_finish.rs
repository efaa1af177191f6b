//! After the faults every drain that can finish does: what is left on a drained node is held by a
//! budget that truly blocks it, now that everything else has recovered as far as it can.

use holdfast_core::invariant::Invariant;
use holdfast_core::model::Operation;

use crate::chaos::count::{blocks, selects};
use crate::chaos::run::Run;

pub fn after_drains(run: &mut Run) {
    for node in run.drains.clone() {
        run.checked(Invariant::L3);
        let truth = run.world.true_view();
        for key in run.world.pods_on(&node) {
            let pod = &truth.pods[&key];
            let mut covering = truth.budgets.values().filter(|budget| selects(budget, pod));
            let blocked = covering.any(|budget| blocks(budget, truth, pod, Operation::Evict));
            run.require(Invariant::L3, blocked, || {
                format!("{} is still on {node}, and nothing holds it", key.name)
            });
        }
    }
}
