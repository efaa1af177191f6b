//! Races that broke the safety promise and were found by a code review, not by the simulator. docs/simulator.md names
//! the fix that each of them tests.

use std::time::Duration;

use holdfast_core::{Command, Kind};
use holdfast_sim::{Fate, budget};

use crate::{cluster, grants};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A budget's watermark rises while a catch-up list is in transit. The list is older than the watermark, but the
/// watermark is valid.
#[test]
fn a_watermark_that_rises_while_a_list_is_in_transit_stays_in_force() {
    let mut world = cluster(2);
    world.instance(1).hold_kind(&Kind::Pod);
    // Instance 0 writes the status after this change, so instance 1 is behind.
    world.edit_pod("c-0", |pod| pod.ready = false);
    world.advance(secs(2));
    world.edit_pod("c-0", |pod| pod.ready = true);
    world.advance(secs(2));
    world.instance(1).hold_calls();
    let eviction = world.instance(1).eviction("b-0");
    let id = world.instance(1).submit(eviction);
    let calls = world.instance(1).calls_waiting();
    let is_list = |c: &Command| matches!(c, Command::ListNamespace { kind: Kind::Pod, .. });
    let list = calls.iter().position(is_list).expect("instance 1 is behind and lists");
    // The API server reads the list now. Its answer arrives later.
    world.instance(1).execute_call(list);
    assert!(world.evict("a-0").is_allow());
    world.advance(secs(2));
    assert_eq!(grants(&world, "one"), [], "instance 0 drops the grant and raises the watermark");
    world.instance(1).deliver_answer(0);
    world.instance(1).release_calls();
    let answer = world.reply(&id).expect("answered");
    assert!(!answer.is_allow(), "a is broken; b would be the second loss of one");
}

/// The status of a recreated budget has no watermarks yet.
#[test]
fn a_recreated_budget_demands_the_pods_as_of_its_creation() {
    let mut world = cluster(2);
    world.instance(1).hold_kind(&Kind::Pod);
    assert!(world.evict("a-0").is_allow());
    world.advance(secs(2));
    assert_eq!(grants(&world, "one"), []);
    // Otherwise instance 0 writes the new status, with watermarks.
    world.instance(0).hold_calls();
    world.delete_budget("one");
    world.apply_budget(budget("one").per_replica().min_available(2));
    assert!(!world.instance(1).decide("b-0").is_allow(), "a grant of this budget took a-0");
}

/// The list that an instance asked for is slow, and its watch is faster.
#[test]
fn a_request_that_waits_for_a_list_goes_on_when_the_watch_has_caught_up() {
    let mut world = cluster(2);
    world.instance(1).hold_kind(&Kind::Pod);
    world.edit_pod("c-0", |pod| pod.ready = false);
    world.advance(secs(2));
    world.edit_pod("c-0", |pod| pod.ready = true);
    world.advance(secs(2));
    world.instance(1).hold_calls();
    let eviction = world.instance(1).eviction("b-0");
    let id = world.instance(1).submit(eviction);
    let lists = |c: &Command| matches!(c, Command::ListNamespace { .. });
    assert!(world.instance(1).calls_waiting().iter().any(lists));
    world.instance(1).release_kind(&Kind::Pod);
    let writes = |c: &Command| matches!(c, Command::WriteStatus { .. });
    let calls = world.instance(1).calls_waiting();
    let write = calls.iter().position(writes).expect("it records the grant before the list came");
    world.instance(1).end_call(write, Fate::Answered);
    assert!(world.reply(&id).expect("answered").is_allow());
}
