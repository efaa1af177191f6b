//! Groups by a label, without a workload that defines them.

use holdfast_e2e::pod::Pod;
use holdfast_e2e::unavailable::counts;
use holdfast_e2e::world::{World, is_condition};
use serde_json::{Value, json};

use holdfast_e2e::shared::server;

pub fn both_thresholds_hold() {
    let world = World::new("both");
    groups(&world, 5);
    let spec = |min: usize, max: usize| json!({"minAvailable": min, "maxUnavailable": max, "protectTotalReplicas": 5, "podGroupPolicy": policy()});
    // minAvailable is the stricter threshold.
    let status = world.guard("job", spec(4, 3));
    assert_eq!(counts(&status), [1, 5, 4, 5], "{status:#}");
    for state in ["total", "available"] {
        let labels = format!(r#"namespace="{}",name="job",state="{state}""#, world.namespace);
        let metric = server().metric(&format!("holdfast_pub_groups{{{labels}}}"));
        assert_eq!(metric, Some(5.0), "{state}");
    }
    world.delete("g0-0").assert_passed();
    world.delete("g1-0").assert_refused(&["job needs 4 available groups and has 4"]);
    // A surplus pod costs nothing.
    world.delete("g0-1").assert_passed();
    // Now maxUnavailable is the stricter threshold.
    world.edit_guard("job", &spec(1, 1));
    world.delete("g1-0").assert_refused(&["job needs 4 available groups and has 4"]);
    world.edit_guard("job", &spec(1, 3));
    world.wait_counts("job", [2, 4, 2, 5]);
    world.delete("g1-0").assert_passed();
    world.update_image("g2-0", "example.com/main:second").assert_passed();
    world.evict("g3-0").assert_denied(&["job needs 2 available groups and has 2"]);
    // Budgets of single pods may have only one threshold.
    let refused = world.try_guard("pods", json!({"minAvailable": 1, "maxUnavailable": 1, "selector": {"matchLabels": {"app": "other"}}}));
    assert!(
        refused.message().contains("maxUnavailable and minAvailable are mutually exclusive"),
        "{}",
        refused.message()
    );
}

pub fn pods_without_the_label_are_guarded_one_by_one() {
    let world = World::new("label");
    let node = groups(&world, 2);
    for pod in ["lone-0", "lone-1", "lone-2"] {
        world.pod(&Pod::new(pod).on(&node));
        world.wait_ready(pod);
    }
    world.guard(
        "job",
        json!({"minAvailable": 2, "protectTotalReplicas": 2, "podGroupPolicy": policy()}),
    );
    let status = world.wait_guard("job", "warns", |status| {
        is_condition(status, "BudgetConfigured", "False", "MissingGroupLabel")
    });
    assert_eq!(counts(&status), [0, 2, 2, 2], "groups alone are counted: {status:#}");
    world.delete("g0-0").assert_refused(&["job needs 2 available groups and has 2"]);
    world.delete("lone-0").assert_passed();
    world.delete("lone-1").assert_refused(&["job needs 2 available pods and has 2"]);
    // More pods than any group has.
    let many = json!({"podGroupPolicy": {"groupLabelKey": "group", "minReadyReplicas": 3}});
    world.edit_guard("job", &many);
    world.wait_guard("job", "says that it is impossible", |status| {
        let conditions = status["conditions"].to_string();
        conditions.contains("minReadyReplicas is 3, and no group has more than 2 pods")
    });
    world.evict("g0-0").assert_denied(&["job"]);
    world.delete("g0-0").assert_passed();
}

/// Creates `n` groups of two, all Ready. Returns their node.
fn groups(world: &World, n: usize) -> String {
    let node = world.node("n");
    for group in 0..n {
        for i in 0..2 {
            let pod = format!("g{group}-{i}");
            world.pod(&Pod::new(&pod).label("group", &format!("g{group}")).on(&node));
            world.wait_ready(&pod);
        }
    }
    node
}

fn policy() -> Value {
    json!({"groupLabelKey": "group", "minReadyReplicas": 2})
}
