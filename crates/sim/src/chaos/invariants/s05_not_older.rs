//! No decision on state older than one already acted on: whoever grants has been told all that the
//! budget's status says it was computed from, and what it says never goes back.

use holdfast_core::Config;
use holdfast_core::invariant::Invariant;
use holdfast_core::model::ResourceVersion;

use super::partition;
use crate::chaos::processes::newer_kinds;
use crate::chaos::run::Run;
use crate::world::Written;

pub fn after_write(run: &mut Run, written: &Written) {
    let Written { before, after, by, view } = written;
    run.checked(Invariant::S5);
    let (new, _) = partition(run, written);
    for (kind, version) in &before.status.watermarks {
        let then = after.status.watermarks.get(kind);
        let kept = then.is_some_and(|then: &ResourceVersion| !then.is_older_than(version));
        run.require(Invariant::S5, kept, || {
            format!("instance {by} took the watermark of {kind} back from {version} to {then:?}")
        });
        let named = Config::default().kinds.into_iter().find(|k| k.to_string() == *kind);
        let Some(kind) = named else { continue };
        // An older release reads less, and what it sent may land after it was updated.
        let reads = !run.once_older.contains(by) || !newer_kinds().contains(&kind);
        let seen = new.is_empty() || !reads || view.has_seen(&kind, version);
        run.require(Invariant::S5, seen, || {
            format!("instance {by} granted by {} without {kind} as of {version}", after.key)
        });
    }
}
