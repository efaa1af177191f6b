//! Several budgets on one pod.

use holdfast_e2e::pod::Pod;
use holdfast_e2e::world::{World, grants, is_condition};
use serde_json::json;

/// With a `PodDisruptionBudget`, which protects only from evictions.
pub fn an_eviction_needs_both_and_is_charged_to_both_or_none() {
    let world = World::new("pdb-pub");
    let node = world.node("n");
    for pod in ["a", "b", "c"] {
        world.pod(&Pod::new(pod).on(&node));
        world.wait_ready(pod);
    }
    world.budget("pdb", json!({"minAvailable": 2}));
    world.guard("pub", json!({"minAvailable": 3, "protectTotalReplicas": 3}));
    // One has room, the other has none.
    world.evict("a").assert_denied(&["pub needs 3 available pods and has 3"]);
    world.wait_status("pdb", "has no grants left", |s| {
        grants(s).is_empty() && s["disruptionsAllowed"] == 1
    });
    // And the opposite.
    world.edit_budget("pdb", &json!({"minAvailable": 3}));
    world.wait_status("pdb", "has no room", |s| s["disruptionsAllowed"] == 0);
    world.edit_guard("pub", &json!({"minAvailable": 1}));
    world.wait_counts("pub", [2, 3, 1, 3]);
    world.evict("a").assert_denied(&["pdb needs 3 healthy pods and has 3"]);
    world.wait_guard("pub", "has no grants left", |s| {
        grants(s).is_empty() && s["unavailableAllowed"] == 2
    });
    // Both have room for one: both are charged, and then neither has room.
    world.edit_budget("pdb", &json!({"minAvailable": 2}));
    world.wait_status("pdb", "has room", |s| s["disruptionsAllowed"] == 1);
    world.evict_in_vain("a");
    for status in [world.status("pdb"), world.wait_guard("pub", "is processed", |_| true)] {
        assert_eq!(grants(&status), [("a".to_owned(), 1)], "{status:#}");
    }
    world.evict("b").assert_denied(&["pdb needs 2 healthy pods and has 2"]);
    // The PodDisruptionBudget does not check deletes.
    world.delete("b").assert_passed();
    world.delete("c").assert_refused(&["pub needs 1 available pods and has 1"]);
}

/// Selectors with different keys are not refused, because an overlap is unknown. Pods show it.
pub fn a_pod_under_two_needs_both() {
    let world = World::new("two-pubs");
    let node = world.node("n");
    for pod in ["a", "b"] {
        world.pod(&Pod::new(pod).label("tier", "front").on(&node));
        world.wait_ready(pod);
    }
    world.guard("app", json!({"maxUnavailable": 1, "protectTotalReplicas": 2}));
    let selector = json!({"matchLabels": {"tier": "front"}});
    world
        .guard("tier", json!({"minAvailable": 2, "protectTotalReplicas": 2, "selector": selector}));
    for budget in ["app", "tier"] {
        world.wait_guard(budget, "tells of the other", |status| {
            is_condition(status, "BudgetConfigured", "False", "SeveralBudgets")
        });
    }
    world.delete("a").assert_refused(&["tier needs 2 available pods and has 2"]);
    world.wait_guard("app", "was not charged", |s| {
        grants(s).is_empty() && s["unavailableAllowed"] == 1
    });
    world.delete_guard("tier");
    world.wait_guard("app", "is alone", |status| {
        is_condition(status, "BudgetConfigured", "True", "ValidConfig")
    });
    world.delete("a").assert_passed();
    world.delete("b").assert_refused(&["app needs 1 available pod"]);
}
