use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_api::admission::{EvictionReview, Pin, ReviewAnswer};
use holdfast_core::model::{BudgetKey, Timestamp};
use holdfast_core::verdict::{AllowReason, Allowed, Cause, Denial, DenyReason, Verdict};
use serde_json::{Value, json};

/// Returns the review that an API server sends for `kubectl drain`.
fn review() -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "r1",
            "kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": "eviction",
            "requestKind": {"group": "policy", "version": "v1", "kind": "Eviction"},
            "name": "web-0",
            "namespace": "shop",
            "operation": "CREATE",
            "userInfo": {"username": "drainer", "groups": ["system:authenticated"]},
            "object": {
                "kind": "Eviction",
                "apiVersion": "policy/v1",
                "metadata": {"name": "web-0", "namespace": "shop", "creationTimestamp": null},
                "deleteOptions": {"gracePeriodSeconds": 30},
            },
            "oldObject": null,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut review = review();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    review.pointer_mut(parent).expect(pointer)[key] = value;
    review
}

fn parse(review: &Value) -> EvictionReview {
    EvictionReview::parse(review.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e}\n{review}"))
}

#[test]
fn an_eviction_is_read() {
    let eviction = parse(&review()).into_eviction(Timestamp(7));
    assert_eq!(eviction.id, "r1");
    assert_eq!(eviction.pod.to_string(), "shop/web-0");
    assert_eq!(eviction.requester, "drainer");
    assert_eq!((eviction.uid, eviction.dry_run), (None, false));
    assert_eq!(eviction.deadline, Timestamp(7));
}

#[test]
fn old_and_bare_bodies_are_read_too() {
    for body in [
        with("/request/object/apiVersion", json!("policy/v1beta1")),
        with("/request/object/kind", Value::Null),
        with("/request/object/metadata", Value::Null),
        with("/request/object/metadata/name", json!("")),
        with("/request/object/deleteOptions", Value::Null),
        with("/request/name", Value::Null),
        with("/request/namespace", json!("")),
        with("/request/userInfo/extra", json!({"a": ["b"]})),
    ] {
        assert_eq!(parse(&body).pod.to_string(), "shop/web-0", "{body}");
    }
}

#[test]
fn a_dry_run_is_asked_for_in_either_place() {
    for (body, expected) in [
        (with("/request/dryRun", json!(true)), true),
        (with("/request/object/deleteOptions", json!({"dryRun": ["All"]})), true),
        (with("/request/object/deleteOptions", json!({"dryRun": []})), false),
        (with("/request/object/deleteOptions", json!({"dryRun": null})), false),
        (with("/request/dryRun", Value::Null), false),
    ] {
        assert_eq!(parse(&body).dry_run, expected, "{body}");
    }
}

#[test]
fn the_uid_precondition_is_read() {
    for (preconditions, expected) in [
        (json!({"uid": "u"}), Some("u")),
        (json!({"uid": ""}), None),
        (json!({"resourceVersion": "9"}), None),
        (Value::Null, None),
    ] {
        let options = json!({"preconditions": preconditions});
        let body = with("/request/object/deleteOptions", options);
        assert_eq!(parse(&body).precondition_uid.as_deref(), expected, "{body}");
    }
}

#[test]
fn an_error_names_the_field() {
    let mut nameless = with("/request/name", json!(""));
    nameless["request"]["object"]["metadata"]["name"] = json!("");
    let mut homeless = with("/request/namespace", json!(""));
    homeless["request"]["object"]["metadata"]["namespace"] = json!("");
    let cases = [
        (json!({}), "request", None),
        (json!({"request": null}), "request", None),
        (with("/request/uid", json!("")), "request.uid", None),
        // The uid is written to logs without escaping.
        (with("/request/uid", json!("r1\nr2")), "request.uid", None),
        (with("/request/uid", json!("r 1")), "request.uid", None),
        (with("/request/uid", json!("r\u{202e}1")), "request.uid", None),
        (with("/request/subResource", json!("")), "request.subResource", Some("r1")),
        (with("/request/resource/resource", json!("nodes")), "request.subResource", Some("r1")),
        (with("/request/object", Value::Null), "request.object", Some("r1")),
        (with("/request/object/kind", json!("Pod")), "request.object.kind", Some("r1")),
        (
            with("/request/object/metadata/name", json!("web-1")),
            "request.object.metadata.name",
            Some("r1"),
        ),
        (nameless, "request.name", Some("r1")),
        (homeless, "request.namespace", Some("r1")),
        (with("/request/dryRun", json!("yes")), "request.dryRun", Some("r1")),
        (
            with("/request/object/deleteOptions", json!({"dryRun": "All"})),
            "request.object.deleteOptions.dryRun",
            Some("r1"),
        ),
    ];
    for (body, field, uid) in cases {
        let error = EvictionReview::parse(body.to_string().as_bytes()).expect_err(field);
        assert_eq!((error.field.as_str(), error.uid.as_deref()), (field, uid), "{error}");
    }
    for body in ["", "[]", "null", "{\"request\":"] {
        EvictionReview::parse(body.as_bytes()).expect_err(body);
    }
}

/// An allowed answer pins the eviction to the pod, in each form of the request.
#[test]
fn allowed() {
    const UID: &str = "d6f2";
    let at = |path: &str, value: Value| Some(json!([{"op": "add", "path": path, "value": value}]));
    let cases = [
        (Pin::Given, Some(UID), None),
        (Pin::Given, None, None),
        (Pin::Preconditions, Some(UID), at("/deleteOptions/preconditions/uid", json!(UID))),
        (Pin::DeleteOptions, Some(UID), at("/deleteOptions/preconditions", json!({"uid": UID}))),
        (Pin::Eviction, Some(UID), at("/deleteOptions", json!({"preconditions": {"uid": UID}}))),
    ];
    for (pin, uid, patch) in cases {
        let uid = uid.map(str::to_owned);
        let allowed = Allowed { reason: AllowReason::NotCovered, uid, grants: vec![] };
        let answer = ReviewAnswer::new("r1", &Verdict::Allow(allowed), pin);
        let answer = serde_json::to_value(answer).unwrap();
        assert_eq!(answer["response"]["allowed"], true);
        let found = answer["response"]["patch"].as_str().map(|patch| {
            let patch = STANDARD.decode(patch).unwrap();
            serde_json::from_slice::<Value>(&patch).unwrap()
        });
        assert_eq!(found, patch, "{pin:?}");
        let kind = answer["response"]["patchType"].as_str();
        assert_eq!(kind, patch.map(|_| "JSONPatch"));
    }
}

/// If the request continued, it could evict the next pod of that name, which has no grant.
#[test]
fn a_pod_that_is_gone_is_not_found() {
    let gone = Allowed { reason: AllowReason::PodGone, uid: None, grants: vec![] };
    let answer = &answer(&Verdict::Allow(gone))["response"];
    assert_eq!(answer["allowed"], false);
    let status = &answer["status"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(404), &json!("NotFound")));
    assert_eq!(answer["patch"], Value::Null);
}

#[test]
fn denied() {
    let causes =
        vec![Cause { budget: Some(BudgetKey::pdb("shop", "b")), message: "b is full".into() }];
    let expected = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "r1", "allowed": false, "status": {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": 429,
            "reason": "TooManyRequests",
            "message": "No.",
            "details": {"causes": [{"reason": "DisruptionBudget", "message": "b is full"}]},
        }},
    });
    assert_eq!(answer(&denial(causes)), expected);
}

#[test]
fn a_denial_without_causes_still_has_one() {
    let causes = &answer(&denial(vec![]))["response"]["status"]["details"]["causes"];
    assert_eq!(*causes, json!([{"reason": "DisruptionBudget", "message": "No."}]));
}

fn denial(causes: Vec<Cause>) -> Verdict {
    Verdict::Deny(Denial { reason: DenyReason::BudgetExhausted, message: "No.".into(), causes })
}

fn answer(verdict: &Verdict) -> Value {
    serde_json::to_value(ReviewAnswer::new("r1", verdict, Pin::Eviction)).expect("it is JSON")
}
