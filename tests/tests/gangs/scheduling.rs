//! Gangs with groups made by hand: who brings its own groups. What KEP-5832 wants tested, and the tests of
//! kube-scheduler for its own gangs that can be asked of any scheduler.
//!
//! Not asked, because they are of kube-scheduler itself and Holdfast leaves them to it: preemption for and of
//! groups, topology-aware placement, composite groups. Nor that a gang waits whole which cannot start for pod
//! affinity or for a claimed volume: Holdfast's look at the room is an estimate that does not see these.

use holdfast_e2e::gang::{Shape, basic, gang};
use holdfast_e2e::pod::Pod;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::json;

pub fn a_gang_starts_when_its_group_and_room_are_there() {
    let world = World::new("starts");
    world.small_node("n", 3);
    world.pod_group("a", &gang(3));
    world.members("a", 0..3);
    world.wait_bound("a", 3);
    world.wait_started("a", 3);
    if Shape::of_cluster() == Shape::Holdfast {
        let status = world.pod_group_status("a");
        let message = "All required pods (3/3) have been assigned to nodes";
        assert_eq!(status["conditions"][0]["message"], message, "{status:#}");
    }
}

pub fn a_pod_beyond_the_minimum_starts_by_itself() {
    let world = World::new("beyond");
    world.small_node("n", 4);
    world.pod_group("a", &gang(3));
    world.members("a", 0..3);
    world.wait_bound("a", 3);
    world.members("a", 3..4);
    world.wait_bound("a", 4);
    world.wait_started("a", 4);
}

pub fn a_lost_pod_of_a_gang_that_runs_is_replaced_by_itself() {
    let world = World::new("replaced");
    world.small_node("n", 3);
    world.pod_group("a", &gang(3));
    world.members("a", 0..3);
    world.wait_bound("a", 3);
    world.delete_pod("a-1");
    world.wait_gone("a-1");
    world.members("a", 3..4);
    world.wait_bound("a", 3);
    // A gang that has started stays started.
    world.wait_started("a", 3);
}

pub fn a_gang_waits_for_its_minimum() {
    let world = World::new("quorum");
    world.small_node("n", 3);
    world.pod_group("a", &gang(3));
    world.members("a", 0..2);
    world.stays_pending("a");
    world.members("a", 2..3);
    world.wait_bound("a", 3);
}

pub fn a_gang_waits_for_its_group_and_then_for_room() {
    let world = World::new("chain");
    world.small_node("n0", 2);
    world.members("a", 0..3);
    world.stays_pending("a");
    // Kubernetes does not read the Workload (k/k#139008): the group itself has a policy.
    if Shape::of_cluster() == Shape::Holdfast {
        world.pod_group_alone("a", &gang(3));
        world.stays_pending("a");
        world.workload("a", &gang(3));
    } else {
        world.pod_group("a", &gang(3));
    }
    world.stays_pending("a");
    world.wait_unschedulable("a");
    world.small_node("n1", 1);
    world.wait_bound("a", 3);
    world.wait_started("a", 3);
}

/// The missing object triggers the start, not a timer.
pub fn pods_start_within_seconds_of_their_group() {
    let world = World::new("soon");
    world.small_node("n", 3);
    world.members("a", 0..3);
    world.stays_pending("a");
    let began = std::time::Instant::now();
    world.pod_group("a", &gang(3));
    world.wait_bound("a", 3);
    let took = began.elapsed();
    // The machine may be busy. A timer would need half a minute or more.
    assert!(took.as_secs() < 10, "{took:?}");
}

pub fn what_does_not_fit_beyond_the_minimum_waits_for_room() {
    let world = World::new("partly");
    world.small_node("n", 3);
    world.pod(&Pod::new("other").taking(1, &world));
    world.wait_ready("other");
    world.pod_group("a", &gang(2));
    world.members("a", 0..3);
    world.wait_bound("a", 2);
    world.stays_bound("a", 2);
    world.delete_pod("other");
    world.wait_bound("a", 3);
}

pub fn a_gang_and_a_single_pod_take_turns() {
    let world = World::new("single");
    world.small_node("n", 3);
    world.pod_group("a", &gang(3));
    world.members("a", 0..2);
    world.pod(&Pod::new("single").taking(1, &world));
    world.members("a", 2..3);
    let single = || world.bound()[""];
    let first = until("either runs", || {
        let (gang, single) = (world.bound()["a"], single());
        if gang + single > 0 && [0, 3].contains(&gang) { Ok(single) } else { Err(gang.to_string()) }
    });
    if first == 1 {
        world.stays_pending("a");
        world.delete_pod("single");
        world.wait_bound("a", 3);
    } else {
        world.stays_bound("", 0);
        world.delete_members("a");
        world.wait_bound("", 1);
    }
}

pub fn pods_of_a_basic_group_start_one_by_one() {
    let world = World::new("basic");
    world.small_node("n0", 2);
    world.members("a", 0..3);
    world.stays_pending("a");
    world.pod_group("a", &basic());
    world.wait_bound("a", 2);
    world.stays_bound("a", 2);
    world.small_node("n1", 1);
    world.wait_bound("a", 3);
}

pub fn a_smaller_minimum_lets_go_what_has_room() {
    let world = World::new("room");
    world.small_node("n", 3);
    world.pod_group("a", &gang(4));
    world.members("a", 0..4);
    world.stays_pending("a");
    world.set_min_count("a", 3);
    world.wait_bound("a", 3);
    world.stays_bound("a", 3);
}

pub fn a_smaller_minimum_is_reached_by_fewer() {
    let world = World::new("fewer");
    world.small_node("n", 4);
    world.pod_group("a", &gang(4));
    world.members("a", 0..3);
    world.stays_pending("a");
    world.set_min_count("a", 3);
    world.wait_bound("a", 3);
}

/// Otherwise its pods would have no group to refer to.
pub fn a_group_outlives_its_pods() {
    let world = World::new("protected");
    world.small_node("n", 2);
    world.pod_group("a", &gang(2));
    world.members("a", 0..2);
    world.wait_bound("a", 2);
    let path = world.pod_group_path("a");
    let _ = world.admin.delete(&path).ok();
    world.delete_pod("a-0");
    world.wait_gone("a-0");
    world.stays_bound("a", 1);
    let group = world.admin.get(&path).ok().body;
    assert!(group["metadata"]["deletionTimestamp"].is_string(), "{group:#}");
    // A finished pod does not need its group.
    world.annotate("a-1", "localkube/phase", "Succeeded");
    until("the group is gone", || {
        let answer = world.admin.get(&path);
        if answer.code == 404 { Ok(()) } else { Err(answer.body.to_string()) }
    });
}

pub fn a_pod_that_others_hold_back_is_waited_for() {
    let world = World::new("held");
    world.small_node("n", 2);
    world.pod_group("a", &gang(2));
    world.members("a", 0..1);
    let mut held = world.member("a", 1).manifest();
    held["spec"]["schedulingGates"] = json!([{"name": "e2e.holdfast.dev/hold"}]);
    let _ = world.admin.post(&world.path("api/v1", "pods", ""), &held).ok();
    world.stays_pending("a");
    let path = world.path("api/v1", "pods", "a-1");
    let gates = world.admin.get(&path).ok().body["spec"]["schedulingGates"].take();
    let at =
        gates.as_array().into_iter().flatten().position(|g| g["name"] == "e2e.holdfast.dev/hold");
    let at = at.expect("it has the gate that it was created with");
    let lift = json!([{"op": "remove", "path": format!("/spec/schedulingGates/{at}")}]);
    let _ = world.admin.json_patch(&path, &lift).ok();
    world.wait_bound("a", 2);
}

pub fn pods_of_a_gang_that_keep_apart_get_nodes_of_their_own() {
    let world = World::new("apart");
    for node in ["n0", "n1"] {
        world.small_node(node, 2);
    }
    world.pod_group("a", &gang(2));
    for i in 0..2 {
        let mut pod = world.member("a", i).manifest();
        let others = json!({
            "labelSelector": {"matchLabels": {"app": "job"}},
            "topologyKey": "kubernetes.io/hostname",
        });
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [others]}});
        let _ = world.admin.post(&world.path("api/v1", "pods", ""), &pod).ok();
    }
    world.wait_bound("a", 2);
    let pods = world.all_pods();
    assert_ne!(pods[0]["spec"]["nodeName"], pods[1]["spec"]["nodeName"]);
}

/// Holdfast considers taints, labels, ports and unschedulable nodes as the scheduler does.
pub fn room_is_where_the_pods_may_go() {
    let world = World::new("where");
    let tainted = world.small_node("tainted", 2);
    let taint = json!({"spec": {"taints": [
        {"key": "e2e.holdfast.dev/only", "value": "x", "effect": "NoSchedule"}]}});
    let _ = world.admin.patch(&format!("/api/v1/nodes/{tainted}"), &taint).ok();
    let closed = world.small_node("closed", 2);
    let close = |closes: bool| {
        let patch = json!({"spec": {"unschedulable": closes}});
        let _ = world.admin.patch(&format!("/api/v1/nodes/{closed}"), &patch).ok();
    };
    close(true);
    world.small_node("open", 1);
    world.pod_group("a", &gang(2));
    world.members("a", 0..2);
    world.stays_pending("a");
    close(false);
    world.wait_bound("a", 2);
}
