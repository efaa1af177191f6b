//! Pods, with the fields that gangs need.

use holdfast_api::gang::{Object, decode};
use holdfast_core::gang::{
    Constraints, HostPort, Kind, LwsPlace, NodeTerm, Pod, Priority, Requirement, TaintEffect, Test,
    Toleration, TolerationTest,
};
use holdfast_core::model::{GroupApi, Timestamp};
use serde_json::{Value, json};

fn read(api: GroupApi, json: &Value) -> Pod {
    match decode(&Kind::Pod, api, "v1", json.to_string().as_bytes()) {
        Ok(Object::Pod(pod)) => pod,
        other => panic!("{other:?}\n{json}"),
    }
}

fn pod(json: &Value) -> Pod {
    read(GroupApi::Holdfast, json)
}

fn with_spec(spec: &Value) -> Pod {
    pod(&json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}))
}

#[test]
fn a_pod_that_waits() {
    let pod = pod(&json!({
        "metadata": {
            "name": "m-0-1", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "2026-11-15T20:00:00Z",
            "labels": {"leaderworkerset.sigs.k8s.io/name": "m",
                "leaderworkerset.sigs.k8s.io/group-index": "0",
                "leaderworkerset.sigs.k8s.io/worker-index": "1"},
            "annotations": {"holdfast.dev/pod-group": "g", "leaderworkerset.sigs.k8s.io/size": "8",
                "leaderworkerset.sigs.k8s.io/leader-name": "m-0"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "m-0",
                "uid": "o", "controller": true}],
        },
        "spec": {"schedulingGates": [{"name": "holdfast.dev/gang"}], "priority": 5,
            "priorityClassName": "high", "preemptionPolicy": "Never"},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
    }));
    assert_eq!((pod.key.to_string(), pod.uid.as_str()), ("ns/m-0-1".into(), "u"));
    assert_eq!((pod.version, pod.created), (7.into(), Timestamp::from_secs(1_794_772_800)));
    assert_eq!(pod.controller.map(|c| c.uid).as_deref(), Some("o"));
    let place = LwsPlace {
        name: "m".into(),
        group_index: 0,
        worker_index: 1,
        size: Some(8),
        leader: Some("m-0".into()),
    };
    assert_eq!((pod.lws, pod.group.as_deref()), (Some(place), Some("g")));
    assert!(pod.gated && !pod.held && !pod.unschedulable);
    assert!(!pod.foreign && !pod.mirror && !pod.finished && !pod.terminating);
    let priority =
        Priority { value: 5, class: Some("high".into()), preemption: Some("Never".into()) };
    assert_eq!((pod.priority, pod.node), (priority, None));
}

#[test]
fn what_becomes_of_a_pod() {
    let with = |spec: Value, status: Value| {
        pod(&json!({"metadata": {"name": "p"}, "spec": spec, "status": status}))
    };
    let condition = |status: &str, reason: &str| json!({"conditions": [{"type": "PodScheduled", "status": status, "reason": reason}]});
    assert!(with(json!({}), condition("False", "Unschedulable")).unschedulable);
    assert!(!with(json!({}), condition("True", "Unschedulable")).unschedulable);
    let other = json!({"conditions": [
        {"type": "Ready", "status": "False", "reason": "Unschedulable"}]});
    assert!(!with(json!({}), other).unschedulable);
    for (phase, finished) in [("Succeeded", true), ("Failed", true), ("Running", false)] {
        assert_eq!(with(json!({}), json!({"phase": phase})).finished, finished, "{phase}");
    }
    assert_eq!(with(json!({"nodeName": "n"}), json!({})).node.as_deref(), Some("n"));
    assert_eq!(with(json!({"nodeName": ""}), json!({})).node, None);
    for (gates, gated, held) in [
        (json!(null), false, false),
        (json!([{"name": "example.com/quota"}]), false, true),
        (json!([{"name": "example.com/quota"}, {"name": "holdfast.dev/gang"}]), true, true),
    ] {
        let pod = with(json!({"schedulingGates": gates}), json!({}));
        assert_eq!((pod.gated, pod.held), (gated, held), "{gates}");
    }
}

#[test]
fn whose_group_it_is_in() {
    let (native, ours) = (GroupApi::Kubernetes, GroupApi::Holdfast);
    let by_field = json!({"spec": {"schedulingGroup": {"podGroupName": "f"}}});
    let by_annotation = json!({"metadata": {"annotations": {"holdfast.dev/pod-group": "a"}}});
    let of_workload = json!({"spec": {"workloadRef": {"name": "w", "podGroup": "g"}}});
    let volcano = json!({"metadata": {"annotations": {"scheduling.k8s.io/group-name": "v"}}});
    let coscheduling = json!({"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "c"}}});
    let empty = json!({"metadata": {"annotations": {"holdfast.dev/pod-group": ""}},
        "spec": {"schedulingGroup": {"podGroupName": ""}}});
    for (api, mut json, group, foreign) in [
        (native, by_field.clone(), Some("f"), false),
        (ours, by_field, None, true),
        (native, by_annotation.clone(), None, true),
        (ours, by_annotation, Some("a"), false),
        (native, of_workload.clone(), None, true),
        (ours, of_workload, None, true),
        (native, volcano.clone(), None, true),
        (ours, volcano, None, true),
        (native, coscheduling.clone(), None, true),
        (ours, coscheduling, None, true),
        (native, empty.clone(), None, false),
        (ours, empty, None, false),
    ] {
        json["metadata"]["name"] = json!("p");
        let pod = read(api, &json);
        assert_eq!((pod.group.as_deref(), pod.foreign), (group, foreign), "{api:?} {json}");
    }
    let mirror = json!({"metadata": {"name": "p",
        "annotations": {"kubernetes.io/config.mirror": "x"}}});
    assert!(pod(&mirror).mirror);
}

#[test]
fn a_place_in_a_leader_worker_set_needs_all_of_its_labels() {
    let all = json!({"leaderworkerset.sigs.k8s.io/name": "m",
        "leaderworkerset.sigs.k8s.io/group-index": "3",
        "leaderworkerset.sigs.k8s.io/worker-index": "0"});
    let lws = |labels: &Value| pod(&json!({"metadata": {"name": "p", "labels": labels}})).lws;
    let place = lws(&all).expect("all labels are there");
    assert_eq!(
        (place.group_index, place.worker_index, place.size, place.leader),
        (3, 0, None, None)
    );
    for (label, value) in [
        ("name", None),
        ("group-index", None),
        ("worker-index", None),
        ("group-index", Some("x")),
        ("worker-index", Some("-1")),
    ] {
        let mut labels = all.clone();
        let label = format!("leaderworkerset.sigs.k8s.io/{label}");
        match value {
            Some(value) => labels[&label] = json!(value),
            None => drop(labels.as_object_mut().and_then(|map| map.remove(&label))),
        }
        assert_eq!(lws(&labels), None, "{labels}");
    }
}

#[test]
fn requests_are_what_the_scheduler_counts() {
    let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    let staying =
        |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}, "restartPolicy": "Always"});
    let cases = [
        ("none", json!({}), json!({})),
        (
            "the sum of the containers",
            json!({"containers": [container("1"), container("500m")]}),
            json!({"cpu": 1500}),
        ),
        ("rounded up", json!({"containers": [container("0.1m")]}), json!({"cpu": 1})),
        (
            "a large init container",
            json!({"containers": [container("1")], "initContainers": [container("3"), container("2")]}),
            json!({"cpu": 3000}),
        ),
        (
            "one that stays runs beside all that come later",
            json!({"containers": [container("1")],
                "initContainers": [staying("500m"), container("1")]}),
            json!({"cpu": 1500}),
        ),
        (
            "but not beside those before it",
            json!({"containers": [container("1")],
                "initContainers": [container("4"), staying("500m")]}),
            json!({"cpu": 4000}),
        ),
        (
            "a step with two that stay",
            json!({"containers": [container("1")],
                "initContainers": [staying("1"), staying("2"), container("3")]}),
            json!({"cpu": 6000}),
        ),
        (
            "of the pod as a whole, for what they name",
            json!({"resources": {"requests": {"cpu": "1", "example.com/gpu": "7"}},
                "containers": [{"resources": {"requests": {"cpu": "3", "memory": "1Ki", "example.com/gpu": 2}}}]}),
            json!({"cpu": 1000, "memory": 1_024_000, "example.com/gpu": 2000}),
        ),
        (
            "overhead comes on top",
            json!({"overhead": {"cpu": "250m", "memory": "1"}, "resources": {"requests": {"cpu": "1"}}}),
            json!({"cpu": 1250, "memory": 1000}),
        ),
        (
            "more than can be counted",
            json!({"containers": [container("9Ei"), container("9Ei")]}),
            json!({"cpu": i64::MAX}),
        ),
        ("nonsense", json!({"containers": [container("much")]}), json!({})),
        (
            "limits alone",
            json!({"containers": [{"resources": {"limits": {"cpu": "1"}}}]}),
            json!({}),
        ),
    ];
    for (what, spec, mut expected) in cases {
        expected["pods"] = json!(1000);
        assert_eq!(json!(with_spec(&spec).requests), expected, "{what}");
    }
}

#[test]
fn where_a_pod_may_run() {
    let pod = with_spec(&json!({
        "nodeSelector": {"disk": "ssd"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [
                {"matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["1", "2"]},
                    {"key": "b", "operator": "NotIn", "values": ["1"]},
                    {"key": "c", "operator": "Exists"},
                    {"key": "d", "operator": "DoesNotExist"},
                    {"key": "e", "operator": "Gt", "values": ["5"]},
                    {"key": "f", "operator": "Lt", "values": ["-5"]},
                    {"key": "g", "operator": "Gt", "values": ["x"]},
                    {"key": "h", "operator": "Near"}]},
                {"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                {},
            ]}}},
        "tolerations": [
            {"operator": "Exists"},
            {"key": "a", "value": "v", "effect": "NoSchedule"},
            {"key": "b", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": 3},
            {"key": "c", "operator": "Lt", "value": "3"},
            {"key": "d", "operator": "Exists", "effect": "NoAdmit"},
        ],
        "containers": [{"ports": [
            {"containerPort": 80},
            {"containerPort": 80, "hostPort": 8080},
            {"containerPort": 53, "hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP"}]}],
        "initContainers": [
            {"restartPolicy": "Always", "ports": [{"hostPort": 9000}]},
            {"ports": [{"hostPort": 9001}]}],
    }));
    let requirement = |key: &str, test| Requirement { key: key.into(), test };
    let toleration = |key: &str, test, effect| Toleration { key: key.into(), test, effect };
    let port = |protocol: &str, ip: &str, port| HostPort {
        protocol: protocol.into(),
        ip: ip.into(),
        port,
    };
    let expected = Constraints {
        node_selector: [("disk".to_owned(), "ssd".to_owned())].into(),
        affinity: Some(vec![
            NodeTerm {
                expressions: vec![
                    requirement("a", Test::In(vec!["1".into(), "2".into()])),
                    requirement("b", Test::NotIn(vec!["1".into()])),
                    requirement("c", Test::Exists),
                    requirement("d", Test::DoesNotExist),
                    requirement("e", Test::Gt(5)),
                    requirement("f", Test::Lt(-5)),
                    requirement("g", Test::Unreadable),
                    requirement("h", Test::Unreadable),
                ],
                fields: vec![],
            },
            NodeTerm {
                expressions: vec![],
                fields: vec![requirement("metadata.name", Test::In(vec!["n".into()]))],
            },
            NodeTerm::default(),
        ]),
        tolerations: vec![
            toleration("", TolerationTest::Exists, None),
            toleration("a", TolerationTest::Equal("v".into()), Some(TaintEffect::NoSchedule)),
            toleration("b", TolerationTest::Equal(String::new()), Some(TaintEffect::NoExecute)),
            toleration("c", TolerationTest::Unreadable, None),
            toleration("d", TolerationTest::Unreadable, None),
        ],
        ports: vec![
            port("TCP", "0.0.0.0", 8080),
            port("UDP", "10.0.0.1", 53),
            port("TCP", "0.0.0.0", 9000),
        ],
        unknown: vec![],
    };
    assert_eq!(pod.constraints, expected);
    assert_eq!(with_spec(&json!({})).constraints, Constraints::default());
}

#[test]
fn what_is_not_looked_at_is_named() {
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{}]});
    let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{}]});
    for (spec, expected) in [
        (json!({"affinity": {"podAffinity": required}}), "pod affinity"),
        (json!({"affinity": {"podAffinity": preferred, "podAntiAffinity": preferred}}), ""),
        (json!({"affinity": {"podAntiAffinity": required}}), "pod anti-affinity"),
        (
            json!({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}),
            "topology spread",
        ),
        (json!({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}), ""),
        (
            json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
            "volumes",
        ),
        (json!({"volumes": [{"name": "v", "ephemeral": {}}]}), "volumes"),
        (json!({"volumes": [{"name": "v", "emptyDir": {}}]}), ""),
        (json!({"resourceClaims": [{"name": "r"}]}), "resource claims"),
        (
            json!({"resourceClaims": [{"name": "r"}], "affinity": {"podAffinity": required}}),
            "pod affinity, resource claims",
        ),
    ] {
        assert_eq!(with_spec(&spec).constraints.unknown.join(", "), expected, "{spec}");
    }
}
