//! Replicas that cannot be counted: their evictions are denied, and the conditions give the reason (semantics
//! 8).

use holdfast_e2e::pod::Pod;
use holdfast_e2e::world::{World, is_condition};
use serde_json::{Value, json};

fn workload() -> Value {
    json!({"minAvailable": 0, "budgetScope": "Workload"})
}

pub fn a_pod_that_names_no_replica_is_not_evicted() {
    let world = World::new("no-reference");
    let node = world.node("n");
    world.pod(&Pod::new("stray").on(&node));
    world.wait_ready("stray");
    world.budget("job", workload());
    let status = world.wait_status("job", "misses the reference", |s| {
        is_condition(s, "BudgetConfigured", "False", "MissingWorkloadReference")
    });
    let insufficient = is_condition(&status, "DisruptionAllowed", "False", "InsufficientReplicas");
    assert!(insufficient, "{status:#}");
    assert_eq!(status["expectedReplicas"], 0, "{status:#}");
    let message = message(&status, "BudgetConfigured");
    assert!(message.contains("1 of 1 selected pods") && message.contains("stray"), "{message}");
    world.evict("stray").assert_denied(&["stray", "job", "spec.schedulingGroup.podGroupName"]);

    // Beside a replica that can be counted, only the stray pod is denied.
    world.replica("a", 2, 2, &[&node]);
    world.wait_status("job", "counts the replica", |s| s["expectedReplicas"] == 1);
    world.evict("stray").assert_denied(&["stray"]);
    world.evict("a-0").assert_evicted();
}

pub fn creating_the_missing_pod_group_is_all_it_takes() {
    let world = World::new("no-group");
    let node = world.node("n");
    world.pod(&Pod::new("a-0").of("a").on(&node));
    world.wait_ready("a-0");
    world.budget("job", workload());
    let status = world.wait_status("job", "cannot resolve the group", |s| {
        is_condition(s, "DisruptionAllowed", "False", "WorkloadResolutionFailed")
    });
    let missing = is_condition(&status, "BudgetConfigured", "False", "MissingWorkloadReference");
    assert!(missing, "{status:#}");
    for kind in ["DisruptionAllowed", "BudgetConfigured"] {
        let message = message(&status, kind);
        assert!(message.contains("pod a-0") && message.contains("PodGroup"), "{message}");
    }
    world.evict("a-0").assert_denied(&["job", "pod a-0", "PodGroup"]);

    world.group("a", 1);
    let status = world.wait_status("job", "has room", |s| {
        is_condition(s, "DisruptionAllowed", "True", "SufficientReplicas")
    });
    assert!(is_condition(&status, "BudgetConfigured", "True", "ValidConfig"), "{status:#}");
    assert_eq!(status["disruptionsAllowedReplicas"], 1, "{status:#}");
    world.evict("a-0").assert_evicted();
}

pub fn a_group_without_a_minimum_is_not_evicted() {
    let world = World::new("basic");
    let node = world.node("n");
    world.group_of("a", &json!({"schedulingPolicy": {"basic": {}}}));
    for pod in ["a-0", "a-1"] {
        world.pod(&Pod::new(pod).of("a").on(&node));
        world.wait_ready(pod);
    }
    world.budget("job", workload());
    let status = world.wait_status("job", "cannot resolve the group", |s| {
        is_condition(s, "DisruptionAllowed", "False", "WorkloadResolutionFailed")
            && is_condition(s, "BudgetConfigured", "False", "MissingWorkloadReference")
    });
    let message = message(&status, "DisruptionAllowed");
    assert!(message.contains("basic"), "{message}");
    world.evict("a-0").assert_denied(&["job", "basic"]);

    // Until the budget says how many pods the group needs.
    world.annotate_budget("job", "holdfast.dev/basic-group-min-count", "2");
    world.wait_status("job", "has room", |s| s["disruptionsAllowedReplicas"] == 1);
    world.evict("a-0").assert_evicted();
}

fn message(status: &Value, kind: &str) -> String {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned()
}
