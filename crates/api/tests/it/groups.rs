use holdfast_api::decode::{Decoded, decode};
use holdfast_core::io::Kind;
use holdfast_core::model::{GroupApi, GroupPolicy, PodGroup, TemplateRef, Workload, WorkloadEntry};
use serde_json::{Value, json};

fn group(spec: &Value) -> PodGroup {
    let json = json!({"metadata": {"name": "g", "namespace": "ns", "uid": "u"}, "spec": spec});
    match decode(&Kind::PodGroup(GroupApi::Kubernetes), json.to_string().as_bytes()) {
        Ok(Decoded::PodGroup(group)) => group,
        other => panic!("{other:?}\n{json}"),
    }
}

fn workload(spec: &Value) -> Workload {
    let json = json!({"metadata": {"name": "w", "namespace": "ns", "uid": "u"}, "spec": spec});
    match decode(&Kind::Workload(GroupApi::Holdfast), json.to_string().as_bytes()) {
        Ok(Decoded::Workload(workload)) => workload,
        other => panic!("{other:?}\n{json}"),
    }
}

const GANG: GroupPolicy = GroupPolicy::Gang { min_count: 8 };

#[test]
fn pod_groups_in_every_shape() {
    let template = |workload: &str, template: &str| {
        Some(TemplateRef { workload: workload.into(), template: template.into() })
    };
    let gang = json!({"gang": {"minCount": 8}});
    let cases = [
        (
            "1.36 v1alpha2",
            json!({
                "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
                "schedulingPolicy": gang, "disruptionMode": "PodGroup", "priority": 5,
            }),
            (GANG, template("w", "t"), true),
        ),
        (
            "1.36 v1alpha2, standalone",
            json!({"schedulingPolicy": gang, "disruptionMode": "Pod"}),
            (GANG, None, false),
        ),
        (
            "1.37 v1beta1",
            json!({
                "workloadRef": {"workloadName": "w", "templateName": "t"},
                "schedulingPolicy": gang, "disruptionMode": {"all": {}},
            }),
            (GANG, template("w", "t"), true),
        ),
        (
            "1.37 v1alpha3",
            json!({"schedulingPolicy": {"basic": {}}, "disruptionMode": {"single": {}}}),
            (GroupPolicy::Basic, None, false),
        ),
        (
            "KEP-5832 draft, as its types say",
            json!({"workloadRef": {"name": "w"}, "podGroupTemplateName": "t"}),
            (GroupPolicy::Absent, template("w", "t"), false),
        ),
        (
            "KEP-5832 draft, as its example says",
            json!({"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "t"}}),
            (GroupPolicy::Absent, template("w", "t"), false),
        ),
        (
            "half a reference",
            json!({"workloadRef": {"name": "w"}}),
            (GroupPolicy::Absent, None, false),
        ),
        (
            "a gang without minCount",
            json!({"schedulingPolicy": {"gang": {}}}),
            (GroupPolicy::Gang { min_count: 0 }, None, false),
        ),
        ("an empty policy", json!({"schedulingPolicy": {}}), (GroupPolicy::Absent, None, false)),
        ("nothing", Value::Null, (GroupPolicy::Absent, None, false)),
    ];
    for (shape, spec, expected) in cases {
        let group = group(&spec);
        assert_eq!((group.policy, group.template, group.disrupt_whole), expected, "{shape}");
        assert_eq!(group.composite_parent, None, "{shape}");
        assert_eq!(group.api, GroupApi::Kubernetes);
    }
}

/// Budgets count such a group as a gang, although its pods do not start together.
#[test]
fn a_basic_group_can_say_what_its_min_count_would_be() {
    let basic = json!({"basic": {}});
    let gang = json!({"gang": {"minCount": 3}});
    for (policy, annotation, expected) in [
        (&basic, "8", GANG),
        (&basic, "0", GroupPolicy::Basic),
        (&basic, "many", GroupPolicy::Basic),
        (&gang, "8", GroupPolicy::Gang { min_count: 3 }),
    ] {
        let json = json!({"metadata": {"name": "g", "annotations": {"holdfast.dev/min-count": annotation}},
            "spec": {"schedulingPolicy": policy}});
        let decoded = decode(&Kind::PodGroup(GroupApi::Kubernetes), json.to_string().as_bytes());
        let Ok(Decoded::PodGroup(group)) = decoded else { panic!("{decoded:?}") };
        assert_eq!(group.policy, expected, "{json}");
    }
}

#[test]
fn composite_parents_are_seen() {
    let group = group(&json!({
        "parentCompositePodGroupName": "c",
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": {"gang": {"minCount": 8}},
    }));
    assert_eq!(group.composite_parent.as_deref(), Some("c"));
}

#[test]
fn a_group_says_who_owns_it_and_whether_it_goes() {
    let json = json!({"metadata": {
        "name": "g", "namespace": "ns", "resourceVersion": "7",
        "deletionTimestamp": "2026-11-15T20:00:00Z",
        "finalizers": ["scheduling.k8s.io/podgroup-protection"],
        "ownerReferences": [
            {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "name": "w", "uid": "1"},
            {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "l",
                "uid": "2", "controller": true},
        ],
    }, "spec": {}});
    let decoded = decode(&Kind::PodGroup(GroupApi::Holdfast), json.to_string().as_bytes());
    let Ok(Decoded::PodGroup(group)) = decoded else { panic!("{decoded:?}") };
    assert!(group.terminating);
    assert_eq!(group.api, GroupApi::Holdfast);
    assert_eq!(group.version, 7.into());
    let owner = group.controller.expect("the controller is one of the owners");
    assert_eq!((owner.name.as_str(), owner.uid.as_str()), ("l", "2"));
}

#[test]
fn workloads_in_every_shape() {
    let entry = |policy, replicas| WorkloadEntry { name: "t".into(), policy, replicas };
    let policy = json!({"gang": {"minCount": 8}});
    let cases = [
        (
            "1.35 v1alpha1",
            json!({"controllerRef": {"kind": "K", "name": "n"},
                "podGroups": [{"name": "t", "policy": policy}]}),
            vec![entry(GANG, None)],
        ),
        (
            "1.36 v1alpha2",
            json!({"podGroupTemplates": [
                {"name": "t", "schedulingPolicy": policy, "disruptionMode": "PodGroup"}]}),
            vec![entry(GANG, None)],
        ),
        (
            "1.37 v1beta1",
            json!({"podGroupTemplates": [
                {"name": "t", "schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}}]}),
            vec![entry(GroupPolicy::Basic, None)],
        ),
        (
            "1.37 v1alpha3, composites only",
            json!({"compositePodGroupTemplates": [{"name": "c"}], "podGroupTemplates": null}),
            vec![],
        ),
        (
            "KEP-5682 draft",
            json!({"podGroups": [{"name": "t", "replicas": 10, "policy": policy}]}),
            vec![entry(GANG, Some(10))],
        ),
        (
            "KEP-5832 draft",
            json!({"podGroupTemplates": [{"name": "t", "policy": policy}]}),
            vec![entry(GANG, None)],
        ),
        (
            "no policy",
            json!({"podGroupTemplates": [{"name": "t"}]}),
            vec![entry(GroupPolicy::Absent, None)],
        ),
        ("nothing", Value::Null, vec![]),
    ];
    for (shape, spec, expected) in cases {
        assert_eq!(workload(&spec).entries, expected, "{shape}");
    }
}
