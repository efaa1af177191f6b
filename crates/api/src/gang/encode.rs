//! Encodes the Workload and the `PodGroups` of a workload, for their creation.

use holdfast_core::gang::{
    GROUP_API_VERSION, MIN_COUNT, NewGroup, PROTECTION, Policy, Priority, SLOT, Template,
};
use holdfast_core::model::ControllerRef;
use serde_json::{Map, Value, json};

/// The API version and shape of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiVersion {
    /// `scheduling.k8s.io/v1beta1`, of Kubernetes 1.37.
    V1Beta1,
    /// `scheduling.k8s.io/v1alpha2`, of Kubernetes 1.36.
    V1Alpha2,
    /// `scheduling.holdfast.dev/v1alpha1`
    Holdfast,
}

impl ApiVersion {
    /// Returns the version for a version of `scheduling.k8s.io`, such as `v1beta1`. None if that version has
    /// no `PodGroups`, or is unknown.
    pub fn of_kubernetes(version: &str) -> Option<Self> {
        match version {
            "v1beta1" => Some(Self::V1Beta1),
            "v1alpha2" => Some(Self::V1Alpha2),
            _ => None,
        }
    }

    /// Returns group and version as in `apiVersion`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1Beta1 => "scheduling.k8s.io/v1beta1",
            Self::V1Alpha2 => "scheduling.k8s.io/v1alpha2",
            Self::Holdfast => GROUP_API_VERSION,
        }
    }
}

/// Returns the Workload of this group and of the other groups of the same workload.
pub fn workload(new: &NewGroup, api: ApiVersion) -> Value {
    let owner = &new.owner;
    let templates = new.workload.templates.iter().map(|template| template_of(template, api));
    json!({
        "apiVersion": api.name(),
        "kind": "Workload",
        "metadata": {
            "name": new.workload.name,
            "namespace": new.key.namespace,
            "labels": labels(),
            "ownerReferences": [controller(owner)],
        },
        "spec": {
            "controllerRef": {
                "apiGroup": owner.group_kind.group,
                "kind": owner.group_kind.kind,
                "name": owner.name,
            },
            "podGroupTemplates": templates.collect::<Vec<_>>(),
        },
    })
}

/// Returns the `PodGroup`. `workload_uid` is the uid of the existing Workload, as an owner of the group.
pub fn pod_group(new: &NewGroup, api: ApiVersion, workload_uid: Option<&str>) -> Value {
    let mut annotations = Map::from_iter([(SLOT.to_owned(), json!(new.slot))]);
    if new.policy == Policy::Basic {
        annotations.insert(MIN_COUNT.to_owned(), json!(int32(new.min_count).to_string()));
    }
    let mut owners = vec![controller(&new.owner)];
    owners.extend(workload_uid.map(|uid| {
        json!({"apiVersion": api.name(), "kind": "Workload", "name": new.workload.name, "uid": uid})
    }));
    let mut group = json!({
        "apiVersion": api.name(),
        "kind": "PodGroup",
        "metadata": {
            "name": new.key.name,
            "namespace": new.key.namespace,
            "labels": labels(),
            "annotations": annotations,
            "ownerReferences": owners,
        },
        "spec": {"schedulingPolicy": policy(new.policy)},
    });
    // The API server adds a finalizer to PodGroups of Kubernetes.
    if api == ApiVersion::Holdfast {
        group["metadata"]["finalizers"] = json!([PROTECTION]);
    }
    let spec = &mut group["spec"];
    if let Some(template) = &new.template {
        refer(spec, &new.workload.name, template, api);
    }
    if new.whole {
        spec["disruptionMode"] = disrupts_all(api);
    }
    prioritize(spec, &new.priority, api);
    group
}

fn refer(spec: &mut Value, workload: &str, template: &str, api: ApiVersion) {
    match api {
        ApiVersion::V1Beta1 => {
            spec["workloadRef"] = json!({"workloadName": workload, "templateName": template});
        }
        ApiVersion::V1Alpha2 => {
            spec["podGroupTemplateRef"] = json!({
                "workload": {"workloadName": workload, "podGroupTemplateName": template},
            });
        }
        ApiVersion::Holdfast => {
            spec["workloadRef"] = json!({"name": workload});
            spec["podGroupTemplateName"] = json!(template);
        }
    }
}

/// Sets the priority. Kubernetes 1.36 has no preemption policy of groups, and 1.37 drops it unless a feature
/// is on.
fn prioritize(spec: &mut Value, priority: &Priority, api: ApiVersion) {
    if let Some(class) = &priority.class {
        spec["priorityClassName"] = json!(class);
    }
    if let Some(preemption) = &priority.preemption
        && api != ApiVersion::V1Alpha2
    {
        spec["preemptionPolicy"] = json!(preemption);
    }
}

fn template_of(template: &Template, api: ApiVersion) -> Value {
    let mut value = json!({"name": template.name, "schedulingPolicy": policy(template.policy)});
    if template.whole {
        value["disruptionMode"] = disrupts_all(api);
    }
    value
}

fn policy(policy: Policy) -> Value {
    match policy {
        Policy::Gang { min_count } => json!({"gang": {"minCount": int32(min_count)}}),
        Policy::Basic => json!({"basic": {}}),
    }
}

fn disrupts_all(api: ApiVersion) -> Value {
    match api {
        ApiVersion::V1Alpha2 => json!("PodGroup"),
        ApiVersion::V1Beta1 | ApiVersion::Holdfast => json!({"all": {}}),
    }
}

fn labels() -> Value {
    json!({"app.kubernetes.io/managed-by": "holdfast"})
}

/// Returns the owner reference. It does not block the owner's deletion, because that needs the right to
/// change the owner's finalizers.
fn controller(owner: &ControllerRef) -> Value {
    let ControllerRef { group_kind, version, name, uid } = owner;
    json!({
        "apiVersion": format!("{}/{version}", group_kind.group),
        "kind": group_kind.kind,
        "name": name,
        "uid": uid,
        "controller": true,
    })
}

/// Limits a number to the range that the schema allows and that Go clients can read.
fn int32(n: i64) -> i64 {
    n.clamp(0, i32::MAX.into())
}
