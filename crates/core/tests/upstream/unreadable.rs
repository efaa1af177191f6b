//! Budgets and pods that exist and cannot be decoded fail closed (semantics 6).

use std::time::Duration;

use holdfast_core::io::{Change, Salvaged, WriteOutcome};
use holdfast_core::model::Threshold::Count;
use holdfast_core::model::{Budget, Grant, LabelSelector, Operation, Pod, Timestamp};
use holdfast_core::{Input, Kind};

use super::lone::{Lone, labels, min_available, pod, selecting};

fn unreadable_budget(budget: &Budget, salvaged: bool) -> Input {
    Input::Unreadable {
        kind: Kind::Budget,
        key: budget.key.object.clone(),
        why: "garbled".to_owned(),
        salvaged: salvaged.then(|| Box::new(Salvaged::Budget(budget.clone()))),
    }
}

fn unreadable_pod(pod: &Pod, salvaged: bool) -> Input {
    Input::Unreadable {
        kind: Kind::Pod,
        key: pod.key.clone(),
        why: "garbled".to_owned(),
        salvaged: salvaged.then(|| Box::new(Salvaged::Pod(pod.clone()))),
    }
}

/// The eviction of this pod, recorded by another instance.
fn grant(pod: &str, at: Timestamp) -> Grant {
    Grant {
        pod: pod.to_owned(),
        uid: format!("uid-{pod}"),
        replica: String::new(),
        cost: 1,
        requester: "drain".to_owned(),
        granted_at: at,
        eviction: "elsewhere".to_owned(),
        budgets: vec!["uid-pdb".to_owned()],
        operation: Operation::Evict,
        generation: 0,
        shared: false,
        age_seconds: 0,
        pinned: true,
        targeted_before: false,
    }
}

#[test]
fn a_budget_that_was_never_decoded_denies_what_its_selector_matches() {
    let mut lone = Lone::new();
    lone.pod(pod("a"));
    lone.pod(Pod { labels: [("foo".to_owned(), "other".to_owned())].into(), ..pod("b") });
    let budget = selecting(min_available("pdb", Count(0)), Some(labels(&[("foo", "bar")])));
    lone.feed(unreadable_budget(&budget, true));
    assert!(!lone.evict("a").is_allow());
    assert!(lone.evict("b").is_allow(), "its labels do not match");
    lone.settle();
    assert_eq!(lone.writes, 0, "nothing is written over a status that nobody has read");
    assert!(lone.events.iter().any(|event| event.reason == "Unreadable"));
    assert_eq!(lone.engine.stats().budgets.unreadable, 1);
    lone.budget(budget);
    assert!(lone.evict("a").is_allow());
}

#[test]
fn a_budget_whose_selector_cannot_be_read_denies_everything_in_its_namespace() {
    let mut lone = Lone::new();
    lone.pod(pod("a"));
    lone.pod(Pod { labels: [].into(), ..pod("b") });
    let budget = selecting(min_available("pdb", Count(0)), Some(LabelSelector::default()));
    lone.feed(unreadable_budget(&budget, false));
    assert!(!lone.evict("a").is_allow());
    assert!(!lone.evict("b").is_allow());
}

/// The recreated budget is seen by a list first. What its predecessor granted last comes by the watch.
#[test]
fn a_recreated_budget_that_cannot_be_read_waits_for_the_last_grants_of_its_predecessor() {
    let mut lone = Lone::new();
    lone.pod(pod("a"));
    lone.pod(pod("b"));
    lone.budget(min_available("pdb", Count(1)));
    // Another instance grants the eviction of a. The watch is late.
    let mut granted = lone.budgets["pdb"].clone();
    granted.version = lone.next_version();
    granted.status.grants.push(grant("a", lone.now));
    granted.status.disruptions_allowed = 0;
    let deleted = Budget { version: lone.next_version(), ..granted.clone() };
    let version = lone.next_version();
    let recreated = Budget { uid: "second".to_owned(), version, ..min_available("pdb", Count(1)) };
    lone.budgets.insert("pdb".to_owned(), recreated.clone());
    lone.store_garbled(unreadable_budget(&recreated, true));
    lone.advance(Duration::from_secs(10));
    assert!(!lone.evict("b").is_allow());
    // Now the watch shows all of it.
    lone.feed(Input::Budget(Change::Applied(granted)));
    lone.feed(Input::Budget(Change::Deleted(deleted)));
    assert!(!lone.evict("b").is_allow(), "it cannot be read");
    lone.feed(unreadable_budget(&recreated, true));
    assert!(!lone.evict("b").is_allow(), "it cannot be read");
    assert_eq!(lone.status("pdb").grants.len(), 0, "nothing is written to it");
    lone.budget(recreated);
    assert!(!lone.evict("b").is_allow(), "the grant of a was never refunded");
    assert_eq!(lone.status("pdb").grants.len(), 1);
}

/// A list shows a state that the watch will show later, and in it another selector.
#[test]
fn a_late_watch_does_not_undo_that_a_budget_cannot_be_read() {
    let mut lone = Lone::new();
    lone.pod(pod("a"));
    let others = labels(&[("foo", "other")]);
    lone.budget(selecting(min_available("pdb", Count(0)), Some(others)));
    let late = Budget { version: lone.next_version(), ..lone.budgets["pdb"].clone() };
    let all = LabelSelector::default();
    let stored = Budget { version: lone.next_version(), ..lone.budgets["pdb"].clone() };
    let stored = selecting(stored, Some(all));
    lone.budgets.insert("pdb".to_owned(), stored.clone());
    lone.store_garbled(unreadable_budget(&stored, true));
    lone.advance(Duration::from_secs(10));
    assert!(!lone.evict("a").is_allow(), "the list says so");
    lone.feed(Input::Budget(Change::Applied(late)));
    assert!(!lone.evict("a").is_allow(), "the watch is late");
    lone.feed(unreadable_budget(&stored, true));
    assert!(!lone.evict("a").is_allow());
    lone.budget(stored);
    assert!(lone.evict("a").is_allow());
}

/// A list shows that a budget cannot be read, and the watch shows later what it granted before.
#[test]
fn a_late_watch_shows_the_grants_of_a_budget_that_cannot_be_read() {
    for is_known in [true, false] {
        let mut lone = Lone::new();
        lone.pod(pod("a"));
        lone.pod(pod("b"));
        let budget = min_available("pdb", Count(1));
        if is_known {
            lone.budget(budget.clone());
        }
        let mut granted = Budget { version: lone.next_version(), ..budget.clone() };
        granted.status.grants.push(grant("a", lone.now));
        let garbled = Budget { version: lone.next_version(), ..granted.clone() };
        lone.budgets.insert("pdb".to_owned(), garbled.clone());
        lone.store_garbled(unreadable_budget(&garbled, true));
        lone.advance(Duration::from_secs(10));
        assert!(!lone.evict("b").is_allow());
        lone.feed(Input::Budget(Change::Applied(granted)));
        assert!(!lone.evict("b").is_allow(), "it cannot be read");
        lone.feed(unreadable_budget(&garbled, true));
        assert!(!lone.evict("b").is_allow(), "it cannot be read");
        lone.delete_budget("pdb");
        lone.budget(Budget { uid: "second".to_owned(), ..budget });
        assert!(!lone.evict("b").is_allow(), "known: {is_known}: a has a grant");
        assert_eq!(lone.status("pdb").grants.len(), 1);
    }
}

/// The restored state is older than the one that could not be read.
#[test]
fn a_budget_can_be_read_again_after_etcd_was_restored() {
    let mut lone = Lone::new();
    lone.pod(pod("a"));
    lone.budget(min_available("pdb", Count(0)));
    let backup = lone.budgets["pdb"].clone();
    let version = lone.next_version();
    lone.feed(unreadable_budget(&Budget { version, ..backup.clone() }, true));
    assert!(!lone.evict("a").is_allow());
    let restored = [
        Input::ListBegan(Kind::Budget),
        Input::Restored(Kind::Budget),
        Input::Budget(Change::Applied(backup.clone())),
        Input::ListEnded(Kind::Budget, backup.version),
    ];
    for input in restored {
        lone.feed(input);
    }
    lone.settle();
    assert!(lone.evict("a").is_allow());
}

#[test]
fn a_pod_that_cannot_be_decoded_is_there_and_not_healthy() {
    for salvaged in [true, false] {
        let mut lone = Lone::new();
        lone.pod(pod("a"));
        lone.pod(pod("b"));
        lone.budget(min_available("pdb", Count(1)));
        lone.verify("pdb", (1, 2, 1, 2));
        let stored = lone.pods["b"].clone();
        lone.feed(unreadable_pod(&stored, salvaged));
        lone.settle();
        lone.verify("pdb", (0, 1, 1, 2));
        assert!(!lone.evict("a").is_allow());
        assert!(lone.events.iter().any(|event| event.reason == "Unreadable"));
        assert_eq!(lone.engine.stats().unreadable_pods, 1);
        lone.pod(pod("b"));
        lone.verify("pdb", (1, 2, 1, 2));
        assert_eq!(lone.engine.stats().unreadable_pods, 0);
    }
}

/// Every write of theirs is answered with an object that cannot be read.
#[test]
fn four_budgets_that_cannot_be_read_do_not_keep_others_from_being_written() {
    let mut lone = Lone::new();
    lone.pod(pod("a"));
    lone.are_writes_held = true;
    lone.are_reads_silent = true;
    for n in 0..4 {
        lone.budget(min_available(&format!("broken-{n}"), Count(0)));
    }
    lone.settle();
    for n in 0..4 {
        let budget = lone.budgets[&format!("broken-{n}")].clone();
        let outcome = WriteOutcome::Unknown("garbled".to_owned());
        lone.feed(Input::StatusWritten { budget: budget.key, uid: budget.uid, outcome });
    }
    lone.are_writes_held = false;
    lone.budget(min_available("fine", Count(0)));
    lone.settle();
    lone.verify("fine", (1, 1, 0, 1));
}
