//! Native mode without the right to install it.

use holdfast_e2e::everything::everything;
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::gang::Shape;
use holdfast_e2e::printed::{self, WithoutInstaller};
use holdfast_e2e::server;
use serde_json::json;

use super::remove;

pub fn what_is_printed_takes_over_with_no_other_rights() {
    let flags = ["--mode=native", Shape::of_cluster().flag()];
    let server = printed::start("printed", &flags, &[]).expect("it starts");
    let world = printed::assert_protects("printed");
    // Holdfast forwards clients' requests to policy/v1 under its own identity.
    let (admin, path) = (&world.admin, world.budget_path("job"));
    let status = format!("{path}/status");
    let budget = admin.get(&status).ok().body;
    assert_eq!(budget["status"]["currentHealthyReplicas"], 1, "{budget:#}");
    let condition = json!({"type": "Ours", "status": "True", "reason": "Tried", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut applied = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "job"}});
    applied["status"] = json!({"conditions": [condition]});
    let _ = admin.apply(&status, &applied).ok();
    let _ = admin.delete(&path).ok();
    assert_eq!(admin.get(&path).code, 404);
    let log = server.log();
    assert!(!log.contains("forbidden: User"), "{log}");
    printed::assert_refused_beyond(&printed::token_of());
    remove(server);
}

/// Beside an API server, without a Deployment, as the user in the file of the node.
pub fn a_static_pod_takes_over_with_no_other_rights() {
    // Remove what earlier tests have left.
    let _ = server::uninstall().expect("it can be uninstalled");
    printed::await_namespace_gone();
    let before = everything();
    let user = &fixture().holdfast_kubeconfig;
    let without_installer = WithoutInstaller::make();
    let flags = ["--mode=native", Shape::of_cluster().flag()];
    let server = printed::start_static("static-pod", &flags, user).expect("it starts");
    let _world = printed::assert_protects("static-pod");
    let log = server.log();
    assert!(!log.contains("forbidden: User"), "{log}");
    printed::assert_refused_beyond(user);
    remove(server);
    drop(without_installer);
    printed::await_nothing_left(&before, "e2e-static-pod");
}
