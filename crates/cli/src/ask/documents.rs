//! Manifests as if a cluster had listed them.

use std::collections::BTreeMap;

use holdfast_core::Kind;
use holdfast_core::model::{GroupApi, GroupKind, Owner};
use holdfast_server::Listed;
use serde_json::{Value, json};

/// Grouped by kind. What an API server would have filled in is filled in here: uids, by which owners are
/// found, are made of names, and a pod without a status is taken to be well.
pub fn lists(documents: Vec<Value>, namespace: &str) -> Vec<Listed> {
    let mut lists: BTreeMap<Option<Kind>, Vec<Value>> = BTreeMap::new();
    for mut object in documents {
        let kind = kind_of(&object);
        if kind.is_none() && object["kind"] != "Node" {
            continue;
        }
        complete(&mut object, namespace);
        lists.entry(kind).or_default().push(object);
    }
    let version = "1".to_owned();
    let list = |(kind, objects)| Listed { kind, version: version.clone(), objects };
    lists.into_iter().map(list).collect()
}

fn kind_of(object: &Value) -> Option<Kind> {
    let api_version = object["apiVersion"].as_str()?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = object["kind"].as_str()?;
    Some(match (group, kind) {
        ("", "Pod") => Kind::Pod,
        ("policy", "PodDisruptionBudget") => Kind::BuiltinBudget,
        ("policy.holdfast.dev", "PodDisruptionBudget") => Kind::Budget,
        ("policy.kruise.io", "PodUnavailableBudget") => Kind::UnavailableBudget,
        ("scheduling.k8s.io", "PodGroup") => Kind::PodGroup(GroupApi::Kubernetes),
        ("scheduling.holdfast.dev", "PodGroup") => Kind::PodGroup(GroupApi::Holdfast),
        ("scheduling.k8s.io", "Workload") => Kind::Workload(GroupApi::Kubernetes),
        ("scheduling.holdfast.dev", "Workload") => Kind::Workload(GroupApi::Holdfast),
        _ => {
            let owner = GroupKind::new(group, kind);
            return Owner::is_watched(&owner).then_some(Kind::Owner(owner));
        }
    })
}

fn complete(object: &mut Value, namespace: &str) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let is_unset = |value: &Value| value.as_str().is_none_or(str::is_empty);
    let meta = &mut object["metadata"];
    if kind != "Node" && is_unset(&meta["namespace"]) {
        meta["namespace"] = json!(namespace);
    }
    if is_unset(&meta["uid"]) {
        meta["uid"] = json!(format!("{kind}/{}", meta["name"].as_str().unwrap_or_default()));
    }
    meta["resourceVersion"] = json!("1");
    meta["generation"] = json!(1);
    for owner in meta["ownerReferences"].as_array_mut().into_iter().flatten() {
        let (kind, name) = (owner["kind"].as_str(), owner["name"].as_str());
        owner["uid"] = json!(format!("{}/{}", kind.unwrap_or_default(), name.unwrap_or_default()));
    }
    if kind == "Pod" && is_unset(&object["status"]["phase"]) {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        object["status"] = json!({"phase": "Running", "conditions": ready});
    }
}
