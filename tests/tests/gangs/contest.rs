//! Two gangs. Each of them fits only alone.

use std::collections::BTreeSet;

use holdfast_e2e::gang::{gang, is_bound};
use holdfast_e2e::history::{Event, History};
use holdfast_e2e::object::group_of;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::{World, condition};
use serde_json::json;

/// All rounds run at the same time, each on its own node, because more can go wrong than one by one.
pub fn one_runs_whole_and_the_other_waits_whole_20_times() {
    std::thread::scope(|scope| {
        for i in 0..20 {
            let order = if i % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
            scope.spawn(move || contest(order));
        }
    });
}

fn contest(order: [&str; 2]) {
    const SIZE: usize = 3;
    let world = World::new("contest");
    // There is also room for one pod of the other gang.
    world.small_node("n", SIZE + 1);
    for group in order {
        world.pod_group(group, &gang(SIZE));
    }
    let history = History::of(&world.admin, &[world.path("api/v1", "pods", "")]);
    // Create the pods of both in turn.
    for i in 0..SIZE {
        for group in order {
            world.members(group, i..=i);
        }
    }
    let first = until("one runs", || {
        let bound = world.bound();
        let runs = bound.iter().find(|(_, pods)| **pods == SIZE);
        runs.map(|(group, _)| group.clone()).ok_or_else(|| format!("{bound:?}"))
    });
    let other = if first == "a" { "b" } else { "a" };
    world.stays_pending(other);
    assert_eq!(ever_bound(&history.end()), BTreeSet::from([first.clone()]));
    world.delete_members(&first);
    world.wait_bound(other, SIZE);
}

/// The scheduler tries such a pod again soon after there is room for it.
pub fn a_pod_that_found_no_place_splits_no_gang_20_times() {
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(contest_with_pod);
        }
    });
}

fn contest_with_pod() {
    let world = World::new("found-none");
    world.small_node("n", 3);
    world.pod(&Pod::new("other").taking(3, &world));
    world.wait_ready("other");
    world.pod(&Pod::new("single").taking(1, &world));
    world.wait_pod("single", "has found no place", |pod| {
        let told = ("False".to_owned(), "Unschedulable".to_owned());
        condition(&pod["status"], "PodScheduled") == Some(told)
    });
    world.pod_group("a", &gang(3));
    world.members("a", 0..3);
    world.stays_pending("a");
    world.delete_pod("other");
    world.wait_gone("other");
    let gang = until("either runs", || {
        let bound = world.bound();
        let (gang, single) = (bound["a"], bound[""]);
        if gang + single > 0 { Ok(gang) } else { Err(format!("{bound:?}")) }
    });
    if gang == 0 {
        world.stays_pending("a");
    } else {
        world.wait_bound("a", 3);
    }
}

/// Without the priority, the older gang would start first. (kube-scheduler tries each again after its own
/// pause, so it may prefer either.)
pub fn the_one_of_higher_priority_is_first_to_get_the_room() {
    let world = World::new("priority");
    world.small_node("n", 3);
    let class = format!("high-{}", world.namespace);
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    // The priority class must not affect other tests.
    let manifest = json!({"metadata": {"name": class}, "value": 1000, "preemptionPolicy": "Never"});
    let _ = world.admin.post(classes, &manifest).ok();
    world.pod(&Pod::new("other").taking(3, &world));
    world.wait_ready("other");
    for group in ["low", "high"] {
        world.pod_group(group, &gang(3));
        for i in 0..3 {
            let mut pod = world.member(group, i).manifest();
            if group == "high" {
                pod["spec"]["priorityClassName"] = json!(class);
            }
            let _ = world.admin.post(&world.path("api/v1", "pods", ""), &pod).ok();
        }
        world.stays_pending(group);
    }
    world.delete_pod("other");
    world.wait_bound("high", 3);
    world.stays_pending("low");
    world.admin.delete(&format!("{classes}/{class}"));
}

/// Returns the groups of all pods that were on a node at any time.
fn ever_bound(events: &[Event]) -> BTreeSet<String> {
    let bound = events.iter().map(|event| &event.object).filter(|pod| is_bound(pod));
    bound.filter_map(|pod| group_of(pod).map(str::to_owned)).collect()
}
