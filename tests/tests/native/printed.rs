//! Native mode without the right to install it.

use holdfast_e2e::printed;
use holdfast_e2e::world::World;
use serde_json::json;

use crate::remove;

pub fn what_is_printed_takes_over_with_no_other_rights() {
    let world = World::new("printed");
    let node = world.node("n");
    world.replica("a", 2, 2, &[&node]);
    world.replica("b", 2, 2, &[&node]);
    let server = printed::start("printed", &["--mode=native"]).expect("it starts");
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    world.evict("a-0").assert_evicted();
    world.evict("b-0").assert_denied(&["job needs 1 healthy replica and has 1"]);
    remove(server);
}
