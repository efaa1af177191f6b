//! The objects of `serve --install`, and the state after `uninstall`.

use std::time::Duration;

use holdfast_e2e::everything::everything;
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::gang::Shape;
use holdfast_e2e::pod::FINALIZER;
use holdfast_e2e::printed;
use holdfast_e2e::server::{self, Server};
use holdfast_e2e::wait::until;
use serde_json::json;

pub fn what_was_installed_can_be_removed_without_a_trace() {
    let before = everything();
    let mut server = Server::start("install").expect("it starts");
    let with = everything();
    for object in [
        "customresourcedefinitions/poddisruptionbudgets.policy.holdfast.dev",
        "clusterroles/holdfast",
        "clusterrolebindings/holdfast",
        "roles/holdfast",
        "rolebindings/holdfast",
        "namespaces/holdfast-system",
        "prioritylevelconfigurations/holdfast",
        "flowschemas/holdfast",
        "mutatingwebhookconfigurations/holdfast",
    ] {
        assert!(with.iter().any(|found| found.ends_with(object)), "{object} was not installed");
    }
    // A second start finds everything in place. Budgets are deleted with their definition.
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    let mut server = Server::start("install-again").expect("it starts again");
    let path = "/apis/policy.holdfast.dev/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({
        "apiVersion": "policy.holdfast.dev/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "e2e-left"},
        "spec": {"minAvailable": 1, "selector": {}},
    });
    let _ = fixture().admin.post(path, &budget).ok();
    until("the budget is processed", || {
        let body = fixture().admin.get(&format!("{path}/e2e-left")).ok().body;
        if body["status"].is_object() { Ok(()) } else { Err(body.to_string()) }
    });
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));

    let told = server::uninstall().expect("it can be uninstalled");
    assert!(told.contains("removed mutatingwebhookconfiguration/holdfast"), "{told}");
    assert!(told.contains("with 1 budget"), "{told}");
    // The API server takes some time to stop serving a kind.
    until("nothing of ours is left", || {
        let left: Vec<String> = everything().difference(&before).cloned().collect();
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    });
    // It can be repeated.
    let told = server::uninstall().expect("it can be uninstalled again");
    assert!(!told.contains("removed"), "{told}");
}

/// Objects of a definition that is being deleted would be deleted with it.
pub fn what_is_being_removed_is_waited_for() {
    let mut server = Server::start("install-before").expect("it starts");
    let admin = &fixture().admin;
    let path = "/apis/policy.holdfast.dev/v1/namespaces/default/poddisruptionbudgets";
    let mut budget = json!({
        "apiVersion": "policy.holdfast.dev/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "e2e-held", "finalizers": [FINALIZER]},
        "spec": {"minAvailable": 1, "selector": {}},
    });
    let _ = admin.post(path, &budget).ok();
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/poddisruptionbudgets.policy.holdfast.dev";
    let old = admin.get(definition).ok().body["metadata"]["uid"].clone();
    let _ = admin.delete(definition).ok();
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| Server::start("install-after"));
        std::thread::sleep(Duration::from_secs(2));
        assert!(!starting.is_finished(), "the old definition is there, and it did not wait");
        let patch = json!({"metadata": {"finalizers": null}});
        let _ = admin.patch(&format!("{path}/e2e-held"), &patch).ok();
        let mut server = starting.join().expect("it does not panic").expect("it starts");
        let new = &admin.get(definition).ok().body["metadata"];
        assert!(new["uid"] != old && new["deletionTimestamp"].is_null(), "{new}");
        budget["metadata"] = json!({"name": "e2e-after"});
        let _ = admin.post(path, &budget).ok();
        server.terminate();
        assert_eq!(server.wait().code(), Some(0));
    });
    let _ = server::uninstall().expect("it can be uninstalled");
}

/// Otherwise each would undo the work of the other.
pub fn whoever_installs_is_waited_for() {
    let mut server = Server::start("install-turn").expect("it starts");
    let admin = &fixture().admin;
    let lease =
        "/apis/coordination.k8s.io/v1/namespaces/holdfast-system/leases/holdfast-installation";
    let holder = |holder: Option<&str>| {
        let _ = admin.patch(lease, &json!({"spec": {"holderIdentity": holder}})).ok();
    };
    holder(Some("somebody"));
    std::thread::scope(|scope| {
        let uninstalling = scope.spawn(server::uninstall);
        std::thread::sleep(Duration::from_secs(3));
        assert!(!uninstalling.is_finished(), "somebody installs, and it did not wait");
        let _ = admin.get(WEBHOOK).ok();
        holder(None);
        let told = uninstalling.join().expect("it does not panic").expect("it can be uninstalled");
        assert!(told.contains("waiting: somebody installs or uninstalls"), "{told}");
    });
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

/// Whichever is first: afterwards the installation is complete or absent.
pub fn all_at_once_leave_no_half() {
    let admin = &fixture().admin;
    let parts = [
        WEBHOOK,
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/holdfast",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/holdfast",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/poddisruptionbudgets.policy.holdfast.dev",
    ];
    for pause in [0, 150, 400] {
        let mut before = Server::start("install-race").expect("it starts");
        before.terminate();
        assert_eq!(before.wait().code(), Some(0));
        let mut server = std::thread::scope(|scope| {
            let starting = scope.spawn(|| Server::start("install-race"));
            std::thread::sleep(Duration::from_millis(pause));
            let uninstalling = [scope.spawn(server::uninstall), scope.spawn(server::uninstall)];
            for uninstalling in uninstalling {
                let told = uninstalling.join().expect("it does not panic");
                let _ = told.expect("it can be uninstalled");
            }
            starting.join().expect("it does not panic")
        });
        let there = parts.map(|part| admin.get(part).code == 200);
        println!(
            "{pause} ms: {}, {there:?}",
            if server.is_ok() { "started" } else { "not started" }
        );
        assert!(there.iter().all(|is| *is == there[0]), "{parts:?}: {there:?}");
        if let Ok(server) = &mut server {
            server.terminate();
            assert_eq!(server.wait().code(), Some(0));
        }
        let _ = server::uninstall().expect("it can be uninstalled");
    }
}

/// Serving needs only the printed rights, for every choice of features.
pub fn what_is_printed_serves_and_goes_without_a_trace() {
    // Remove what earlier tests have left.
    let _ = server::uninstall().expect("it can be uninstalled");
    printed::await_namespace_gone();
    let before = everything();
    let shape = Shape::of_cluster();
    let all =
        [shape.flag(), "--pod-unavailable-budgets", "--clear-stale-disruption-targets", "--page"];
    // If the cluster has no PodGroups, tests need those of Holdfast.
    let least = if shape == Shape::Kubernetes { &[][..] } else { &all[..1] };
    for flags in [least, &all] {
        let mut server = printed::start("printed", flags, &[]).expect("it starts");
        let registered = fixture().admin.get(WEBHOOK).ok().body;
        let client = &registered["webhooks"][0]["clientConfig"];
        assert_eq!(client["service"]["name"], "holdfast", "{client}");
        let _world = printed::assert_protects("printed");
        let log = server.log();
        assert!(!log.contains("forbidden"), "{log}");
        printed::assert_refused_beyond(&printed::token_of());

        let told = server::uninstall().expect("it can be uninstalled");
        server.terminate();
        assert_eq!(server.wait().code(), Some(0));
        assert!(!told.contains("not ours"), "{told}");
        printed::await_nothing_left(&before, "e2e-printed");
    }
}

const WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/holdfast";
