//! An eviction is in flight while one release replaces the other.

use std::path::Path;

use holdfast_e2e::evict::Eviction;
use holdfast_e2e::fixture::{Mode, fixture};
use holdfast_e2e::pod::Pod;
use holdfast_e2e::server::{self, Server};
use holdfast_e2e::world::{World, grants};
use serde_json::{Value, json};

pub fn what_one_release_granted_the_other_honours() {
    let old = fixture().previous().expect("it was looked for");
    let new = fixture().holdfast.as_path();
    handed_over("upgraded", old, new);
    handed_over("rolled-back", new, old);
}

fn handed_over(name: &str, from: &Path, to: &Path) {
    let mut server = Server::start_of(from, &format!("{name}-before"), &[]).expect("it starts");
    let world = World::new(name);
    let node = world.node("n");
    for replica in ["a", "b", "c"] {
        world.replica(replica, 2, 2, &[&node]);
    }
    for pod in ["web-0", "web-1", "web-2"] {
        world.pod(&Pod::new(pod).on(&node).label("app", "web"));
        world.wait_ready(pod);
    }
    world.budget("job", json!({"minAvailable": 2, "budgetScope": "Workload"}));
    let web = json!({"matchLabels": {"app": "web"}});
    world.budget("web", json!({"minAvailable": 2, "selector": web}));
    world.wait_status("job", "counts all", |status| status["currentHealthyReplicas"] == 3);
    world.wait_status("web", "counts all", |status| status["currentHealthy"] == 3);
    world.evict_in_vain("a-0");
    world.evict_in_vain("web-0");
    let left = ["job", "web"].map(|budget| told(&world.status(budget)));
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());

    let mut server = Server::start_of(to, &format!("{name}-after"), &[]).expect("it starts");
    assert_eq!(["job", "web"].map(|budget| told(&world.status(budget))), left);
    let evict = |pod: &str| world.send(&Eviction::of(pod));
    evict("b-0").assert_denied(&["job needs 2 healthy replicas and has 2"]);
    evict("web-1").assert_denied(&["web needs 2 healthy pods and has 2"]);
    // These grants exist, so another request costs nothing.
    for pod in ["a-0", "web-0"] {
        evict(pod).assert_evicted();
        world.wait_gone(pod);
    }
    // In native mode two evictions by name look the same, so the next pod of that name is charged.
    if fixture().mode == Mode::Webhook {
        for budget in ["job", "web"] {
            world.wait_status(budget, "has no grant left", |status| grants(status).is_empty());
        }
    }
    evict("c-1").assert_denied(&["job needs 2 healthy replicas and has 2"]);
    evict("web-2").assert_denied(&["web needs 2 healthy pods and has 2"]);
    world.edit_budget("job", &json!({"minAvailable": 1}));
    world.wait_status("job", "has room", |status| status["disruptionsAllowed"] == 1);
    evict("b-0").assert_evicted();

    // In native mode this needs a running instance.
    let _ = server::uninstall().expect("it can be uninstalled");
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

/// Returns the parts of a status that both releases must understand.
fn told(status: &Value) -> (Vec<(String, i64)>, Value) {
    let counts = [
        "observedGeneration",
        "currentHealthyReplicas",
        "desiredHealthyReplicas",
        "expectedReplicas",
        "disruptionsAllowedReplicas",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
        "disruptionsAllowed",
    ];
    (grants(status), counts.map(|count| status[count].clone()).to_vec().into())
}
