//! The protection of pods while Holdfast stops and starts.

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::server::{self, Server};
use holdfast_e2e::unavailable::is_enforced;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::{World, is_condition};
use serde_json::{Value, json};

use super::enforced::CONFIGURATION;

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podunavailablebudgets.policy.kruise.io";
const DRY: &str = "?dryRun=All";

pub fn deleting_the_configuration_lets_everything_pass_until_a_restart() {
    let mut server = Server::start("switch").expect("it starts");
    let world = guarded("switch");
    world.delete("a").assert_refused(&["job needs 2 available pods and has 2"]);
    let _ = world.admin.delete(CONFIGURATION).ok();
    until("deletes pass", || {
        let outcome = world.delete_with("a", DRY);
        if outcome.is_passed() { Ok(()) } else { Err(outcome.message) }
    });
    world.wait_guard("job", "says so", |status| {
        is_condition(status, "Enforced", "False", "NotIntercepted")
    });
    // It stays deleted, because the deletion may be intended.
    assert_eq!(world.admin.get(CONFIGURATION).code, 404);
    world.evict("b").assert_denied(&["job needs 2 available pods and has 2"]);
    end(&mut server);

    let mut server = Server::start("switch-back").expect("it starts again");
    world.wait_guard("job", "is enforced again", is_enforced);
    world.delete("a").assert_refused(&["job needs 2 available pods and has 2"]);
    drop(world);
    end(&mut server);
}

/// Grants are recorded, and the webhook on pods stays.
pub fn a_restart_leaves_no_gap() {
    let mut server = Server::start("gap").expect("it starts");
    let world = guarded("gap");
    world.edit_guard("job", &json!({"minAvailable": 1}));
    world.wait_counts("job", [1, 2, 1, 2]);
    world.evict_in_vain("a");
    server.kill();
    // No instance decides, so no operation passes.
    let nobody = world.delete("b");
    assert!((500..600).contains(&nobody.code), "{nobody:#?}");
    let mut server = Server::start("gap-over").expect("it starts again");
    world.delete("b").assert_refused(&["job needs 1 available pod"]);
    world.delete("a").assert_passed();
    drop(world);
    end(&mut server);
}

pub fn a_foreign_definition_is_left_alone_unless_told_otherwise() {
    server::uninstall().expect("it can be uninstalled");
    let admin = &fixture().admin;
    until("the definition is gone", || match admin.get(CRD).code {
        404 => Ok(()),
        code => Err(code.to_string()),
    });
    let _ = admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &kruises()).ok();
    let mut server = Server::start("foreign").expect("it starts beside it");
    let found = admin.get(CRD).ok().body;
    assert_eq!(found["spec"]["conversion"]["strategy"], "None", "{found:#}");
    assert_eq!(found["metadata"]["generation"], 1, "nobody touched it");
    let world = World::new("foreign");
    let manifest = json!({
        "apiVersion": "policy.kruise.io/v1alpha1",
        "kind": "PodUnavailableBudget",
        "metadata": {"name": "job"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "job"}}},
    });
    let path = world.path("apis/policy.kruise.io/v1alpha1", "podunavailablebudgets", "");
    until("budgets of Kruise's are served", || {
        let answer = world.admin.post(&path, &manifest);
        if answer.is_success() { Ok(()) } else { Err(answer.message().to_owned()) }
    });
    end(&mut server);

    let mut server = Server::start_with("taken", &["--take-over"]).expect("it takes it over");
    let found = admin.get(CRD).ok().body;
    assert_eq!(found["spec"]["conversion"]["strategy"], "Webhook", "{found:#}");
    assert_eq!(found["metadata"]["annotations"]["holdfast.dev/taken-over"], "true", "{found:#}");
    // The earlier budget is served in both versions, and enforced.
    world.wait_guard("job", "is enforced", is_enforced);
    drop(world);
    end(&mut server);
    // Objects of other programs are kept, and belong to them again.
    let told = server::uninstall().expect("it can be uninstalled");
    assert!(told.contains("kept customresourcedefinition/podunavailablebudgets"), "{told}");
    let found = admin.get(CRD).ok().body;
    assert!(found["metadata"]["labels"].is_null(), "{found:#}");
    let _ = admin.delete(CRD).ok();
}

/// Creates two pods. Both are needed.
fn guarded(name: &str) -> World {
    let world = World::new(name);
    let node = world.node("n");
    for pod in ["a", "b"] {
        world.pod(&Pod::new(pod).on(&node));
        world.wait_ready(pod);
    }
    world.guard("job", json!({"minAvailable": 2, "protectTotalReplicas": 2}));
    world
}

fn end(server: &mut Server) {
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

/// Returns the relevant parts of the definition of Kruise 1.8.
fn kruises() -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podunavailablebudgets.policy.kruise.io"},
        "spec": {
            "group": "policy.kruise.io",
            "scope": "Namespaced",
            "names": {
                "kind": "PodUnavailableBudget",
                "listKind": "PodUnavailableBudgetList",
                "plural": "podunavailablebudgets",
                "singular": "podunavailablebudget",
                "shortNames": ["pub"],
            },
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
            }],
        },
    })
}
