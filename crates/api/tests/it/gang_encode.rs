//! The objects that Holdfast creates for gangs.

use holdfast_api::crd;
use holdfast_api::gang::encode::{ApiVersion, pod_group, workload};
use holdfast_api::gang::{GROUP, Object, VERSION, decode};
use holdfast_core::gang::{
    GROUP_API_VERSION, Kind, NewGroup, NewWorkload, Policy, Priority, Template,
};
use holdfast_core::model::{
    ControllerRef, GroupApi, GroupKind, GroupPolicy, ObjectKey, TemplateRef,
};
use serde_json::{Value, json};

const ALL: [ApiVersion; 3] = [ApiVersion::V1Beta1, ApiVersion::V1Alpha2, ApiVersion::Holdfast];

fn gang() -> NewGroup {
    let policy = Policy::Gang { min_count: 8 };
    NewGroup {
        key: ObjectKey::new("ns", "model-0-x"),
        owner: ControllerRef {
            group_kind: GroupKind::new("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
            version: "v1".into(),
            name: "model".into(),
            uid: "o".into(),
        },
        slot: "0".into(),
        workload: NewWorkload {
            name: "model-y".into(),
            templates: vec![Template { name: "replica".into(), policy, whole: true }],
        },
        template: Some("replica".into()),
        policy,
        min_count: 8,
        whole: true,
        priority: Priority {
            value: 5,
            class: Some("high".into()),
            preemption: Some("Never".into()),
        },
    }
}

fn basic() -> NewGroup {
    let mut new = gang();
    new.policy = Policy::Basic;
    new.whole = false;
    new.template = None;
    new.priority = Priority::default();
    new.workload.templates =
        vec![Template { name: "other".into(), policy: Policy::Basic, whole: false }];
    new
}

fn owner() -> Value {
    json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "model",
        "uid": "o", "controller": true})
}

#[test]
fn workloads() {
    for (api, name, all) in [
        (ApiVersion::V1Beta1, "scheduling.k8s.io/v1beta1", json!({"all": {}})),
        (ApiVersion::V1Alpha2, "scheduling.k8s.io/v1alpha2", json!("PodGroup")),
        (ApiVersion::Holdfast, "scheduling.holdfast.dev/v1alpha1", json!({"all": {}})),
    ] {
        let expected = json!({
            "apiVersion": name,
            "kind": "Workload",
            "metadata": {
                "name": "model-y", "namespace": "ns",
                "labels": {"app.kubernetes.io/managed-by": "holdfast"},
                "ownerReferences": [owner()],
            },
            "spec": {
                "controllerRef": {"apiGroup": "leaderworkerset.x-k8s.io", "kind": "LeaderWorkerSet",
                    "name": "model"},
                "podGroupTemplates": [{"name": "replica", "disruptionMode": all,
                    "schedulingPolicy": {"gang": {"minCount": 8}}}],
            },
        });
        assert_eq!(workload(&gang(), api), expected);
        assert_eq!(
            workload(&basic(), api)["spec"]["podGroupTemplates"],
            json!([{"name": "other", "schedulingPolicy": {"basic": {}}}])
        );
    }
}

#[test]
fn pod_groups() {
    let gang_policy = json!({"gang": {"minCount": 8}});
    for (api, spec) in [
        (
            ApiVersion::V1Beta1,
            json!({
                "workloadRef": {"workloadName": "model-y", "templateName": "replica"},
                "schedulingPolicy": gang_policy, "disruptionMode": {"all": {}},
                "priorityClassName": "high", "preemptionPolicy": "Never",
            }),
        ),
        (
            ApiVersion::V1Alpha2,
            json!({
                "podGroupTemplateRef": {"workload":
                    {"workloadName": "model-y", "podGroupTemplateName": "replica"}},
                "schedulingPolicy": gang_policy, "disruptionMode": "PodGroup",
                "priorityClassName": "high",
            }),
        ),
        (
            ApiVersion::Holdfast,
            json!({
                "workloadRef": {"name": "model-y"}, "podGroupTemplateName": "replica",
                "schedulingPolicy": gang_policy, "disruptionMode": {"all": {}},
                "priorityClassName": "high", "preemptionPolicy": "Never",
            }),
        ),
    ] {
        let mut metadata = json!({
            "name": "model-0-x", "namespace": "ns",
            "labels": {"app.kubernetes.io/managed-by": "holdfast"},
            "annotations": {"holdfast.dev/slot": "0"},
            "ownerReferences": [owner(),
                {"apiVersion": api.name(), "kind": "Workload", "name": "model-y", "uid": "w"}],
        });
        if api == ApiVersion::Holdfast {
            metadata["finalizers"] = json!(["scheduling.holdfast.dev/podgroup-protection"]);
        }
        let expected = json!({"apiVersion": api.name(), "kind": "PodGroup", "metadata": metadata,
            "spec": spec});
        assert_eq!(pod_group(&gang(), api, Some("w")), expected);
    }
}

#[test]
fn groups_that_are_no_gangs() {
    for api in ALL {
        let group = pod_group(&basic(), api, None);
        assert_eq!(group["spec"], json!({"schedulingPolicy": {"basic": {}}}), "{api:?}");
        assert_eq!(group["metadata"]["ownerReferences"], json!([owner()]), "{api:?}");
        assert_eq!(
            group["metadata"]["annotations"],
            json!({"holdfast.dev/slot": "0", "holdfast.dev/min-count": "8"}),
            "{api:?}"
        );
    }
}

/// The created objects decode to their origin.
#[test]
fn there_and_back() {
    for (api, version) in ALL.map(|version| {
        let holdfast = version == ApiVersion::Holdfast;
        (if holdfast { GroupApi::Holdfast } else { GroupApi::Kubernetes }, version)
    }) {
        let new = gang();
        let json = pod_group(&new, version, None).to_string();
        let read = decode(&Kind::Group, api, "v1", json.as_bytes());
        let Ok(Object::Group(group)) = read else { panic!("{read:?}") };
        assert_eq!((&group.object.key, group.slot.as_deref()), (&new.key, Some("0")));
        assert_eq!(group.object.controller, Some(new.owner.clone()));
        assert_eq!(group.object.policy, GroupPolicy::Gang { min_count: 8 });
        let template = TemplateRef { workload: "model-y".into(), template: "replica".into() };
        assert_eq!(group.object.template, Some(template));
        assert!(group.object.disrupt_whole);
        assert_eq!(group.protected, version == ApiVersion::Holdfast);

        let json = workload(&new, version).to_string();
        let read = decode(&Kind::Workload, api, "v1", json.as_bytes());
        let Ok(Object::Workload(workload)) = read else { panic!("{read:?}") };
        assert_eq!(workload.key.name, "model-y");
        assert_eq!(workload.entries.len(), 1);
        assert_eq!(workload.entries[0].policy, GroupPolicy::Gang { min_count: 8 });
    }
}

#[test]
fn versions_that_have_pod_groups() {
    assert_eq!(ApiVersion::of_kubernetes("v1beta1"), Some(ApiVersion::V1Beta1));
    assert_eq!(ApiVersion::of_kubernetes("v1alpha2"), Some(ApiVersion::V1Alpha2));
    assert_eq!(ApiVersion::of_kubernetes("v1alpha1"), None);
}

/// The API server drops fields that the schema does not have.
#[test]
fn the_schemas_have_the_fields_that_are_written() {
    fn check(path: &str, written: &Value, schema: &Value) {
        for (name, value) in written.as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let field = &schema["properties"][name.as_str()];
            assert!(field.is_object(), "the schema has no {path}");
            check(&path, value.get(0).unwrap_or(value), field.get("items").unwrap_or(field));
        }
    }
    for (crd, object, plural) in [
        (crd::workloads(), workload(&gang(), ApiVersion::Holdfast), "workloads"),
        (crd::pod_groups(), pod_group(&gang(), ApiVersion::Holdfast, None), "podgroups"),
    ] {
        let version = &crd["spec"]["versions"][0];
        check("", &json!({"spec": object["spec"]}), &version["schema"]["openAPIV3Schema"]);
        assert_eq!(crd["metadata"]["name"], format!("{plural}.{GROUP}"));
        assert_eq!((&crd["spec"]["group"], &version["name"]), (&json!(GROUP), &json!(VERSION)));
        assert_eq!(object["apiVersion"], GROUP_API_VERSION);
        assert_eq!(object["kind"], crd["spec"]["names"]["kind"]);
    }
    let status = &crd::pod_groups()["spec"]["versions"][0]["subresources"]["status"];
    assert!(status.is_object());
}
