//! `policy/v1` while no instance of Holdfast runs.

use holdfast_e2e::pod::Pod;
use holdfast_e2e::server::Server;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::json;

use super::remove;

pub fn without_it_nothing_is_evicted_and_everything_else_goes_on() {
    let mut server = Server::start("away").expect("it starts");
    let world = World::new("away");
    let node = world.node("n");
    world.replica("a", 1, 1, &[&node]);
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    server.kill();

    let refused = world.evict("a-0");
    assert!((500..600).contains(&refused.code), "{refused:#?}");
    let (code, output) = world.drain(&node).finish();
    assert_eq!(code, Some(1), "{output}");
    assert_eq!(world.healthy_replicas(), 1);
    // Pods are created, run and are deleted.
    world.pod(&Pod::new("new").on(&node));
    world.wait_ready("new");
    world.delete_pod("new");
    world.wait_gone("new");
    // The deletion of a namespace waits, because no server lists its budgets.
    let going = World::new("away-going");
    let path = format!("/api/v1/namespaces/{}", going.namespace);
    let _ = going.admin.delete(&path).ok();
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(going.admin.get(&path).code, 200, "it cannot be known to be empty");

    let server = Server::start("away-back").expect("it comes back");
    world.evict("a-0").assert_denied(&["job needs 1 healthy replica and has 1"]);
    until("the namespace is gone", || match going.admin.get(&path).code {
        404 => Ok(()),
        code => Err(code.to_string()),
    });
    remove(server);
}
