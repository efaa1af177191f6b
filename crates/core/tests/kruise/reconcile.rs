//! Kruise's `TestPubReconcile` and `TestDesiredAvailableForPub`: allowed, current, desired, total.

use std::time::Duration;

use holdfast_core::model::Threshold::{Count, Percent};
use holdfast_core::model::{Budget, Grant, Operation, Owner, Phase, Timestamp};

use super::make::{case, deployed, deployment, each, max, min, targeting, total};
use crate::upstream::lone::{Lone, START, is_about_pod};

type Numbers = (i64, i64, i64, i64);
/// A budget, replicas and pods, and what happens to them.
type Case = (&'static str, Budget, (i64, usize), fn(&mut Lone), Numbers);
/// A budget, how many updates and deletes it has on record and for how many seconds, and what happens then.
type Recorded = (&'static str, Budget, (usize, usize, i64), fn(&mut Lone), Numbers);

fn on_deployment(budget: Budget) -> Budget {
    targeting(budget, "apps", "Deployment", "d")
}

fn terminate(lone: &mut Lone) {
    lone.owner(Owner { terminating: true, ..deployment(10) });
}

/// Ten pods of a Deployment, unless it says otherwise.
#[test]
fn test_pub_reconcile() {
    let leave: fn(&mut Lone) = |_| {};
    let three_deleting: fn(&mut Lone) = |lone| each(lone, 0..3, |pod| pod.terminating = true);
    let half: fn(&mut Lone) = |lone| each(lone, 0..5, |pod| pod.ready = false);
    let one_late: fn(&mut Lone) = |lone| each(lone, 0..1, |pod| pod.ready = false);
    let cases: Vec<Case> = vec![
        ("select, replicas 0", max(Percent(30)), (0, 10), leave, (10, 10, 0, 0)),
        ("select, total 15", total(max(Percent(30)), 15), (1, 10), leave, (0, 10, 10, 15)),
        ("select, maxSurge", max(Percent(30)), (10, 13), one_late, (5, 12, 7, 10)),
        ("select, 3 deleting", max(Percent(30)), (10, 10), three_deleting, (0, 7, 7, 10)),
        ("select, terminating", max(Percent(30)), (10, 10), terminate, (10, 10, 0, 0)),
        ("target, replicas 0", on_deployment(max(Percent(30))), (0, 10), leave, (0, 0, 0, 0)),
        (
            "target, replicas 1, total 15",
            total(on_deployment(max(Percent(30))), 15),
            (1, 10),
            leave,
            (0, 10, 10, 15),
        ),
        ("target, replicas 1", on_deployment(max(Percent(30))), (1, 10), leave, (10, 10, 0, 1)),
        (
            "target, 3 deleting",
            on_deployment(max(Percent(30))),
            (10, 10),
            three_deleting,
            (0, 7, 7, 10),
        ),
        ("target, terminating", on_deployment(max(Percent(30))), (10, 10), terminate, (0, 0, 0, 0)),
        ("max 0%", max(Percent(0)), (10, 10), leave, (0, 10, 10, 10)),
        ("max 100%", max(Percent(100)), (10, 10), leave, (10, 10, 0, 10)),
        ("max 100", max(Count(100)), (10, 10), leave, (10, 10, 0, 10)),
        ("min 100, 5 pods", min(Count(100)), (10, 5), leave, (0, 5, 100, 10)),
        ("min 50%, 5 ready", min(Percent(50)), (10, 10), half, (0, 5, 5, 10)),
        ("min 80%", min(Percent(80)), (10, 10), leave, (2, 10, 8, 10)),
        // TestDesiredAvailableForPub: 10% of 15 is 2, rounded up.
        ("max 10% of 15", total(max(Percent(10)), 15), (15, 15), leave, (2, 15, 13, 15)),
        // Available is more than Ready.
        (
            "a label says unavailable, or an update is half done",
            max(Count(1)),
            (10, 10),
            |lone| each(lone, 0..2, |pod| pod.settled = false),
            (0, 8, 9, 10),
        ),
        (
            "ready and not Running",
            max(Count(1)),
            (10, 10),
            |lone| each(lone, 0..1, |pod| pod.phase = Phase::Unknown),
            (0, 9, 9, 10),
        ),
    ];
    for (name, budget, (replicas, pods), change, numbers) in cases {
        for late in [false, true] {
            case(format!("{name}, budget before the change: {late}"));
            let mut lone = deployed(replicas, pods);
            if late {
                lone.budget(budget.clone());
            }
            change(&mut lone);
            if !late {
                lone.budget(budget.clone());
            }
            lone.verify("pub", numbers);
        }
    }
}

fn update_of(pod: &str) -> Grant {
    Grant {
        pod: pod.to_owned(),
        uid: format!("uid-{pod}"),
        replica: String::new(),
        cost: 1,
        requester: String::new(),
        granted_at: START,
        eviction: format!("update-{pod}"),
        budgets: vec!["uid-pub".to_owned()],
        operation: Operation::Update,
        generation: 2,
        shared: false,
        age_seconds: 0,
        pinned: false,
        targeted_before: false,
    }
}

/// A hundred pods; `unavailablePods` are grants of updates here, and the first so many pods have one. The
/// next have an entry of somebody else in `disruptedPods`, this old.
fn recorded(budget: Budget, unavailable: usize, disrupted: usize, age_s: i64) -> (Lone, Budget) {
    let mut budget = budget;
    let at = Timestamp::from_secs(START.as_secs() - age_s);
    for i in 0..unavailable {
        budget.status.grants.push(update_of(&format!("p{i}")));
        budget.status.disrupted_pods.insert(format!("p{i}"), at);
    }
    for i in unavailable..unavailable + disrupted {
        budget.status.disrupted_pods.insert(format!("p{i}"), at);
    }
    (deployed(100, 100), budget)
}

#[test]
fn test_pub_reconcile_recorded_pods() {
    let leave: fn(&mut Lone) = |_| {};
    let not_ready: fn(&mut Lone) = |lone| each(lone, 20..25, |pod| pod.ready = false);
    let deleting: fn(&mut Lone) = |lone| each(lone, 20..25, |pod| pod.terminating = true);
    let disrupted_deleting: fn(&mut Lone) = |lone| each(lone, 10..15, |pod| pod.terminating = true);
    let cases: Vec<Recorded> = vec![
        ("10 unavailable, 10 disrupted", max(Percent(30)), (10, 10, 0), leave, (10, 80, 70, 100)),
        ("and 5 not ready", max(Percent(30)), (10, 10, 0), not_ready, (5, 75, 70, 100)),
        ("and 5 deleting", max(Percent(30)), (10, 10, 0), deleting, (5, 75, 70, 100)),
        // Kruise drops updates after 10 s and deletes after 20 s, by the time that they carry; here age
        // alone proves nothing (semantics 5).
        (
            "unavailable for 15 s, disrupted deleting",
            max(Percent(30)),
            (10, 10, 15),
            disrupted_deleting,
            (10, 80, 70, 100),
        ),
        ("disrupted for 125 s", max(Percent(30)), (0, 10, 125), leave, (20, 90, 70, 100)),
        // The golden numbers of the last case, with all its entries alive.
        (
            "total 50, 5 and 5 recorded, 5 deleting",
            total(max(Percent(30)), 50),
            (5, 5, 0),
            deleting,
            (50, 85, 35, 50),
        ),
    ];
    for (name, budget, (unavailable, disrupted, age_s), change, numbers) in cases {
        case(name);
        let (mut lone, budget) = recorded(budget, unavailable, disrupted, age_s);
        change(&mut lone);
        lone.budget(budget);
        lone.verify("pub", numbers);
    }
}

/// The other half of `disrupted for 125 s`: two minutes after we first saw them, they are dropped, and
/// Kruise's event says so of those that were to be deleted, not of those that were updated.
#[test]
fn recorded_pods_expire() {
    let (mut lone, budget) = recorded(max(Percent(30)), 1, 1, 125);
    lone.budget(budget);
    lone.verify("pub", (28, 98, 70, 100));
    lone.advance(Duration::from_secs(125));
    lone.verify("pub", (30, 100, 70, 100));
    let events = lone.events_of("NotDeleted");
    assert_eq!(events.len(), 1);
    assert!(is_about_pod(events[0], "p1"));
    let text = "Pod was expected by PUB default/pub to be deleted but it wasn't";
    assert_eq!(events[0].message, text);
}
