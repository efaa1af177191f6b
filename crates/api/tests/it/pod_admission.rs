//! Reviews of deletions, updates and resizes of pods.

use holdfast_api::admission::{Pin, PodDisruption, PodReview, ReviewAnswer, Toleration};
use holdfast_core::model::{Operation, Timestamp};
use holdfast_core::verdict::{Denial, DenyReason, Verdict};
use serde_json::{Value, json};

fn old() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "u0", "resourceVersion": "41",
            "generation": 3, "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
                "uid": "o1", "controller": true}],
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "c", "image": "web:1",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": 300}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn review(operation: &str, sub_resource: &str, old: &Value, new: &Value) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "r1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": sub_resource,
            "name": "web-0",
            "namespace": "shop",
            "operation": operation,
            "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
            "object": new,
            "oldObject": old,
            "dryRun": false,
            "options": {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

fn delete() -> Value {
    review("DELETE", "", &old(), &Value::Null)
}

/// Returns an update of the pod at this path.
fn update(pointer: &str, value: Value) -> Value {
    let mut new = old();
    set(&mut new, pointer, value);
    new["metadata"]["generation"] = json!(4);
    review("UPDATE", "", &old(), &new)
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    object.pointer_mut(parent).expect(pointer)[key] = value;
}

fn with(mut review: Value, pointer: &str, value: Value) -> Value {
    set(&mut review, pointer, value);
    review
}

fn parse(review: &Value) -> PodReview {
    PodReview::parse(review.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e}\n{review}"))
}

fn disruption(review: &Value) -> PodDisruption {
    match parse(review) {
        PodReview::Disrupts(disruption) => *disruption,
        PodReview::Passes { .. } => panic!("it passes: {review}"),
    }
}

fn passes(review: &Value) -> bool {
    parse(review) == PodReview::Passes { uid: "r1".into() }
}

#[test]
fn a_deletion_is_read() {
    let disruption = disruption(&delete());
    assert_eq!(disruption.circumstances.node, "node-1");
    let toleration = Toleration {
        key: "node.kubernetes.io/not-ready".into(),
        operator: "Exists".into(),
        effect: "NoExecute".into(),
        toleration_seconds: Some(300),
        ..Toleration::default()
    };
    assert_eq!(disruption.circumstances.tolerations, [toleration]);
    let controller = disruption.circumstances.controller.as_ref().map(|owner| owner.uid.as_str());
    assert_eq!(controller, Some("o1"));
    let eviction = disruption.into_eviction(Timestamp(7));
    assert_eq!((eviction.id.as_str(), eviction.operation), ("r1", Operation::Delete));
    assert_eq!(eviction.pod.to_string(), "shop/web-0");
    assert_eq!(eviction.uid.as_deref(), Some("u0"));
    assert_eq!((eviction.requester.as_str(), eviction.dry_run), ("jane", false));
    assert_eq!(eviction.deadline, Timestamp(7));
    let pod = eviction.object.expect("the pod is in the request");
    assert!(pod.ready && pod.labels.contains_key("app"));
    assert_eq!(pod.version, 41.into());
}

#[test]
fn a_deletion_of_many_names_none() {
    let mut review = with(delete(), "/request/name", json!(""));
    set(&mut review, "/request/namespace", Value::Null);
    assert_eq!(disruption(&review).pod.key.to_string(), "shop/web-0");
}

#[test]
fn a_dry_run_is_asked_for_in_either_place() {
    for (body, expected) in [
        (with(delete(), "/request/dryRun", json!(true)), true),
        (with(delete(), "/request/options", json!({"dryRun": ["All"]})), true),
        (with(delete(), "/request/options", json!({"dryRun": []})), false),
        (with(delete(), "/request/options", Value::Null), false),
    ] {
        assert_eq!(disruption(&body).dry_run, expected, "{body}");
    }
}

#[test]
fn which_updates_disrupt() {
    let update_of = |pointer: &str, value| {
        let review = update(pointer, value);
        if passes(&review) { None } else { Some(disruption(&review).operation) }
    };
    let changed = Some(Operation::Update);
    for (pointer, value, expected) in [
        ("/spec/containers/0/image", json!("web:2"), changed),
        ("/spec/activeDeadlineSeconds", json!(60), changed),
        ("/spec/tolerations", json!([]), changed),
        ("/metadata/labels", json!({"app": "web", "unavailable-pod.kruise.io/x": "1"}), changed),
        ("/metadata/labels", json!({"app": "other"}), None),
        ("/metadata/annotations", json!({"note": "n"}), None),
        ("/metadata/finalizers", json!(["f"]), None),
        ("/status/phase", json!("Failed"), None),
        (
            "/spec/containers/0/resources",
            json!({"requests": {"cpu": "2", "memory": "1Gi"}}),
            Some(Operation::Resize),
        ),
        ("/spec/containers/0/resources", json!({}), changed),
    ] {
        assert_eq!(update_of(pointer, value.clone()), expected, "{pointer} {value}");
    }
}

#[test]
fn an_update_has_the_pod_before_it_and_the_generation_after() {
    let update = disruption(&update("/spec/containers/0/image", json!("web:2")));
    assert_eq!((update.pod.generation, update.generation), (3, 4));
}

#[test]
fn a_label_that_was_there_disrupts_no_more() {
    let mut before = old();
    before["metadata"]["labels"]["unavailable-pod.kruise.io/x"] = json!("1");
    let mut after = before.clone();
    after["metadata"]["labels"]["unavailable-pod.kruise.io/x"] = json!("2");
    assert!(passes(&review("UPDATE", "", &before, &after)), "another value");
    assert!(passes(&review("UPDATE", "", &before, &old())), "taken off");
    after["metadata"]["labels"]["unavailable-pod.kruise.io/y"] = json!("1");
    let another = review("UPDATE", "", &before, &after);
    assert_eq!(disruption(&another).operation, Operation::Update);
}

#[test]
fn the_same_spec_written_in_another_way_is_the_same() {
    let review = delete().to_string().replace(r#""operation":"DELETE""#, r#""operation":"UPDATE""#);
    let spec = r#"{ "tolerations": [{"effect": "NoExecute", "key": "node.kubernetes.io/not-ready",
        "operator": "Exists", "tolerationSeconds": 300}], "nodeName": "node-1", "containers": [
        {"image": "web:1", "name": "c", "resources": {"requests": {"memory": "1Gi", "cpu": "1"}}}]}"#;
    let new = format!(r#""object":{{"metadata":{{}},"spec":{spec}}}"#);
    let review = review.replace(r#""object":null"#, &new);
    let parsed = PodReview::parse(review.as_bytes()).expect(&review);
    assert_eq!(parsed, PodReview::Passes { uid: "r1".into() });
}

#[test]
fn resizes() {
    let mut new = old();
    new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    let resize = |old: &Value, new: &Value| disruption(&review("UPDATE", "", old, new)).operation;
    assert_eq!(resize(&old(), &new), Operation::Resize);
    assert_eq!(disruption(&review("UPDATE", "resize", &old(), &new)).operation, Operation::Resize);
    assert!(passes(&review("UPDATE", "resize", &old(), &old())), "nothing changes");

    let mut labelled = new.clone();
    labelled["metadata"]["labels"]["unavailable-pod.kruise.io/x"] = json!("1");
    assert_eq!(resize(&old(), &labelled), Operation::Update);

    for annotation in ["kubernetes.io/config.source", "kubernetes.io/config.mirror"] {
        let mut of_file = old();
        of_file["metadata"]["annotations"] = json!({annotation: "file"});
        assert_eq!(resize(&of_file, &new), Operation::Update, "{annotation}");
    }
}

#[test]
fn what_passes_unasked() {
    let terminating = with(
        delete(),
        "/request/oldObject/metadata/deletionTimestamp",
        json!("2026-11-15T20:00:00Z"),
    );
    assert!(passes(&terminating));
    let mut image = update("/spec/containers/0/image", json!("web:2"));
    set(&mut image, "/request/oldObject/metadata/deletionTimestamp", json!("2026-11-15T20:00:00Z"));
    assert!(passes(&image));
    for (operation, sub_resource) in
        [("CREATE", ""), ("UPDATE", "status"), ("DELETE", "status"), ("CREATE", "binding")]
    {
        let mut new = old();
        new["spec"]["containers"][0]["image"] = json!("web:2");
        assert!(passes(&review(operation, sub_resource, &old(), &new)), "{sub_resource}");
    }
}

#[test]
fn what_cannot_be_read_is_not_answered() {
    for (body, expected) in [
        (with(delete(), "/request/uid", json!("")), "request.uid: is missing"),
        (
            with(delete(), "/request/resource/resource", json!("nodes")),
            r#"request.resource: "nodes/" is not pods or pods/resize"#,
        ),
        (
            with(delete(), "/request/subResource", json!("eviction")),
            r#"request.resource: "pods/eviction" is not pods or pods/resize"#,
        ),
        (with(delete(), "/request/oldObject", Value::Null), "request.oldObject: is missing"),
        (
            with(delete(), "/request/name", json!("web-1")),
            r#"request.oldObject.metadata.name: "web-0" does not match the request's "web-1""#,
        ),
        (review("UPDATE", "", &old(), &Value::Null), "request.object: is missing"),
    ] {
        let error = PodReview::parse(body.to_string().as_bytes()).expect_err("it is wrong");
        assert_eq!(error.to_string(), format!("cannot read AdmissionReview: {expected}"));
    }
    let no_pod = with(delete(), "/request/oldObject/metadata", json!({"name": 7}));
    let error = PodReview::parse(no_pod.to_string().as_bytes()).expect_err("it is wrong");
    assert_eq!((error.field.as_str(), error.uid.as_deref()), ("request.oldObject", Some("r1")));
}

#[test]
fn the_answers() {
    let allowed = serde_json::to_value(ReviewAnswer::allow("r1")).expect("it is JSON");
    assert_eq!(allowed["response"], json!({"uid": "r1", "allowed": true}));
    let denial =
        Denial { reason: DenyReason::BudgetExhausted, message: "no".into(), causes: vec![] };
    let denied = ReviewAnswer::new("r1", &Verdict::Deny(denial), Pin::Given);
    let denied = serde_json::to_value(denied).expect("it is JSON");
    assert_eq!(denied["response"]["allowed"], false);
    assert_eq!(denied["response"]["status"]["code"], 429);
    assert_eq!(denied["response"]["status"]["reason"], "TooManyRequests");
    assert_eq!(denied["response"]["status"]["details"]["causes"][0]["reason"], "DisruptionBudget");
}
