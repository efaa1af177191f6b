//! A real `kubectl drain`.

use std::time::Duration;

use holdfast_e2e::drain::Drain;
use holdfast_e2e::world::{World, grants};
use serde_json::json;

use holdfast_e2e::shared::server;

/// The end-to-end test plan of KEP-5682.
pub fn a_second_replica_is_held_back_until_the_budget_gives_way() {
    let world = World::new("drain");
    let node = world.node("n");
    world.replica("a", 3, 3, &[&node]);
    world.replica("b", 3, 3, &[&node]);
    let budget = json!({"minAvailable": 1, "budgetScope": "Workload"});
    world.budget("job", budget);
    let observer = world.observe();

    let mut drain = world.drain(&node);
    // More than one denial: by then the drain has evicted all pods of the broken replica.
    drain.wait_for("will retry after 5s");
    std::thread::sleep(Duration::from_secs(6));
    assert!(drain.is_running(), "{}", drain.output());
    let left = world.pods();
    let survivor = if left.contains(&"a-0".to_owned()) { "a" } else { "b" };
    let whole: Vec<String> = (0..3).map(|i| format!("{survivor}-{i}")).collect();
    assert_eq!(left, whole, "{}", drain.output());
    assert_eq!(observer.least(), 1);

    // kubectl prints only the message, so the message must explain everything.
    let output = drain.output();
    assert!(output.contains("Budget job needs 1 healthy replica and has 1"), "{output}");
    // The cause has the budget, the needed number, the present number, and the replica that would break.
    let replica = format!("PodGroup {survivor}");
    let pod = format!("{survivor}-0");
    world.evict(&pod).assert_denied(&[
        "job needs 1 healthy replica and has 1",
        &replica,
        "needs 3 healthy pods and has 3",
    ]);

    world.edit_budget("job", &json!({"minAvailable": 0}));
    let (code, output) = drain.finish();
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(world.pods(), [""; 0]);
}

pub fn a_drain_finishes_the_replica_it_broke_at_no_further_cost() {
    let world = World::new("finish");
    let (node, elsewhere) = (world.node("n"), world.node("elsewhere"));
    world.replica("a", 4, 4, &[&node]);
    world.replica("b", 4, 4, &[&elsewhere]);
    world.replica("c", 4, 4, &[&elsewhere]);
    let status = world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    assert_eq!(status["disruptionsAllowedReplicas"], 2, "{status:#}");

    let (code, output) = world.drain(&node).finish();
    assert_eq!(code, Some(0), "{output}");
    assert!(!output.contains("will retry"), "{output}");
    assert_eq!(world.healthy_replicas(), 2);
    // One of two units is used up. No further unit is used.
    let status = world.wait_status("job", "has no grants left", |status| grants(status).is_empty());
    assert_eq!(status["disruptionsAllowedReplicas"], 1, "{status:#}");
    assert_eq!(status["currentHealthyReplicas"], 2, "{status:#}");
    let decisions = server().decisions(&world.namespace);
    let costs: Vec<i64> = decisions.iter().map(|d| d.cost).collect();
    assert_eq!((costs.len(), costs.iter().sum::<i64>()), (4, 1), "{decisions:#?}");
}

pub fn a_server_side_dry_run_spends_nothing() {
    let world = World::new("dry-drain");
    let node = world.node("n");
    world.replica("a", 2, 2, &[&node]);
    world.replica("b", 2, 2, &[&node]);
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));

    let (code, output) = Drain::start(&node, &["--dry-run=server"]).finish();
    assert_eq!(code, Some(0), "{output}");
    let decisions = server().decisions(&world.namespace);
    assert_eq!(decisions.len(), 4, "the dry run asks about every pod: {decisions:#?}");
    assert!(decisions.iter().all(|d| d.dry_run && d.verdict == "allow"), "{decisions:#?}");
    assert_eq!(world.healthy_replicas(), 2);
    let status = world.status("job");
    assert_eq!(grants(&status), [], "{status:#}");
    assert_eq!(status["disruptionsAllowedReplicas"], 1, "{status:#}");
}
