//! A budget that blocks a drain for good says so: in its status, and to whoever asked (S9).

use holdfast_core::invariant::Invariant;
use holdfast_core::model::{ConditionStatus, Operation};

use crate::chaos::count::{blocks, selects};
use crate::chaos::run::Run;

pub fn after_drains(run: &mut Run) {
    for node in run.drains.clone() {
        for key in run.world.pods_on(&node) {
            let truth = run.world.true_view();
            let pod = &truth.pods[&key];
            let covering = truth.budgets.values().filter(|budget| selects(budget, pod));
            for budget in covering.filter(|b| blocks(b, truth, pod, Operation::Evict)) {
                let status = &budget.status;
                let condition = status.conditions.iter().find(|c| c.kind == "DisruptionAllowed");
                let said = condition.is_some_and(|c| c.status == ConditionStatus::False);
                run.require(Invariant::L4, said && status.disruptions_allowed == 0, || {
                    format!("{} blocks {} and says {condition:?}", budget.key, key.name)
                });
            }
            run.checked(Invariant::L4);
        }
    }
}
