//! How grants of deletes, updates and resizes end (semantics 5), where Kruise waits 20 or 10 seconds.

use std::time::Duration;

use holdfast_core::model::Operation::{Delete, Evict, Resize, Update};
use holdfast_core::model::Threshold::Count;
use holdfast_core::model::{DisruptionTarget, Operation, Pod};

use super::make::{assert_denied, assert_granted, case, max, under};
use crate::upstream::lone::{Lone, START, is_about_pod, max_unavailable};

/// Three pods of which one may be unavailable, and `p0` has been told so.
fn granted(operation: Operation) -> Lone {
    let mut lone = under(max(Count(1)), 3);
    assert_granted(&lone.operate("p0", operation), 1);
    lone.settle();
    assert_held(&lone);
    lone
}

#[track_caller]
fn assert_held(lone: &Lone) {
    lone.verify("pub", (0, 2, 2, 3));
    assert_eq!(lone.status("pub").grants.len(), 1);
}

#[track_caller]
fn assert_ended(lone: &Lone) {
    assert!(lone.status("pub").grants.is_empty(), "{:?}", lone.status("pub").grants);
    assert!(lone.status("pub").disrupted_pods.is_empty());
}

#[test]
fn a_delete_ends_when_the_pod_terminates() {
    let mut lone = granted(Delete);
    lone.change_pod("p0", |pod| pod.ready = true);
    assert_held(&lone);
    lone.change_pod("p0", |pod| pod.terminating = true);
    assert_ended(&lone);
    lone.verify("pub", (0, 2, 2, 3));
}

/// At once, with grace period 0.
#[test]
fn a_delete_ends_when_the_pod_is_gone() {
    let mut lone = granted(Delete);
    lone.delete_pod("p0");
    assert_ended(&lone);
    lone.verify("pub", (0, 2, 2, 3));
}

/// Kruise keeps the name for 20 seconds: the new pod is uncounted, free to delete, and then "was not
/// deleted". A delete has the pod's uid and cannot hit the successor.
#[test]
fn a_delete_does_not_cover_the_successor() {
    for operation in [Delete, Update, Resize] {
        let mut lone = granted(operation);
        let successor = Pod { uid: "uid-p0-again".to_owned(), ..lone.pods["p0"].clone() };
        lone.delete_pod("p0");
        lone.pod(successor);
        assert_ended(&lone);
        lone.verify("pub", (1, 3, 2, 3));
        assert_granted(&lone.operate("p1", Delete), 1);
        assert_denied(&lone.operate("p0", Delete));
        lone.advance(Duration::from_secs(30));
        assert!(lone.events_of("NotDeleted").is_empty());
    }
}

/// The same when the watch shows only the successor.
#[test]
fn a_delete_does_not_cover_a_replacement() {
    let mut lone = granted(Delete);
    lone.change_pod("p0", |pod| pod.uid = "uid-p0-again".to_owned());
    assert_ended(&lone);
    lone.verify("pub", (1, 3, 2, 3));
}

/// An eviction is pinned to its pod too.
#[test]
fn an_eviction_does_not_cover_the_successor() {
    let mut lone = granted(Evict);
    let successor = Pod { uid: "uid-p0-again".to_owned(), ..lone.pods["p0"].clone() };
    lone.delete_pod("p0");
    lone.pod(successor);
    assert_ended(&lone);
    let mut lone = granted(Evict);
    lone.change_pod("p0", |pod| {
        let reason = DisruptionTarget::EVICTION_API.to_owned();
        pod.disruption_target = Some(DisruptionTarget { reason, since: START });
        pod.terminating = true;
    });
    assert_ended(&lone);
}

/// Only when all of it is there: the new spec is stored, in effect, and the pod ready and settled.
#[test]
fn an_update_ends_when_it_is_done() {
    for operation in [Update, Resize] {
        for missing in 0..16 {
            let mut lone = granted(operation);
            lone.change_pod("p0", |pod| {
                pod.generation = if missing & 1 == 0 { 2 } else { 1 };
                pod.applied = missing & 2 == 0;
                pod.ready = missing & 4 == 0;
                pod.settled = missing & 8 == 0;
            });
            case(format!("{operation:?} {missing:04b}"));
            if missing == 0 {
                assert_ended(&lone);
                lone.verify("pub", (1, 3, 2, 3));
            } else {
                assert_held(&lone);
                lone.change_pod("p0", |pod| {
                    (pod.generation, pod.applied, pod.ready, pod.settled) = (2, true, true, true);
                });
                assert_ended(&lone);
            }
        }
    }
}

/// A later generation than the update's own has it all the same; two updates wait for the later one.
#[test]
fn updates_end_together() {
    let mut lone = granted(Update);
    let again = lone.operate_with("p0", Update, |request| request.generation = 3);
    assert!(again.is_allow());
    lone.settle();
    assert_held(&lone);
    lone.change_pod("p0", |pod| pod.generation = 2);
    assert_held(&lone);
    lone.change_pod("p0", |pod| pod.generation = 4);
    assert_ended(&lone);
}

/// An update that changes no spec adds a label that says unavailable; the label tells from then on.
#[test]
fn a_label_ends_its_grant_when_it_is_seen() {
    let mut lone = under(max(Count(1)), 3);
    let verdict = lone.operate_with("p0", Update, |request| request.generation = 1);
    assert_granted(&verdict, 1);
    lone.settle();
    lone.change_pod("p0", |pod| {
        pod.labels.insert("unrelated".to_owned(), String::new());
    });
    assert_held(&lone);
    lone.change_pod("p0", |pod| pod.settled = false);
    assert_ended(&lone);
    lone.verify("pub", (0, 2, 2, 3));
    assert_denied(&lone.operate("p1", Delete));
    lone.change_pod("p0", |pod| pod.settled = true);
    lone.verify("pub", (1, 3, 2, 3));
}

/// The pod went while it was updated.
#[test]
fn an_update_ends_with_its_pod() {
    let mut lone = granted(Update);
    lone.change_pod("p0", |pod| pod.terminating = true);
    assert_ended(&lone);
    lone.verify("pub", (0, 2, 2, 3));
}

/// Two minutes, by a live read; an event says so where a pod was to be deleted.
#[test]
fn expiry() {
    for (operation, events) in [(Delete, 1), (Evict, 1), (Update, 0), (Resize, 0)] {
        case(format!("{operation:?}"));
        let mut lone = granted(operation);
        lone.advance(Duration::from_secs(115));
        assert_held(&lone);
        assert!(lone.events_of("NotDeleted").is_empty());
        lone.advance(Duration::from_secs(10));
        assert_ended(&lone);
        lone.verify("pub", (1, 3, 2, 3));
        let told = lone.events_of("NotDeleted");
        assert_eq!(told.len(), events);
        assert!(told.iter().all(|event| is_about_pod(event, "p0")));
    }
}

/// The cache has not seen yet that the pod is going, and the live read has.
#[test]
fn no_expiry_by_the_cache_alone() {
    let mut lone = granted(Delete);
    lone.pods.get_mut("p0").expect("p0").terminating = true;
    lone.advance(Duration::from_mins(3));
    assert_held(&lone);
    assert!(lone.events_of("NotDeleted").is_empty());
}

/// What another instance granted, and what has been done of it before we hear of the grant.
#[test]
fn grants_that_are_done_when_they_are_seen() {
    for operation in [Delete, Update, Resize] {
        case(format!("{operation:?}"));
        let mut there = granted(operation);
        let recorded = there.budgets["pub"].clone();
        let mut here = under(max(Count(1)), 3);
        here.delete_budget("pub");
        here.change_pod("p0", |pod| {
            if operation == Delete { pod.terminating = true } else { pod.generation = 2 }
        });
        here.budget(recorded.clone());
        assert_ended(&here);
        // Not done: it binds us too.
        there.delete_budget("pub");
        there.budget(recorded);
        assert_held(&there);
    }
}

/// A budget that is deleted and made anew within two minutes keeps what it granted.
#[test]
fn a_new_budget_of_the_name_keeps_grants() {
    for operation in Operation::ALL {
        let mut lone = granted(*operation);
        lone.delete_budget("pub");
        let mut new = max(Count(1));
        new.uid = "uid-new".to_owned();
        lone.budget(new);
        assert_held(&lone);
        assert_denied(&lone.operate("p1", Delete));
    }
}

/// Nothing is left in either budget of an eviction that one of them refused late.
#[test]
fn a_refund_takes_back_all() {
    let mut lone = under(max(Count(1)), 3);
    lone.budget(max_unavailable("pdb", Count(1)));
    lone.are_writes_held = true;
    let asked = lone.ask("p0", Evict, |_| {});
    // The PDB's write is under way. Meanwhile somebody else takes what the PUB has.
    let mut taken = lone.budgets["pub"].clone();
    taken.status.disrupted_pods.insert("p1".to_owned(), lone.now);
    lone.budget(taken);
    lone.write_all();
    assert_denied(&lone.answer(&asked));
    lone.settle();
    assert!(lone.status("pdb").grants.is_empty());
    assert!(lone.status("pub").grants.is_empty());
}
