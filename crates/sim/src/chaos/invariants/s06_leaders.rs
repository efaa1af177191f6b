//! Two leaders at once never over-grant (S1 sees to that whoever leads), and bring no grant back: every
//! new grant is for a request that this very instance was asked, and none that has ended comes back. Only
//! what a deleted budget had granted may come back with its successor, to more than one instance.

use holdfast_core::invariant::Invariant;

use super::partition;
use crate::chaos::clients::{Asked, Outcome};
use crate::chaos::run::Run;
use crate::world::Written;

pub fn after_write(run: &mut Run, written: &Written) {
    let Written { before, after, by, .. } = written;
    if run.leaders() > 1 {
        run.checked(Invariant::S6);
    }
    let (new, old) = partition(run, written);
    for grant in new {
        let asked = run.requests.get(&grant.eviction).is_some_and(|a| a.instance == *by);
        run.require(Invariant::S6, asked, || {
            format!("nobody asked instance {by} for {} in {}", grant.eviction, after.key)
        });
    }
    for grant in old {
        // As long as it is not answered, a request may give back what it has and begin again, and what it
        // sent then may land after it was denied.
        let allowed = |asked: &Asked| asked.outcome == Outcome::Allowed;
        let carried = before.status.grants.iter().any(|old| old.eviction == grant.eviction);
        if carried || !run.requests.get(&grant.eviction).is_some_and(allowed) {
            continue;
        }
        let known = (after.key.to_string(), grant.pod.clone(), grant.eviction.clone());
        if run.history.recorded.get(&known).is_some_and(|uids| uids.len() > 1) {
            continue;
        }
        let record = (after.uid.clone(), grant.uid.clone(), grant.eviction.clone());
        run.require(Invariant::S6, !run.history.ended.contains(&record), || {
            format!("instance {by} brought {} back in {}", grant.eviction, after.key)
        });
    }
}
