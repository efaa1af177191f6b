use holdfast_api::budget::StatusUpdate;
use holdfast_api::decode::{Decoded, decode};
use holdfast_core::io::Kind;
use holdfast_core::model::{
    Budget, BudgetKind, GroupKind, LabelGroups, Operation, Scope, Target, Threshold,
    UnavailableSpec,
};
use serde_json::{Value, json};

fn read(json: &Value) -> Budget {
    match decode(&Kind::UnavailableBudget, json.to_string().as_bytes()) {
        Ok(Decoded::Budget(budget)) => budget,
        other => panic!("{other:?}\n{json}"),
    }
}

fn with(spec: &Value, annotations: &Value) -> Budget {
    read(&json!({"metadata": {"name": "b", "namespace": "ns", "annotations": annotations},
        "spec": spec}))
}

fn unavailable(budget: Budget) -> UnavailableSpec {
    *budget.spec.unavailable.expect("it is a PodUnavailableBudget")
}

#[test]
fn a_budget_of_the_stored_version_is_read_whole() {
    let budget = read(&json!({
        "apiVersion": "policy.kruise.io/v1beta1",
        "kind": "PodUnavailableBudget",
        "metadata": {"name": "b", "namespace": "ns", "uid": "u", "resourceVersion": "9",
            "generation": 3},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "maxUnavailable": "30%",
            "minAvailable": 2,
            "protectOperations": ["DELETE", "EVICT"],
            "protectTotalReplicas": 15,
            "ignoredPodSelector": {"matchLabels": {"canary": "true"}},
            "podGroupPolicy": {"groupLabelKey": "example.com/group", "minReadyReplicas": 3},
        },
    }));
    assert_eq!(budget.key.kind, BudgetKind::PodUnavailableBudget);
    assert_eq!(budget.key.to_string(), "ns/b");
    assert_eq!((budget.uid.as_str(), &budget.version, budget.generation), ("u", &9.into(), 3));
    assert_eq!(budget.spec.max_unavailable, Some(Threshold::Percent(30)));
    assert_eq!(budget.spec.min_available, Some(Threshold::Count(2)));
    assert_eq!(budget.spec.scope, Scope::Workload);
    assert_eq!(budget.spec.selector.as_ref().map(|s| s.match_labels.len()), Some(1));
    let spec = unavailable(budget);
    assert_eq!(spec.target, None);
    assert_eq!(spec.operations, [Operation::Delete, Operation::Evict].into());
    assert_eq!(spec.total, Some(15));
    assert_eq!(spec.ignored.map(|selector| selector.match_labels.len()), Some(1));
    assert_eq!(spec.groups, Some(LabelGroups { label: "example.com/group".into(), min_ready: 3 }));
}

#[test]
fn the_old_version_has_annotations() {
    let budget = with(
        &json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}),
        &json!({"kruise.io/pub-protect-operations": "DELETE, UPDATE",
            "pub.kruise.io/protect-total-replicas": "15"}),
    );
    assert_eq!(budget.spec.scope, Scope::Pod);
    assert_eq!(budget.spec.selector, None, "a target wins");
    let spec = unavailable(budget);
    let group_kind = GroupKind::new("apps", "Deployment");
    assert_eq!(spec.target, Some(Target { group_kind, name: "web".into() }));
    assert_eq!(
        spec.operations,
        [Operation::Delete, Operation::Update, Operation::Resize].into(),
        "UPDATE includes RESIZE"
    );
    assert_eq!(spec.total, Some(15));
}

#[test]
fn fields_win_over_annotations() {
    let spec = unavailable(with(
        &json!({"protectOperations": ["EVICT"], "protectTotalReplicas": 3}),
        &json!({"kruise.io/pub-protect-operations": "DELETE",
            "pub.kruise.io/protect-total-replicas": "15"}),
    ));
    assert_eq!((spec.operations, spec.total), ([Operation::Evict].into(), Some(3)));
}

#[test]
fn what_is_left_out() {
    for (spec, annotations) in [
        (Value::Null, Value::Null),
        (json!({"protectOperations": [], "selector": {}, "ignoredPodSelector": {}}), Value::Null),
        (json!({}), json!({"kruise.io/pub-protect-operations": ""})),
    ] {
        let budget = with(&spec, &annotations);
        assert_eq!(budget.spec.selector, None, "to Kruise, an empty selector selects nothing");
        assert_eq!(unavailable(budget), UnavailableSpec::default(), "{spec}");
    }
    let groups =
        unavailable(with(&json!({"podGroupPolicy": {"groupLabelKey": "g"}}), &Value::Null));
    assert_eq!(groups.groups, Some(LabelGroups { label: "g".into(), min_ready: 1 }));
}

#[test]
fn what_cannot_be_read_allows_nothing() {
    let none = Value::Null;
    for (spec, annotations, why) in [
        (
            json!({}),
            json!({"kruise.io/pub-protect-operations": "DELETE,SCALE"}),
            r#"invalid kruise.io/pub-protect-operations value "SCALE""#,
        ),
        (
            json!({}),
            json!({"pub.kruise.io/protect-total-replicas": "many"}),
            r#"failed to parse pub.kruise.io/protect-total-replicas: strconv.ParseInt: parsing "many": invalid syntax"#,
        ),
        (
            json!({}),
            json!({"pub.kruise.io/protect-total-replicas": "0"}),
            "pub.kruise.io/protect-total-replicas is 0 and must be at least 1",
        ),
        (
            json!({"protectOperations": ["EVICT", "SCALE"]}),
            none.clone(),
            r#"unknown spec.protectOperations "SCALE""#,
        ),
        (
            json!({"protectTotalReplicas": -1}),
            none.clone(),
            "spec.protectTotalReplicas is -1 and must be at least 1",
        ),
        (
            json!({"podGroupPolicy": {"groupLabelKey": ""}}),
            none.clone(),
            "podGroupPolicy.groupLabelKey is required",
        ),
        (
            json!({"podGroupPolicy": {"groupLabelKey": "g", "minReadyReplicas": 0}}),
            none.clone(),
            "spec.podGroupPolicy.minReadyReplicas is 0 and must be at least 1",
        ),
    ] {
        let mut spec = spec;
        spec["maxUnavailable"] = json!(1);
        let budget = with(&spec, &annotations);
        let invalid = Some(Threshold::Invalid(why.to_owned()));
        assert_eq!((&budget.spec.min_available, &budget.spec.max_unavailable), (&invalid, &None));
        let operations = unavailable(budget).operations;
        assert_eq!(operations, Operation::ALL.iter().copied().collect(), "{why}");
    }
}

/// Returns a status with every field set, so that a field that one direction loses shows.
fn full_status() -> Value {
    json!({
        "observedGeneration": 3,
        "disruptedPods": {"web-0": "2026-11-15T20:00:00Z", "web-9": "2026-11-15T20:00:09Z"},
        "unavailablePods": {"web-1": "2026-11-15T20:00:01Z", "web-2": "2026-11-15T20:00:02Z"},
        "unavailableAllowed": 1,
        "currentAvailable": 3,
        "desiredAvailable": 2,
        "totalReplicas": 4,
        "conditions": [{"type": "DisruptionAllowed", "status": "True", "observedGeneration": 3,
            "lastTransitionTime": "2026-11-15T19:00:00Z", "reason": "SufficientPods",
            "message": ""}],
        "grants": [
            {"pod": "web-0", "uid": "u0", "cost": 1, "time": "2026-11-15T20:00:00Z",
                "operation": "DELETE"},
            {"pod": "web-1", "uid": "u1", "cost": 0, "time": "2026-11-15T20:00:01Z",
                "operation": "UPDATE", "generation": 2},
            {"pod": "web-2", "uid": "u2", "cost": 0, "time": "2026-11-15T20:00:02Z",
                "operation": "RESIZE", "generation": 4},
        ],
        "watermarks": {"pods": "77"},
    })
}

#[test]
fn a_status_survives_the_way_in_and_out() {
    let read = read(&json!({"metadata": {"name": "b", "namespace": "ns", "uid": "u",
        "resourceVersion": "9"}, "status": full_status()}));
    let pods: Vec<_> = read.status.disrupted_pods.keys().collect();
    assert_eq!(pods, ["web-0", "web-1", "web-2", "web-9"], "both maps are grants");
    let counts = [read.status.current_healthy, read.status.current_healthy_replicas];
    assert_eq!(counts, [3, 3], "pods and replicas are one");
    let update = StatusUpdate::new(&read.key, &read.uid, &read.version, &read.status);
    assert_eq!(
        serde_json::to_value(&update).expect("it is JSON"),
        json!({
            "apiVersion": "policy.kruise.io/v1beta1",
            "kind": "PodUnavailableBudget",
            "metadata": {"namespace": "ns", "name": "b", "uid": "u", "resourceVersion": "9"},
            "status": full_status(),
        })
    );
}

#[test]
fn a_pod_in_both_maps_is_disrupted_since_the_later_time() {
    let mut status = full_status();
    status["unavailablePods"]["web-0"] = json!("2026-11-15T21:00:00Z");
    let read = read(&json!({"metadata": {"name": "b"}, "status": status}));
    assert_eq!(read.status.disrupted_pods["web-0"].as_secs(), 1_794_776_400);
}

#[test]
fn the_counts_that_the_schema_requires_are_always_written() {
    let read = read(&json!({"metadata": {"name": "b"}}));
    let update = StatusUpdate::new(&read.key, &read.uid, &read.version, &read.status);
    assert_eq!(
        serde_json::to_value(&update).expect("it is JSON")["status"],
        json!({"unavailableAllowed": 0, "currentAvailable": 0, "desiredAvailable": 0,
            "totalReplicas": 0})
    );
}
