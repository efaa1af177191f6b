//! After the faults writes go to zero.

use holdfast_core::invariant::Invariant;

use crate::chaos::run::Run;

pub fn after_rest(run: &mut Run) {
    run.checked(Invariant::L2);
    let since = run.rested_at;
    run.require(Invariant::L2, run.world.revision() == since, || {
        format!("{} writes in five minutes of silence", run.world.revision() - since)
    });
}
