//! Reviews of pods that are created into a group, and of workloads that ask for groups.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_api::admission::{PlaceReview, ReviewAnswer, WorkloadReview};
use holdfast_core::gang::Placement;
use holdfast_core::model::GroupApi;
use serde_json::{Value, json};

fn review(resource: &str, operation: &str, object: &Value, old: &Value) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "r1",
            "resource": {"group": "", "version": "v1", "resource": resource},
            "namespace": "ns",
            "operation": operation,
            "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
            "object": object,
            "oldObject": old,
            "dryRun": true,
        },
    })
}

fn place(api: GroupApi, object: &Value) -> PlaceReview {
    let review = review("pods", "CREATE", object, &Value::Null);
    PlaceReview::parse(review.to_string().as_bytes(), api)
        .unwrap_or_else(|error| panic!("{error}\n{review}"))
}

fn patch(answer: &ReviewAnswer) -> Value {
    assert!(answer.response.allowed && answer.response.status.is_none());
    let Some(patch) = &answer.response.patch else {
        assert_eq!(answer.response.patch_type, None);
        return json!(null);
    };
    assert_eq!(answer.response.patch_type, Some("JSONPatch"));
    let patch = STANDARD.decode(patch).expect("it is base64");
    serde_json::from_slice(&patch).expect("it is JSON")
}

#[test]
fn a_pod_without_a_name_yet() {
    let review = place(
        GroupApi::Kubernetes,
        &json!({
            "metadata": {"generateName": "job-", "labels": {"a": "b"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "job",
                    "uid": "j", "controller": true}]},
            "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}], "priority": 3},
        }),
    );
    assert_eq!((review.uid.as_str(), review.dry_run), ("r1", true));
    assert_eq!(review.pod.key.to_string(), "ns/");
    assert_eq!(review.pod.controller.as_ref().map(|c| c.uid.as_str()), Some("j"));
    assert_eq!(review.pod.priority.value, 3);
    assert_eq!(review.pod.requests.get("cpu"), Some(&1000));
    let named = place(GroupApi::Kubernetes, &json!({"metadata": {"name": "p"}, "spec": {}}));
    assert_eq!(named.pod.key.to_string(), "ns/p");
}

#[test]
fn into_a_group() {
    let (native, ours) = (GroupApi::Kubernetes, GroupApi::Holdfast);
    let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    let group = add("/spec/schedulingGroup", json!({"podGroupName": "g"}));
    let annotations = add("/metadata/annotations", json!({"holdfast.dev/pod-group": "g"}));
    let annotation = add("/metadata/annotations/holdfast.dev~1pod-group", json!("g"));
    let gates = add("/spec/schedulingGates", json!([{"name": "holdfast.dev/gang"}]));
    let gate = add("/spec/schedulingGates/-", json!({"name": "holdfast.dev/gang"}));
    let bare = json!({"metadata": {"name": "p"}, "spec": {}});
    let other = json!({"metadata": {"name": "p", "annotations": {"a": "b"}},
        "spec": {"schedulingGates": [{"name": "example.com/quota"}]}});
    let empty = json!({"metadata": {"name": "p", "annotations": null},
        "spec": {"schedulingGates": null}});
    let grouped = json!({"metadata": {"name": "p", "annotations": {"holdfast.dev/pod-group": "g"}},
        "spec": {}});
    let done = json!({"metadata": {"name": "p", "annotations": {"holdfast.dev/pod-group": "g"}},
        "spec": {"schedulingGates": [{"name": "holdfast.dev/gang"}]}});
    let native_done = json!({"metadata": {"name": "p"},
        "spec": {"schedulingGroup": {"podGroupName": "g"}}});
    for (api, pod, gated, expected) in [
        (native, &bare, false, json!([group])),
        (native, &native_done, false, json!(null)),
        (ours, &bare, true, json!([annotations, gates])),
        (ours, &bare, false, json!([annotations])),
        (ours, &other, true, json!([annotation, gate])),
        (ours, &empty, true, json!([annotations, gates])),
        (ours, &grouped, true, json!([gates])),
        (ours, &done, true, json!(null)),
    ] {
        let placement = Placement::Into { group: "g".into(), make: None, gate: gated };
        let answer = place(api, pod).answer(&placement);
        assert_eq!(patch(&answer), expected, "{api:?} {pod}");
        assert_eq!(answer.response.uid, "r1");
    }
    let answer = place(ours, &bare).answer(&Placement::Alone("it is alone"));
    assert_eq!(patch(&answer), json!(null));
}

#[test]
fn not_yet() {
    let review = place(GroupApi::Holdfast, &json!({"metadata": {"name": "p"}}));
    let answer = review.answer(&Placement::Unseen("Job ns/j".into()));
    assert_eq!(
        serde_json::to_value(answer).expect("it is JSON"),
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {
                "uid": "r1",
                "allowed": false,
                "status": {
                    "apiVersion": "v1", "kind": "Status", "status": "Failure",
                    "code": 503, "reason": "ServiceUnavailable", "details": {"causes": []},
                    "message": "Holdfast cannot tell yet which PodGroup the pod belongs to: Job ns/j has \
                        not been seen; controllers try again",
                },
            },
        })
    );
}

#[test]
fn what_is_no_creation_of_a_pod_is_noticed() {
    let pod = json!({"metadata": {"name": "p"}});
    let mut binding = review("pods", "CREATE", &pod, &Value::Null);
    binding["request"]["subResource"] = json!("binding");
    for (review, expected) in [
        (
            review("pods", "UPDATE", &pod, &pod),
            r#"request.resource: "UPDATE pods/" is not CREATE pods/"#,
        ),
        (
            review("jobs", "CREATE", &pod, &Value::Null),
            r#"request.resource: "CREATE jobs/" is not CREATE pods/"#,
        ),
        (binding, r#"request.resource: "CREATE pods/binding" is not CREATE pods/"#),
        (review("pods", "CREATE", &Value::Null, &Value::Null), "request.object: is missing"),
        (
            review("pods", "CREATE", &json!({"metadata": "p"}), &Value::Null),
            "request.object.metadata: is missing",
        ),
        (
            review("pods", "CREATE", &json!({"metadata": {"name": 5}}), &Value::Null),
            "request.object: invalid type: integer `5`, expected a string",
        ),
    ] {
        let error = PlaceReview::parse(review.to_string().as_bytes(), GroupApi::Holdfast)
            .expect_err(expected);
        assert_eq!(error.uid.as_deref(), Some("r1"));
        assert_eq!(error.to_string(), format!("cannot read AdmissionReview: {expected}"));
    }
}

fn workload(operation: &str, new: &Value, old: &Value) -> WorkloadReview {
    let object = |annotations: &Value| json!({"metadata": {"annotations": annotations}});
    let review = review("jobs", operation, &object(new), &object(old));
    WorkloadReview::parse(review.to_string().as_bytes())
        .unwrap_or_else(|error| panic!("{error}\n{review}"))
}

#[test]
fn workloads_that_begin_to_ask() {
    let (yes, no, none) = (
        json!({"holdfast.dev/pod-groups": "true"}),
        json!({"holdfast.dev/pod-groups": "false"}),
        json!(null),
    );
    for (operation, new, old, begins) in [
        ("CREATE", &yes, &none, true),
        ("CREATE", &no, &none, false),
        ("CREATE", &none, &none, false),
        ("UPDATE", &yes, &none, true),
        ("UPDATE", &yes, &no, true),
        ("UPDATE", &yes, &yes, false),
        ("UPDATE", &no, &yes, false),
    ] {
        let review = workload(operation, new, old);
        assert_eq!(review.begins, begins, "{operation} {new} {old}");
        assert_eq!((review.namespace.as_str(), review.dry_run), ("ns", true));
        let answer = serde_json::to_value(review.answer(vec!["w".into()])).expect("it is JSON");
        assert_eq!(answer["response"], json!({"uid": "r1", "allowed": true, "warnings": ["w"]}));
    }
}

#[test]
fn annotations_that_cannot_be_read() {
    let asks = |text: &str| json!({"holdfast.dev/pod-groups": text});
    let size = |text: &str| json!({"holdfast.dev/group-size": text});
    let none = json!({});
    let asks_error = |text: &str| {
        format!(
            "metadata.annotations[holdfast.dev/pod-groups]: Invalid value: {text:?}: must be \"true\" or \
             \"false\""
        )
    };
    let size_error = |text: &str| {
        format!(
            "metadata.annotations[holdfast.dev/group-size]: Invalid value: {text:?}: must be a whole number \
             greater than or equal to 1"
        )
    };
    let both = json!({"holdfast.dev/pod-groups": "1", "holdfast.dev/group-size": "1.5"});
    for (operation, new, old, expected) in [
        ("CREATE", asks("yes"), none.clone(), Some(asks_error("yes"))),
        ("CREATE", asks(""), none.clone(), Some(asks_error(""))),
        ("CREATE", size("0"), none.clone(), Some(size_error("0"))),
        ("CREATE", size("4"), none.clone(), None),
        ("CREATE", both, none, Some(format!("[{}, {}]", asks_error("1"), size_error("1.5")))),
        ("UPDATE", asks("yes"), asks("true"), Some(asks_error("yes"))),
        ("UPDATE", asks("yes"), asks("yes"), None),
        ("UPDATE", size("x"), size("x"), None),
    ] {
        let review = workload(operation, &new, &old);
        let status = review.answer(Vec::new()).response.status;
        assert_eq!(review.is_wrong(), expected.is_some());
        assert_eq!(status.as_ref().map(|status| &status.message), expected.as_ref(), "{new}");
        if let Some(status) = status {
            assert_eq!((status.code, status.reason), (400, "BadRequest"));
            let cause = &status.details.causes[0];
            assert_eq!(cause.reason, "FieldValueInvalid");
            assert!(cause.field.as_ref().is_some_and(|f| f.starts_with("metadata.annotations[")));
        }
    }
}

#[test]
fn a_pod_that_names_what_cannot_be_a_group_is_refused() {
    for (name, refused) in [("g", false), ("Not Valid", true), ("../x", true)] {
        let annotations = json!({"holdfast.dev/pod-group": name});
        let pod = json!({"metadata": {"name": "p", "annotations": annotations}, "spec": {}});
        let into = Placement::Into { group: name.to_owned(), make: None, gate: true };
        let response = place(GroupApi::Holdfast, &pod).answer(&into).response;
        assert_eq!(response.allowed, !refused);
        let message = response.status.map(|status| status.message).unwrap_or_default();
        let field = "metadata.annotations[holdfast.dev/pod-group]: Invalid value: ";
        assert_eq!(message.starts_with(field), refused, "{message}");
    }
}

#[test]
fn a_group_size_stays_while_there_are_pods() {
    let sized = |size: &str, replicas: Value| json!({"metadata": {"annotations": {"holdfast.dev/group-size": size}}, "spec": {"replicas": replicas}});
    for (old, refused) in [
        (sized("2", json!(4)), true),
        (sized("2", json!(null)), true),
        (sized("2", json!(0)), false),
        (sized("x", json!(4)), false),
        (sized("3", json!(4)), false),
    ] {
        let review = review("statefulsets", "UPDATE", &sized("3", json!(4)), &old);
        let review = WorkloadReview::parse(review.to_string().as_bytes()).expect("it is a review");
        assert_eq!(review.is_wrong(), refused, "{old}");
        let message = review.answer(Vec::new()).response.status.map(|status| status.message);
        assert!(message.is_none_or(|message| message.contains("scale to 0 first")));
    }
}

#[test]
fn workloads_that_go_are_let_go() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-15T20:00:00Z",
        "annotations": {"holdfast.dev/group-size": "x", "holdfast.dev/pod-groups": "true"}}});
    let review = review("jobs", "UPDATE", &going, &json!({"metadata": {}}));
    let review = WorkloadReview::parse(review.to_string().as_bytes()).expect("it is a review");
    assert!(!review.begins && !review.is_wrong());
}

#[test]
fn what_is_no_workload_to_validate_is_noticed() {
    for (operation, object, expected) in [
        (
            "DELETE",
            json!({"metadata": {}}),
            r#"request.operation: "DELETE jobs/" is not CREATE or UPDATE of a workload"#,
        ),
        ("CREATE", Value::Null, "request.object: is missing"),
    ] {
        let review = review("jobs", operation, &object, &Value::Null);
        let error = WorkloadReview::parse(review.to_string().as_bytes()).expect_err(expected);
        assert_eq!(error.to_string(), format!("cannot read AdmissionReview: {expected}"));
    }
}
