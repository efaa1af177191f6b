//! The races that the ledger is built against, each by name.

use std::time::Duration;

use holdfast_core::model::{GroupApi, Phase};
use holdfast_core::verdict::{AllowReason, Verdict};
use holdfast_core::{Command, Config, Kind};
use holdfast_sim::{Fate, World, budget, group, pod};

use super::{cluster, evict_by_name, grants, reason, show_pods};

/// Pod and request of each grant.
fn granted(world: &World, budget: &str) -> Vec<(String, String)> {
    grants(world, budget).iter().map(|g| (g.pod.clone(), g.eviction.clone())).collect()
}

#[test]
fn a_free_eviction_in_flight_counts_when_its_pod_turns_ready() {
    let mut world = cluster(2);
    world.edit_pod("a-0", |pod| pod.ready = false);
    // `a` is broken, so to evict its pod is free, and it is recorded all the same.
    assert!(world.evict_without_delete("a-0").is_allow());
    assert_eq!(grants(&world, "one")[0].cost, 0);
    world.edit_pod("a-0", |pod| pod.ready = true);
    for index in 0..2 {
        assert!(!world.instance(index).decide("b-0").is_allow(), "a-0 may still go");
    }
    world.carry_out("a-0");
    assert!(!world.instance(1).decide("b-0").is_allow(), "a-0 is gone");
}

#[test]
fn a_reused_name_inherits_the_grant_unless_an_eviction_took_its_predecessor() {
    let mut world = cluster(1);
    assert!(evict_by_name(&mut world, "a-0").is_allow());
    world.delete_pod("a-0");
    world.apply_pod(pod("a-0").group("a").ready());
    let successor = world.pod("a-0").expect("it is there").uid.clone();
    assert!(!world.evict_without_delete("b-0").is_allow(), "the eviction may hit the successor");
    world.advance(Duration::from_secs(2));
    assert_eq!(grants(&world, "one")[0].uid, successor);

    world.carry_out("a-0");
    world.apply_pod(pod("a-0").group("a").ready());
    world.advance(Duration::from_secs(2));
    assert_eq!(grants(&world, "one"), [], "this one was taken by the eviction");
    assert!(world.evict_without_delete("b-0").is_allow());
}

#[test]
fn a_repeated_request_costs_nothing_more_even_at_two_instances_at_once() {
    let mut world = cluster(2);
    world.instance(0).hold_calls();
    world.instance(1).hold_calls();
    let requests = [0, 1].map(|index| {
        let eviction = world.instance(index).eviction("a-0");
        world.instance(index).submit(eviction)
    });
    world.instance(0).release_calls();
    world.instance(1).release_calls();
    for id in &requests {
        assert_eq!(reason(&world.reply(id).expect("answered")), AllowReason::Granted);
    }
    assert_eq!(granted(&world, "one"), [("a-0".to_owned(), requests[1].clone())]);
    assert!(!world.instance(0).decide("b-0").is_allow());
}

/// The write of a grant for `a-0` by instance 0 has been sent and meets this fate.
fn after_write(fate: Fate) -> (World, String) {
    let mut world = cluster(2);
    world.instance(0).hold_calls();
    let eviction = world.instance(0).eviction("a-0");
    let id = world.instance(0).submit(eviction);
    world.instance(0).end_call(0, fate);
    assert_eq!(world.reply(&id), None, "nobody knows yet");
    let calls = world.instance(0).calls_waiting();
    assert!(matches!(calls[..], [Command::ReadBudget { .. }]), "it asks: {calls:?}");
    (world, id)
}

#[test]
fn a_lost_answer_to_a_write_that_was_applied_is_found_by_reading() {
    let (mut world, id) = after_write(Fate::AnswerLost);
    assert!(!world.instance(1).decide("b-0").is_allow(), "it was applied");
    world.instance(0).release_calls();
    assert_eq!(reason(&world.reply(&id).expect("answered")), AllowReason::Granted);
    assert_eq!(granted(&world, "one"), [("a-0".to_owned(), id)]);
}

#[test]
fn a_lost_write_that_was_not_applied_is_decided_again() {
    let (mut world, id) = after_write(Fate::NotApplied);
    assert!(world.instance(1).decide("b-0").is_allow(), "nothing was applied");
    world.instance(0).release_calls();
    assert!(!world.reply(&id).expect("answered").is_allow(), "the unit is spent meanwhile");
}

#[test]
fn a_write_that_is_applied_late_is_taken_for_what_it_is() {
    // After the read that asked for it, and before the second try: that one conflicts.
    let (mut world, id) = after_write(Fate::AppliedLate);
    world.instance(0).end_call(0, Fate::Answered);
    world.land_late(0);
    world.instance(0).release_calls();
    assert_eq!(reason(&world.reply(&id).expect("answered")), AllowReason::Granted);
    assert_eq!(granted(&world, "one"), [("a-0".to_owned(), id)]);

    // Or after the request was denied: then it is refunded.
    let (mut world, id) = after_write(Fate::AppliedLate);
    world.advance(Duration::from_secs(10));
    assert!(!world.reply(&id).expect("its deadline is over").is_allow());
    world.instance(0).end_call(0, Fate::Answered);
    world.instance(0).release_calls();
    world.land_late(0);
    assert_eq!(granted(&world, "one"), [], "at once: it is held against others until then");
}

#[test]
fn a_grant_expires_by_the_age_it_was_seen_at_whatever_the_clock_shows() {
    let mut world = cluster(2);
    assert!(world.evict_without_delete("a-0").is_allow());
    // A clock that is hours ahead takes the grant for old, and looks no sooner for that.
    world.instance(1).crash();
    world.instance(1).skew(Duration::from_hours(3), 1000);
    world.instance(1).restart();
    world.instance(0).lead(false);
    world.advance(Duration::from_secs(100));
    assert_eq!(grants(&world, "one").len(), 1);
    assert!(!world.instance(1).decide("b-0").is_allow());
    world.advance(Duration::from_secs(30));
    assert_eq!(grants(&world, "one"), []);
    assert!(world.take_events().iter().any(|event| event.reason == "NotDeleted"));
}

#[test]
fn a_grant_does_not_expire_while_its_pod_is_on_its_way_out_unseen() {
    let mut world = cluster(1);
    assert!(world.evict_without_delete("a-0").is_allow());
    world.hold_watch();
    world.carry_out("a-0");
    world.advance(Duration::from_mins(5));
    assert!(!world.evict_without_delete("b-0").is_allow(), "a live look shows that a-0 went");
}

/// Two budgets cover `a-0`; instance 0 dies between the two writes.
fn crash_between_two_budgets() -> World {
    let mut world = cluster(2);
    world.apply_budget(budget("two").per_replica().min_available(1));
    // The pod watch passes the version of the new budget, so that no list is needed.
    show_pods(&mut world);
    world.advance(Duration::from_secs(2));
    world.instance(0).hold_calls();
    let eviction = world.instance(0).eviction("a-0");
    world.instance(0).submit(eviction);
    world.instance(0).end_call(0, Fate::Answered);
    assert_eq!((grants(&world, "one").len(), grants(&world, "two").len()), (1, 0));
    world.instance(0).crash();
    world.instance(1).lead(true);
    world
}

#[test]
fn a_crash_between_two_budgets_is_refunded_by_another_instance() {
    let mut world = crash_between_two_budgets();
    world.drop_late(0);
    world.advance(Duration::from_secs(10));
    assert_eq!(grants(&world, "one").len(), 1, "it might still be completed");
    world.advance(Duration::from_secs(6));
    assert_eq!(grants(&world, "one"), []);
    assert!(world.instance(1).decide("b-0").is_allow());
}

#[test]
fn a_reservation_that_was_completed_as_its_instance_died_is_kept() {
    let mut world = crash_between_two_budgets();
    world.land_late(0);
    world.advance(Duration::from_mins(1));
    assert_eq!((grants(&world, "one").len(), grants(&world, "two").len()), (1, 1));
    assert!(!world.instance(1).decide("b-0").is_allow());
}

#[test]
fn an_instance_with_stale_pods_lists_before_it_decides() {
    let mut world = cluster(2);
    world.instance(1).hold_kind(&Kind::Pod);
    assert!(world.evict("a-0").is_allow());
    world.advance(Duration::from_secs(2));
    assert_eq!(grants(&world, "one"), [], "instance 0 saw a-0 go");
    // Instance 1 still believes in a-0, and no grant tells it better: the watermark does.
    assert!(!world.instance(1).decide("b-0").is_allow());
    // The events that come after the list must not bring it back.
    world.instance(1).release_kind(&Kind::Pod);
    assert!(!world.instance(1).decide("b-0").is_allow());
}

#[test]
fn an_instance_with_a_stale_min_count_lists_before_it_decides() {
    let kind = Kind::PodGroup(GroupApi::Kubernetes);
    let mut world = cluster(2);
    world.apply_pod_group(group("a").gang(1));
    world.advance(Duration::from_secs(2));
    world.instance(1).hold_kind(&kind);
    // Both instances saw a surplus pod in `a`; it is none any more, and instance 0 writes by that.
    world.apply_pod_group(group("a").gang(2));
    world.advance(Duration::from_secs(2));
    assert!(world.instance(0).decide("b-0").is_allow());
    assert!(!world.instance(1).decide("a-0").is_allow(), "a would be the second");
}

#[test]
fn a_relist_that_misses_the_eviction_passes_the_grant_on() {
    let mut world = cluster(1);
    assert!(evict_by_name(&mut world, "a-0").is_allow());
    world.hold_watch();
    world.carry_out("a-0");
    world.apply_pod(pod("a-0").group("a").ready());
    // The events that showed the eviction are lost, so nobody can tell that it is over.
    world.sync();
    world.release_watch();
    assert!(!world.evict_without_delete("b-0").is_allow());
    world.advance(Duration::from_secs(130));
    assert!(world.evict_without_delete("b-0").is_allow(), "it expired");
}

#[test]
fn two_leaders_grant_no_more_than_one() {
    let mut world = cluster(2);
    world.instance(1).lead(true);
    for index in 0..2 {
        world.instance(index).hold_calls();
    }
    let requests: Vec<String> = [(0, "a-0"), (1, "b-0")]
        .map(|(index, name)| {
            let eviction = world.instance(index).eviction(name);
            world.instance(index).submit(eviction)
        })
        .into();
    for index in 0..2 {
        world.instance(index).release_calls();
    }
    let allowed = requests.iter().filter_map(|id| world.reply(id)).filter(Verdict::is_allow);
    assert_eq!(allowed.count(), 1);
    assert_eq!(grants(&world, "one").len(), 1);
}

#[test]
fn a_pending_pod_that_turns_ready_holds_its_grant() {
    let mut world = cluster(2);
    world.delete_pod("a-0");
    world.apply_pod(pod("a-0").group("a"));
    assert!(world.evict_without_delete("a-0").is_allow());
    world.edit_pod("a-0", |pod| {
        pod.phase = Phase::Running;
        pod.ready = true;
    });
    assert!(!world.instance(1).decide("b-0").is_allow(), "a-0 may still go");
}

#[test]
fn a_reservation_in_one_budget_does_not_free_a_replica_in_the_next() {
    let mut world = World::with_instances(Config::default(), 2);
    for name in ["a", "b"] {
        world.apply_pod_group(group(name).gang(2));
        for member in ["0", "1"] {
            world.apply_pod(pod(&format!("{name}-{member}")).group(name).ready());
        }
    }
    world.apply_budget(budget("1st").min_available(0));
    world.apply_budget(budget("2nd").per_replica().min_available(1).always_allow());
    world.sync();
    world.advance(Duration::from_secs(2));
    // While instance 0 writes its grant for a-0 in the first budget, the second's unit goes to b.
    world.instance(0).hold_calls();
    let eviction = world.instance(0).eviction("a-0");
    world.instance(0).submit(eviction);
    assert!(world.instance(1).decide("b-0").is_allow());
    // The write conflicts, and the next one lands. The second budget will say no.
    world.instance(0).end_call(0, Fate::Answered);
    world.instance(0).end_call(0, Fate::Answered);
    assert_eq!((grants(&world, "1st").len(), grants(&world, "2nd").len()), (2, 1));
    assert!(!world.instance(1).decide("a-1").is_allow(), "a is all that is left");
}

#[test]
fn a_grant_for_a_successor_outlives_the_evidence_of_its_predecessor() {
    let mut world = cluster(2);
    world.instance(1).hold_kind(&Kind::Pod);
    assert!(world.evict("a-0").is_allow());
    world.apply_pod(pod("a-0").group("a").ready());
    world.advance(Duration::from_secs(2));
    assert!(world.evict_without_delete("a-0").is_allow());
    // Instance 1 hears of the second grant first, and then of how the first pod went.
    world.instance(1).release_kind(&Kind::Pod);
    assert!(!world.instance(1).decide("b-0").is_allow(), "the second a-0 may still go");
}

#[test]
fn a_list_that_the_watch_has_overtaken_brings_nothing_back() {
    let mut world = cluster(2);
    world.instance(1).hold_kind(&Kind::Pod);
    assert!(world.evict("a-0").is_allow());
    world.advance(Duration::from_secs(2));
    world.instance(1).hold_calls();
    let eviction = world.instance(1).eviction("b-0");
    let id = world.instance(1).submit(eviction);
    // The list that instance 1 asks for holds c-0. Before it arrives, the watch says that c-0 is gone.
    world.instance(1).execute_call(0);
    world.delete_pod("c-0");
    world.instance(1).release_kind(&Kind::Pod);
    world.instance(1).release_calls();
    assert!(!world.reply(&id).expect("answered").is_allow());
    world.apply_pod(pod("a-0").group("a").ready());
    world.advance(Duration::from_secs(2));
    assert!(!world.instance(1).decide("b-0").is_allow(), "only a and b are left");
}

/// How many grants two budgets have of one that was completed, after an instance heard of the first alone for long.
fn left_by_an_instance_that_lags() -> (usize, usize) {
    let mut world = cluster(2);
    world.apply_budget(budget("two").per_replica().min_available(1));
    world.advance(Duration::from_secs(2));
    world.instance(1).hold_kind(&Kind::Budget);
    assert!(world.evict_without_delete("a-0").is_allow());
    // It hears of the grant in the first budget, and for a while of nothing else.
    world.instance(1).deliver(&Kind::Budget);
    world.advance(Duration::from_secs(16));
    (grants(&world, "one").len(), grants(&world, "two").len())
}

#[test]
fn a_complete_reservation_is_not_refunded_by_an_instance_that_lags() {
    assert_eq!(left_by_an_instance_that_lags(), (1, 1));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_lagging_instance_that_refunds_by_its_cache_is_found() {
    use holdfast_core::planted::{Bug, plant};
    plant(Some(Bug::RefundByCache));
    let left = left_by_an_instance_that_lags();
    plant(None);
    assert_eq!(left, (0, 1));
}
