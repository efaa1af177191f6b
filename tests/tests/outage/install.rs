//! What `serve --install` puts on a cluster, and what `uninstall` leaves of it.

use std::time::Duration;

use holdfast_e2e::client::Client;
use holdfast_e2e::everything::everything;
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::gang::Shape;
use holdfast_e2e::pod::FINALIZER;
use holdfast_e2e::printed;
use holdfast_e2e::server::{self, Server};
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
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
    // A second start finds everything in place; a budget goes with its kind.
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
    // The API server takes a moment to stop serving a kind.
    until("nothing of ours is left", || {
        let left: Vec<String> = everything().difference(&before).cloned().collect();
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    });
    // Safe to repeat.
    let told = server::uninstall().expect("it can be uninstalled again");
    assert!(!told.contains("removed"), "{told}");
}

/// What was made of a definition that is about to go would go with it.
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

/// Serving needs no right but those that are printed with it, whatever is chosen.
pub fn what_is_printed_serves_and_goes_without_a_trace() {
    // What earlier tests have left.
    let _ = server::uninstall().expect("it can be uninstalled");
    printed::await_namespace_gone();
    let before = everything();
    let shape = Shape::of_cluster();
    let all =
        [shape.flag(), "--pod-unavailable-budgets", "--clear-stale-disruption-targets", "--page"];
    // Where the cluster has no PodGroups there are none without Holdfast's.
    let least = if shape == Shape::Kubernetes { &[][..] } else { &all[..1] };
    for flags in [least, &all] {
        let mut server = printed::start("printed", flags, &[]).expect("it starts");
        let registered = fixture().admin.get(WEBHOOK).ok().body;
        let client = &registered["webhooks"][0]["clientConfig"];
        assert_eq!(client["service"]["name"], "holdfast", "{client}");
        let world = World::new("printed");
        let node = world.node("n");
        world.replica("a", 2, 2, &[&node]);
        world.replica("b", 2, 2, &[&node]);
        world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
        world.evict("a-0").assert_evicted();
        world.evict("b-0").assert_denied(&["job needs 1 healthy replica and has 1"]);
        let log = server.log();
        assert!(!log.contains("forbidden"), "{log}");
        assert_refused_beyond();

        let told = server::uninstall().expect("it can be uninstalled");
        server.terminate();
        assert_eq!(server.wait().code(), Some(0));
        assert!(!told.contains("not ours"), "{told}");
        until("nothing of ours is left", || {
            let mut left = everything();
            left.retain(|object| !before.contains(object) && !object.contains("e2e-printed"));
            let left = Vec::from_iter(left);
            if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
        });
    }
}

/// What somebody would do first who has got hold of its token.
fn assert_refused_beyond() {
    let taken = Client::intruder(&printed::token_of()).expect("it has a token");
    let (core, rbac) = ("/api/v1", "/apis/rbac.authorization.k8s.io/v1");
    let webhooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    let system = format!("{core}/namespaces/holdfast-system");
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let webhook = json!({"metadata": {"name": "other"}, "webhooks": []});
    let role = json!({"metadata": {"name": "other"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let eviction = json!({"metadata": {"name": "b-0"}});
    let budget = json!({"metadata": {"name": "x"}, "spec": {"minAvailable": 1}});
    let answers = [
        taken.get(&format!("{core}/secrets")),
        taken.get(&format!("{system}/secrets")),
        taken.get(&format!("{core}/configmaps")),
        taken.get(&format!("{webhooks}/other")),
        taken.put(&format!("{webhooks}/other"), &webhook),
        taken.post(webhooks, &webhook),
        taken.delete(&format!("{webhooks}/holdfast")),
        taken.post(&format!("{system}/pods"), &pod),
        taken.delete(&format!("{system}/pods/p")),
        taken.post(&format!("{system}/pods/b-0/eviction"), &eviction),
        taken.post(&format!("{system}/pods/b-0/exec?command=sh"), &json!({})),
        taken.post(
            &format!("{system}/serviceaccounts/holdfast/token"),
            &json!({"spec": {"audiences": []}}),
        ),
        taken.post(&format!("{rbac}/clusterroles"), &role),
        taken.put(&format!("{rbac}/clusterroles/holdfast"), &role),
        taken.patch(&format!("{core}/nodes/n"), &json!({"spec": {"unschedulable": true}})),
        taken.delete(&format!("{core}/namespaces/default")),
        taken.post("/apis/policy.holdfast.dev/v1/namespaces/default/poddisruptionbudgets", &budget),
        taken.delete("/apis/policy.holdfast.dev/v1/namespaces/default/poddisruptionbudgets"),
    ];
    for (i, answer) in answers.iter().enumerate() {
        // It evicts gangs that are not whole in time, by name only those that are there.
        let may_evict = Shape::of_cluster() == Shape::Holdfast && answer.code == 404;
        assert!(answer.code == 403 || may_evict, "request {i}: {}", answer.message());
    }
}

const WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/holdfast";
