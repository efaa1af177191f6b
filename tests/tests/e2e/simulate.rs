//! `holdfast simulate --from-cluster`.

use std::process::Command;

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

pub fn a_copy_of_the_cluster_is_drained_and_the_cluster_left_alone() {
    let world = World::new("simulate");
    let node = world.node("n");
    world.replica("a", 3, 3, &[&node]);
    world.replica("b", 3, 3, &[&node]);
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));

    let output = Command::new(&fixture().holdfast)
        .args(["simulate", "--from-cluster", "-o", "json", "--drain", &node, "--kubeconfig"])
        .arg(&fixture().admin_kubeconfig)
        .output()
        .expect("holdfast starts");
    let told = String::from_utf8_lossy(&output.stderr);
    // Nothing restores the pods of the first replica, so the second is never evicted.
    assert_eq!(output.status.code(), Some(1), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("the report is JSON");
    let run = &report["runs"][0];
    assert_eq!((&run["result"], &run["evictionsGranted"]), (&json!("Blocked"), &json!(3)));
    let evictions = run["evictions"].as_array().expect("a list");
    let blocked = evictions.iter().filter(|eviction| eviction["grantedSeconds"].is_null());
    assert!(
        blocked.clone().count() == 3 && blocked.clone().all(|e| e["blockedBy"] == json!(["job"]))
    );
    assert_eq!(world.pods().len(), 6);
}
