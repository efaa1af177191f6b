//! Budgets and pods that exist and cannot be decoded fail closed (semantics 6).

use holdfast_core::io::{Salvaged, WriteOutcome};
use holdfast_core::model::Threshold::Count;
use holdfast_core::model::{Budget, LabelSelector, Pod};
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
