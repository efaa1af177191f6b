//! Races that seeds of the simulator found.

use std::time::Duration;

use holdfast_core::verdict::AllowReason;
use holdfast_core::{Command, Kind};
use holdfast_sim::{Fate, World, budget, pod};

use super::{cluster, grants, reason, show_pods};

fn answer_first(world: &mut World) {
    world.instance(0).end_call(0, Fate::Answered);
}

/// Two budgets cover `a-0`; instance 0 has recorded its grant in the first, and writes the second.
fn between_two_budgets() -> (World, String) {
    let mut world = cluster(2);
    world.apply_budget(budget("two").per_replica().min_available(1));
    // The pod watch passes the version of the new budget, so that no list is needed.
    show_pods(&mut world);
    world.advance(Duration::from_secs(1));
    world.instance(0).hold_calls();
    let eviction = world.instance(0).eviction("a-0");
    let id = world.instance(0).submit(eviction);
    world.instance(0).end_call(0, Fate::Answered);
    assert_eq!((grants(&world, "one").len(), grants(&world, "two").len()), (1, 0));
    (world, id)
}

#[test]
fn a_budget_that_is_recreated_between_two_writes_is_asked_again() {
    // Found by seed 6299 of an earlier simulator.
    let (mut world, id) = between_two_budgets();
    world.delete_budget("one");
    world.apply_budget(budget("one").per_replica().min_available(2));
    world.instance(0).release_calls();
    assert_eq!(reason(&world.reply(&id).expect("answered")), AllowReason::Granted);
    assert_eq!((grants(&world, "one").len(), grants(&world, "two").len()), (1, 1));
    assert!(!world.instance(1).decide("b-0").is_allow(), "a-0 may go");
}

/// Instance 0 has written to budget `one`, and before it hears what became of that, the budget is
/// deleted, and created again.
fn recreated_under_a_write(before_the_write: bool) -> World {
    let mut world = cluster(1);
    world.hold_calls();
    world.edit_pod("a-0", |pod| pod.ready = false);
    world.advance(Duration::from_secs(2));
    assert!(matches!(world.calls_under_way().next(), Some(Command::WriteStatus { .. })));
    if before_the_write {
        world.delete_budget("one");
        world.instance(0).execute_call(0);
    } else {
        world.instance(0).execute_call(0);
        world.delete_budget("one");
    }
    world.apply_budget(budget("one").per_replica().min_available(3));
    world.instance(0).deliver_answer(0);
    world
}

#[test]
fn an_answer_that_the_deleted_budget_is_gone_does_not_take_its_successor_away() {
    let mut world = recreated_under_a_write(true);
    world.release_calls();
    assert!(!world.evict_without_delete("b-0").is_allow(), "the successor allows nothing");
}

#[test]
fn an_answer_about_a_deleted_budget_does_not_bring_it_back() {
    let mut world = recreated_under_a_write(false);
    world.release_calls();
    assert!(!world.evict_without_delete("b-0").is_allow(), "the successor allows nothing");
    let read = world.engine().status(&world.budget("one").expect("it exists").key.clone());
    assert_eq!(read.expect("it is known").desired_healthy_replicas, 3);
}

#[test]
fn a_request_that_starts_over_keeps_what_it_is_granted_then() {
    let mut world = cluster(1);
    world.apply_budget(budget("one").per_replica().min_available(0));
    world.apply_budget(budget("two").per_replica().min_available(0));
    world.advance(Duration::from_secs(2));
    // Both budgets are being written when a-0 is asked for.
    world.hold_calls();
    world.edit_pod("c-1", |pod| pod.ready = false);
    world.advance(Duration::from_secs(2));
    let eviction = world.eviction("a-0");
    let id = world.submit(eviction);
    answer_first(&mut world);
    let waiting: Vec<Command> = world.calls_under_way().cloned().collect();
    assert!(matches!(&waiting[..], [Command::WriteStatus { budget: two, .. },
        Command::WriteStatus { budget: one, .. }]
        if two.object.name == "two" && one.object.name == "one"));
    world.instance(0).end_call(1, Fate::Answered);
    // Now it waits for its turn at the second, and the first is being written for somebody else.
    let other = world.eviction("b-0");
    world.submit(other);
    world.delete_pod("a-0");
    world.apply_pod(pod("a-0").group("a"));
    // Its turn: the pod is another, so it gives back what it has, and begins again.
    answer_first(&mut world);
    world.release_calls();
    assert_eq!(reason(&world.reply(&id).expect("answered")), AllowReason::Granted);
    world.advance(Duration::from_secs(2));
    for budget in ["one", "two"] {
        assert!(grants(&world, budget).iter().any(|g| g.eviction == id), "{budget}");
    }
}

#[test]
fn a_grant_is_not_renewed_while_a_look_at_its_pod_is_in_transit() {
    let mut world = cluster(1);
    assert!(world.evict_without_delete("a-0").is_allow());
    world.advance(Duration::from_secs(119));
    world.hold_calls();
    world.advance(Duration::from_secs(2));
    let is_read = |call: &Command| matches!(call, Command::ReadPod { .. });
    let read = world.calls_under_way().position(is_read).expect("it looks");
    // It shows that a-0 is there. The answer is long on its way.
    world.instance(0).execute_call(read);
    let eviction = world.eviction("a-0");
    let id = world.submit(eviction);
    assert!(!world.reply(&id).expect("answered").is_allow(), "the grant is about to end");
    world.instance(0).deliver_answer(0);
    world.release_calls();
    world.advance(Duration::from_secs(2));
    assert!(world.evict_without_delete("b-0").is_allow());
}

#[test]
fn a_grant_for_a_pod_that_no_watch_has_told_of_stays_with_it() {
    let mut world = cluster(2);
    for index in 0..2 {
        world.instance(index).hold_kind(&Kind::Pod);
    }
    world.delete_pod("a-0");
    world.apply_pod(pod("a-0").group("a"));
    let successor = world.pod("a-0").expect("it is there").uid.clone();
    let mut eviction = world.eviction("a-0");
    eviction.uid = Some(successor.clone());
    assert!(world.decide(eviction).is_allow(), "it is pending");
    assert_eq!(grants(&world, "one")[0].uid, successor);
    // Instance 1 still believes in the predecessor.
    world.instance(1).decide("a-1");
    world.advance(Duration::from_secs(2));
    let of_a: Vec<_> = grants(&world, "one").iter().filter(|g| g.pod == "a-0").collect();
    assert_eq!(of_a.len(), 1);
    assert_eq!(of_a[0].uid, successor);
}

#[test]
fn what_a_deleted_budget_had_granted_expires_in_an_instance_that_does_not_lead() {
    let mut world = cluster(2);
    // Instance 1 hears of the grant, and not of its refund on the successor.
    assert!(world.evict_without_delete("a-0").is_allow());
    world.delete_budget("one");
    world.instance(0).hold_calls();
    world.apply_budget(budget("one").per_replica().min_available(2));
    world.instance(0).crash();
    world.advance(Duration::from_secs(1));
    assert_eq!(grants(&world, "one").len(), 1, "instance 1 knows the grant, and writes it");
    assert!(!world.instance(1).decide("b-0").is_allow(), "a-0 may go");
    world.advance(Duration::from_secs(130));
    assert!(world.instance(1).decide("b-0").is_allow(), "it expired");
}

#[test]
fn a_budget_that_ceased_to_cover_the_pod_on_the_way_is_not_missed() {
    let mut world = cluster(1);
    for name in ["three", "two"] {
        world.apply_budget(budget(name).per_replica().min_available(1));
    }
    world.advance(Duration::from_secs(2));
    world.hold_calls();
    let eviction = world.eviction("a-0");
    let id = world.submit(eviction);
    answer_first(&mut world);
    // Granted in the first of three; the second selects other pods now.
    world.edit_budget("three", |spec| spec.selector = None);
    world.release_calls();
    assert_eq!(reason(&world.reply(&id).expect("answered")), AllowReason::Granted);
    world.advance(Duration::from_secs(30));
    assert_eq!((grants(&world, "one").len(), grants(&world, "two").len()), (1, 1));
}

#[test]
fn a_budget_that_is_recreated_does_not_make_another_look_incomplete() {
    // Found by seed 56605 of an earlier simulator.
    let mut world = cluster(1);
    world.apply_budget(budget("two").per_replica().min_available(1));
    world.advance(Duration::from_secs(1));
    assert!(world.evict_without_delete("a-0").is_allow());
    // Nobody is left who knows that it had a grant in the one that was deleted.
    world.instance(0).crash();
    world.delete_budget("two");
    world.apply_budget(budget("two").per_replica().min_available(1));
    world.instance(0).restart();
    world.advance(Duration::from_secs(30));
    assert_eq!(grants(&world, "one").len(), 1);
    assert!(!world.evict_without_delete("b-0").is_allow(), "a-0 may still go");
}

#[test]
fn a_request_that_starts_over_is_allowed_by_what_it_wrote_since() {
    // Found by seed 48024.
    let (mut world, id) = between_two_budgets();
    let one = world.budget("one").expect("it exists").key.clone();
    let busy = world.instance(0).eviction("a-1");
    world.instance(0).submit(busy);
    world.edit_budget("two", |spec| spec.selector = None);
    // It starts over when the first budget is being written. So what it wrote there is refunded and written
    // anew by one write,
    answer_first(&mut world);
    answer_first(&mut world);
    // and somebody else writes first. What it wrote before names a budget that will never have it.
    world.touch_budget(&one);
    world.instance(0).release_calls();
    assert_eq!(reason(&world.reply(&id).expect("answered")), AllowReason::Granted);
    world.advance(Duration::from_secs(30));
    assert!(grants(&world, "one").iter().any(|g| g.eviction == id), "a-0 may still go");
}

#[test]
fn a_grant_that_has_taken_its_pod_does_not_come_back() {
    // Found by seed 50686.
    let mut world = cluster(1);
    let one = world.budget("one").expect("it exists").key.clone();
    assert!(world.evict_without_delete("a-0").is_allow());
    // The pod vanishes by itself, and its successor gets a grant of its own before a watch tells of it.
    world.instance(0).hold_kind(&Kind::Pod);
    world.delete_pod("a-0");
    world.apply_pod(pod("a-0").group("a"));
    let mut eviction = world.eviction("a-0");
    eviction.uid = Some(world.pod("a-0").expect("it is there").uid.clone());
    let id = eviction.id.clone();
    assert!(world.decide(eviction).is_allow(), "it is pending");
    assert_eq!(grants(&world, "one").len(), 2);
    world.carry_out("a-0");
    world.apply_pod(pod("a-0").group("a").ready());
    world.hold_calls();
    world.instance(0).release_kind(&Kind::Pod);
    // Both have ended, and are still on record when somebody writes the budget.
    world.touch_budget(&one);
    world.release_calls();
    world.advance(Duration::from_secs(2));
    // The first one passes to the next pod of the name, for nobody saw what became of its own.
    assert!(grants(&world, "one").iter().all(|g| g.eviction != id), "it has done its work");
}

#[test]
fn a_grant_for_a_pod_that_no_watch_has_told_of_does_not_end_with_an_earlier_one() {
    // Found by seed 58181.
    let mut world = cluster(1);
    world.instance(0).hold_kind(&Kind::Pod);
    assert!(world.evict_without_delete("a-0").is_allow());
    world.carry_out("a-0");
    world.apply_pod(pod("a-0").group("a"));
    world.hold_calls();
    let mut eviction = world.eviction("a-0");
    eviction.uid = Some(world.pod("a-0").expect("it is there").uid.clone());
    let id = world.submit(eviction);
    // A live read shows the successor. The grant for it is being written when the watch tells how the first
    // one went.
    answer_first(&mut world);
    world.instance(0).release_kind(&Kind::Pod);
    world.release_calls();
    assert_eq!(reason(&world.reply(&id).expect("answered")), AllowReason::Granted);
    world.advance(Duration::from_secs(2));
    assert!(grants(&world, "one").iter().any(|g| g.eviction == id), "a-0 may still go");
}

#[test]
fn of_two_evictions_by_name_the_second_may_take_the_next_of_the_name() {
    // Found by seed 279 in native mode.
    let mut world = cluster(1);
    for _ in 0..2 {
        let mut eviction = world.eviction("a-0");
        eviction.by_name = true;
        assert_eq!(reason(&world.decide(eviction)), AllowReason::Granted);
    }
    world.carry_out("a-0");
    world.apply_pod(pod("a-0").group("a").ready());
    world.advance(Duration::from_secs(2));
    assert!(!world.evict_without_delete("b-0").is_allow(), "a-0 may go once more");
    world.advance(Duration::from_mins(2));
    assert!(world.evict_without_delete("b-0").is_allow(), "by now it would have");
}

#[test]
fn an_expired_grant_does_not_refuse_its_pod_for_ever() {
    // Found by seed 124467 in native mode.
    let mut world = cluster(1);
    let one = world.budget("one").expect("it exists").key.clone();
    assert!(world.evict_without_delete("a-0").is_allow());
    world.advance(Duration::from_secs(50));
    assert!(!world.evict_without_delete("a-0").is_allow(), "the first eviction came to nothing");
    world.advance(Duration::from_secs(69));
    world.hold_calls();
    world.advance(Duration::from_secs(2));
    let is_read = |call: &Command| matches!(call, Command::ReadPod { .. });
    let read = world.calls_under_way().position(is_read).expect("it looks");
    world.instance(0).end_call(read, Fate::Answered);
    world.advance(Duration::from_secs(2));
    let is_write = |call: &Command| matches!(call, Command::WriteStatus { .. });
    let write = world.calls_under_way().position(is_write).expect("it ends the grant");
    // The watch shows the write, and a newer state of the budget, before the answer to the write arrives.
    world.instance(0).execute_call(write);
    world.touch_budget(&one);
    world.instance(0).deliver_answer(0);
    world.release_calls();
    world.advance(Duration::from_secs(15));
    assert!(world.evict_without_delete("a-0").is_allow(), "other pods had a turn");
}

#[test]
fn a_deletion_ends_a_budget_whose_successor_no_watch_has_told_of() {
    // Found by seed 109373.
    let mut world = cluster(1);
    assert!(world.evict_without_delete("a-0").is_allow());
    world.instance(0).hold_kind(&Kind::Budget);
    world.delete_budget("one");
    world.apply_budget(budget("one").per_replica().min_available(2));
    world.delete_budget("one");
    assert!(world.instance(0).coalesce(&Kind::Budget), "only the last deletion is told");
    world.instance(0).release_kind(&Kind::Budget);
    assert_eq!(reason(&world.evict_without_delete("b-0")), AllowReason::NotCovered);
    world.apply_budget(budget("one").per_replica().min_available(2));
    assert!(!world.evict_without_delete("b-0").is_allow(), "a-0 may still go");
}
