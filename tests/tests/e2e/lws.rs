//! A real `LeaderWorkerSet` without the Workload API: Holdfast finds groups by their labels.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use holdfast_e2e::evict::Eviction;
use holdfast_e2e::lws::{SIZE, Set, Story};
use holdfast_e2e::wait::{SetWhenDropped, until};
use holdfast_e2e::world::{World, grants};
use serde_json::{Value, json};

use holdfast_e2e::shared::server;

/// Only Holdfast takes groups down, so it knows every loss at once.
const NO_LAG: Duration = Duration::ZERO;

pub fn a_group_that_is_recreated_is_charged_once_and_to_itself_alone() {
    let world = World::new("lws");
    let set = Set::new(&world, 4, &json!({}));
    let _ = world.budget("job", budget());
    wait_counts(&world, [4, 4, 3, 1]);
    let history = set.watch();
    let before: Vec<_> = (0..4).map(|group| set.group(group)).collect();

    // Recreated pods stay Pending until the nodes accept pods again.
    set.set_schedulable(false);
    world.evict("serve-1-2").assert_evicted();
    for pod in ["serve-0", "serve-2-1", "serve-3-2"] {
        world.evict(pod).assert_denied(&["job needs 3 healthy replicas and has 3"]);
    }
    // Other pods of the group cost nothing, whether they are running, terminating or Pending again.
    for pod in ["serve-1", "serve-1-1"] {
        until("the rest of the group is free", || {
            let outcome = world.send(&Eviction::of(pod));
            // In native mode Holdfast asks for a retry if a pod ended after the API server's read. The
            // eviction is pinned: if the pod is another one by then, the API server answers 409.
            let again = outcome.code == 409
                || outcome.code == 429 && outcome.message.contains("ended a moment ago");
            assert!(again || [201, 404].contains(&outcome.code), "{outcome:#?}");
            if again { Err(format!("{outcome:#?}")) } else { Ok(()) }
        });
    }
    until("the whole group is on its way back", || {
        let now = set.group(1);
        let new = now.iter().filter(|(pod, uid)| before[1].get(*pod) != Some(*uid)).count();
        // Workers are created when the leader exists, which is also Pending.
        if new >= 1 && new == now.len() { Ok(()) } else { Err(format!("{now:?}")) }
    });
    set.wait_settled("job");
    let status = world.wait_status("job", "counts three", |s| s["currentHealthyReplicas"] == 3);
    assert_eq!(counts(&status), [4, 3, 3, 0], "{status:#}");
    for group in [0, 2, 3] {
        assert_eq!(set.group(group), before[group], "not a pod of group {group} was touched");
        for pod in before[group].keys() {
            let label = format!("LeaderWorkerSet serve group {group}");
            world.evict(pod).assert_denied(&["job needs 3 healthy replicas and has 3", &label]);
        }
    }

    // When the group is back, the next group may be disrupted, this time by its leader.
    set.set_schedulable(true);
    set.wait_healthy(4);
    let status = world.wait_status("job", "counts four", |s| s["currentHealthyReplicas"] == 4);
    assert_eq!(counts(&status), [4, 4, 3, 1], "{status:#}");
    world.evict_soon("serve-2");
    set.wait_healthy(4);
    set.wait_settled("job");

    let story = Story::of(&history.end(), NO_LAG);
    story.assert_kept();
    assert_eq!((&*story.groups, story.least), (&[1, 2][..], 3), "{story:#?}");
    let decisions = server().decisions(&world.namespace);
    assert_eq!(decisions.iter().map(|d| d.cost).sum::<i64>(), 2, "{decisions:#?}");
}

pub fn a_drain_takes_one_group_at_a_time() {
    let world = World::new("lws-drain");
    let set = Set::new(&world, 4, &json!({}));
    world.budget("job", budget());
    let (node, groups) = set.busiest_node();
    assert!(groups >= 2, "{node} has pods of {groups} groups only");
    let history = set.watch();

    let (code, output) = world.drain(&node).finish();
    assert_eq!(code, Some(0), "{output}");
    set.wait_healthy(4);
    assert!(set.pods().iter().all(|pod| pod["spec"]["nodeName"] != *node), "{output}");
    set.wait_settled("job");

    let story = Story::of(&history.end(), NO_LAG);
    story.assert_kept();
    assert_eq!(story.least, 3, "{story:#?}");
    assert!(story.groups.len() >= groups, "{story:#?}");
}

/// The set's own rollout takes groups down too. Holdfast cannot prevent that, and must not allow more.
pub fn a_surging_rollout_and_a_scale_down_leave_no_room_for_a_drain() {
    const LAG: Duration = Duration::from_millis(500);
    let world = World::new("lws-roll");
    let surge = json!({"rolloutStrategy": {
        "type": "RollingUpdate",
        "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 1},
    }});
    let set = Set::new(&world, 5, &surge);
    world.budget("job", budget());
    let (node, _) = set.busiest_node();
    let history = set.watch();

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Beside the drain, which waits five seconds after each denial: this client tries all the time.
        scope.spawn(|| set.evict_until(&done));
        let done = SetWhenDropped(&done);
        let drain = world.drain(&node);
        set.roll("second");
        std::thread::sleep(Duration::from_secs(4));
        set.edit(&json!({"replicas": 4}));
        std::thread::sleep(Duration::from_secs(3));
        drop(done);
        let (code, output) = drain.finish();
        assert_eq!(code, Some(0), "{output}");
    });
    set.wait_rolled(4);
    set.wait_settled("job");
    let status = world.wait_status("job", "counts four", |s| s["currentHealthyReplicas"] == 4);
    assert_eq!(counts(&status), [4, 4, 3, 1], "{status:#}");

    let story = Story::of(&history.end(), LAG);
    story.assert_kept();
    assert!(story.evicted() > 0, "nothing was put to the test");
}

/// Such a set keeps the other pods of a group when one is lost. The group is still not healthy without it.
pub fn a_group_that_is_not_recreated_needs_its_size() {
    let world = World::new("lws-none");
    let set = Set::new(&world, 2, &json!({"leaderWorkerTemplate": {"restartPolicy": "None"}}));
    let _ = world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    wait_counts(&world, [2, 2, 1, 1]);
    let before = set.group(0);

    set.set_schedulable(false);
    world.evict("serve-0-1").assert_evicted();
    world.evict("serve-1-1").assert_denied(&[
        "job needs 1 healthy replica and has 1",
        "LeaderWorkerSet serve group 1",
        "needs 3 healthy pods and has 3",
    ]);
    until("the worker alone is replaced", || {
        let now = set.group(0);
        let old = now.iter().filter(|(pod, uid)| before.get(*pod) == Some(*uid)).count();
        if now.len() == SIZE && old == SIZE - 1 { Ok(()) } else { Err(format!("{now:?}")) }
    });
    set.set_schedulable(true);
    set.wait_healthy(2);
    world.evict_soon("serve-1-1");
}

fn budget() -> Value {
    json!({"maxUnavailable": 1, "budgetScope": "Workload"})
}

/// Waits for the counts. A worker counts when Holdfast has seen its `StatefulSet`, which may be slightly
/// later.
#[track_caller]
fn wait_counts(world: &World, expected: [i64; 4]) {
    world.wait_status("job", &format!("counts {expected:?}"), |status| counts(status) == expected);
}

/// Returns expected, healthy, desired and allowed replicas.
fn counts(status: &Value) -> [i64; 4] {
    assert!(grants(status).is_empty(), "{status:#}");
    [
        "expectedReplicas",
        "currentHealthyReplicas",
        "desiredHealthyReplicas",
        "disruptionsAllowedReplicas",
    ]
    .map(|count| status[count].as_i64().unwrap_or_default())
}
