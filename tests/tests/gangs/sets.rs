//! A real `LeaderWorkerSet` of 4 groups of 8, and a real `JobSet`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use holdfast_e2e::asking::{controller, min_count};
use holdfast_e2e::gang::is_bound;
use holdfast_e2e::history::{Event, History};
use holdfast_e2e::lws::{Set, Story};
use holdfast_e2e::object::{group_of, name};
use holdfast_e2e::wait::{SetWhenDropped, until};
use holdfast_e2e::world::World;
use serde_json::{Value, json};

const SIZE: usize = 8;

/// The time during which Holdfast may not know the changes of the set's own controller.
const LAG: Duration = Duration::from_millis(500);

pub fn a_leader_worker_set_is_drained_scaled_rolled_and_deleted() {
    let world = World::new("lws");
    let everything = [world.path("api/v1", "pods", ""), world.pod_group_path("")];
    let grouped = History::of(&world.admin, &everything);
    let set = Set::asking(&world, 4, SIZE, &json!({}));
    set.wait_healthy(4);
    for group in world.wait_groups("serve", 4).values() {
        assert_eq!(min_count(group), Some(8), "{group:#}");
        world.wait_started(&name(group), SIZE);
    }
    let status = world.budget("job", json!({"maxUnavailable": 1, "budgetScope": "Workload"}));
    assert_eq!(status["expectedReplicas"], 4, "{status:#}");
    let history = set.watch();

    let started = Instant::now();
    let (node, _) = set.busiest_node();
    let (code, output) = world.drain(&node).finish();
    assert_eq!(code, Some(0), "{output}");
    set.wait_healthy(4);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The client tries all the time.
        scope.spawn(|| set.evict_until(&done));
        let _done = SetWhenDropped(&done);
        for replicas in [6, 2] {
            set.edit(&json!({"replicas": replicas}));
            until(&format!("there are {replicas} groups"), || {
                let (last, next) = (set.group(replicas - 1).len(), set.group(replicas).len());
                if last > 0 && next == 0 { Ok(()) } else { Err(format!("{last} and {next} pods")) }
            });
            std::thread::sleep(Duration::from_secs(3));
        }
        set.roll("second");
        std::thread::sleep(Duration::from_secs(5));
    });
    set.wait_rolled(2);
    world.wait_groups("serve", 2);
    let story = Story::of(&history.end(), LAG);
    story.assert_kept();
    assert!(story.evicted() > 0, "nothing was put to the test");

    set.delete();
    world.wait_no_groups();
    let events = grouped.end();
    assert_grouped(&events);
    // Only before that: a drain tries by name, so later it also evicted pods that had just started.
    assert_started_whole(events.iter().filter(|event| event.seen < started), SIZE);
}

pub fn a_group_that_is_recreated_starts_whole_again() {
    let world = World::new("recreated");
    let everything = [world.path("api/v1", "pods", ""), world.pod_group_path("")];
    let history = History::of(&world.admin, &everything);
    let set = Set::asking(&world, 2, 3, &json!({}));
    set.wait_healthy(2);
    world.wait_groups("serve", 2);
    let before = set.group(1);
    world.delete_pod("serve-1-1");
    until("all pods of the group are others", || {
        let now = set.group(1);
        let old = now.iter().filter(|(pod, uid)| before.get(*pod) == Some(*uid)).count();
        if old == 0 { Ok(()) } else { Err(format!("{old} are not")) }
    });
    set.wait_healthy(2);
    world.wait_groups("serve", 2);
    let events = history.end();
    assert_grouped(&events);
    assert_started_whole(events.iter(), 3);
}

pub fn a_job_set_starts_job_by_job_and_a_budget_counts_them() {
    let world = World::new("jobset");
    world.small_node("n0", 4);
    let set = world.job_set("train", 2, 3);
    world.create(&set);
    let groups: Vec<String> = world.wait_groups("train", 2).values().map(name).collect();
    for group in &groups {
        let object = world.admin.get(&world.pod_group_path(group)).ok().body;
        assert_eq!(min_count(&object), Some(3), "{object:#}");
    }
    until("one Job runs", || {
        let bound = world.bound();
        let all = world.pods().len() == 6;
        if all && bound.values().any(|pods| *pods == 3) {
            Ok(())
        } else {
            Err(format!("{bound:?}"))
        }
    });
    let waits = groups.iter().find(|group| world.bound()[*group] == 0).expect("there is no room");
    world.stays_pending(waits);
    world.small_node("n1", 2);
    for group in &groups {
        world.wait_bound(group, 3);
    }
    // Each Job is one group.
    for group in &groups {
        let pods = world.all_pods();
        let jobs = pods.iter().filter(|pod| group_of(pod) == Some(group)).map(controller);
        assert_eq!(jobs.collect::<BTreeSet<_>>().len(), 1, "{pods:#?}");
    }

    let status = world.budget("job", json!({"maxUnavailable": 1, "budgetScope": "Workload"}));
    assert_eq!(status["expectedReplicas"], 2, "{status:#}");
    world.wait_status("job", "counts two", |s| s["currentHealthyReplicas"] == 2);
    let first = pod_of(&world, &groups[0]);
    world.evict(&first).assert_evicted();
    let other = pod_of(&world, &groups[1]);
    world.evict(&other).assert_denied(&["job needs 1 healthy replica and has 1"]);
    // Its successor gets the same place.
    world.wait_status("job", "counts two again", |s| s["currentHealthyReplicas"] == 2);
    world.remove(&set);
    world.wait_no_groups();
}

#[track_caller]
fn pod_of(world: &World, group: &str) -> String {
    let pods = world.all_pods();
    pods.iter().find(|pod| group_of(pod) == Some(group)).map(name).expect("it has pods")
}

/// Checks that no pod ever existed without its group.
#[track_caller]
fn assert_grouped(events: &[Event]) {
    let mut groups = BTreeSet::new();
    for event in events {
        let object = &event.object;
        if event.path.ends_with("podgroups") {
            if event.gone {
                groups.remove(&name(object));
            } else {
                groups.insert(name(object));
            }
        } else if !event.gone {
            let group = group_of(object).unwrap_or_default();
            assert!(groups.contains(group), "there is no group for {object:#}");
        }
    }
}

/// Checks that no group had a pod on a node before all its pods existed, at its first start and after each
/// restart.
#[track_caller]
fn assert_started_whole<'a>(events: impl Iterator<Item = &'a Event>, size: usize) {
    let mut pods: BTreeMap<String, &Value> = BTreeMap::new();
    let mut starts = 0;
    for event in events.filter(|event| event.path.ends_with("pods")) {
        let pod = &event.object;
        let before = pods.remove(&name(pod));
        if event.gone || pod["metadata"]["deletionTimestamp"].is_string() {
            continue;
        }
        let group = group_of(pod);
        let members = || pods.values().filter(|other| group_of(other) == group);
        let was_bound = before.is_some_and(is_bound);
        if is_bound(pod) && !was_bound && !members().any(|other| is_bound(other)) {
            assert_eq!(members().count() + 1, size, "of {group:?} when {} got a node", name(pod));
            starts += 1;
        }
        pods.insert(name(pod), pod);
    }
    assert!(starts > 0, "nothing was put to the test");
}
