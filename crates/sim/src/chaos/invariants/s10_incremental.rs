//! Incremental equals recomputed: the engine's own check, which panics.

use holdfast_core::invariant::Invariant;

use crate::chaos::CHECKING;
use crate::chaos::params::Profile;
use crate::chaos::run::Run;

pub fn after_step(run: &mut Run) {
    // A recount of everything: dear, and what it finds does not go away.
    let percent = if run.params.profile == Profile::Scale { 1 } else { 6 };
    if !run.random.chance(percent) {
        return;
    }
    run.checked(Invariant::S10);
    CHECKING.set(Some(Invariant::S10));
    for index in 0..run.params.instances {
        let mut instance = run.world.instance(index);
        if instance.is_up() {
            instance.engine().verify();
        }
    }
    CHECKING.set(None);
}
