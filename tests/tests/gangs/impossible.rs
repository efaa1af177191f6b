//! Pods that are not created before other pods run cannot wait for each other.

use std::time::Duration;

use holdfast_e2e::asking::min_count;
use holdfast_e2e::lws::Set;
use holdfast_e2e::object::name;
use holdfast_e2e::wait::{until, until_within};
use holdfast_e2e::world::{World, condition};
use serde_json::{Value, json};

pub fn a_leader_that_has_to_be_ready_first() {
    let world = World::new("leader-ready");
    let set = Set::asking(&world, 2, 3, &json!({"spec": {"startupPolicy": "LeaderReady"}}));
    set.wait_healthy(2);
    assert_told(&world, "serve", 2, "spec.startupPolicy");
    // Budgets still count the groups.
    world.budget("job", json!({"maxUnavailable": 1, "budgetScope": "Workload"}));
    world.wait_status("job", "counts two", |s| s["currentHealthyReplicas"] == 2);
    world.evict("serve-0-1").assert_evicted();
    world.evict("serve-1-1").assert_denied(&["job needs 1 healthy replica"]);
}

pub fn a_group_that_has_its_place_to_itself() {
    let world = World::new("exclusive");
    let key = "leaderworkerset.sigs.k8s.io/exclusive-topology";
    let exclusive = json!({"metadata": {"annotations": {key: "kubernetes.io/hostname"}}});
    let set = Set::asking(&world, 2, 3, &exclusive);
    set.wait_healthy(2);
    assert_told(&world, "serve", 2, key);
}

pub fn pods_that_come_one_by_one() {
    let world = World::new("ordered");
    world.small_node("n", 4);
    let mut set = world.stateful_set("web", 4, 2);
    set["spec"]["podManagementPolicy"] = json!("OrderedReady");
    world.create(&set);
    wait_four(&world);
    assert_told(&world, "web", 2, "spec.podManagementPolicy");
    world.budget("web", json!({"maxUnavailable": 1, "budgetScope": "Workload"}));
    world.wait_status("web", "counts two", |s| s["currentHealthyReplicas"] == 2);
    world.evict("web-0").assert_evicted();
    world.evict("web-2").assert_denied(&["web needs 1 healthy replica"]);
}

pub fn jobs_that_come_after_others() {
    let world = World::new("depends");
    world.small_node("n", 4);
    let mut set = world.job_set("train", 1, 2);
    let mut second = world.replicated_job("second", 1, 2);
    second["dependsOn"] = json!([{"name": "worker", "status": "Ready"}]);
    set["spec"]["replicatedJobs"] = json!([world.replicated_job("worker", 1, 2), second]);
    world.create(&set);
    wait_four(&world);
    let groups = world.wait_groups("train", 2);
    let gangs: Vec<Option<u64>> = groups.values().map(min_count).collect();
    // By slot: the job that depends on the other, and the other.
    assert_eq!(gangs, [None, Some(2)], "{groups:#?}");
    wait_told(&world, &name(&groups.into_values().next().expect("there are two")), "dependsOn");
}

pub fn jobs_that_have_their_place_to_themselves() {
    let world = World::new("placed");
    for node in ["n0", "n1"] {
        world.small_node(node, 2);
    }
    let mut set = world.job_set("train", 2, 2);
    let key = "alpha.jobset.sigs.k8s.io/exclusive-topology";
    set["metadata"]["annotations"][key] = json!("kubernetes.io/hostname");
    world.create(&set);
    wait_four(&world);
    assert_told(&world, "train", 2, key);
}

/// Waits for four groups. They are created one after the other, and some are refused at first.
#[track_caller]
fn wait_four(world: &World) {
    until_within(Duration::from_mins(1), "all four run", || {
        let healthy = world.healthy_pods();
        if healthy.len() == 4 { Ok(()) } else { Err(format!("{healthy:?}")) }
    });
}

/// Checks that the groups do not start as gangs, and that they and their workload get the reason.
#[track_caller]
fn assert_told(world: &World, owner: &str, groups: usize, field: &str) {
    for group in world.wait_groups(owner, groups).values() {
        assert!(group["spec"]["schedulingPolicy"]["basic"].is_object(), "{group:#}");
        wait_told(world, &name(group), field);
    }
    until("an event names the field", || {
        let events = world.admin.list(&world.path("api/v1", "events", ""));
        let is_it = |event: &&Value| {
            event["reason"] == "GangImpossible"
                && event["involvedObject"]["name"] == owner
                && event["message"].as_str().is_some_and(|message| message.contains(field))
        };
        if events.iter().any(|event| is_it(&event)) { Ok(()) } else { Err(format!("{events:#?}")) }
    });
}

#[track_caller]
fn wait_told(world: &World, group: &str, field: &str) {
    until(&format!("{group} names {field}"), || {
        let status = world.pod_group_status(group);
        let told = condition(&status, "GangImpossible").is_some_and(|(value, _)| value == "True");
        if told && status.to_string().contains(field) { Ok(()) } else { Err(format!("{status:#}")) }
    });
}
