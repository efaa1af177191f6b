//! A grant is counted once, and ends as gone, refunded or expired.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_core::invariant::Invariant;
use holdfast_core::model::{Grant, ObjectKey, Operation};

use crate::chaos::clients::Asked;
use crate::chaos::params::Profile;
use crate::chaos::run::Run;
use crate::world::Written;

/// Two minutes on the fastest clock, from the decision, which may be 9 s before the answer.
const EXPIRES: Duration = Duration::from_millis((120_000 - 9_000) * 1000 / 1300);

/// An eviction by name whose own pod is gone takes no successor later than this: 60 s on the fastest clock, from the
/// decision. The API server executes nothing that late (`EXECUTED_WITHIN`).
const HANDLER_RUNS: Duration = Duration::from_millis((60_000 - 9_000) * 1000 / 1300);

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
    let name = ObjectKey::new(written.after.key.object.namespace.clone(), grant.pod.clone());
    let pod = run.world.pod(&name);
    let native = run.params.profile == Profile::Native;
    let is_gone = |uid: &str| pod.is_none_or(|pod| pod.uid != uid);
    // What is about one pod alone ends with it, and a change of it when that is in effect.
    let has_ended = |asked: &Asked, uid: &str| match pod.filter(|pod| pod.uid == uid) {
        // The webhook pins an eviction to its pod. In native mode an eviction takes the next pod of the name.
        _ if asked.operation == Operation::Evict && native => false,
        None => true,
        Some(_) if asked.operation == Operation::Evict => false,
        Some(pod) => {
            let stored = asked.generation > 0 && pod.generation >= asked.generation;
            // When it was applied, it was ready too.
            pod.terminating || (asked.operation.keeps_pod() && stored && pod.applied)
        }
    };
    let open = standing.filter_map(|id| run.requests.get(id));
    let open = open.filter_map(|asked| Some((asked, asked.granted.as_ref()?)));
    let mut granted =
        open.filter(|(asked, (_, uid))| !has_ended(asked, uid)).map(|(_, granted)| granted);
    let is_taken = |uid: &str| {
        let next = |taken: &str| born(taken) >= born(uid);
        let mut taken = run.taken.iter().filter(|(_, t)| t.generation.is_none());
        taken.any(|(taken, t)| t.pod == grant.pod && next(taken))
    };
    let lives = |uid: &str| if is_gone(uid) { HANDLER_RUNS } else { EXPIRES };
    granted.all(|(at, uid)| is_taken(uid) || *at + lives(uid) <= run.world.now())
}

/// The world names a pod after the version that it was created at.
fn born(uid: &str) -> u64 {
    uid.trim_start_matches("uid-").parse().expect("a version")
}
