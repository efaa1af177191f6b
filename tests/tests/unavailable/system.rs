//! Requests that the system must be able to make. No budget denies them (semantics 9).

use holdfast_e2e::lws::Set;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

use super::workload;
use holdfast_e2e::shared::server;

pub fn a_namespace_is_deleted() {
    let world = World::new("namespace");
    workload::nodes(&world, 1);
    workload::create(&world, "Deployment", 2);
    world.guard("job", needs_two());
    let pods = world.pods();
    assert_guarded(&world, &pods);
    let path = format!("/api/v1/namespaces/{}", world.namespace);
    let _ = world.admin.delete(&path).ok();
    until("the namespace is gone", || match world.admin.get(&path).code {
        404 => Ok(()),
        code => Err(code.to_string()),
    });
}

pub fn deployments_are_deleted() {
    for policy in ["Background", "Foreground"] {
        let world = World::new(&policy.to_lowercase());
        workload::nodes(&world, 1);
        workload::create(&world, "Deployment", 2);
        world.guard("job", needs_two());
        assert_guarded(&world, &world.pods());
        workload::delete(&world, "Deployment", policy);
        wait_empty(&world);
    }
}

pub fn whatever_owns_them_is_deleted() {
    let selector = json!({"matchLabels": {"app": "job"}});
    for (api, plural, mut spec) in [
        ("api/v1", "replicationcontrollers", json!({"replicas": 2})),
        ("apis/apps/v1", "daemonsets", json!({"selector": selector})),
        ("apis/batch/v1", "jobs", json!({"parallelism": 2})),
    ] {
        let world = World::new(plural);
        workload::nodes(&world, 2);
        spec["template"] = world.pod_template();
        if plural == "jobs" {
            spec["template"]["spec"]["restartPolicy"] = json!("Never");
        }
        let owner = json!({"metadata": {"name": "web"}, "spec": spec});
        let _ = world.admin.post(&world.path(api, plural, ""), &owner).ok();
        workload::wait_ready(&world, 2);
        world.guard("job", json!({"minAvailable": 2, "protectTotalReplicas": 2}));
        assert_guarded(&world, &world.pods());
        let path = world.path(api, plural, "web?propagationPolicy=Background");
        let _ = world.admin.delete(&path).ok();
        wait_empty(&world);
    }
}

pub fn a_leader_worker_set_is_deleted_and_another_scaled_to_nothing() {
    let going: [fn(&World, &Set); 2] = [
        |world, _| {
            let path = world.path("apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets", "serve");
            let _ = world.admin.delete(&path).ok();
        },
        |_, set| set.edit(&json!({"replicas": 0})),
    ];
    for go in going {
        let world = World::new("lws-gone");
        let set = Set::new(&world, 2, &json!({}));
        let mut spec = needs_two();
        spec["podGroupPolicy"] = json!({"groupLabelKey": "leaderworkerset.sigs.k8s.io/group-index", "minReadyReplicas": 3});
        world.guard("job", spec);
        assert_guarded(&world, &world.pods());
        go(&world, &set);
        wait_empty(&world);
    }
}

pub fn a_deployment_is_scaled_to_nothing_and_another_down_to_what_is_needed() {
    let world = World::new("scale");
    workload::nodes(&world, 1);
    workload::create(&world, "Deployment", 3);
    world.guard("job", needs_two());
    // Scaling down does not permit fewer pods than the budget needs.
    let observer = world.observe_pods();
    workload::scale(&world, "Deployment", 1);
    until("one of the ReplicaSet's deletes passed, and one was refused", || {
        let decisions = server().decisions(&world.namespace);
        let refused = decisions.iter().any(|decision| decision.verdict == "deny");
        let left = world.healthy_pods().len();
        if refused && left == 2 { Ok(()) } else { Err(format!("{left} pods, {decisions:#?}")) }
    });
    assert_eq!(observer.least(), 2);
    workload::scale(&world, "Deployment", 0);
    wait_empty(&world);
}

pub fn a_node_is_gone() {
    let world = World::new("node-gone");
    let (gone, there) = (world.node("gone"), world.node("there"));
    for (pod, node) in [("a", &gone), ("b", &there)] {
        world.pod(&Pod::new(pod).on(node));
        world.wait_ready(pod);
    }
    world.guard("job", needs_two());
    assert_guarded(&world, &world.pods());
    let _ = world.admin.delete(&format!("/api/v1/nodes/{gone}")).ok();
    // As the garbage collector of pods does a minute later.
    world.delete_with("a", "?gracePeriodSeconds=0").assert_passed();
    assert_guarded(&world, &["b".to_owned()]);
}

pub fn a_taint_drives_pods_out() {
    let world = World::new("taint");
    let (bad, good) = (world.node("bad"), world.node("good"));
    for (pod, node) in [("a", &bad), ("b", &bad), ("c", &good)] {
        world.pod(&Pod::new(pod).on(node));
        world.wait_ready(pod);
    }
    world.guard("job", json!({"minAvailable": 3, "protectTotalReplicas": 3}));
    assert_guarded(&world, &world.pods());
    let taint = json!({"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}});
    let _ = world.admin.patch(&format!("/api/v1/nodes/{bad}"), &taint).ok();
    for pod in ["a", "b"] {
        world.wait_gone(pod);
    }
    assert_guarded(&world, &["c".to_owned()]);
}

fn needs_two() -> Value {
    json!({"minAvailable": 2})
}

/// Checks that no pod may be deleted.
#[track_caller]
fn assert_guarded(world: &World, pods: &[String]) {
    assert!(!pods.is_empty(), "there are no pods");
    for pod in pods {
        world.delete(pod).assert_refused(&["job needs "]);
    }
}

#[track_caller]
fn wait_empty(world: &World) {
    until("all pods are gone", || {
        let pods = world.admin.list(&world.path("api/v1", "pods", ""));
        if pods.is_empty() { Ok(()) } else { Err(format!("{} pods", pods.len())) }
    });
}
