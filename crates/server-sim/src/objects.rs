//! Objects of the workloads, as their controllers write them.

use serde_json::{Value, json};

use crate::params::{Shape, Workload};

pub const NAMESPACE: &str = "n";
const LWS: &str = "leaderworkerset.sigs.k8s.io";

/// The object that owns a workload's pods.
pub fn owner(workload: &Workload) -> Value {
    let Workload { name, shape, replicas, size, .. } = workload;
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": []}});
    match shape {
        Shape::LeaderWorkerSet => json!({
            "metadata": {"namespace": NAMESPACE, "name": name},
            "spec": {
                "replicas": replicas,
                "leaderWorkerTemplate": {"size": size, "workerTemplate": template,
                    "restartPolicy": "RecreateGroupOnPodRestart"},
            },
        }),
        Shape::PodGroups => json!({
            "metadata": {"namespace": NAMESPACE, "name": name,
                "annotations": {"holdfast.dev/group-size": size.to_string()}},
            "spec": {"replicas": replicas * size, "template": template},
        }),
        Shape::Pods => json!({
            "metadata": {"namespace": NAMESPACE, "name": name},
            "spec": {"replicas": replicas, "template": template},
        }),
    }
}

/// The `StatefulSet` of a group's workers, owned by the leader.
pub fn workers(leader: &Value) -> Value {
    let name = &leader["metadata"]["name"];
    json!({
        "metadata": {"namespace": NAMESPACE, "name": name,
            "ownerReferences": [reference("v1", "Pod", &leader["metadata"])]},
        "spec": {"replicas": 1},
    })
}

/// The `StatefulSet` of a `LeaderWorkerSet`'s leaders.
pub fn leaders(set: &Value, workload: &Workload) -> Value {
    let owner = reference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", &set["metadata"]);
    json!({
        "metadata": {"namespace": NAMESPACE, "name": workload.name, "ownerReferences": [owner]},
        "spec": {"replicas": workload.replicas},
    })
}

pub fn pod_group(workload: &Workload, replica: usize, owner: &Value) -> Value {
    let owner = reference("apps/v1", "StatefulSet", &owner["metadata"]);
    json!({
        "metadata": {"namespace": NAMESPACE, "name": format!("{}-g{replica}", workload.name),
            "ownerReferences": [owner]},
        "spec": {"schedulingPolicy": {"gang": {"minCount": workload.size}}},
    })
}

/// A pod that has just been created. `owner` is a `StatefulSet`.
pub fn pod(workload: &Workload, replica: usize, name: &str, owner: &Value) -> Value {
    let mut pod = json!({
        "metadata": {
            "namespace": NAMESPACE, "name": name,
            "labels": {"app": workload.name},
            "ownerReferences": [reference("apps/v1", "StatefulSet", &owner["metadata"])],
        },
        "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
        "status": {"phase": "Pending", "conditions": []},
    });
    match workload.shape {
        Shape::LeaderWorkerSet => {
            let labels = &mut pod["metadata"]["labels"];
            labels[format!("{LWS}/name")] = json!(workload.name);
            labels[format!("{LWS}/group-index")] = json!(replica.to_string());
            labels[format!("{LWS}/group-key")] = json!(format!("key-{}-{replica}", workload.name));
            let size = workload.size.to_string();
            pod["metadata"]["annotations"] = json!({format!("{LWS}/size"): size});
            if name.matches('-').count() > 1 {
                let leader = format!("{}-{replica}", workload.name);
                pod["metadata"]["annotations"][format!("{LWS}/leader-name")] = json!(leader);
            }
        }
        Shape::PodGroups => {
            let group = format!("{}-g{replica}", workload.name);
            pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
        }
        Shape::Pods => {}
    }
    pod
}

pub fn budget(name: &str, spec: &Value) -> Value {
    json!({"metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec})
}

pub fn make_ready(pod: &mut Value) {
    pod["status"]["phase"] = json!("Running");
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
}

pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    ready.any(|condition| condition["status"] == "True")
}

pub fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// The condition that the Eviction API sets.
pub fn target(pod: &mut Value) {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
    });
    match pod["status"]["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => pod["status"]["conditions"] = json!([condition]),
    }
}

fn reference(api_version: &str, kind: &str, meta: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta["uid"],
        "controller": true})
}
