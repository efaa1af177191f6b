//! Evictions are checked twice: by the webhook and at the gate.

use holdfast_e2e::evict::Outcome;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::server::Server;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

use super::remove;

const WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/holdfast";

pub fn the_webhook_decides_and_without_it_the_gate_does() {
    let server = Server::start("gate").expect("it starts");
    let world = World::new("gate");
    let node = world.node("n");
    for pod in ["a", "b", "c"] {
        world.pod(&Pod::new(pod).on(&node));
        world.wait_ready(pod);
    }
    world.budget("job", json!({"minAvailable": 2}));
    world.wait_status("job", "has room", |status| status["disruptionsAllowed"] == 1);

    world.evict_in_vain("a");
    let grant = only_grant(&world);
    assert_eq!((&grant["pod"], &grant["pinned"]), (&json!("a"), &json!(true)), "{grant:#}");
    assert_ne!(grant["requester"], "system:apiserver", "{grant:#}");
    assert_eq!(server.decisions(&world.namespace).len(), 1, "the gate decides nothing anew");
    let refused = world.evict("b");
    refused.assert_denied(&["job needs 2 healthy pods and has 2"]);
    assert!(by_webhook(&refused), "{refused:#?}");

    let _ = world.admin.delete(WEBHOOK).ok();
    world.edit_budget("job", &json!({"minAvailable": 1}));
    world.wait_status("job", "has room", |status| status["disruptionsAllowed"] == 1);
    world.evict_in_vain("b");
    let grants = world.status("job")["grants"].take();
    let grant = grants.as_array().into_iter().flatten().find(|grant| grant["pod"] == "b");
    let grant = grant.expect("a grant of the gate");
    assert_ne!(grant["pinned"], true, "nobody pinned the eviction: {grant:#}");
    let refused = world.send(&holdfast_e2e::evict::Eviction::of("c"));
    refused.assert_denied(&["job needs 1 healthy pods and has 1"]);
    assert!(!by_webhook(&refused), "{refused:#?}");

    let mut server = server;
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    let server = Server::start("gate-again").expect("it puts the webhook back");
    assert_eq!(world.admin.get(WEBHOOK).code, 200);
    drop(world);
    remove(server);
}

fn by_webhook(outcome: &Outcome) -> bool {
    outcome.message.contains("admission webhook")
}

fn only_grant(world: &World) -> Value {
    let status = world.status("job");
    let grants = status["grants"].as_array().cloned().unwrap_or_default();
    let [grant] = &grants[..] else { panic!("{status:#}") };
    grant.clone()
}
