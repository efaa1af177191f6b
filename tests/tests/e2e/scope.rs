//! The unit of a budget: pods or replicas.

use holdfast_e2e::world::{World, condition, is_condition};
use serde_json::json;

pub fn without_a_scope_and_with_scope_pod_single_pods_are_counted() {
    let world = World::new("pod-scope");
    let node = world.node("n");
    world.replica("a", 2, 2, &[&node]);
    world.replica("b", 2, 2, &[&node]);
    for (name, spec) in [
        ("unset", json!({"minAvailable": 2})),
        ("pod", json!({"minAvailable": 2, "budgetScope": "Pod"})),
    ] {
        world.budget(name, spec);
        let status = world.wait_status(name, "counts pods", |s| s["disruptionsAllowed"] == 2);
        assert!(is_condition(&status, "DisruptionAllowed", "True", "SufficientPods"), "{status:#}");
        assert_eq!(condition(&status, "BudgetConfigured"), None, "{status:#}");
        for (pods, replicas, value) in [
            ("currentHealthy", "currentHealthyReplicas", 4),
            ("desiredHealthy", "desiredHealthyReplicas", 2),
            ("expectedPods", "expectedReplicas", 4),
            ("disruptionsAllowed", "disruptionsAllowedReplicas", 2),
        ] {
            assert_eq!(status[pods], value, "{name} {pods}: {status:#}");
            assert_eq!(status[replicas], value, "{name} {replicas}: {status:#}");
        }
    }
    // One pod of each: both replicas are now broken. Every budget that counts pods allows this.
    world.evict("a-0").assert_evicted();
    world.evict("b-0").assert_evicted();
    assert_eq!(world.healthy_replicas(), 0);
    let denied = world.evict("a-1");
    denied.assert_denied(&["needs 2 healthy pods and has 2"]);
    assert_eq!(denied.causes.len(), 2, "{denied:#?}");
}

pub fn switching_the_scope_of_a_live_budget_takes_effect_at_once() {
    let world = World::new("switch");
    let node = world.node("n");
    world.replica("a", 3, 3, &[&node]);
    world.replica("b", 3, 3, &[&node]);
    world.budget("job", json!({"minAvailable": 2}));
    world.wait_status("job", "counts pods", |s| s["disruptionsAllowed"] == 4);
    world.evict("a-0").assert_evicted();

    // The new scope is stricter. The test does not pause or retry: whatever Holdfast has seen so far, it
    // cannot record a grant in the changed budget.
    for scope in ["Workload", "PodGroup"] {
        world.edit_budget("job", &json!({"budgetScope": scope}));
        world.evict("b-0").assert_denied(&["job needs 2 healthy replicas and has 1", "PodGroup b"]);
        let status = world.wait_status("job", "counts replicas", |s| {
            is_condition(s, "DisruptionAllowed", "False", "InsufficientReplicas")
        });
        assert!(is_condition(&status, "BudgetConfigured", "True", "ValidConfig"), "{status:#}");
        assert_eq!(status["currentHealthyReplicas"], 1, "{status:#}");
        assert_eq!(status["expectedReplicas"], 2, "{status:#}");
        world.edit_budget("job", &json!({"budgetScope": "Pod"}));
        world.evict_soon(if scope == "Workload" { "a-1" } else { "a-2" });
    }
    world.edit_budget("job", &json!({"budgetScope": "Workload"}));
    world.evict("b-0").assert_denied(&["job needs 2 healthy replicas and has 1"]);
    world.edit_budget("job", &json!({"budgetScope": null}));
    world.evict_soon("b-0");
    let status = world.wait_status("job", "counts pods", |s| s["currentHealthy"] == 2);
    assert!(is_condition(&status, "DisruptionAllowed", "False", "InsufficientPods"), "{status:#}");
    assert_eq!(condition(&status, "BudgetConfigured"), None, "{status:#}");
}
