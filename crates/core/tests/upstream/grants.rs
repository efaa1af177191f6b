//! How grants end (semantics 5; upstream's `TestUpdateDisruptedPods` and `TestUpdatePDBStatusRetries`).

use std::time::Duration;

use holdfast_core::Input;
use holdfast_core::io::Change;
use holdfast_core::model::Threshold::Count;
use holdfast_core::model::{DisruptionTarget, Pod};
use holdfast_core::verdict::{DenyReason, Verdict};

use super::lone::{Lone, START, is_about_pod, min_available, pod};

const MINUTE: Duration = Duration::from_mins(1);

/// Two pods, and one may go.
fn ready() -> Lone {
    let mut lone = Lone::new();
    lone.pod(pod("a"));
    lone.pod(pod("b"));
    lone.budget(min_available("pdb", Count(1)));
    lone
}

/// Two pods, one may go, and `a` has been told to.
fn granted() -> Lone {
    let mut lone = ready();
    assert!(lone.evict("a").is_allow());
    lone.settle();
    lone.verify("pdb", (0, 1, 1, 2));
    lone
}

fn mark(pod: &mut Pod) {
    let reason = DisruptionTarget::EVICTION_API.to_owned();
    pod.disruption_target = Some(DisruptionTarget { reason, since: START });
}

#[test]
fn ends_when_the_pod_is_seen_going() {
    let mut lone = granted();
    lone.change_pod("a", |pod| {
        mark(pod);
        pod.terminating = true;
    });
    assert!(lone.status("pdb").grants.is_empty());
    assert!(lone.status("pdb").disrupted_pods.is_empty());
    lone.verify("pdb", (0, 1, 1, 2));
    lone.delete_pod("a");
    lone.pod(Pod { uid: "uid-a2".to_owned(), ..pod("a") });
    lone.verify("pdb", (1, 2, 1, 2));
}

/// The mark alone ends nothing.
#[test]
fn a_mark_is_not_an_end() {
    let mut lone = granted();
    lone.change_pod("a", mark);
    assert_eq!(lone.status("pdb").grants.len(), 1);
    lone.verify("pdb", (0, 1, 1, 2));
}

/// Somebody else deleted the pod. The eviction is pinned to it, and cannot hit the next pod of the name.
#[test]
fn ends_with_its_pod() {
    let mut lone = granted();
    lone.delete_pod("a");
    lone.pod(Pod { uid: "uid-a2".to_owned(), ..pod("a") });
    lone.verify("pdb", (1, 2, 1, 2));
    assert!(lone.evict("b").is_allow());
}

/// In native mode the eviction may still hit the new one of that name.
#[test]
fn passes_to_the_successor_without_evidence() {
    let mut lone = ready();
    assert!(lone.evict_with("a", |eviction| eviction.by_name = true).is_allow());
    lone.settle();
    lone.delete_pod("a");
    lone.pod(Pod { uid: "uid-a2".to_owned(), ..pod("a") });
    lone.verify("pdb", (0, 1, 1, 2));
    assert!(!lone.evict("b").is_allow());
    // When the API server's handler has ended, and not before, the successor stands on its own.
    lone.advance(Duration::from_secs(45));
    lone.verify("pdb", (0, 1, 1, 2));
    lone.advance(Duration::from_secs(20));
    lone.verify("pdb", (1, 2, 1, 2));
    assert!(lone.status("pdb").grants.is_empty());
}

/// In native mode the webhook records and pins the eviction, and then the gate is asked about it by name.
#[test]
fn the_gate_rests_on_the_grant_that_the_webhook_recorded() {
    let mut lone = granted();
    let (grants, version) =
        (lone.status("pdb").grants.clone(), lone.budgets["pdb"].version.clone());
    assert!(grants[0].pinned);
    assert!(lone.evict_with("a", |eviction| eviction.by_name = true).is_allow());
    lone.settle();
    assert_eq!(lone.status("pdb").grants, grants);
    assert_eq!(lone.budgets["pdb"].version, version, "nothing is written a second time");
    assert!(!lone.evict_with("b", |eviction| eviction.by_name = true).is_allow());
    // The eviction cannot hit the next pod of the name, so the grant does not pass to it.
    lone.delete_pod("a");
    lone.pod(Pod { uid: "uid-a2".to_owned(), ..pod("a") });
    lone.verify("pdb", (1, 2, 1, 2));
}

/// Without the webhook the gate decides by itself, and its grant stays one by name, whoever shares it.
#[test]
fn a_grant_of_the_gate_is_not_pinned_by_a_later_request() {
    for by_name in [false, true] {
        let mut lone = ready();
        assert!(lone.evict_with("a", |eviction| eviction.by_name = true).is_allow());
        assert!(lone.evict_with("a", |eviction| eviction.by_name = by_name).is_allow());
        lone.settle();
        let [grant] = &lone.status("pdb").grants[..] else { panic!("{:?}", lone.status("pdb")) };
        assert!(!grant.pinned && grant.shared, "{by_name}: {grant:?}");
    }
}

/// The deletion with its evidence, seen only as the last state of the pod.
#[test]
fn ends_by_the_last_state_of_a_deleted_pod() {
    let mut lone = granted();
    let mut last = lone.pods.remove("a").expect("a");
    mark(&mut last);
    last.terminating = true;
    last.version = lone.next_version();
    lone.feed(Input::Pod(Change::Deleted(last)));
    lone.pod(Pod { uid: "uid-a2".to_owned(), ..pod("a") });
    lone.verify("pdb", (1, 2, 1, 2));
}

#[test]
fn expires_with_an_event() {
    let mut lone = granted();
    lone.advance(Duration::from_secs(115));
    lone.verify("pdb", (0, 1, 1, 2));
    assert_eq!(lone.events_of("NotDeleted").len(), 0);
    lone.advance(Duration::from_secs(10));
    lone.verify("pdb", (1, 2, 1, 2));
    assert!(lone.status("pdb").grants.is_empty());
    assert!(lone.status("pdb").disrupted_pods.is_empty());
    let events = lone.events_of("NotDeleted");
    assert_eq!(events.len(), 1);
    assert!(events[0].warning && is_about_pod(events[0], "a"));
    let text = "Pod was expected by PDB";
    assert!(events[0].message.starts_with(text), "{}", events[0].message);
    assert!(events[0].message.contains(" (decision "), "{}", events[0].message);
}

/// Not on the cache's word: the live read shows that the pod is going after all.
#[test]
fn does_not_expire_while_the_live_pod_terminates() {
    let mut lone = granted();
    let live = lone.pods.get_mut("a").expect("a");
    live.terminating = true;
    lone.advance(3 * MINUTE);
    lone.verify("pdb", (0, 1, 1, 2));
    assert_eq!(lone.events_of("NotDeleted").len(), 0);
}

/// A repeated request renews the grant, costs nothing more, and does not extend the grant.
#[test]
fn a_repeated_request_is_the_same_grant() {
    let mut lone = granted();
    lone.advance(Duration::from_secs(40));
    assert!(lone.evict("a").is_allow());
    lone.settle();
    assert_eq!(lone.status("pdb").grants.len(), 1);
    lone.verify("pdb", (0, 1, 1, 2));
    // An eviction that a later renewal allows could reach the API server after the grant has expired.
    lone.advance(Duration::from_secs(10));
    let Verdict::Deny(denial) = lone.evict("a") else { panic!("renewed") };
    assert_eq!(denial.reason, DenyReason::NotDeleted);
    assert_eq!(lone.events_of("NotDeleted").len(), 1);
    lone.advance(MINUTE);
    lone.verify("pdb", (0, 1, 1, 2));
    lone.advance(Duration::from_secs(15));
    lone.verify("pdb", (1, 2, 1, 2));
}

/// `TestUpdateDisruptedPods`, as far as the ruling agrees with it: entries of somebody else hold for two
/// minutes from when this instance first saw them, whatever time they carry.
#[test]
fn test_update_disrupted_pods() {
    let mut budget = min_available("pdb", Count(1));
    for (name, age) in [("p1", 0), ("p2", 180), ("p3", 60), ("notthere", 0)] {
        let at = holdfast_core::model::Timestamp::from_secs(START.as_secs() - age);
        budget.status.disrupted_pods.insert(name.to_owned(), at);
    }
    let mut lone = Lone::new();
    lone.pod(Pod { terminating: true, ..pod("p1") });
    lone.pod(pod("p2"));
    lone.pod(pod("p3"));
    lone.budget(budget);
    lone.verify("pdb", (0, 0, 1, 3));
    lone.advance(2 * MINUTE + Duration::from_secs(10));
    lone.verify("pdb", (1, 2, 1, 3));
    let mut late: Vec<&str> = ["p1", "p2", "p3", "notthere"]
        .into_iter()
        .filter(|name| lone.events_of("NotDeleted").iter().any(|event| is_about_pod(event, name)))
        .collect();
    late.sort_unstable();
    assert_eq!(late, ["p2", "p3"]);
}

/// An entry of somebody else that ends while a write is under way which still has it does not begin anew.
#[test]
fn a_foreign_entry_that_ends_during_a_write_has_ended() {
    let mut budget = min_available("pdb", Count(1));
    budget.status.disrupted_pods.insert("p1".to_owned(), START);
    let mut lone = Lone::new();
    lone.pod(pod("p1"));
    lone.pod(pod("p2"));
    lone.budget(budget);
    lone.verify("pdb", (0, 1, 1, 2));
    lone.advance(MINUTE);
    lone.are_writes_held = true;
    lone.change_pod("p2", |pod| pod.ready = false);
    lone.advance(MINUTE);
    assert_eq!(lone.events_of("NotDeleted").len(), 1);
    lone.write_all();
    lone.verify("pdb", (0, 1, 1, 2));
    assert!(lone.status("pdb").disrupted_pods.is_empty());
}

/// `TestUpdatePDBStatusRetries`: a write that lost the race must not win it with old numbers.
#[test]
fn test_update_pdb_status_retries() {
    let mut lone = Lone::new();
    for name in ["moe", "larry", "curly"] {
        lone.pod(pod(name));
    }
    lone.budget(min_available("pdb", Count(1)));
    lone.verify("pdb", (2, 3, 1, 3));
    let mut foreign = lone.budgets["pdb"].clone();
    foreign.status.disruptions_allowed = 0;
    for name in ["larry", "curly"] {
        foreign.status.disrupted_pods.insert(name.to_owned(), lone.now);
    }
    lone.foreign = Some(foreign);
    lone.delete_pod("moe");
    lone.verify("pdb", (0, 0, 1, 2));
    assert_eq!(lone.status("pdb").disrupted_pods.len(), 2, "they are not ours to drop");
}

/// The same for a grant of ours: a conflict is decided again.
#[test]
fn a_conflict_is_decided_again() {
    let mut lone = Lone::new();
    lone.pod(pod("a"));
    lone.pod(pod("b"));
    lone.budget(min_available("pdb", Count(1)));
    let mut foreign = lone.budgets["pdb"].clone();
    foreign.status.disrupted_pods.insert("b".to_owned(), lone.now);
    lone.foreign = Some(foreign);
    assert!(!lone.evict("a").is_allow());
    lone.settle();
    assert!(!lone.status("pdb").disrupted_pods.contains_key("a"));
}

/// The first eviction was refused behind us, and the budget asks for more since.
#[test]
fn a_renewal_is_decided_by_the_edited_budget() {
    let mut lone = granted();
    assert!(lone.evict("a").is_allow());
    let mut edited = lone.budgets["pdb"].clone();
    edited.spec.min_available = Some(Count(2));
    lone.budget(edited);
    assert!(!lone.evict("a").is_allow());
}

/// A budget that is deleted and made anew within two minutes keeps its grants.
#[test]
fn survives_a_new_budget_of_that_name() {
    let mut lone = granted();
    let old = lone.budgets.remove("pdb").expect("pdb");
    lone.feed(Input::Budget(Change::Deleted(old)));
    lone.advance(Duration::from_secs(5));
    let mut new = min_available("pdb", Count(1));
    new.uid = "uid-new".to_owned();
    lone.budget(new);
    lone.verify("pdb", (0, 1, 1, 2));
    assert!(!lone.evict("b").is_allow());
}

/// Somebody else's entry survives a renewal of ours that loses a race, whichever way we hear of it first.
/// Were it lost, `b` would be allowed while `a` is being evicted.
#[test]
fn a_foreign_entry_survives_a_conflict() {
    for is_watch_first in [false, true] {
        let mut lone = Lone::new();
        lone.is_watch_first = is_watch_first;
        lone.pod(pod("a"));
        lone.pod(pod("b"));
        let mut budget = min_available("pdb", Count(1));
        budget.status.disrupted_pods.insert("a".to_owned(), START);
        lone.budget(budget);
        lone.verify("pdb", (0, 1, 1, 2));
        lone.foreign = Some(lone.budgets["pdb"].clone());
        assert!(lone.evict("a").is_allow(), "watch first: {is_watch_first}");
        lone.settle();
        lone.verify("pdb", (0, 1, 1, 2));
        assert!(lone.status("pdb").disrupted_pods.contains_key("a"));
        assert!(!lone.evict("b").is_allow(), "watch first: {is_watch_first}");
    }
}
