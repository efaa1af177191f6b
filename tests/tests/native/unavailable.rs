//! `PodUnavailableBudgets` in native mode: the gate decides evictions together with `PodDisruptionBudgets`,
//! and the webhook decides everything else.

use holdfast_e2e::evict::Eviction;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::server::Server;
use holdfast_e2e::world::{World, grants};
use serde_json::json;

use super::remove;

pub fn evictions_and_deletes_need_room_in_both_kinds_of_budget() {
    let server = Server::start("native-pub").expect("it starts");
    let world = World::new("native-pub");
    let node = world.node("n");
    for pod in ["a", "b", "c"] {
        world.pod(&Pod::new(pod).on(&node));
        world.wait_ready(pod);
    }
    // Without any PodDisruptionBudget.
    world.guard("pub", json!({"minAvailable": 3, "protectTotalReplicas": 3}));
    world.evict("a").assert_denied(&["pub needs 3 available pods and has 3"]);
    world.delete("a").assert_refused(&["pub needs 3 available pods and has 3"]);
    world
        .update_image("a", "example.com/main:second")
        .assert_refused(&["pub needs 3 available pods and has 3"]);

    // With a PodDisruptionBudget that has room, and then with one that has none.
    world.budget("pdb", json!({"minAvailable": 2}));
    world.wait_status("pdb", "has room", |status| status["disruptionsAllowed"] == 1);
    world.evict("a").assert_denied(&["pub needs 3 available pods and has 3"]);
    world.wait_status("pdb", "was not charged", |s| grants(s).is_empty());
    world.edit_guard("pub", &json!({"minAvailable": 1}));
    world.wait_counts("pub", [2, 3, 1, 3]);
    world.edit_budget("pdb", &json!({"minAvailable": 3}));
    world.wait_status("pdb", "has no room", |status| status["disruptionsAllowed"] == 0);
    world.evict("a").assert_denied(&["pdb needs 3 healthy pods and has 3"]);
    world.wait_guard("pub", "was not charged", |s| grants(s).is_empty());

    // Both have room, so both are charged.
    world.edit_budget("pdb", &json!({"minAvailable": 2}));
    world.wait_status("pdb", "has room", |status| status["disruptionsAllowed"] == 1);
    world.send(&Eviction::of("a").that_comes_to_nothing()).assert_came_to_nothing();
    world.wait_status("pdb", "is charged", |s| grants(s) == [("a".to_owned(), 1)]);
    world.wait_guard("pub", "is charged", |s| grants(s) == [("a".to_owned(), 1)]);
    world.evict("b").assert_denied(&["pdb needs 2 healthy pods and has 2"]);
    world.delete("b").assert_passed();
    world.delete("c").assert_refused(&["pub needs 1 available pods and has 1"]);
    drop(world);
    remove(server);
}
