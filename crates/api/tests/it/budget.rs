use holdfast_api::budget::StatusUpdate;
use holdfast_api::decode::{self, Decoded, decode};
use holdfast_core::io::Kind;
use holdfast_core::model::{
    BasicMinCount, Budget, BudgetStatus, Condition, ConditionStatus, Operator, Scope, Threshold,
    Timestamp, UnhealthyPolicy,
};
use serde_json::{Value, json};

fn budget(json: &Value) -> Budget {
    decode::budget(json.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}\n{json}"))
}

fn with_spec(spec: &Value) -> Budget {
    budget(&json!({"metadata": {"name": "b", "namespace": "ns"}, "spec": spec}))
}

/// Returns a status with every field set, so that a field that one direction loses shows.
fn full_status() -> Value {
    json!({
        "observedGeneration": 3,
        "disruptedPods": {"web-0": "2026-11-15T20:00:00Z"},
        "disruptionsAllowed": 1,
        "currentHealthy": 24,
        "desiredHealthy": 16,
        "expectedPods": 32,
        "disruptionsAllowedReplicas": 1,
        "currentHealthyReplicas": 3,
        "desiredHealthyReplicas": 2,
        "expectedReplicas": 4,
        "conditions": [
            {"type": "DisruptionAllowed", "status": "True", "observedGeneration": 3,
                "lastTransitionTime": "2026-11-15T19:00:00Z", "reason": "SufficientReplicas",
                "message": ""},
            {"type": "example.com/SomebodyElses", "status": "Unknown",
                "lastTransitionTime": "2026-11-15T18:00:00Z", "reason": "Why", "message": "m"},
        ],
        "grants": [{"pod": "web-0", "uid": "u0", "replica": "PodGroup web-0", "cost": 1,
            "requester": "system:serviceaccount:kube-system:drainer",
            "time": "2026-11-15T20:00:00Z", "eviction": "e1", "budgets": ["b", "c"]}],
    })
}

#[test]
fn a_budget_is_read_whole() {
    let budget = budget(&json!({
        "apiVersion": "policy.holdfast.dev/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "ns", "uid": "u", "resourceVersion": "9",
            "generation": 3, "annotations": {"holdfast.dev/basic-group-min-count": "2"}},
        "spec": {
            "minAvailable": "50%",
            "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "gone", "operator": "DoesNotExist"},
                {"key": "odd", "operator": "Gt", "values": ["1"]}]},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "budgetScope": "Workload",
        },
        "status": full_status(),
    }));
    assert_eq!(budget.key.to_string(), "ns/b");
    assert_eq!((budget.uid.as_str(), budget.version, budget.generation), ("u", 9.into(), 3));
    assert_eq!(budget.spec.min_available, Some(Threshold::Percent(50)));
    assert_eq!(budget.spec.max_unavailable, None);
    assert_eq!(budget.spec.unhealthy_policy, UnhealthyPolicy::AlwaysAllow);
    assert_eq!(budget.spec.scope, Scope::Workload);
    assert_eq!(budget.spec.basic_min_count, BasicMinCount::Count(2));
    let selector = budget.spec.selector.expect("it has a selector");
    assert_eq!(selector.match_labels.len(), 1);
    let operators: Vec<_> = selector.match_expressions.into_iter().map(|e| e.operator).collect();
    let odd = Operator::Other("Gt".into());
    assert_eq!(operators, [Operator::In, Operator::DoesNotExist, odd]);
    assert_eq!(budget.status.grants[0].granted_at, Timestamp::from_secs(1_794_772_800));
}

#[test]
fn a_status_survives_the_way_in_and_out() {
    let read =
        budget(&json!({"metadata": {"name": "b", "namespace": "ns"}, "status": full_status()}));
    let update = StatusUpdate::new(&read.key, &read.uid, &read.version, &read.status);
    let written = serde_json::to_value(&update).expect("it is JSON");
    assert_eq!(written["status"], full_status());
}

#[test]
fn a_status_update_carries_its_preconditions_and_every_count() {
    let read = budget(&json!({"metadata":
        {"name": "b", "namespace": "ns", "uid": "u", "resourceVersion": "9"}}));
    let update = StatusUpdate::new(&read.key, &read.uid, &read.version, &read.status);
    let expected = json!({
        "apiVersion": "policy.holdfast.dev/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "ns", "name": "b", "uid": "u", "resourceVersion": "9"},
        "status": {
            "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
            "disruptionsAllowedReplicas": 0, "currentHealthyReplicas": 0,
            "desiredHealthyReplicas": 0, "expectedReplicas": 0,
        },
    });
    assert_eq!(serde_json::to_value(&update).expect("it is JSON"), expected);
}

#[test]
fn conditions_change_at_whole_seconds() {
    let status = BudgetStatus {
        conditions: vec![Condition {
            kind: "DisruptionAllowed".into(),
            status: ConditionStatus::False,
            reason: "InsufficientPods".into(),
            message: String::new(),
            observed_generation: 1,
            last_transition: Timestamp(1_999),
        }],
        ..BudgetStatus::default()
    };
    let written = holdfast_api::budget::PodDisruptionBudgetStatus::from(&status);
    let json = serde_json::to_value(&written).expect("it is JSON");
    assert_eq!(json["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:01Z");
}

#[test]
fn selectors_of_everything_and_of_nothing_differ() {
    assert!(with_spec(&json!({"selector": {}})).spec.selector.is_some());
    assert!(with_spec(&json!({"selector": null})).spec.selector.is_none());
    assert!(with_spec(&json!({})).spec.selector.is_none());
    assert!(with_spec(&Value::Null).spec.selector.is_none());
}

#[test]
fn scopes() {
    for (scope, expected) in [
        (Value::Null, Scope::Pod),
        (json!(""), Scope::Pod),
        (json!("Pod"), Scope::Pod),
        (json!("Workload"), Scope::Workload),
        (json!("PodGroup"), Scope::Workload),
    ] {
        let spec = with_spec(&json!({"budgetScope": scope, "maxUnavailable": 1})).spec;
        assert_eq!(spec.scope, expected, "{scope}");
        assert_eq!(spec.max_unavailable, Some(Threshold::Count(1)), "{scope}");
    }
}

#[test]
fn a_scope_that_we_do_not_know_allows_nothing() {
    let spec = with_spec(&json!({"budgetScope": "Node", "maxUnavailable": 1})).spec;
    let why = Threshold::Invalid("unknown spec.budgetScope \"Node\"".into());
    assert_eq!((spec.min_available, spec.max_unavailable), (Some(why), None));
}

#[test]
fn a_policy_that_we_do_not_know_is_the_strict_one() {
    for policy in [Value::Null, json!(""), json!("IfHealthyBudget"), json!("Sometimes")] {
        let spec = with_spec(&json!({"unhealthyPodEvictionPolicy": policy})).spec;
        assert_eq!(spec.unhealthy_policy, UnhealthyPolicy::IfHealthyBudget, "{policy}");
    }
}

#[test]
fn basic_group_min_count() {
    let unreadable = |text: &str| BasicMinCount::Unreadable(text.into());
    for (value, expected) in [
        (Value::Null, BasicMinCount::Absent),
        (json!("1"), BasicMinCount::Count(1)),
        (json!("0"), unreadable("0")),
        (json!("-1"), unreadable("-1")),
        (json!("two"), unreadable("two")),
        (json!(""), unreadable("")),
    ] {
        let annotations = json!({"holdfast.dev/basic-group-min-count": value});
        let read = budget(&json!({"metadata": {"name": "b", "annotations": annotations}}));
        assert_eq!(read.spec.basic_min_count, expected, "{value}");
    }
}

#[test]
fn built_in_budgets() {
    let json = json!({
        "metadata": {"name": "b", "namespace": "ns", "resourceVersion": "9", "generation": 2},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}},
            "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3,
            "desiredHealthy": 2, "expectedPods": 3, "disruptedPods": {"a": "2026-11-15T20:00:00Z"}},
    });
    let decoded = decode(&Kind::BuiltinBudget, json.to_string().as_bytes());
    let Ok(Decoded::BuiltinBudget(budget)) = decoded else { panic!("{decoded:?}") };
    assert_eq!(budget.key.to_string(), "ns/b");
    assert_eq!((budget.generation, budget.observed_generation), (2, 1));
    assert_eq!((budget.disruptions_allowed, budget.disrupted_pods), (1, 1));
    assert_eq!((budget.current_healthy, budget.desired_healthy), (3, 2));
    assert_eq!(budget.unhealthy_policy, UnhealthyPolicy::AlwaysAllow);
    assert_eq!(budget.selector.expect("it has a selector").match_labels.len(), 1);
}
