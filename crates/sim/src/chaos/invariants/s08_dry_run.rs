//! A dry run records nothing.

use holdfast_core::invariant::Invariant;

use crate::chaos::run::Run;
use crate::world::Written;

pub fn after_write(run: &mut Run, Written { after, .. }: &Written) {
    for grant in &after.status.grants {
        run.checked(Invariant::S8);
        let dry = run.requests.get(&grant.eviction).is_some_and(|asked| asked.dry_run);
        run.require(Invariant::S8, !dry, || {
            format!("{} is recorded in {}", grant.eviction, after.key)
        });
    }
}
