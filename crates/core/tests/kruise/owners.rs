//! Whose pods a budget is about, and how many there should be (Kruise's finders): every kind
//! of workload, by selector and by `targetRef`, and whichever comes first.

use std::time::Duration;

use holdfast_core::Eviction;
use holdfast_core::io::ScaleOutcome;
use holdfast_core::model::Threshold::{Count, Percent};
use holdfast_core::model::{Budget, ConditionStatus, Operation, Owner, Phase, Pod};
use holdfast_core::verdict::{AllowReason, DenyReason};

use super::make::{
    assert_denied, assert_granted, assert_passed, bare, case, denial, deployment, max, member, min,
    named, protecting, serve, set_of, targeting, total, under,
};
use crate::upstream::lone::{
    Lone, labels, owned, owner, pod, reference_to, replica_set, selecting,
};

const ROLLOUT: (&str, &str) = ("argoproj.io", "Rollout");

/// Four of five pods are there, one may be missing.
#[test]
fn workloads_of_all_kinds() {
    let direct = [
        ("", "ReplicationController"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        (Owner::KRUISE_GROUP, "CloneSet"),
        (Owner::KRUISE_GROUP, "StatefulSet"),
        // By its `/scale`.
        ROLLOUT,
        ("example.com", "Database"),
    ];
    for (group, kind) in direct {
        for targets in [false, true] {
            for budget_first in [false, true] {
                case(format!("{kind}.{group}, by target: {targets}, budget first: {budget_first}"));
                let workload = owner(group, kind, "w", 5);
                let by_target = targeting(max(Count(1)), group, kind, "w");
                let budget = if targets { by_target } else { max(Count(1)) };
                let mut lone = Lone::new();
                let found = ScaleOutcome::Found { uid: workload.uid.clone(), replicas: 5 };
                lone.scales.insert("w".to_owned(), found);
                if budget_first {
                    lone.budget(budget.clone());
                }
                if Owner::is_watched(&workload.group_kind) {
                    lone.owner(workload.clone());
                }
                for i in 0..4 {
                    lone.pod(owned(&format!("p{i}"), &workload));
                }
                if !budget_first {
                    lone.budget(budget);
                }
                lone.verify("pub", (0, 4, 4, 5));
            }
        }
    }
}

/// A Deployment's pods are those of its `ReplicaSets`, in whatever order all this is seen.
#[test]
fn a_deployment_is_climbed_to() {
    let deployment = deployment(5);
    let set = set_of(&deployment);
    let by_target = || targeting(max(Count(1)), "apps", "Deployment", "d");
    let steps: [fn(&mut Lone, &Owner, &Owner, Budget); 4] = [
        |lone, _, _, budget| lone.budget(budget),
        |lone, deployment, _, _| lone.owner(deployment.clone()),
        |lone, _, set, _| lone.owner(set.clone()),
        |lone, _, set, _| (0..4).for_each(|i| lone.pod(owned(&format!("p{i}"), set))),
    ];
    for budget in [max(Count(1)), by_target()] {
        for order in orders() {
            case(format!("{order:?}"));
            let mut lone = Lone::new();
            for step in order {
                steps[step](&mut lone, &deployment, &set, budget.clone());
            }
            lone.verify("pub", (0, 4, 4, 5));
            assert_denied(&lone.operate("p0", Operation::Delete));
        }
    }
}

/// All orders of four.
fn orders() -> Vec<[usize; 4]> {
    let mut orders = Vec::new();
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| ![a, b].contains(c)) {
                orders.push([a, b, c, 6 - a - b - c]);
            }
        }
    }
    orders
}

/// Two `ReplicaSets` of one Deployment count once; one of another owner than a Deployment for itself.
#[test]
fn sets_count_once_for_their_deployment() {
    let deployment = deployment(4);
    let mut lone = Lone::new();
    lone.budget(max(Count(1)));
    lone.owner(deployment.clone());
    for name in ["d-1", "d-2"] {
        let set = Owner { controller: Some(reference_to(&deployment)), ..replica_set(name, 2) };
        lone.owner(set.clone());
        lone.pod(owned(&format!("{name}-a"), &set));
        lone.pod(owned(&format!("{name}-b"), &set));
    }
    lone.verify("pub", (1, 4, 3, 4));
    let rollout = owner(ROLLOUT.0, ROLLOUT.1, "r", 9);
    let set = Owner { controller: Some(reference_to(&rollout)), ..replica_set("r-1", 3) };
    lone.owner(set.clone());
    lone.pod(owned("r-1-a", &set));
    lone.verify("pub", (0, 5, 6, 7));
}

/// kruise#2571: the pods of a custom workload that makes `ReplicaSets` are linked to it all the same.
#[test]
fn a_target_may_own_replica_sets() {
    let rollout = owner(ROLLOUT.0, ROLLOUT.1, "r", 2);
    let set = Owner { controller: Some(reference_to(&rollout)), ..replica_set("r-1", 2) };
    let mut lone = Lone::new();
    let found = ScaleOutcome::Found { uid: rollout.uid.clone(), replicas: 2 };
    lone.scales.insert("r".to_owned(), found);
    lone.budget(targeting(max(Count(1)), ROLLOUT.0, ROLLOUT.1, "r"));
    lone.pod(owned("a", &set));
    lone.pod(owned("b", &set));
    // The link that leads there is not known yet.
    lone.verify("pub", (0, 0, 1, 2));
    lone.owner(set);
    lone.verify("pub", (1, 2, 1, 2));
}

/// A `targetRef` to a `LeaderWorkerSet` is about workers too, which Kruise misses: its scale selects
/// leaders only, and counts groups.
#[test]
fn a_leader_worker_set_is_all_its_pods() {
    let mut lone = Lone::new();
    lone.budget(targeting(max(Count(1)), Owner::LWS_GROUP, "LeaderWorkerSet", "serving"));
    lone.verify("pub", (0, 0, 0, 0));
    serve(&mut lone, "serving", 2, 3);
    serve(&mut lone, "other", 2, 3);
    lone.verify("pub", (1, 6, 5, 6));
    assert_granted(&lone.operate("serving-1-2", Operation::Delete), 1);
    assert_denied(&lone.operate("serving-0-0", Operation::Delete));
    assert_passed(&lone.operate("other-0-0", Operation::Delete), AllowReason::NotCovered);
}

/// Kruise counts a workload of unknown scale as -1, so that `maxUnavailable` protects nothing.
#[test]
fn kinds_without_scale() {
    for (kind, group, resource) in
        [("DaemonSet", "apps", "daemonsets.apps"), ("Job", "batch", "jobs.batch")]
    {
        let workload = Owner { replicas: None, ..owner(group, kind, "w", 0) };
        for targets in [false, true] {
            case(format!("{kind}, by target: {targets}"));
            let on = |budget: Budget| {
                if targets { targeting(budget, group, kind, "w") } else { budget }
            };
            let lone = |budget: Budget| {
                let mut lone = Lone::new();
                let none = ScaleOutcome::NotImplemented(resource.to_owned());
                lone.scales.insert("w".to_owned(), none);
                if Owner::is_watched(&workload.group_kind) {
                    lone.owner(workload.clone());
                }
                lone.budget(on(budget));
                for i in 0..3 {
                    lone.pod(owned(&format!("p{i}"), &workload));
                }
                lone
            };
            for budget in [max(Count(1)), min(Percent(50))] {
                let mut lone = lone(budget);
                let condition = lone.condition("pub", "DisruptionAllowed");
                assert_eq!(condition.status, ConditionStatus::False);
                assert_eq!(condition.reason, "WorkloadResolutionFailed");
                assert!(condition.message.contains("protectTotalReplicas"), "{condition:?}");
                assert_eq!(lone.events_of("CalculateExpectedPodCountFailed").len(), 1);
                let verdict = lone.operate("p0", Operation::Delete);
                denial(&verdict, DenyReason::FailedClosed);
                // What cannot be available is not protected either way.
                lone.change_pod("p1", |pod| pod.ready = false);
                assert_granted(&lone.operate("p1", Operation::Delete), 0);
            }
            let mut by_count = lone(min(Count(2)));
            by_count.verify("pub", (1, 3, 2, 3));
            assert_granted(&by_count.operate("p0", Operation::Delete), 1);
            assert_denied(&by_count.operate("p1", Operation::Delete));
            lone(total(max(Count(1)), 3)).verify("pub", (1, 3, 2, 3));
        }
    }
}

/// Nothing tells how many there should be. Kruise lets all of them go.
#[test]
fn bare_pods() {
    let lone = |budget: Budget| {
        let mut lone = Lone::new();
        lone.budget(budget);
        (0..3).for_each(|i| lone.pod(bare(&format!("p{i}"))));
        lone
    };
    let mut counted = lone(min(Count(2)));
    counted.verify("pub", (1, 3, 2, 3));
    assert_granted(&counted.operate("p0", Operation::Delete), 1);
    assert_denied(&counted.operate("p1", Operation::Delete));
    let mut closed = lone(max(Count(1)));
    denial(&closed.operate("p0", Operation::Delete), DenyReason::FailedClosed);
    assert_eq!(closed.condition("pub", "DisruptionAllowed").reason, "WorkloadResolutionFailed");
    lone(total(max(Count(1)), 3)).verify("pub", (1, 3, 2, 3));
}

/// Beside pods that somebody made, a bare one adds nothing to the total, as Kruise has it. It is not
/// among what a scale of 0 wants gone.
#[test]
fn a_bare_pod_among_others() {
    let mut lone = under(min(Count(1)), 2);
    lone.pod(bare("bare"));
    lone.verify("pub", (2, 3, 1, 2));
    lone.owner(deployment(0));
    assert_passed(&lone.operate("p0", Operation::Delete), AllowReason::Exempt);
    lone.delete_pod("p0");
    lone.delete_pod("p1");
    lone.verify("pub", (0, 1, 1, 1));
    assert_denied(&lone.operate("bare", Operation::Delete));
}

/// A Job that is done, and has no scale, is no reason to fail closed (semantics 6.4).
#[test]
fn finished_pods_close_nothing() {
    let job = Owner { replicas: None, ..owner("batch", "Job", "w", 0) };
    let mut lone = under(max(Count(1)), 3);
    let none = ScaleOutcome::NotImplemented("jobs.batch".to_owned());
    lone.scales.insert("w".to_owned(), none);
    lone.owner(job.clone());
    lone.pod(Pod { phase: Phase::Succeeded, ready: false, ..owned("done", &job) });
    lone.verify("pub", (1, 3, 2, 3));
    lone.pod(owned("busy", &job));
    assert_eq!(lone.condition("pub", "DisruptionAllowed").reason, "WorkloadResolutionFailed");
    lone.change_pod("busy", |pod| pod.phase = Phase::Failed);
    lone.verify("pub", (1, 3, 2, 3));
}

/// What happens to a Deployment's `ReplicaSet` or to itself, and what the Deployment adds to the total then.
type Going = (&'static str, fn(&mut Lone, &Owner), i64);

/// Nothing stands in the way of what is going anyway (semantics 9).
#[test]
fn workloads_that_go() {
    let set = set_of(&deployment(3));
    let cases: Vec<Going> = vec![
        ("scaled to 0", |lone, _| lone.owner(deployment(0)), 0),
        (
            "Deployment terminating",
            |lone, _| lone.owner(Owner { terminating: true, ..deployment(3) }),
            0,
        ),
        ("set terminating", |lone, set| lone.owner(Owner { terminating: true, ..set.clone() }), 3),
        ("set gone", |lone, set| lone.delete_owner(set.clone()), 0),
        (
            "both gone",
            |lone, set| {
                lone.delete_owner(deployment(3));
                lone.delete_owner(set.clone());
            },
            0,
        ),
    ];
    for (name, change, adds) in cases {
        // Another workload under the same budget does not change that.
        for others in [false, true] {
            case(format!("{name}, others: {others}"));
            let mut lone = under(min(Count(5)), 3);
            if others {
                let web = owner("apps", "StatefulSet", "web", 3);
                lone.owner(web.clone());
                (0..3).for_each(|i| lone.pod(owned(&format!("web-{i}"), &web)));
            }
            assert_denied_or_scaled(&mut lone);
            change(&mut lone, &set);
            if name == "scaled to 0" && others {
                // Which of them are to go, nobody can tell by the budget's sum.
                continue;
            }
            for i in 0..3 {
                let pod = format!("p{i}");
                let verdict = lone.operate(&pod, Operation::Delete);
                if name.ends_with("gone") && others {
                    // That it is gone the shell finds out, by a live look, and asks again.
                    assert_eq!(verdict.is_allow(), i == 0, "one of six may go: {verdict:?}");
                    let exempt = |request: &mut Eviction| request.exempt = true;
                    assert!(lone.operate_with(&pod, Operation::Delete, exempt).is_allow());
                } else {
                    assert_passed(&verdict, AllowReason::Exempt);
                }
            }
            lone.settle();
            assert_eq!(lone.status("pub").expected_pods, adds + if others { 3 } else { 0 });
        }
    }
}

/// At first the budget of five has no room, or room for one of six.
#[track_caller]
fn assert_denied_or_scaled(lone: &mut Lone) {
    let verdict = lone.operate_with("p0", Operation::Delete, |request| request.dry_run = true);
    assert_eq!(verdict.is_allow(), lone.pods.len() == 6);
}

/// A `targetRef` to what does not exist is about nothing; to what comes late, from then on.
#[test]
fn a_target_that_comes_late() {
    let set = owner("apps", "StatefulSet", "web", 2);
    let mut lone = Lone::new();
    lone.budget(targeting(max(Count(0)), "apps", "StatefulSet", "web"));
    lone.verify("pub", (0, 0, 0, 0));
    lone.pod(pod("stranger"));
    assert_passed(&lone.operate("stranger", Operation::Delete), AllowReason::NotCovered);
    lone.owner(set.clone());
    lone.pod(owned("web-0", &set));
    lone.verify("pub", (0, 1, 2, 2));
    assert_denied(&lone.operate("web-0", Operation::Delete));
    lone.delete_owner(set);
    lone.verify("pub", (0, 0, 0, 0));
}

/// While a scale is being read nothing is known, and nothing goes.
#[test]
fn a_scale_that_is_not_read_yet() {
    let workload = owner("example.com", "Database", "w", 5);
    let mut lone = Lone::new();
    lone.are_scales_silent = true;
    lone.budget(max(Count(1)));
    (0..4).for_each(|i| lone.pod(owned(&format!("p{i}"), &workload)));
    denial(&lone.operate("p0", Operation::Delete), DenyReason::BeingProcessed);
    // Unless it is the system at work.
    let verdict = lone.operate_with("p0", Operation::Delete, |request| request.exempt = true);
    assert_granted(&verdict, 0);
}

/// Several budgets on one pod: all of them have to allow, and each says so.
#[test]
fn several_budgets_on_one_pod() {
    let reason = |lone: &Lone, name: &str| {
        let condition = lone.condition(name, "BudgetConfigured");
        (condition.status, condition.reason.clone())
    };
    let fine = (ConditionStatus::True, "ValidConfig".to_owned());
    let several = (ConditionStatus::False, "SeveralBudgets".to_owned());
    let mut lone = under(named("a", max(Count(1))), 3);
    assert_eq!(reason(&lone, "a"), fine);
    let special = Some(labels(&[("tier", "special")]));
    lone.budget(selecting(named("b", total(max(Count(0)), 1)), special));
    assert_eq!(reason(&lone, "b"), fine);
    lone.change_pod("p0", |pod| {
        pod.labels.insert("tier".to_owned(), "special".to_owned());
    });
    assert_eq!((reason(&lone, "a"), reason(&lone, "b")), (several.clone(), several.clone()));
    let message = &lone.condition("a", "BudgetConfigured").message;
    assert!(message.contains("such as p0 with b"), "{message}");
    let verdict = lone.operate("p0", Operation::Delete);
    let denied = denial(&verdict, DenyReason::BudgetExhausted);
    assert_eq!(denied.causes.len(), 1, "only b objects: {denied:?}");
    assert!(lone.status("a").grants.is_empty(), "nothing is spent in a");
    // Every operation by itself: b does not protect from updates.
    lone.delete_budget("b");
    assert_eq!(reason(&lone, "a"), fine);
    lone.budget(protecting(named("b", total(max(Count(0)), 1)), &[Operation::Delete]));
    assert_eq!((reason(&lone, "a"), reason(&lone, "b")), (several.clone(), several));
    let verdict = lone.operate("p1", Operation::Update);
    assert!(verdict.is_allow(), "{verdict:?}");
    lone.settle();
    assert_eq!((lone.status("a").grants.len(), lone.status("b").grants.len()), (1, 1));
    assert!(!lone.operate("p2", Operation::Update).is_allow());
}

/// An instance of the same name in another `LeaderWorkerSet` is another pod's business.
#[test]
fn a_terminating_leader_worker_set_lets_its_workers_go() {
    let mut lone = Lone::new();
    serve(&mut lone, "serving", 2, 2);
    lone.budget(total(max(Count(0)), 4));
    assert_denied(&lone.operate("serving-0-1", Operation::Delete));
    lone.owner(Owner { terminating: true, ..super::make::lws("serving", 2) });
    for pod in [member("serving", 0, 0, 2), member("serving", 0, 1, 2)] {
        let verdict = lone.operate(&pod.key.name, Operation::Delete);
        assert_passed(&verdict, AllowReason::Exempt);
    }
}

/// Kruise's `TestPubMutatingPod`: which pods get the annotation that names their budget. Ours writes it for
/// others to read, whether pod or budget comes first, and leaves alone what is there.
#[test]
fn pods_are_told_of_their_budget() {
    for budget_first in [false, true] {
        case(format!("budget first: {budget_first}"));
        let mut lone = Lone::new();
        if budget_first {
            lone.budget(max(Count(1)));
        }
        for i in 0..25 {
            lone.pod(Pod { related: false, ..pod(&format!("p{i}")) });
        }
        lone.pod(Pod { related: false, labels: [].into(), ..pod("other") });
        lone.pod(pod("told"));
        lone.pod(Pod { related: false, phase: Phase::Succeeded, ..pod("ended") });
        if !budget_first {
            lone.budget(max(Count(1)));
        }
        lone.advance(Duration::from_secs(10));
        let mut told = lone.related.clone();
        told.sort();
        let mut all: Vec<_> = (0..25).map(|i| (format!("p{i}"), "pub".to_owned())).collect();
        all.sort();
        assert_eq!(told, all);
        for i in 0..25 {
            lone.change_pod(&format!("p{i}"), |pod| pod.related = true);
        }
        lone.related.clear();
        lone.advance(Duration::from_mins(20));
        assert_eq!(lone.related, []);
    }
}
