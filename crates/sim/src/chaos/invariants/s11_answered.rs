//! Every request is answered, once (the world sees to that) and in time.

use holdfast_core::invariant::Invariant;

use crate::chaos::run::Run;

pub fn after_step(run: &mut Run) {
    for id in run.unanswered.clone() {
        let asked = run.requests[&id].clone();
        // Whoever stands still answers nobody, and nobody waits.
        if run.paused.contains_key(&asked.instance) {
            continue;
        }
        run.checked(Invariant::S11);
        let now = run.world.instance(asked.instance).now();
        run.require(Invariant::S11, now <= asked.deadline, || {
            format!("{id} is not answered by its deadline")
        });
    }
}

pub fn after_refunds(run: &mut Run) {
    run.require(Invariant::S11, run.unanswered.is_empty(), || {
        format!("not answered: {:?}", run.unanswered)
    });
}
