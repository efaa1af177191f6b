use holdfast_api::decode;
use holdfast_core::model::{DisruptionTarget, GroupReference, LwsMember, Phase, Pod, Timestamp};
use serde_json::{Value, json};

fn pod(json: &Value) -> Pod {
    decode::pod(json.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}\n{json}"))
}

fn with_spec(spec: &Value) -> Pod {
    pod(&json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}))
}

#[test]
fn metadata_and_status() {
    let pod = pod(&json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "u1", "resourceVersion": "42",
            "labels": {"app": "web"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "deletionTimestamp": "2026-11-15T20:00:00Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
                "uid": "o1", "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": null},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-15T19:00:00Z"},
                {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                    "message": "m", "lastTransitionTime": "2026-11-15T20:00:00Z"},
            ],
        },
    }));
    assert_eq!(pod.key.to_string(), "shop/web-0");
    assert_eq!((pod.uid.as_str(), pod.version), ("u1", 42.into()));
    assert_eq!(pod.labels.get("app").map(String::as_str), Some("web"));
    assert!(pod.ready && pod.terminating);
    assert_eq!(pod.phase, Phase::Running);
    let owner = pod.controller.expect("it has a controller");
    assert_eq!((owner.group_kind.to_string(), owner.uid), ("StatefulSet.apps".into(), "o1".into()));
    let target = DisruptionTarget {
        reason: DisruptionTarget::EVICTION_API.to_owned(),
        since: Timestamp::from_secs(1_794_772_800),
    };
    assert_eq!(pod.disruption_target, Some(target));
    assert_eq!((pod.reference, pod.lws), (None, None));
}

#[test]
fn only_true_conditions_count() {
    for status in ["False", "Unknown", ""] {
        let pod = pod(&json!({"metadata": {"name": "p"}, "status": {"conditions": [
            {"type": "Ready", "status": status}, {"type": "DisruptionTarget", "status": status},
        ]}}));
        assert!(!pod.ready, "{status}");
        assert_eq!(pod.disruption_target, None, "{status}");
    }
}

#[test]
fn phases() {
    for (text, phase) in [
        (json!("Pending"), Phase::Pending),
        (json!("Running"), Phase::Running),
        (json!("Succeeded"), Phase::Succeeded),
        (json!("Failed"), Phase::Failed),
        (json!("Unknown"), Phase::Unknown),
        (json!("Sleeping"), Phase::Unknown),
        (json!(""), Phase::Unknown),
        (Value::Null, Phase::Unknown),
    ] {
        let pod = pod(&json!({"metadata": {"name": "p"}, "status": {"phase": text}}));
        assert_eq!(pod.phase, phase, "{text}");
    }
}

#[test]
fn references_in_every_shape() {
    let group = |name: &str| Some(GroupReference::PodGroup { name: name.into() });
    let entry = |workload: &str, entry: &str, key: Option<&str>| {
        Some(GroupReference::WorkloadEntry {
            workload: workload.into(),
            entry: entry.into(),
            replica_key: key.map(Into::into),
        })
    };
    let cases = [
        ("none", json!({}), None),
        ("nulls", json!({"schedulingGroup": null, "workloadRef": null, "workload": null}), None),
        ("1.36 and 1.37", json!({"schedulingGroup": {"podGroupName": "g"}}), group("g")),
        (
            "1.35",
            json!({"workloadRef": {"name": "w", "podGroup": "p", "podGroupReplicaKey": "3"}}),
            entry("w", "p", Some("3")),
        ),
        (
            "1.35 without a key",
            json!({"workloadRef": {"name": "w", "podGroup": "p"}}),
            entry("w", "p", None),
        ),
        ("KEP-5832 draft", json!({"workloadRef": {"name": "w", "podGroupName": "g"}}), group("g")),
        (
            "KEP-5682 draft",
            json!({"workload": {"name": "w", "podGroup": "p"}}),
            entry("w", "p", None),
        ),
        (
            "a Workload and no entry of it",
            json!({"workloadRef": {"name": "w"}}),
            entry("w", "", None),
        ),
        ("an empty name", json!({"schedulingGroup": {"podGroupName": ""}}), None),
        (
            "the newer field wins",
            json!({"workloadRef": {"name": "w", "podGroup": "p"}, "schedulingGroup": {"podGroupName": "g"}}),
            group("g"),
        ),
    ];
    for (shape, spec, expected) in cases {
        assert_eq!(with_spec(&spec).reference, expected, "{shape}");
    }
}

#[test]
fn the_annotation_is_read_where_the_fields_are_absent() {
    let annotated = |value: &str, spec: Value| {
        pod(&json!({
            "metadata": {"name": "p", "annotations": {"holdfast.dev/pod-group": value}},
            "spec": spec,
        }))
        .reference
    };
    let by_annotation = Some(GroupReference::Annotation { name: "a".into() });
    let by_field = Some(GroupReference::PodGroup { name: "g".into() });
    assert_eq!(annotated("a", json!({})), by_annotation);
    assert_eq!(annotated("", json!({})), None);
    assert_eq!(annotated("a", json!({"schedulingGroup": {"podGroupName": "g"}})), by_field);
}

#[test]
fn leader_worker_set_members() {
    let member = |labels: Value, annotations: Value| {
        let metadata = json!({"name": "p", "labels": labels, "annotations": annotations});
        pod(&json!({ "metadata": metadata })).lws
    };
    let lws = |index, size| {
        Some(LwsMember { lws: "l".into(), group_key: "k".into(), group_index: index, size })
    };
    let labels = |index: &str| {
        json!({
            "leaderworkerset.sigs.k8s.io/name": "l",
            "leaderworkerset.sigs.k8s.io/group-key": "k",
            "leaderworkerset.sigs.k8s.io/group-index": index,
        })
    };
    let size = |text: &str| json!({"leaderworkerset.sigs.k8s.io/size": text});
    assert_eq!(member(labels("3"), size("8")), lws(Some(3), Some(8)));
    assert_eq!(member(labels("x7f"), size("many")), lws(None, None));
    assert_eq!(member(labels("0"), size("0")), lws(Some(0), None));
    assert_eq!(member(labels("0"), Value::Null), lws(Some(0), None));
    assert_eq!(member(labels("0"), size("2147483647")), lws(Some(0), Some(i32::MAX.into())));
    for nonsense in ["2147483648", "9223372036854775807", "1e9", "-1", "4.0", ""] {
        assert_eq!(member(labels("0"), size(nonsense)), lws(Some(0), None), "{nonsense}");
    }
    let keyless = json!({"leaderworkerset.sigs.k8s.io/name": "l"});
    assert_eq!(member(keyless, size("8")), None);
}
