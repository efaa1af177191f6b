use proptest::prelude::*;
use serde_json::{Value, json};

use super::{FieldError, Reason, create, invalid, status_update, update};

/// Requests with the answers of the functions of Kubernetes v1.37.1 for `PodDisruptionBudget`s.
const ANSWERS: &str = include_str!("../../../tests/fixtures/validation.jsonl");

#[test]
fn answers_are_those_of_an_api_server() {
    for line in ANSWERS.lines() {
        let case: Value = serde_json::from_str(line).expect(line);
        let object = &case["object"];
        let errors = match case["op"].as_str() {
            Some("create") => create(object),
            Some("update") => update(object, &case["old"]),
            Some("status") => status_update(object),
            other => panic!("unknown operation {other:?}"),
        };
        let name = object["metadata"]["name"].as_str().expect("a name");
        let mut answer = invalid(name, &errors);
        if errors.is_empty() {
            // No client sends this request, and Go leaves out empty lists.
            answer["details"].as_object_mut().expect("details").remove("causes");
        }
        assert_eq!(answer, case["answer"], "{line}");
    }
}

fn errors(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(|e| format!("{} {}: {}", e.reason.as_str(), e.field, e.message)).collect()
}

#[test]
fn scopes_are_those_that_are_known() {
    for scope in ["Pod", "PodGroup", "Workload"] {
        assert_eq!(create(&json!({"spec": {"budgetScope": scope}})), []);
    }
    for scope in ["", "pod", "Node"] {
        assert_eq!(
            errors(&create(&json!({"spec": {"budgetScope": scope}}))),
            [format!(
                "FieldValueNotSupported spec.budgetScope: Unsupported value: \"{scope}\": \
                 supported values: \"Pod\", \"PodGroup\", \"Workload\""
            )]
        );
    }
    let both = json!({"spec": {"minAvailable": 1, "maxUnavailable": 1, "budgetScope": "Pod"}});
    assert_eq!(
        errors(&create(&both)),
        ["FieldValueInvalid spec: Invalid value: {\"MinAvailable\":1,\"Selector\":null,\
          \"MaxUnavailable\":1,\"UnhealthyPodEvictionPolicy\":null,\"BudgetScope\":\"Pod\"}: \
          minAvailable and maxUnavailable cannot be both set"]
    );
}

#[test]
fn counts_of_replicas_are_not_negative_either() {
    let status = json!({"status": {"disruptionsAllowedReplicas": -1, "expectedReplicas": -2}});
    assert_eq!(
        errors(&status_update(&status)),
        [
            "FieldValueInvalid status.disruptionsAllowedReplicas: Invalid value: -1: \
             must be greater than or equal to 0",
            "FieldValueInvalid status.expectedReplicas: Invalid value: -2: \
             must be greater than or equal to 0",
        ]
    );
}

#[test]
fn messages_are_bounded() {
    let with = |len: usize| {
        json!({"status": {"conditions": [{"type": "A", "status": "True", "reason": "B",
            "lastTransitionTime": "2026-11-15T20:00:00Z", "message": "m".repeat(len)}]}})
    };
    assert_eq!(status_update(&with(32_768)), []);
    assert_eq!(
        status_update(&with(32_769)),
        [FieldError {
            reason: Reason::TooLong,
            field: "status.conditions[0].message".into(),
            message: "Too long: may not be more than 32768 bytes".into(),
        }]
    );
}

#[test]
fn an_error_that_occurs_twice_is_told_once() {
    let error = FieldError {
        reason: Reason::Required,
        field: "spec".into(),
        message: "Required value".into(),
    };
    let answer = invalid("web", &[error.clone(), error]);
    assert_eq!(
        answer["message"],
        "PodDisruptionBudget.policy \"web\" is invalid: spec: Required value"
    );
    assert_eq!(answer["details"]["causes"].as_array().map(Vec::len), Some(2));
}

#[test]
fn wrong_types_are_left_to_the_decoder() {
    for spec in [
        json!(null),
        json!([]),
        json!("x"),
        json!({"minAvailable": 1.5, "selector": 3, "unhealthyPodEvictionPolicy": false}),
        json!({"maxUnavailable": {"a": 1}, "selector": {"matchLabels": {"a": 1}}}),
        json!({"maxUnavailable": 18_446_744_073_709_551_615_u64, "budgetScope": []}),
        json!({"selector": {"matchExpressions": [3]}}),
    ] {
        assert_eq!(create(&json!({"spec": spec})), [], "{spec}");
        assert_eq!(update(&json!({"spec": spec}), &spec), [], "{spec}");
    }
    for status in [json!(null), json!([]), json!({"conditions": {}, "currentHealthy": "-1"})] {
        assert_eq!(status_update(&json!({"status": status})), [], "{status}");
    }
}

/// Returns objects of the fields that the rules read.
fn object() -> impl Strategy<Value = Value> {
    let field = prop::sample::select(vec![
        "spec",
        "status",
        "minAvailable",
        "maxUnavailable",
        "selector",
        "matchLabels",
        "matchExpressions",
        "key",
        "operator",
        "values",
        "budgetScope",
        "conditions",
        "type",
        "reason",
        "lastTransitionTime",
        "observedGeneration",
        "disruptionsAllowed",
    ])
    .prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        field.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(field.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn never_panics(object in object(), part in object()) {
        let wrapped = json!({"spec": part, "status": part});
        for object in [&object, &wrapped] {
            let mut errors = create(object);
            errors.extend(update(object, &wrapped));
            errors.extend(status_update(object));
            invalid("web", &errors);
        }
    }
}
