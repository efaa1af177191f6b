//! A grant is counted once, and ends as gone, refunded or expired.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_core::invariant::Invariant;
use holdfast_core::model::Grant;

use crate::chaos::run::Run;
use crate::world::Written;

/// Two minutes on the fastest clock, from the decision, which may be 9 s before the answer.
const EXPIRES: Duration = Duration::from_millis((120_000 - 9_000) * 1000 / 1300);

pub fn after_write(run: &mut Run, written: &Written) {
    let Written { before, after, by, .. } = written;
    run.checked(Invariant::S2);
    let mut seen = BTreeSet::new();
    for grant in &after.status.grants {
        run.require(Invariant::S2, seen.insert((&grant.pod, &grant.uid)), || {
            format!("{} counts {} twice", after.key, grant.pod)
        });
        let listed = after.status.disrupted_pods.contains_key(&grant.pod);
        run.require(Invariant::S2, listed, || {
            format!("{}: disruptedPods does not name {}", after.key, grant.pod)
        });
    }
    for grant in &before.status.grants {
        let goes_on = after.status.grants.iter().any(|new| new.pod == grant.pod);
        run.require(Invariant::S2, goes_on || may_end(run, written, grant), || {
            format!(
                "instance {by} ended the grant of {} for {} {} in {} before its time",
                grant.eviction, grant.pod, grant.uid, after.key
            )
        });
    }
}

/// Not while an eviction that it stands for may be under way: one that was allowed, has not taken its
/// pod, and is not two minutes old. A grant that was renewed stands for the earlier ones too.
///
/// When a pod vanishes by itself, its grant passes to the next of the name (semantics 5), maybe in the
/// memory of whoever ends it alone. Whichever eviction then takes that one ends the grant: of the pod that it
/// was given for nothing is left to take, and the next one counts as lost by itself.
fn may_end(run: &Run, written: &Written, grant: &Grant) -> bool {
    let key = (written.after.uid.clone(), grant.pod.clone());
    let standing = run.history.standing.get(&key).into_iter().flatten();
    let mut granted = standing.filter_map(|id| run.requests.get(id)?.granted.as_ref());
    let is_taken = |uid: &str| {
        let next = |taken: &str| born(taken) >= born(uid);
        run.taken.iter().any(|(taken, t)| t.pod == grant.pod && next(taken))
    };
    granted.all(|(at, uid)| is_taken(uid) || *at + EXPIRES <= run.world.now())
}

/// The world names a pod after the version that it was created at.
fn born(uid: &str) -> u64 {
    uid.trim_start_matches("uid-").parse().expect("a version")
}
