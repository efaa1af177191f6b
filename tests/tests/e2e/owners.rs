//! The expected number of replicas, which is larger than the existing number after a loss (semantics 4).

use holdfast_e2e::gang::Shape;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::{World, is_condition};
use serde_json::{Value, json};

pub fn a_replica_that_lost_all_its_pods_still_counts() {
    let world = World::new("lost");
    let node = world.node("n");
    let policy = json!({"gang": {"minCount": 2}});
    let workload = json!({
        "apiVersion": Shape::of_cluster().api(),
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": policy}]},
    });
    let api = format!("apis/{}", Shape::of_cluster().api());
    let path = world.path(&api, "workloads", "");
    let _ = world.admin.post(&path, &workload).ok();
    for group in ["r0", "r1", "r2", "r3"] {
        world.group_of(group, &Shape::of_cluster().group_of("w", "t", &policy));
        for pod in [format!("{group}-0"), format!("{group}-1")] {
            world.pod(&Pod::new(&pod).of(group).on(&node));
            world.wait_ready(&pod);
        }
    }
    world.budget("job", json!({"minAvailable": "75%", "budgetScope": "Workload"}));
    world.wait_status("job", "counts all", |s| s["currentHealthyReplicas"] == 4);
    for pod in ["r0-0", "r0-1"] {
        world.evict(pod).assert_evicted();
        world.wait_gone(pod);
    }
    for threshold in [
        json!({"minAvailable": "75%"}),
        json!({"minAvailable": null, "maxUnavailable": 1}),
        json!({"maxUnavailable": "25%"}),
    ] {
        world.edit_budget("job", &threshold);
        world
            .evict("r1-0")
            .assert_denied(&["job needs 3 healthy replicas and has 3", "PodGroup r1"]);
        let status = world.wait_status("job", "is processed", |s| s["currentHealthyReplicas"] == 3);
        assert_eq!(status["expectedReplicas"], 4, "{threshold}: {status:#}");
        assert_eq!(status["desiredHealthyReplicas"], 3, "{threshold}: {status:#}");
    }
    assert_eq!(world.healthy_replicas(), 3);
}

pub fn a_share_of_an_unknown_number_allows_nothing() {
    let world = World::new("unknown");
    let node = world.node("n");
    // Neither a Workload nor an owner defines the expected number of these groups.
    world.replica("a", 1, 1, &[&node]);
    world.replica("b", 1, 1, &[&node]);
    world.budget("job", json!({"maxUnavailable": 1, "budgetScope": "Workload"}));
    world.wait_status("job", "cannot be computed", |s| {
        is_condition(s, "DisruptionAllowed", "False", "WorkloadResolutionFailed")
            && is_condition(s, "BudgetConfigured", "True", "ValidConfig")
    });
    world.evict("a-0").assert_denied(&["job"]);
    world.edit_budget("job", &json!({"maxUnavailable": null, "minAvailable": 1}));
    world.evict_soon("a-0");
}

/// As with a built-in budget: one pod at a time, each after the successor of the previous pod is ready.
pub fn a_deployment_leaves_a_node_one_pod_at_a_time() {
    const PODS: usize = 3;
    let world = World::new("deployment");
    let node = world.node("n");
    let labels = json!({"app": "job"});
    let hosts = [node.clone(), format!("{}-other", world.namespace)];
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": hosts}]}]}}});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "affinity": affinity,
                "containers": [{"name": "main", "image": "example.com/main"}],
            }},
        },
    });
    let _ = world.admin.post(&world.path("apis/apps/v1", "deployments", ""), &deployment).ok();
    let wait_healthy = || {
        until("all pods are Ready", || {
            let pods = world.healthy_pods();
            if pods.len() == PODS { Ok(pods) } else { Err(format!("{pods:?}")) }
        })
    };
    let before = wait_healthy();
    world.node("other");
    world.budget("job", json!({"maxUnavailable": 1}));
    world.wait_status("job", "counts them", |s| {
        s["expectedPods"] == PODS && s["disruptionsAllowed"] == 1
    });
    let observer = world.observe_pods();

    let (code, output) = world.drain(&node).finish();
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(observer.least(), PODS - 1);
    let after = wait_healthy();
    assert!(after.iter().all(|pod| !before.contains(pod)), "{before:?} {after:?}");
    let on_node = |pods: &[Value]| pods.iter().filter(|p| p["spec"]["nodeName"] == node).count();
    assert_eq!(on_node(&world.admin.list(&world.path("api/v1", "pods", ""))), 0);
}
