//! After the faults every drain that can finish does: what is left on a drained node is held by a
//! budget that truly blocks it, now that everything else has recovered as far as it can.

use holdfast_audit::objects::Operation;
use holdfast_core::invariant::Invariant;

use crate::audited;
use crate::chaos::run::Run;

pub fn after_drains(run: &mut Run) {
    for node in run.drains.clone() {
        run.checked(Invariant::L3);
        for key in run.world.pods_on(&node) {
            let pod = &run.auditor.state().pods[&audited::name(&key)];
            let mut covering = run.auditor.covering(pod);
            let blocked = covering.any(|b| run.auditor.blocks(b, pod, Operation::Evict));
            run.require(Invariant::L3, blocked, || {
                format!("{} is still on {node}, and nothing holds it", key.name)
            });
        }
    }
}
