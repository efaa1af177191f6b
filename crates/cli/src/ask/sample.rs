//! A small cluster to ask about, in tests.

use serde_json::{Value, json};

/// Three replicas of two pods on three nodes, under a budget that lets one go.
pub fn objects() -> Vec<Value> {
    let mut objects = vec![json!({
        "apiVersion": "policy.holdfast.dev/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "llama"},
        "spec": {"maxUnavailable": 1, "budgetScope": "Workload",
            "selector": {"matchLabels": {"app": "llama"}}},
    })];
    let owner = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": true, "uid": ""}]);
    objects.push(json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "llama"}, "spec": {"replicas": 6}}));
    for replica in 0..3 {
        let group = format!("llama-{replica}");
        objects.push(json!({
            "apiVersion": "scheduling.holdfast.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": group, "ownerReferences": owner("StatefulSet", "llama")},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        }));
        for pod in 0..2 {
            objects.push(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("{group}-{pod}"), "labels": {"app": "llama"},
                    "annotations": {"holdfast.dev/pod-group": group},
                    "ownerReferences": owner("StatefulSet", "llama")},
                "spec": {"nodeName": format!("node-{replica}")},
            }));
        }
    }
    objects
}

fn find<'a>(objects: &'a mut [Value], name: &str) -> &'a mut Value {
    objects.iter_mut().rfind(|object| object["metadata"]["name"] == name).unwrap()
}

pub fn break_one(objects: &mut [Value]) {
    find(objects, "llama-2-1")["status"] = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3",
    }]});
    find(objects, "llama-2-1")["spec"] = json!({});
}
