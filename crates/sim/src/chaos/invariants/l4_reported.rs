//! A budget that blocks a drain for good says so: in its status, and to whoever asked (S9).

use holdfast_audit::objects::Operation;
use holdfast_core::invariant::Invariant;

use crate::audited;
use crate::chaos::run::Run;

pub fn after_drains(run: &mut Run) {
    for node in run.drains.clone() {
        for key in run.world.pods_on(&node) {
            let pod = &run.auditor.state().pods[&audited::name(&key)];
            let covering = run.auditor.covering(pod);
            for budget in covering.filter(|b| run.auditor.blocks(b, pod, Operation::Evict)) {
                let condition = &budget.status.condition;
                let said = condition.as_ref().is_some_and(|(is_true, _)| !is_true);
                run.require(Invariant::L4, said && budget.status.allowed == 0, || {
                    format!("{} blocks {} and says {condition:?}", budget.key, key.name)
                });
            }
            run.checked(Invariant::L4);
        }
    }
}
