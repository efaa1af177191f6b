//! Evictions that come in crowds are recorded in crowds, and one that comes alone waits for nobody.

use std::time::Duration;

use holdfast_core::model::ObjectKey;
use holdfast_core::verdict::Verdict;
use holdfast_core::{Command, Config};
use holdfast_sim::{World, budget, pod};

const PODS: usize = 8;

/// Eight pods, of which two have just been granted together, by the write after that of the first.
fn after_a_crowd() -> World {
    let mut world = World::new(Config::default());
    for index in 0..PODS {
        world.apply_pod(pod(&format!("p{index}")).label("app", "a").ready());
    }
    world.apply_budget(budget("b").select("app", "a").min_available(0));
    world.sync();
    world.advance(Duration::from_secs(2));
    let pods: Vec<ObjectKey> =
        (0..3).map(|index| ObjectKey::new("default", format!("p{index}"))).collect();
    assert!(world.evict_together(&pods).iter().all(Verdict::is_allow));
    world.hold_calls();
    world
}

fn ask(world: &mut World, pod: &str) {
    let eviction = world.eviction(pod);
    world.submit(eviction);
}

/// How many grants the write has that is under way.
fn under_way(world: &World) -> Vec<usize> {
    let write = |call: &Command| match call {
        Command::WriteStatus { status, .. } => Some(status.grants.len()),
        _ => None,
    };
    world.calls_under_way().filter_map(write).collect()
}

#[test]
fn as_many_as_the_last_time_are_waited_for_and_no_longer() {
    let mut world = after_a_crowd();
    ask(&mut world, "p3");
    assert!(under_way(&world).is_empty(), "another may come");
    ask(&mut world, "p4");
    assert_eq!(under_way(&world), [2], "as many as the last time");
}

#[test]
fn whoever_stays_alone_waits_for_milliseconds() {
    let mut world = after_a_crowd();
    ask(&mut world, "p3");
    world.advance(Duration::from_millis(4));
    assert_eq!(under_way(&world), [1]);
}

#[test]
fn a_crowd_of_a_while_ago_is_not_waited_for() {
    let mut world = after_a_crowd();
    // A leader would have written since, for the pods that are gone.
    world.instance(0).lead(false);
    world.advance(Duration::from_secs(1));
    ask(&mut world, "p3");
    assert_eq!(under_way(&world), [1]);
}
