//! Certificates are replaced while Holdfast serves `policy/v1`.

use std::time::{Duration, Instant};

use holdfast_e2e::server::Server;
use holdfast_e2e::world::World;
use serde_json::json;

use super::remove;

const EXPIRY: &str = "holdfast_certificate_expiry_timestamp_seconds";
const LIMIT: Duration = Duration::from_mins(1);

pub fn the_aggregator_follows_certificates_as_they_rotate() {
    let flags = ["--certificate-lifetime", "16s"];
    let server = Server::start_with("certificates", &flags).expect("it starts");
    let world = World::new("certificates");
    let node = world.node("n");
    world.replica("a", 1, 1, &[&node]);
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    let (began, mut rotations, mut expiry) = (Instant::now(), 0, server.metric(EXPIRY));
    while rotations < 3 {
        assert!(began.elapsed() < LIMIT, "{rotations} rotations: {}", server.log());
        // kube-apiserver calls Holdfast when budgets are read and when evictions are decided.
        world.status("job");
        assert_eq!(world.evict("a-0").code, 429);
        let now = server.metric(EXPIRY);
        rotations += usize::from(now > expiry);
        expiry = now;
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(world);
    remove(server);
}
