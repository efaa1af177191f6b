//! Which budgets cover a pod is decided on a recent list of the budgets, and not on a cache of any age.

use std::time::Duration;

use holdfast_core::io::SnapshotOutcome;
use holdfast_core::model::{BudgetKey, Pod, UnavailableSpec};
use holdfast_core::verdict::{AllowReason, DenyReason, Verdict};
use holdfast_core::{Change, Command, Config, Input, Kind};
use holdfast_sim::{Fate, World, budget, pod};

use super::{cluster, reason};

/// One pod that no budget covers.
fn uncovered() -> World {
    let mut world = World::new(Config::default());
    world.apply_pod(pod("lone").label("app", "web").ready());
    world.sync();
    world
}

fn lists(world: &World) -> usize {
    let is_list = |c: &&Command| matches!(c, Command::ListNamespace { .. });
    world.calls_under_way().filter(is_list).count()
}

fn denial(verdict: &Verdict) -> (DenyReason, &str) {
    match verdict {
        Verdict::Deny(denial) => (denial.reason, &denial.message),
        Verdict::Allow(allowed) => panic!("allowed: {allowed:?}"),
    }
}

/// A list has shown a budget that the watch has not shown: a predecessor may have granted pods. Then the watch shows it.
fn denied_until_the_watch_shows(world: &mut World, pod: &str, kind: &Kind) {
    let verdict = world.evict(pod);
    let (reason, message) = denial(&verdict);
    assert_eq!(reason, DenyReason::BeingProcessed, "{message}");
    assert!(message.contains("watch has not shown it yet"), "{message}");
    world.instance(0).release_kind(kind);
    world.advance(Duration::from_secs(1));
    let verdict = world.evict(pod);
    assert_eq!(denial(&verdict).0, DenyReason::BudgetExhausted, "{verdict:?}");
}

#[test]
fn a_budget_that_the_watch_has_not_delivered_covers_its_pods() {
    let mut world = uncovered();
    world.instance(0).hold_kind(&Kind::Budget);
    world.apply_budget(budget("all").min_available(1).select("app", "web"));
    denied_until_the_watch_shows(&mut world, "lone", &Kind::Budget);
}

#[test]
fn a_second_budget_that_the_watch_has_not_delivered_is_asked_too() {
    let mut world = cluster(1);
    world.instance(0).hold_kind(&Kind::Budget);
    world.apply_budget(budget("all").min_available(6));
    denied_until_the_watch_shows(&mut world, "a-0", &Kind::Budget);
}

#[test]
fn an_unavailable_budget_that_the_watch_has_not_delivered_covers_its_pods() {
    let mut world = uncovered();
    world.instance(0).hold_kind(&Kind::UnavailableBudget);
    let key = BudgetKey::unavailable("default", "all");
    let spec = UnavailableSpec { total: Some(1), ..UnavailableSpec::default() };
    let made = budget(&key).spec(|of| of.unavailable = Some(Box::new(spec)));
    world.apply_budget(made.max_unavailable(0));
    denied_until_the_watch_shows(&mut world, "lone", &Kind::UnavailableBudget);
}

/// The event of an old budget arrives long after a list has shown that the budget is gone.
#[test]
fn events_from_before_the_list_bring_no_budget_back() {
    let mut world = uncovered();
    world.instance(0).hold_kind(&Kind::Budget);
    world.apply_budget(budget("all").min_available(1).select("app", "web"));
    world.delete_budget("all");
    assert!(world.evict_without_delete("lone").is_allow());
    world.instance(0).deliver(&Kind::Budget);
    assert_eq!(world.engine().budgets().count(), 0, "the list was newer than this event");
    assert!(world.evict("lone").is_allow());
}

#[test]
fn requests_share_one_list_and_wait_for_none_while_it_is_young() {
    let mut world = uncovered();
    world.apply_pod(pod("other").ready());
    world.hold_calls_and_lists();
    let ids: Vec<String> = ["lone", "other", "lone"]
        .map(|pod| {
            let eviction = world.eviction(pod);
            world.submit(eviction)
        })
        .into();
    assert_eq!(lists(&world), 2, "one list of each kind of budget");
    assert!(ids.iter().all(|id| world.reply(id).is_none()), "the list has not come yet");
    world.release_calls();
    for id in &ids {
        assert_eq!(reason(&world.reply(id).expect("answered")), AllowReason::NotCovered);
    }
    // Young: the cache answers, and nothing is listed.
    world.hold_calls_and_lists();
    world.advance(Duration::from_secs(2));
    assert!(world.evict_without_delete("lone").is_allow());
    assert_eq!(lists(&world), 0);
    // Older than 2.5 s: the cache still answers, and the next list is sent beside the answer.
    world.advance(Duration::from_secs(1));
    assert!(world.evict_without_delete("lone").is_allow());
    assert!(world.evict_without_delete("other").is_allow());
    assert_eq!(lists(&world), 2, "one in flight of each kind");
    // That list is answered, so the next requests need not wait either.
    world.release_calls();
    world.hold_calls_and_lists();
    world.advance(Duration::from_secs(4));
    assert!(world.evict_without_delete("lone").is_allow());
}

/// A list is as old as the request for it, however late its answer comes.
#[test]
fn the_age_of_a_list_counts_from_when_it_was_sent() {
    let mut world = uncovered();
    world.hold_calls_and_lists();
    let eviction = world.eviction("lone");
    let first = world.submit(eviction);
    world.instance(0).execute_call(0);
    world.instance(0).execute_call(0);
    // After the list was executed, and before its answer arrives.
    world.instance(0).hold_kind(&Kind::Budget);
    world.apply_budget(budget("all").min_available(1).select("app", "web"));
    world.advance(Duration::from_secs(6));
    world.instance(0).deliver_answer(0);
    world.instance(0).deliver_answer(0);
    assert!(world.reply(&first).is_none(), "the list is six seconds old by now");
    assert_eq!(lists(&world), 2, "the engine asks again");
    world.release_calls();
    assert!(world.reply(&first).is_none(), "the watch has to show the budget");
    world.instance(0).release_kind(&Kind::Budget);
    let verdict = world.reply(&first).expect("answered");
    assert_eq!(denial(&verdict).0, DenyReason::BudgetExhausted, "{verdict:?}");
}

#[test]
fn without_an_answer_to_the_list_the_eviction_is_denied() {
    let mut world = uncovered();
    world.hold_calls_and_lists();
    let eviction = world.eviction("lone");
    let failed = world.submit(eviction);
    world.instance(0).end_call(0, Fate::NotApplied);
    let verdict = world.reply(&failed).expect("denied at once");
    let (reason, message) = denial(&verdict);
    assert_eq!(reason, DenyReason::BeingProcessed);
    assert!(message.contains("did not list"), "{message}");

    let eviction = world.eviction("lone");
    let silent = world.submit(eviction);
    world.advance(Duration::from_secs(9));
    let verdict = world.reply(&silent).expect("denied at its deadline");
    assert!(denial(&verdict).1.contains("in time"), "{verdict:?}");

    world.release_calls();
    assert!(world.evict("lone").is_allow(), "the API server answers again");
}

/// Pods that are Pending or not in the cache are read first; the budgets are listed all the same.
#[test]
fn a_pending_pod_waits_for_the_list_too() {
    let mut world = uncovered();
    world.apply_pod(pod("new").label("app", "new"));
    world.instance(0).hold_kind(&Kind::Budget);
    world.apply_budget(budget("new").min_available(1).select("app", "new"));
    assert!(!world.evict_without_delete("new").is_allow(), "only the list has shown the budget");
    world.instance(0).release_kind(&Kind::Budget);
    assert!(world.evict_without_delete("new").is_allow());
    assert_eq!(super::grants(&world, "new").len(), 1);
}

/// Two pods, of which the backup that etcd is restored from has one.
#[test]
fn after_a_restore_of_etcd_the_list_replaces_the_cache() {
    let mut world = World::new(Config::default());
    world.apply_budget(budget("all").min_available(1));
    // So that versions of the cache are above those of the backup.
    for n in 0..10 {
        let gone = world.apply_pod(pod(&format!("gone-{n}")));
        world.delete_pod(&gone);
    }
    world.apply_pod(pod("old").ready());
    world.apply_pod(pod("lost").ready());
    world.sync();
    world.advance(Duration::from_secs(2));
    assert_eq!(expected_pods(&world), 2);
    let backup = Pod { version: 2.into(), ..world.pod("old").expect("it is there").clone() };
    world.inject(Input::ListBegan(Kind::Pod));
    world.inject(Input::Restored(Kind::Pod));
    world.inject(Input::Pod(Change::Applied(backup.clone())));
    assert!(!world.evict("lost").is_allow(), "nothing is allowed before the list is complete");
    world.inject(Input::ListEnded(Kind::Pod, 3.into()));
    assert_eq!(expected_pods(&world), 1, "the backup does not have the other");
    // Versions start over: the next event is newer than the list, and older than the cache was.
    world.inject(Input::Pod(Change::Applied(Pod {
        version: 4.into(),
        ready: false,
        ..backup.clone()
    })));
    let status = world.engine().status(&BudgetKey::pdb("default", "all")).expect("it is known");
    assert_eq!(status.current_healthy, 0);
}

fn expected_pods(world: &World) -> i64 {
    world.engine().status(&BudgetKey::pdb("default", "all")).expect("it is known").expected_pods
}

fn listed(version: u64) -> Input {
    let outcome = SnapshotOutcome::Listed { version: version.into(), objects: Vec::new() };
    Input::Snapshot { kind: Kind::Budget, namespace: "default".to_owned(), outcome }
}

#[test]
fn a_list_that_is_older_than_what_was_seen_before_it_was_sent_proves_nothing() {
    let mut world = uncovered();
    world.apply_budget(budget("other").min_available(1).select("app", "other"));
    world.hold_calls_and_lists();
    let eviction = world.eviction("lone");
    let id = world.submit(eviction);
    // Another budget is there, so the engine reads the pod's labels before it lists the budgets.
    world.instance(0).end_call(0, Fate::Answered);
    world.inject(listed(1));
    let verdict = world.reply(&id).expect("denied");
    assert!(denial(&verdict).1.contains("etcd was restored"), "{verdict:?}");
}

/// The watch may overtake a list in transit. That is no restore.
#[test]
fn a_list_that_the_watch_overtakes_in_transit_still_counts() {
    let mut world = uncovered();
    world.hold_calls_and_lists();
    let eviction = world.eviction("lone");
    let id = world.submit(eviction);
    world.instance(0).execute_call(0);
    world.instance(0).execute_call(0);
    world.apply_budget(budget("other").min_available(1).select("app", "other"));
    world.instance(0).deliver_answer(0);
    world.instance(0).deliver_answer(0);
    world.release_calls();
    assert_eq!(reason(&world.reply(&id).expect("answered")), AllowReason::NotCovered);
    assert_eq!(world.engine().budgets().count(), 1, "the list does not take the newer budget away");
}

/// The answer of a list that was sent before the restore may show objects that the backup does not have.
#[test]
fn a_list_from_before_a_restore_is_void() {
    let mut world = uncovered();
    world.hold_calls_and_lists();
    let eviction = world.eviction("lone");
    let id = world.submit(eviction);
    for input in [
        Input::ListBegan(Kind::Budget),
        Input::Restored(Kind::Budget),
        Input::ListEnded(Kind::Budget, 1.into()),
        listed(1000),
    ] {
        world.inject(input);
    }
    assert!(!world.reply(&id).expect("denied").is_allow());
}

/// A request that waits when the watch of a kind is lost is not answered from the frozen cache.
#[test]
fn a_kind_that_is_lost_while_a_request_waits_denies_it() {
    let mut world = uncovered();
    world.hold_calls_and_lists();
    let eviction = world.eviction("lone");
    let id = world.submit(eviction);
    world.inject(Input::Lost(Kind::Pod));
    world.release_calls();
    let verdict = world.reply(&id).expect("denied");
    assert!(denial(&verdict).1.contains("still reading the cluster"), "{verdict:?}");
    world.instance(0).relist(&Kind::Pod);
    assert!(world.evict("lone").is_allow(), "listed again");
}
