//! Which `PodUnavailableBudget`s are refused, and with which messages. The tables have the cases of Kruise's
//! own webhook tests. Where Holdfast decides differently, a comment gives the reason.

use holdfast_api::admission::BudgetReview;
use holdfast_api::decode;
use holdfast_api::unavailable::validate::{create, overlap, update};
use holdfast_core::model::Budget;
use serde_json::{Value, json};

const OPERATIONS: &str = "kruise.io/pub-protect-operations";
const REPLICAS: &str = "pub.kruise.io/protect-total-replicas";

fn object(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "policy.kruise.io/v1beta1",
        "kind": "PodUnavailableBudget",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": spec,
    })
}

/// Returns a valid spec.
fn spec() -> Value {
    json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": "30%"})
}

/// Returns the spec with these fields replaced. `null` removes a field.
fn spec_with(fields: &Value) -> Value {
    let mut spec = spec();
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    spec
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name})
}

fn errors_of(object: &Value) -> Vec<String> {
    create(object).iter().map(ToString::to_string).collect()
}

fn budget(object: &Value) -> Budget {
    decode::unavailable_budget(object.to_string().as_bytes()).expect("it is a budget")
}

#[test]
fn valid_budgets() {
    for fields in [
        json!({}),
        json!({"maxUnavailable": 0}),
        json!({"maxUnavailable": 1}),
        json!({"maxUnavailable": "100%"}),
        json!({"maxUnavailable": null, "minAvailable": 2}),
        json!({"selector": null, "targetRef": deployment("web")}),
        json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}),
        json!({"protectOperations": ["DELETE", "UPDATE", "EVICT", "RESIZE"]}),
        json!({"protectTotalReplicas": 15}),
        json!({"ignoredPodSelector": {"matchLabels": {"canary": "true"}}}),
        json!({"podGroupPolicy": {"groupLabelKey": "example.com/group"}}),
        // With groups both may be set, and both apply.
        json!({"minAvailable": 1, "podGroupPolicy": {"groupLabelKey": "g", "minReadyReplicas": 2}}),
    ] {
        assert_eq!(errors_of(&object("b", &spec_with(&fields))), [""; 0], "{fields}");
    }
}

#[test]
fn invalid_budgets() {
    for (fields, expected) in [
        (
            json!({"selector": null}),
            "spec.selector, targetRef: Required value: no selector or targetRef defined in \
             PodUnavailableBudget",
        ),
        (
            json!({"targetRef": deployment("web")}),
            "spec.selector, targetRef: Required value: selector and targetRef are mutually exclusive",
        ),
        (
            json!({"selector": null, "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment"}}),
            r#"spec.targetRef: Invalid value: {"apiVersion":"apps/v1","kind":"Deployment","name":""}: empty targetRef is not valid for PodUnavailableBudget"#,
        ),
        (
            json!({"selector": null,
                "targetRef": {"apiVersion": "a/b/c", "kind": "Deployment", "name": "web"}}),
            r#"spec.targetRef: Invalid value: {"apiVersion":"a/b/c","kind":"Deployment","name":"web"}: unexpected GroupVersion string: a/b/c"#,
        ),
        (
            json!({"selector": {}}),
            "spec.selector: Invalid value: {}: empty selector is not valid for \
             PodUnavailableBudget.",
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}),
            "spec.selector.matchExpressions[0].values: Required value: must be specified when \
             `operator` is 'In' or 'NotIn'",
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}}),
            "spec.selector.matchExpressions[0].operator: Invalid value: \"Is\": not a valid \
             selector operator",
        ),
        (
            json!({"maxUnavailable": null}),
            "spec.maxUnavailable, minAvailable: Required value: no maxUnavailable or minAvailable \
             defined in PodUnavailableBudget",
        ),
        (
            json!({"minAvailable": 1}),
            "spec.maxUnavailable, minAvailable: Required value: maxUnavailable and minAvailable \
             are mutually exclusive",
        ),
        (
            json!({"maxUnavailable": "101%"}),
            "spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
        ),
        (
            json!({"maxUnavailable": null, "minAvailable": -1}),
            "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            json!({"maxUnavailable": 2_147_483_648_i64}),
            "spec.maxUnavailable: Invalid value: 2147483648: must be a valid int32",
        ),
        (
            json!({"maxUnavailable": "some"}),
            "spec.maxUnavailable: Invalid value: \"some\": a valid percent string must be a numeric \
             string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is \
             '[0-9]+%')",
        ),
        (
            json!({"protectOperations": ["DELETE", "SCALE"]}),
            r#"spec.protectOperations[1]: Unsupported value: "SCALE": supported values: "DELETE", "EVICT", "RESIZE", "UPDATE""#,
        ),
        (
            json!({"protectTotalReplicas": 0}),
            "spec.protectTotalReplicas: Invalid value: 0: must be greater than or equal to 1",
        ),
        (
            json!({"ignoredPodSelector": {}}),
            "spec.ignoredPodSelector: Invalid value: {}: empty ignoredPodSelector is not valid for \
             PodUnavailableBudget",
        ),
        (
            json!({"podGroupPolicy": {"groupLabelKey": ""}}),
            "spec.podGroupPolicy.groupLabelKey: Required value: podGroupPolicy.groupLabelKey is \
             required",
        ),
        (
            json!({"podGroupPolicy": {"groupLabelKey": "Example.com/group"}}),
            "spec.podGroupPolicy.groupLabelKey: Invalid value: \"Example.com/group\": prefix part a \
             lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
             '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
             used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        (
            json!({"podGroupPolicy": {"groupLabelKey": "g", "minReadyReplicas": 0}}),
            "spec.podGroupPolicy.minReadyReplicas: Invalid value: 0: must be greater than or equal \
             to 1",
        ),
    ] {
        assert_eq!(errors_of(&object("b", &spec_with(&fields))), [expected], "{fields}");
    }
}

#[test]
fn all_that_is_wrong_is_said() {
    let errors = errors_of(&object("b", &json!({"selector": {}, "ignoredPodSelector": {}})));
    assert_eq!(errors.len(), 3, "{errors:?}");
}

#[test]
fn annotations() {
    let field = |key: &str, why: &str| format!("metadata.annotations[{key}]: Invalid value: {why}");
    for (annotations, fields, expected) in [
        (json!({REPLICAS: "15"}), json!({}), None),
        (json!({REPLICAS: "15"}), json!({"protectTotalReplicas": 15}), None),
        (
            json!({REPLICAS: "15"}),
            json!({"protectTotalReplicas": 3}),
            Some(field(REPLICAS, "\"15\": must match spec.protectTotalReplicas when both are set")),
        ),
        (
            json!({REPLICAS: "many"}),
            json!({}),
            Some(field(REPLICAS, "\"many\": must be a valid int32")),
        ),
        // Kruise accepts it, although the budget then protects nothing.
        (
            json!({REPLICAS: "0"}),
            json!({}),
            Some(field(REPLICAS, "\"0\": must be greater than or equal to 1")),
        ),
        (json!({OPERATIONS: "DELETE,UPDATE"}), json!({}), None),
        (json!({OPERATIONS: ""}), json!({}), None),
        // Kruise accepts it on a v1beta1 object, although it counts there.
        (
            json!({OPERATIONS: "delete"}),
            json!({}),
            Some(field(
                OPERATIONS,
                "\"delete\": annotation[kruise.io/pub-protect-operations] is invalid",
            )),
        ),
        (json!({OPERATIONS: "delete"}), json!({"protectOperations": ["DELETE"]}), None),
    ] {
        let mut object = object("b", &spec_with(&fields));
        object["metadata"]["annotations"] = annotations.clone();
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(errors_of(&object), expected, "{annotations} {fields}");
    }
}

#[test]
fn what_cannot_be_changed() {
    let selected = object("b", &spec());
    let targeted =
        object("b", &spec_with(&json!({"selector": null, "targetRef": deployment("web")})));
    let with = |fields: Value| object("b", &spec_with(&fields));
    let refused =
        "spec.selector, targetRef: Required value: selector and targetRef cannot be modified";
    for (old, new, expected) in [
        (&selected, with(json!({"maxUnavailable": 3, "protectOperations": ["EVICT"]})), None),
        (&selected, with(json!({"selector": {"matchLabels": {"app": "db"}}})), Some(refused)),
        (&selected, targeted.clone(), Some(refused)),
        (&targeted, with(json!({"selector": null, "targetRef": deployment("db")})), Some(refused)),
        (&targeted, targeted.clone(), None),
        (
            &selected,
            with(json!({"selector": {"matchLabels": {"app": "web"}, "matchExpressions": []}})),
            None,
        ),
    ] {
        let errors: Vec<_> = update(&new, old).iter().map(ToString::to_string).collect();
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(errors, expected, "{new}");
    }
}

#[test]
fn conflicts_with_others() {
    let selecting = |name: &str, labels: Value| {
        object(name, &json!({"selector": {"matchLabels": labels}, "maxUnavailable": 1}))
    };
    let targeting = |name: &str, target: Value| {
        object(name, &json!({"targetRef": target, "maxUnavailable": 1}))
    };
    let web = selecting("web", json!({"app": "web"}));
    let deployment_web = targeting("web", deployment("web"));
    let selector_conflict = Some(
        r#"spec.selector: Invalid value: {"matchLabels":{"app":"web"}}: pub.spec.selector is in conflict with other PodUnavailableBudget other"#,
    );
    let beta = json!({"apiVersion": "apps/v1beta1", "kind": "Deployment", "name": "web"});
    let clone_set =
        json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"});
    for (new, other, expected, why) in [
        (&web, selecting("other", json!({"app": "web"})), selector_conflict, "the same"),
        (&web, selecting("other", json!({"app": "db"})), None, "another value"),
        (&web, selecting("other", json!({"tier": "x"})), None, "nobody can tell"),
        // Kruise compares only selectors with exactly the same keys.
        (
            &web,
            selecting("other", json!({"app": "web", "tier": "x"})),
            selector_conflict,
            "every pod of it is one of ours",
        ),
        (&web, web.clone(), None, "it is the same budget"),
        (&web, targeting("other", deployment("web")), None, "nobody knows the target's pods"),
        (
            &deployment_web,
            targeting("other", beta),
            Some(
                r#"spec.targetReference: Invalid value: {"apiVersion":"apps/v1","kind":"Deployment","name":"web"}: pub.spec.targetReference is in conflict with other PodUnavailableBudget other"#,
            ),
            "versions are one",
        ),
        (&deployment_web, targeting("other", deployment("db")), None, "another name"),
        (&deployment_web, targeting("other", clone_set), None, "another kind"),
    ] {
        let found = overlap(new, [&budget(&other)]).map(|error| error.to_string());
        assert_eq!(found.as_deref(), expected, "{why}");
    }
    let mut elsewhere = selecting("other", json!({"app": "web"}));
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    assert_eq!(overlap(&web, [&budget(&elsewhere)]), None, "in another namespace");
    let pdb = decode::budget(elsewhere.to_string().replace("elsewhere", "shop").as_bytes());
    assert_eq!(overlap(&web, [&pdb.expect("it reads as one")]), None, "a PodDisruptionBudget");
}

fn review(operation: &str, old: &Value, new: &Value) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "r1",
            "resource": {"group": "policy.kruise.io", "version": "v1beta1",
                "resource": "podunavailablebudgets"},
            "name": "b",
            "namespace": "shop",
            "operation": operation,
            "object": new,
            "oldObject": old,
        },
    })
}

/// Returns None if the object is allowed.
fn refusal(review: &Value, others: &[Budget]) -> Option<String> {
    let parsed = BudgetReview::parse(review.to_string().as_bytes()).expect("it is a review");
    assert_eq!(parsed.namespace, "shop");
    let answer = serde_json::to_value(parsed.answer(others)).expect("it is JSON");
    assert_eq!(answer["response"]["uid"], "r1");
    if answer["response"]["allowed"] == true {
        assert_eq!(answer["response"]["status"], Value::Null);
        return None;
    }
    assert_eq!(answer["response"]["status"]["code"], 400);
    answer["response"]["status"]["message"].as_str().map(str::to_owned)
}

#[test]
fn reviews() {
    let alpha = |annotations: Value, spec: &Value| {
        let mut object = object("b", spec);
        object["apiVersion"] = json!("policy.kruise.io/v1alpha1");
        object["metadata"]["annotations"] = annotations;
        object
    };
    let (good, bad) = (object("b", &spec()), object("b", &spec_with(&json!({"minAvailable": 1}))));
    let moved = object("b", &spec_with(&json!({"selector": {"matchLabels": {"app": "db"}}})));
    let exclusive = "spec.maxUnavailable, minAvailable: Required value: maxUnavailable and \
                     minAvailable are mutually exclusive";
    let fixed =
        "spec.selector, targetRef: Required value: selector and targetRef cannot be modified";
    let mut later = good.clone();
    later["apiVersion"] = json!("policy.kruise.io/v1");
    let none = Value::Null;
    for (review, expected) in [
        (review("CREATE", &none, &good), None),
        (review("CREATE", &none, &bad), Some(exclusive)),
        (review("CREATE", &none, &alpha(json!({OPERATIONS: "DELETE"}), &spec())), None),
        (review("CREATE", &none, &alpha(json!({}), &bad["spec"])), Some(exclusive)),
        (
            review("CREATE", &none, &alpha(json!({OPERATIONS: "SCALE"}), &spec())),
            Some(
                r#"failed to convert v1alpha1 PUB to v1beta1: invalid kruise.io/pub-protect-operations value "SCALE""#,
            ),
        ),
        (
            review("CREATE", &none, &alpha(json!({REPLICAS: "x"}), &spec())),
            Some(
                r#"failed to convert v1alpha1 PUB to v1beta1: failed to parse pub.kruise.io/protect-total-replicas: strconv.ParseInt: parsing "x": invalid syntax"#,
            ),
        ),
        (review("CREATE", &none, &later), Some("unsupported version: v1")),
        (review("UPDATE", &good, &good), None),
        (review("UPDATE", &good, &moved), Some(fixed)),
        (review("UPDATE", &alpha(json!({}), &spec()), &moved), Some(fixed)),
        (review("UPDATE", &alpha(json!({}), &spec()), &good), None),
        // An object from before the webhook can be corrected.
        (
            review(
                "UPDATE",
                &alpha(json!({OPERATIONS: "SCALE"}), &spec()),
                &alpha(json!({}), &spec()),
            ),
            None,
        ),
        (review("UPDATE", &alpha(json!({OPERATIONS: "SCALE"}), &spec()), &moved), Some(fixed)),
        (review("DELETE", &bad, &none), None),
    ] {
        assert_eq!(refusal(&review, &[]).as_deref(), expected, "{review}");
    }
    let status = {
        let mut review = review("UPDATE", &good, &bad);
        review["request"]["subResource"] = json!("status");
        review
    };
    assert_eq!(refusal(&status, &[]), None);
}

#[test]
fn an_old_version_drops_nothing() {
    let alpha = |fields: Option<&str>, spec: &Value| {
        let mut object = object("b", spec);
        object["apiVersion"] = json!("policy.kruise.io/v1alpha1");
        object["metadata"]["annotations"] = json!({"pub.kruise.io/v1beta1-fields": fields});
        object
    };
    let carried = r#"{"ignoredPodSelector":{"matchLabels":{"a":"b"}},"podGroupPolicy":{"groupLabelKey":"g"}}"#;
    let old = alpha(Some(carried), &spec());
    let refused = |new: &Value| refusal(&review("UPDATE", &old, new), &[]);
    assert_eq!(refused(&old), None);
    let bare = refused(&alpha(None, &spec())).expect("it drops two fields");
    for field in ["spec.ignoredPodSelector: Forbidden", "spec.podGroupPolicy: Forbidden"] {
        assert!(bare.contains(field), "{bare}");
    }
    let policy = spec_with(&json!({"podGroupPolicy": {"groupLabelKey": "g"}}));
    let half = refused(&alpha(None, &policy)).expect("it drops one");
    assert!(!half.contains("podGroupPolicy") && half.contains("ignoredPodSelector"), "{half}");
    // A client that knows the fields may remove them.
    assert_eq!(refused(&object("b", &spec())), None);
}

#[test]
fn a_budget_that_goes_is_not_held_back() {
    let mut going = object("b", &json!({}));
    going["metadata"]["deletionTimestamp"] = json!("2026-11-15T20:00:00Z");
    assert_eq!(refusal(&review("UPDATE", &object("b", &spec()), &going), &[]), None);
}

#[test]
fn a_refusal_names_every_field_and_the_budget_in_the_way() {
    let other = budget(&object("other", &spec()));
    let both = object("b", &spec_with(&json!({"minAvailable": 1})));
    let refused = refusal(&review("CREATE", &Value::Null, &both), std::slice::from_ref(&other));
    assert_eq!(
        refused.as_deref(),
        Some(
            r#"[spec.maxUnavailable, minAvailable: Required value: maxUnavailable and minAvailable are mutually exclusive, spec.selector: Invalid value: {"matchLabels":{"app":"web"}}: pub.spec.selector is in conflict with other PodUnavailableBudget other]"#
        )
    );
    let body = review("CREATE", &Value::Null, &both).to_string();
    let answer = BudgetReview::parse(body.as_bytes()).expect("it is a review").answer([&other]);
    let answer = serde_json::to_value(answer).expect("it is JSON");
    let fields: Vec<_> = answer["response"]["status"]["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| (cause["field"].clone(), cause["reason"].clone()))
        .collect();
    assert_eq!(
        fields,
        [
            (json!("spec.maxUnavailable, minAvailable"), json!("FieldValueRequired")),
            (json!("spec.selector"), json!("FieldValueInvalid")),
        ]
    );
}

#[test]
fn what_is_no_budget_is_not_answered() {
    let mut pods = review("CREATE", &Value::Null, &object("b", &spec()));
    pods["request"]["resource"]["resource"] = json!("pods");
    let missing = review("CREATE", &Value::Null, &Value::Null);
    for (body, expected) in [
        (pods, r#"request.resource: "pods" is not podunavailablebudgets"#),
        (missing, "request.object: is missing"),
    ] {
        let error = BudgetReview::parse(body.to_string().as_bytes()).expect_err("it is wrong");
        assert_eq!(error.to_string(), format!("cannot read AdmissionReview: {expected}"));
    }
}
