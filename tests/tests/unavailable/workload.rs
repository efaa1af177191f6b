//! Workloads whose controllers run in localkube.

use holdfast_audit::cluster::is_healthy;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::{WORLD, World};
use serde_json::{Value, json};

const API: &str = "apis/apps/v1";

/// Creates nodes for the pods of this test's workloads only.
#[track_caller]
pub fn nodes(world: &World, n: usize) -> Vec<String> {
    (0..n).map(|i| world.node(&format!("n{i}"))).collect()
}

/// Creates a workload `web` with the label `app: job`, and waits until its pods are Ready.
#[track_caller]
pub fn create(world: &World, kind: &str, replicas: usize) {
    let manifest = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "job"}},
            "template": {
                "metadata": {"labels": {"app": "job"}},
                "spec": {
                    "nodeSelector": {WORLD: world.namespace},
                    "containers": [{"name": "main", "image": "example.com/main"}],
                    "terminationGracePeriodSeconds": 1,
                },
            },
        },
    });
    let _ = world.admin.post(&path(world, kind, ""), &manifest).ok();
    wait_ready(world, replicas);
}

/// Waits until there are this many pods, all of them healthy.
#[track_caller]
pub fn wait_ready(world: &World, n: usize) {
    until(&format!("{n} pods are Ready"), || {
        let (all, healthy) = (world.pods().len(), world.healthy_pods().len());
        if (all, healthy) == (n, n) { Ok(()) } else { Err(format!("{healthy} of {all}")) }
    });
}

#[track_caller]
pub fn scale(world: &World, kind: &str, replicas: usize) {
    let patch = json!({"spec": {"replicas": replicas}});
    let _ = world.admin.patch(&path(world, kind, "web"), &patch).ok();
}

/// Deletes it with the policy `Foreground` or `Background`.
#[track_caller]
pub fn delete(world: &World, kind: &str, policy: &str) {
    let query = format!("{}?propagationPolicy={policy}", path(world, kind, "web"));
    let _ = world.admin.delete(&query).ok();
}

/// Returns the uid of the pod with this name, if it exists and is Ready.
pub fn uid_if_ready(world: &World, pod: &str) -> Option<String> {
    let object: Value = world.admin.get(&world.path("api/v1", "pods", pod)).body;
    is_healthy(&object).then(|| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
}

fn path(world: &World, kind: &str, name: &str) -> String {
    world.path(API, &format!("{}s", kind.to_lowercase()), name)
}
