//! Gangs without room, with a short `--gang-room-wait`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use holdfast_e2e::object::{group_of, name};
use holdfast_e2e::wait::{until, until_within};
use holdfast_e2e::world::{World, condition};
use serde_json::{Value, json};

pub const FLAGS: [&str; 4] = ["--gang-room-wait", "2s", "--gang-timeout", "8s"];

/// Simulates cluster-autoscaler and Karpenter: it adds a node for pods that the scheduler reports as
/// unschedulable. It ignores pods with gates.
pub fn an_autoscaler_sees_the_gang_and_it_starts() {
    let world = World::new("autoscaled");
    world.small_node("n", 1);
    world.create(&world.job("train", 4));
    let group = world.wait_groups("train", 1).values().map(name).next().expect("there is one");
    let mut added = 0;
    let began = Instant::now();
    until("the gang has started", || {
        let unschedulable = told(&world, "Unschedulable");
        // A new node takes some time.
        if unschedulable > 0 && began.elapsed() > Duration::from_secs(3) * added {
            world.small_node(&format!("added-{added}"), unschedulable);
            added += 1;
        }
        let bound = world.bound();
        if bound.get(&group) == Some(&4) {
            Ok(())
        } else {
            Err(format!("{bound:?}, {added} added"))
        }
    });
    assert!(added > 0, "there was room before");
    world.wait_started(&group, 4);
}

pub fn a_gang_that_is_not_whole_in_time_is_taken_back() {
    let world = World::new("back");
    taken_back(&world, &world.stateful_set("web", 4, 4));
}

/// Such a Job does not count an eviction as a failure. It recreates each pod independently.
pub fn a_job_that_says_so_is_taken_back_too() {
    let world = World::new("back-job");
    let mut job = world.job("train", 4);
    job["spec"]["backoffLimitPerIndex"] = json!(1);
    job["spec"]["podFailurePolicy"] = json!({"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    taken_back(&world, &job);
}

fn taken_back(world: &World, workload: &Value) {
    world.small_node("n0", 2);
    world.create(workload);
    let groups = world.wait_groups(&name(workload), 1);
    let group = groups.values().map(name).next().expect("there is one");
    // The gang was started without room, for an autoscaler that does not exist.
    world.wait_bound(&group, 2);
    let before = uids(world);
    // A Job waits before it recreates a pod.
    until_within(Duration::from_mins(1), "all pods are new, and held back", || {
        let now = uids(world);
        let gated = told(world, "SchedulingGated");
        let new = now.is_disjoint(&before) && now.len() == 4;
        if new && gated == 4 { Ok(()) } else { Err(format!("{gated} of {now:?}")) }
    });
    world.wait_unschedulable(&group);
    let events = world.admin.list(&world.path("api/v1", "events", ""));
    for reason in ["GangWithoutRoom", "GangTakenBack"] {
        assert!(events.iter().any(|event| event["reason"] == reason), "{reason}: {events:#?}");
    }
    world.small_node("n1", 2);
    world.wait_bound(&group, 4);
    world.wait_started(&group, 4);
}

/// An autoscaler should add nodes for one gang, and not for all that wait.
pub fn the_one_that_waits_longest_is_let_go_alone() {
    let world = World::new("alone");
    world.small_node("n", 1);
    for name in ["first", "second"] {
        world.create(&world.job(name, 3));
        world.wait_groups(name, 1);
    }
    until("one has been let go", || {
        let unschedulable = told(&world, "Unschedulable");
        if unschedulable > 0 { Ok(()) } else { Err("none".to_owned()) }
    });
    let pods = world.all_pods();
    let free = pods.iter().filter(|pod| pod["spec"]["schedulingGates"].as_array().is_none());
    let groups: BTreeSet<_> = free.map(group_of).collect();
    assert_eq!(groups.len(), 1, "{pods:#?}");
}

/// Returns for how many pods the scheduler reports this reason.
fn told(world: &World, reason: &str) -> usize {
    let told = |pod: &&Value| {
        condition(&pod["status"], "PodScheduled").is_some_and(|(_, because)| because == reason)
    };
    world.all_pods().iter().filter(told).count()
}

fn uids(world: &World) -> BTreeSet<String> {
    world.all_pods().iter().map(|pod| pod["metadata"]["uid"].to_string()).collect()
}
