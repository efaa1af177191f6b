//! Races that broke the safety promise and were found by a code review, not by the simulator. docs/simulator.md names
//! the fix that each of them tests.

use std::time::Duration;

use holdfast_core::model::{DisruptionTarget, Grant};
use holdfast_core::verdict::{DenyReason, Verdict};
use holdfast_core::{Command, Kind};
use holdfast_sim::{Fate, World, budget, pod};

use super::{cluster, evict_by_name, grants, show_pods};

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

/// The API server, or an admission check behind Holdfast, refuses an allowed eviction every time.
#[test]
fn a_refused_eviction_that_is_retried_does_not_hold_the_budget_for_ever() {
    let mut world = cluster(1);
    let mut others = 0;
    for _ in 0..240 {
        let _ = world.evict_without_delete("a-0");
        others += usize::from(world.evict_without_delete("b-0").is_allow());
        world.advance(secs(5));
    }
    assert!(others > 0, "within 20 minutes the other pod gets a turn");
    assert!(world.take_events().iter().any(|event| event.reason == "NotDeleted"));
}

/// Instance 1 is asked, and the faster clock of instance 0 makes that one expire the grants.
#[test]
fn others_get_a_turn_when_another_instance_expires_a_refused_grant() {
    let mut world = cluster(2);
    world.instance(0).skew(secs(0), 1300);
    let mut others = 0;
    for _ in 0..240 {
        let _ = world.instance(1).decide("a-0");
        others += usize::from(world.instance(1).decide("b-0").is_allow());
        world.advance(secs(5));
    }
    assert!(others > 0, "within 20 minutes the other pod gets a turn");
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

/// A grant ends because its pod does not exist any more. The status records the version that shows it.
#[test]
fn a_grant_that_ends_because_its_pod_is_gone_raises_the_watermark() {
    let mut world = cluster(2);
    world.instance(1).hold_kind(&Kind::Pod);
    assert!(world.evict_without_delete("a-0").is_allow());
    world.instance(0).crash();
    world.carry_out("a-0");
    world.instance(0).restart();
    world.advance(secs(130));
    assert_eq!(grants(&world, "one"), []);
    assert!(!world.instance(1).decide("b-0").is_allow());
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

/// A controller deletes the pod before its eviction arrives. Webhook mode has pinned the eviction to the pod's uid.
#[test]
fn a_pinned_grant_ends_with_its_pod() {
    let mut world = cluster(1);
    assert!(world.evict_without_delete("a-0").is_allow());
    world.delete_pod("a-0");
    world.apply_pod(pod("a-0").group("a").ready());
    world.advance(secs(2));
    assert_eq!(grants(&world, "one"), []);
    assert!(world.evict_without_delete("b-0").is_allow());
}

/// As above, while no instance runs.
#[test]
fn a_pinned_grant_ends_with_a_pod_that_no_instance_saw_go() {
    let mut world = cluster(1);
    assert!(world.evict_without_delete("a-0").is_allow());
    world.instance(0).crash();
    world.delete_pod("a-0");
    world.instance(0).restart();
    world.advance(secs(2));
    assert_eq!(grants(&world, "one"), []);
    assert!(!world.evict_without_delete("b-0").is_allow(), "a has lost a pod");
}

/// The API server set the condition in an earlier eviction that did not delete the pod.
#[test]
fn a_stale_condition_is_no_evidence_of_an_eviction() {
    let mut world = cluster(1);
    let target = DisruptionTarget {
        reason: DisruptionTarget::EVICTION_API.to_owned(),
        since: world.now().truncated(),
    };
    world.edit_pod("a-0", |pod| pod.disruption_target = Some(target));
    assert!(evict_by_name(&mut world, "a-0").is_allow());
    // A controller deletes the pod. The eviction may still take the successor.
    world.delete_pod("a-0");
    world.apply_pod(pod("a-0").group("a").ready());
    world.advance(secs(2));
    assert!(!world.evict_without_delete("b-0").is_allow());
}

#[test]
fn a_grant_expires_although_every_instance_restarts_within_two_minutes() {
    let mut world = cluster(1);
    assert!(world.evict_without_delete("a-0").is_allow());
    for _ in 0..4 {
        world.advance(Duration::from_mins(1));
        world.instance(0).crash();
        world.instance(0).restart();
    }
    world.advance(secs(5));
    assert_eq!(grants(&world, "one"), []);
}

#[test]
fn pending_pods_obey_the_limit_of_grants() {
    let mut world = cluster(1);
    assert!(world.evict_without_delete("a-0").is_allow());
    let grant = grants(&world, "one")[0].clone();
    world.edit_status("one", |status| {
        status.grants = (0..2000)
            .map(|n| Grant { pod: format!("p{n}"), pinned: false, ..grant.clone() })
            .collect();
    });
    world.delete_pod("b-0");
    world.apply_pod(pod("b-0").group("b"));
    let Verdict::Deny(denial) = world.evict_without_delete("b-0") else { panic!("allowed") };
    assert_eq!(denial.reason, DenyReason::TooManyGrants);
}

/// Budget `two` selects `a-0` alone.
fn with_second_budget() -> World {
    let mut world = cluster(2);
    world.edit_pod("a-0", |pod| {
        pod.labels.insert("app".to_owned(), "a".to_owned());
    });
    world.apply_budget(budget("two").select("app", "a").min_available(0));
    show_pods(&mut world);
    world.advance(secs(2));
    world
}

fn write_of(world: &mut World, instance: usize, name: &str) -> usize {
    let is_write = |call: &Command| matches!(call, Command::WriteStatus { budget, .. } if budget.object.name == name);
    let calls = world.instance(instance).calls_waiting();
    calls.iter().position(is_write).expect("it writes the budget")
}

fn counts(world: &World) -> (usize, usize) {
    (grants(world, "one").len(), grants(world, "two").len())
}

/// The eviction took its pod. One of the two budgets has dropped the grant, and the other has not yet.
#[test]
fn an_executed_reservation_is_not_refunded_by_an_instance_that_lags() {
    let mut world = with_second_budget();
    world.instance(1).hold_kind(&Kind::Pod);
    assert!(world.evict_without_delete("a-0").is_allow());
    world.instance(0).hold_calls();
    world.carry_out("a-0");
    world.advance(secs(3));
    let write = write_of(&mut world, 0, "two");
    world.instance(0).end_call(write, Fate::Answered);
    world.instance(0).crash();
    assert_eq!(counts(&world), (1, 0));
    world.advance(secs(20));
    assert!(!world.instance(1).decide("b-0").is_allow(), "a-0 is gone");
}

/// The API server refuses a write of the second budget. That answer shows nothing of the budget.
#[test]
fn a_rejected_write_is_no_fresh_read() {
    let mut world = with_second_budget();
    world.instance(0).lead(false);
    world.instance(1).lead(true);
    world.instance(1).hold_kind(&Kind::Budget);
    assert!(world.evict_without_delete("a-0").is_allow());
    // Instance 1 learns of the grant in the first budget alone.
    world.instance(1).deliver(&Kind::Budget);
    world.instance(1).hold_calls();
    world.advance(secs(10));
    world.edit_pod("a-0", |pod| pod.ready = false);
    world.advance(secs(6));
    let write = write_of(&mut world, 1, "two");
    world.instance(1).end_call(write, Fate::Refused);
    world.advance(secs(2));
    world.instance(1).release_calls();
    assert_eq!(counts(&world), (1, 1));
}

/// Instance 0 stands still between its two writes. Instance 1 refunds the first, and then the second write arrives.
fn frozen_between_two_budgets(patience: u64) -> (World, String) {
    let mut world = with_second_budget();
    world.instance(0).hold_calls();
    let mut eviction = world.instance(0).eviction("a-0");
    eviction.deadline = world.instance(0).now() + secs(patience);
    let id = world.instance(0).submit(eviction);
    world.instance(0).end_call(0, Fate::Answered);
    assert_eq!(counts(&world), (1, 0));
    world.instance(0).pause();
    world.instance(0).hold_watch();
    world.instance(1).lead(true);
    world.advance(secs(20));
    assert_eq!(counts(&world), (0, 0), "refunded");
    world.instance(0).execute_call(0);
    world.instance(0).resume();
    (world, id)
}

#[test]
fn an_allow_is_not_sent_after_the_deadline() {
    let (mut world, id) = frozen_between_two_budgets(10);
    world.instance(0).deliver_answer(0);
    assert!(!world.reply(&id).expect("answered").is_allow());
}

#[test]
fn an_allow_is_not_sent_when_a_grant_was_taken_back() {
    let (mut world, id) = frozen_between_two_budgets(300);
    world.instance(0).release_watch();
    world.instance(0).deliver_answer(0);
    world.instance(0).release_calls();
    assert!(world.reply(&id).expect("answered").is_allow());
    assert_eq!(counts(&world), (1, 1), "it was reserved again before the answer");
}

/// The answer to a write shows the successor of a budget before the watch shows what other instances wrote last.
#[test]
fn a_recreated_budget_waits_for_the_last_grants_of_its_predecessor() {
    let mut world = cluster(2);
    world.instance(1).hold_kind(&Kind::Budget);
    assert!(world.evict_without_delete("a-0").is_allow());
    world.instance(0).crash();
    world.delete_budget("one");
    world.apply_budget(budget("one").per_replica().min_available(2));
    assert!(!world.instance(1).decide("b-0").is_allow(), "a-0 may still go");
}

/// The budget is recreated twice. The answer to a write shows the second budget, after a list has shown the third.
/// Found by seed 106862 of swarm: the third budget covered nothing.
#[test]
fn an_answer_that_was_overtaken_does_not_hide_a_budget_that_was_recreated_twice() {
    let mut world = cluster(1);
    world.instance(0).hold_kind(&Kind::Budget);
    world.instance(0).hold_calls();
    world.edit_pod("c-0", |pod| pod.ready = false);
    world.advance(secs(2));
    let recreate = |world: &mut World| {
        world.delete_budget("one");
        world.apply_budget(budget("one").per_replica().min_available(1));
    };
    recreate(&mut world);
    let write = write_of(&mut world, 0, "one");
    world.instance(0).execute_call(write);
    recreate(&mut world);
    let eviction = world.instance(0).eviction("c-1");
    let listed = world.instance(0).submit(eviction);
    assert!(world.reply(&listed).is_none(), "the list shows the third, and the watch does not");
    world.instance(0).deliver_answer(0);
    world.instance(0).release_kind(&Kind::Budget);
    world.instance(0).release_calls();
    world.advance(secs(6));
    assert!(world.evict_without_delete("a-0").is_allow());
    assert!(grants(&world, "one").iter().any(|grant| grant.pod == "a-0"), "the third covers it");
    assert!(!world.evict_without_delete("b-0").is_allow(), "two replicas of one budget");
}
