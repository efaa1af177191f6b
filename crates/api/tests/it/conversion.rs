//! Conversion between `v1alpha1` and `v1beta1`: no client loses fields.

use holdfast_api::decode;
use holdfast_api::unavailable::convert::convert;
use holdfast_core::model::{BudgetSpec, Threshold};
use proptest::prelude::*;
use serde_json::{Value, json};

const ALPHA: &str = "policy.kruise.io/v1alpha1";
const BETA: &str = "policy.kruise.io/v1beta1";
const OPERATIONS: &str = "kruise.io/pub-protect-operations";
const REPLICAS: &str = "pub.kruise.io/protect-total-replicas";
const FIELDS: &str = "pub.kruise.io/v1beta1-fields";

fn review(wanted: &str, objects: &[Value]) -> Value {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "r1", "desiredAPIVersion": wanted, "objects": objects},
    });
    let answer = convert(review.to_string().as_bytes());
    assert_eq!(answer["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(answer["kind"], "ConversionReview");
    assert_eq!(answer["response"]["uid"], "r1");
    answer["response"].clone()
}

fn to(wanted: &str, object: &Value) -> Value {
    let response = review(wanted, std::slice::from_ref(object));
    assert_eq!(response["result"], json!({"status": "Success"}), "{object}");
    response["convertedObjects"][0].clone()
}

fn failure(wanted: &str, object: &Value) -> String {
    let response = review(wanted, std::slice::from_ref(object));
    assert_eq!(response["result"]["status"], "Failure", "{object}");
    assert_eq!(response["convertedObjects"], Value::Null);
    response["result"]["message"].as_str().expect("it says why").to_owned()
}

fn object(version: &str, annotations: &Value, spec: &Value) -> Value {
    json!({
        "apiVersion": version,
        "kind": "PodUnavailableBudget",
        "metadata": {"name": "b", "namespace": "ns", "uid": "u", "annotations": annotations,
            "labels": {"l": "1"}},
        "spec": spec,
        "status": {"unavailableAllowed": 1, "currentAvailable": 3, "desiredAvailable": 2,
            "totalReplicas": 3, "unavailablePods": {"p": "2026-11-15T20:00:00Z"}},
    })
}

/// Returns the decoded spec of the budget.
fn meaning(object: &Value) -> BudgetSpec {
    decode::unavailable_budget(object.to_string().as_bytes()).expect("it is a budget").spec
}

#[test]
fn annotations_become_fields() {
    let old = json!({OPERATIONS: "DELETE, EVICT,", REPLICAS: "15", "note": "n"});
    let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    let new = to(BETA, &object(ALPHA, &old, &spec));
    let mut expected = spec;
    expected["protectOperations"] = json!(["DELETE", "EVICT"]);
    expected["protectTotalReplicas"] = json!(15);
    assert_eq!(new, object(BETA, &old, &expected), "the annotations stay");
}

#[test]
fn fields_become_annotations() {
    let ignored = json!({"matchLabels": {"canary": "true"}});
    let groups = json!({"groupLabelKey": "g", "minReadyReplicas": 2});
    let spec = json!({"maxUnavailable": 1, "protectOperations": ["DELETE", "EVICT"],
        "protectTotalReplicas": 15, "ignoredPodSelector": ignored, "podGroupPolicy": groups});
    let old = to(ALPHA, &object(BETA, &json!({OPERATIONS: "UPDATE"}), &spec));
    assert_eq!(old["spec"], json!({"maxUnavailable": 1, "podGroupPolicy": groups}));
    let annotations = &old["metadata"]["annotations"];
    assert_eq!(annotations[OPERATIONS], "DELETE,EVICT", "the field wins");
    assert_eq!(annotations[REPLICAS], "15");
    let carried: Value =
        serde_json::from_str(annotations[FIELDS].as_str().expect("a string")).expect("JSON");
    assert_eq!(carried, json!({"ignoredPodSelector": ignored, "podGroupPolicy": groups}));
}

/// Kruise deletes an annotation if its field is empty, although the annotation counts on a `v1beta1` object.
#[test]
fn an_annotation_that_counts_is_kept() {
    let new = object(BETA, &json!({OPERATIONS: "DELETE", REPLICAS: "7"}), &json!({}));
    let old = to(ALPHA, &new);
    assert_eq!(old["metadata"]["annotations"], json!({OPERATIONS: "DELETE", REPLICAS: "7"}));
    assert_eq!(meaning(&to(BETA, &old)), meaning(&new));
}

/// A Go client with Kruise's types drops the fields that it does not know.
#[test]
fn an_old_client_that_writes_what_it_read_drops_nothing() {
    let spec = json!({"maxUnavailable": 1, "ignoredPodSelector": {"matchLabels": {"a": "b"}},
        "podGroupPolicy": {"groupLabelKey": "g", "minReadyReplicas": 2}});
    let new = object(BETA, &json!({}), &spec);
    let mut old = to(ALPHA, &new);
    old["spec"] = json!({"maxUnavailable": 2});
    let mut expected = new;
    expected["spec"]["maxUnavailable"] = json!(2);
    assert_eq!(to(BETA, &old), expected);
}

#[test]
fn a_client_that_knows_groups_can_change_them_in_the_old_version() {
    let spec = json!({"podGroupPolicy": {"groupLabelKey": "g"}});
    let mut old = to(ALPHA, &object(BETA, &json!({}), &spec));
    old["spec"]["podGroupPolicy"]["groupLabelKey"] = json!("h");
    assert_eq!(to(BETA, &old)["spec"]["podGroupPolicy"]["groupLabelKey"], "h");
}

#[test]
fn an_operation_that_is_taken_off_the_list_is_off_it() {
    let mut old = to(ALPHA, &object(BETA, &json!({}), &json!({"protectOperations": ["DELETE"]})));
    old["metadata"]["annotations"] = json!({});
    assert_eq!(to(BETA, &old)["spec"], json!({}));
}

#[test]
fn objects_of_the_wanted_version_are_left_alone() {
    for version in [ALPHA, BETA] {
        let object = object(version, &json!({FIELDS: "?"}), &json!({"protectOperations": ["?"]}));
        assert_eq!(to(version, &object), object);
    }
    assert_eq!(review(BETA, &[])["convertedObjects"], json!([]));
}

/// Kruise fails here, and with one such object every list of the kind fails. The validating webhook refuses
/// such an object, with Kruise's message.
#[test]
fn a_budget_that_cannot_be_read_keeps_no_others_from_being_listed_and_allows_nothing() {
    for (annotations, why) in [
        (
            json!({OPERATIONS: "DELETE,SCALE"}),
            r#"invalid kruise.io/pub-protect-operations value "SCALE""#,
        ),
        (json!({REPLICAS: "many"}), "failed to parse pub.kruise.io/protect-total-replicas: "),
        (json!({FIELDS: "{"}), "failed to parse pub.kruise.io/v1beta1-fields: "),
        // No schema checks these.
        (
            json!({FIELDS: r#"{"podGroupPolicy":{"groupLabelKey":5}}"#}),
            "failed to parse pub.kruise.io/v1beta1-fields: ",
        ),
        (
            json!({FIELDS: r#"{"ignoredPodSelector":"app"}"#}),
            "failed to parse pub.kruise.io/v1beta1-fields: ",
        ),
    ] {
        let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}});
        let written = object(ALPHA, &annotations, &spec);
        let read = to(BETA, &written);
        assert_eq!(read["metadata"]["annotations"], annotations);
        let budget = decode::unavailable_budget(read.to_string().as_bytes()).expect("it is read");
        let Some(Threshold::Invalid(said)) = budget.spec.min_available else {
            panic!("{annotations} must allow nothing");
        };
        assert!(said.starts_with(why), "{said}");
        assert_eq!(budget.spec.max_unavailable, None);
    }
}

#[test]
fn what_cannot_be_converted() {
    let with = |annotations: Value| object(ALPHA, &annotations, &json!({}));
    assert_eq!(
        failure("policy.kruise.io/v1", &with(json!({}))),
        r#"cannot convert PodUnavailableBudget from "policy.kruise.io/v1alpha1" to "policy.kruise.io/v1""#
    );
    assert!(failure(BETA, &json!(7)).starts_with("cannot convert"), "not even an object");
    let answer = convert(b"nonsense");
    assert_eq!(answer["response"]["result"]["status"], "Failure");
}

fn operations() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(vec!["DELETE", "UPDATE", "EVICT", "RESIZE"]), 0..4)
}

fn selector() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        "[a-c]".prop_map(|value| json!({"matchLabels": {"app": value}})),
        "[a-c]".prop_map(
            |key| json!({"matchExpressions": [{"key": key, "operator": "In", "values": ["x"]}]})
        ),
    ]
}

/// Returns fields that both versions have.
fn common() -> impl Strategy<Value = Value> {
    let groups = prop::option::of(
        (1..4)
            .prop_map(|min| json!({"groupLabelKey": "example.com/group", "minReadyReplicas": min})),
    );
    (prop::option::of(selector()), prop::option::of(0..5_i64), groups).prop_map(
        |(selector, max, groups)| {
            let mut spec = json!({});
            let fields = [
                ("selector", selector),
                ("maxUnavailable", max.map(Value::from)),
                ("podGroupPolicy", groups),
            ];
            for (field, value) in fields {
                if let Some(value) = value {
                    spec[field] = value;
                }
            }
            spec
        },
    )
}

/// Returns lists as users write them.
fn list() -> impl Strategy<Value = String> {
    let separator = prop::sample::select(vec![",", ", ", " ,", ",,"]);
    (operations(), separator).prop_map(|(names, separator)| names.join(separator))
}

fn annotations() -> impl Strategy<Value = Value> {
    let total = prop_oneof![(1..9_i64).prop_map(|n| n.to_string()), Just("+7".to_owned())];
    (prop::option::of(list()), prop::option::of(total)).prop_map(|(operations, total)| {
        let mut annotations = json!({"note": "n"});
        for (key, value) in [(OPERATIONS, operations), (REPLICAS, total)] {
            if let Some(value) = value {
                annotations[key] = json!(value);
            }
        }
        annotations
    })
}

fn beta() -> impl Strategy<Value = Value> {
    (
        common(),
        operations(),
        prop::option::of(1..20_i64),
        prop::option::of(selector()),
        annotations(),
    )
        .prop_map(|(mut spec, operations, total, ignored, annotations)| {
            if !operations.is_empty() {
                spec["protectOperations"] = json!(operations);
            }
            if let Some(total) = total {
                spec["protectTotalReplicas"] = json!(total);
            }
            if let Some(ignored) = ignored {
                spec["ignoredPodSelector"] = ignored;
            }
            object(BETA, &annotations, &spec)
        })
}

proptest! {
    #[test]
    fn there_and_back_from_the_old_version(spec in common(), annotations in annotations()) {
        let old = object(ALPHA, &annotations, &spec);
        let new = to(BETA, &old);
        prop_assert_eq!(meaning(&new), meaning(&old));
        let mut back = to(ALPHA, &new);
        if let Some(annotations) = back["metadata"]["annotations"].as_object_mut() {
            prop_assert_eq!(annotations.remove(FIELDS).is_some(), !spec["podGroupPolicy"].is_null());
        }
        prop_assert_eq!(back, old);
    }

    #[test]
    fn there_and_back_from_the_new_version(new in beta()) {
        let old = to(ALPHA, &new);
        let back = to(BETA, &old);
        prop_assert_eq!(meaning(&back), meaning(&new));
        // Annotations without a field get a field, and fields without an annotation get one.
        for field in ["selector", "maxUnavailable", "ignoredPodSelector", "podGroupPolicy"] {
            prop_assert_eq!(&back["spec"][field], &new["spec"][field], "{}", field);
        }
        for field in ["protectOperations", "protectTotalReplicas"] {
            if !new["spec"][field].is_null() {
                prop_assert_eq!(&back["spec"][field], &new["spec"][field], "{}", field);
            }
        }
        prop_assert_eq!(&back["metadata"]["annotations"]["note"], "n");
        prop_assert_eq!(&back["metadata"]["annotations"][FIELDS], &Value::Null);
        prop_assert_eq!(&back["status"], &new["status"]);
    }
}
