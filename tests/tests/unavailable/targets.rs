//! Budgets of one workload, by its name.

use holdfast_e2e::lws::{SIZE, Set};
use holdfast_e2e::pod::Pod;
use holdfast_e2e::unavailable::counts;
use holdfast_e2e::world::World;
use serde_json::json;

use crate::workload;

/// The budget is there first. In Kruise pods that come late may never be counted.
pub fn a_deployment_that_comes_after_its_budget() {
    let world = World::new("target");
    let nodes = workload::nodes(&world, 1);
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let status = world.guard("web", json!({"maxUnavailable": "34%", "targetRef": target}));
    assert_eq!(counts(&status), [0, 0, 0, 0], "{status:#}");
    workload::create(&world, "Deployment", 3);
    // ceil(34% of 3) is 2.
    world.wait_counts("web", [2, 3, 1, 3]);
    world.edit_guard("web", &json!({"maxUnavailable": 0}));
    world.wait_counts("web", [0, 3, 3, 3]);
    for pod in world.pods() {
        world.delete(&pod).assert_refused(&["web needs 3 available pods and has 3"]);
    }
    // Labelled alike, and not of the Deployment.
    world.pod(&Pod::new("bare").on(&nodes[0]));
    world.wait_ready("bare");
    world.delete("bare").assert_passed();
    workload::scale(&world, "Deployment", 4);
    world.wait_counts("web", [0, 4, 4, 4]);
}

pub fn a_leader_worker_set() {
    let world = World::new("target-lws");
    let set = Set::new(&world, 2, &json!({}));
    let api = "leaderworkerset.x-k8s.io/v1";
    let target = json!({"apiVersion": api, "kind": "LeaderWorkerSet", "name": "serve"});
    let label = "leaderworkerset.sigs.k8s.io/group-index";
    let policy = json!({"groupLabelKey": label, "minReadyReplicas": SIZE});
    let spec = json!({"maxUnavailable": 1, "targetRef": target, "podGroupPolicy": policy});
    let status = world.guard("serve", spec);
    assert_eq!(counts(&status), [1, 2, 1, 2], "{status:#}");
    set.set_schedulable(false);
    world.delete("serve-0-1").assert_passed();
    world.delete("serve-1").assert_refused(&["serve needs 1 available group and has 1"]);
    set.set_schedulable(true);
    set.wait_healthy(2);
    world.wait_counts("serve", [1, 2, 1, 2]);
    world.delete("serve-1").assert_passed();
    set.wait_healthy(2);
}
