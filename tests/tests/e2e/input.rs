//! Invalid budgets.

use holdfast_e2e::world::World;
use serde_json::{Value, json};

pub fn each_rule_of_the_schema_names_its_field() {
    let world = World::new("schema");
    let expression = |requirement: Value| json!({"minAvailable": 1, "selector": {"matchExpressions": [requirement]}});
    let percent = "a valid percent string must be a numeric string followed by an ending '%'";
    let key = "keys of matchLabels must be label keys";
    let cases: [(&str, Value, &str); 15] = [
        (
            "spec",
            json!({"minAvailable": 1, "maxUnavailable": 1}),
            "minAvailable and maxUnavailable cannot be both set",
        ),
        ("spec.minAvailable", json!({"minAvailable": "half"}), percent),
        ("spec.maxUnavailable", json!({"maxUnavailable": "50"}), percent),
        ("spec.minAvailable", json!({"minAvailable": "101%"}), "must not be greater than 100%"),
        (
            "spec.maxUnavailable",
            json!({"maxUnavailable": "1000%"}),
            "must not be greater than 100%",
        ),
        ("spec.minAvailable", json!({"minAvailable": -1}), "must be greater than or equal to 0"),
        (
            "spec.maxUnavailable",
            json!({"maxUnavailable": -1}),
            "must be greater than or equal to 0",
        ),
        (
            "spec.minAvailable",
            json!({"minAvailable": 2_147_483_648_i64}),
            "must be less than or equal to 2147483647",
        ),
        (
            "spec.maxUnavailable",
            json!({"maxUnavailable": 2_147_483_648_i64}),
            "must be less than or equal to 2147483647",
        ),
        (
            "spec.budgetScope",
            json!({"minAvailable": 1, "budgetScope": "Node"}),
            "supported values: \"Pod\", \"Workload\", \"PodGroup\"",
        ),
        (
            "spec.unhealthyPodEvictionPolicy",
            json!({"minAvailable": 1, "unhealthyPodEvictionPolicy": "Never"}),
            "supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
        ),
        (
            "spec.selector.matchLabels",
            json!({"minAvailable": 1, "selector": {"matchLabels": {"no spaces": "x"}}}),
            key,
        ),
        (
            "spec.selector.matchExpressions[0].values",
            expression(json!({"key": "app", "operator": "In"})),
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            "spec.selector.matchExpressions[0].values",
            expression(json!({"key": "app", "operator": "Exists", "values": ["x"]})),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (
            "spec.selector.matchExpressions[0].operator",
            expression(json!({"key": "app", "operator": "Like"})),
            "supported values",
        ),
    ];
    for (field, spec, words) in cases {
        let answer = world.try_budget("wrong", spec.clone());
        assert_eq!(answer.code, 422, "{spec}: {:#}", answer.body);
        let causes = answer.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        let named = causes.iter().any(|cause| {
            cause["field"] == field && cause["message"].as_str().is_some_and(|m| m.contains(words))
        });
        assert!(named, "no cause at {field} with {words:?}: {:#}", answer.body);
        assert!(answer.message().contains(field), "{}", answer.message());
    }
    for (n, spec) in [
        json!({"minAvailable": 0}),
        json!({"minAvailable": "0%", "budgetScope": "Pod"}),
        json!({"maxUnavailable": "100%", "budgetScope": "Workload"}),
        json!({"maxUnavailable": 2_147_483_647, "budgetScope": "PodGroup"}),
        json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = world.try_budget(&format!("right-{n}"), spec);
        assert_eq!(answer.code, 201, "{:#}", answer.body);
    }
}
