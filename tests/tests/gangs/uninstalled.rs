//! The state after an uninstallation.

use holdfast_e2e::gang::gang;
use holdfast_e2e::server::{self, Server};
use holdfast_e2e::world::World;

/// No other program would ever remove these gates and finalizers.
pub fn gates_and_finalizers_go_with_holdfast() {
    let mut server = Server::start("gangs-gone").expect("it starts");
    let world = World::new("gone");
    world.small_node("n", 3);
    world.members("missing", 0..2);
    world.stays_pending("missing");
    world.pod_group("a", &gang(1));
    world.members("a", 0..1);
    world.wait_bound("a", 1);
    let group = world.admin.get(&world.pod_group_path("a")).ok().body;
    assert!(group["metadata"]["finalizers"].is_array(), "{group:#}");

    server::uninstall_with(&["--allow-loss"]).expect("it can be uninstalled");
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    world.wait_bound("missing", 2);
    let group = world.admin.get(&world.pod_group_path("a"));
    assert!(group.body["metadata"]["finalizers"].is_null(), "{group:?}");
    let _ = world.admin.delete(&world.pod_group_path("a")).ok();
    assert_eq!(world.admin.get(&world.pod_group_path("a")).code, 404);
}
