//! `podGroupPolicy` (semantics 9, and 6 rules 5 to 7): groups by label within one owner.

use holdfast_core::model::Operation::{Delete, Evict, Resize, Update};
use holdfast_core::model::Threshold::{Count, Percent};
use holdfast_core::model::{Budget, ConditionStatus, Operation, Owner, Pod, Threshold};
use holdfast_core::verdict::{AllowReason, DenyReason};

use super::make::{
    GROUP, assert_denied, assert_granted, assert_passed, bare, case, denial, grouped, labelled,
    lws, max, member, min, serve, targeting, total,
};
use crate::upstream::lone::{Lone, owned, owner};

pub const SHARD: &str = "shard";

type Numbers = (i64, i64, i64, i64);

/// Groups: allowed, available, desired, total.
#[track_caller]
pub fn verify(lone: &Lone, numbers: Numbers) {
    let s = lone.status("pub");
    let groups = (
        s.disruptions_allowed,
        s.current_healthy_replicas,
        s.desired_healthy_replicas,
        s.expected_replicas,
    );
    assert_eq!(groups, numbers, "{s:?}");
}

#[track_caller]
fn assert_configured(lone: &Lone, reason: &str) {
    let condition = lone.condition("pub", "BudgetConfigured");
    let expected =
        if reason == "ValidConfig" { ConditionStatus::True } else { ConditionStatus::False };
    assert_eq!((condition.status, condition.reason.as_str()), (expected, reason), "{condition:?}");
}

/// The seed's story: three groups of a leader and two workers.
pub fn serving(budget: Budget) -> Lone {
    let mut lone = Lone::new();
    serve(&mut lone, "llm", 3, 3);
    lone.budget(grouped(budget, GROUP, 3));
    lone
}

/// A `StatefulSet` of pods `web-0` and on, in groups of this size by label, which need so many.
fn sharded(budget: Budget, replicas: i64, size: i64, min_ready: i64) -> Lone {
    let mut lone = Lone::new();
    let set = sharding(replicas, size);
    lone.owner(set.clone());
    for i in 0..replicas {
        lone.pod(labelled(owned(&format!("web-{i}"), &set), SHARD, &(i / size).to_string()));
    }
    lone.budget(grouped(budget, SHARD, min_ready));
    lone
}

pub fn sharding(replicas: i64, size: i64) -> Owner {
    Owner { group_size: Some(size), ..owner("apps", "StatefulSet", "web", replicas) }
}

#[test]
fn one_group_at_a_time() {
    let mut lone = serving(max(Count(1)));
    verify(&lone, (1, 3, 2, 3));
    assert_configured(&lone, "ValidConfig");
    assert_granted(&lone.operate("llm-0-1", Delete), 1);
    lone.settle();
    verify(&lone, (0, 2, 2, 3));
    for operation in Operation::ALL {
        let verdict = lone.operate("llm-1-0", *operation);
        let denied = denial(&verdict, DenyReason::BudgetExhausted);
        let numbers = "needs 2 available groups and has 2 of 3";
        assert!(denied.message.contains(numbers), "{}", denied.message);
        assert!(denied.message.contains("group 1 of LeaderWorkerSet llm"), "{}", denied.message);
    }
    // Within the first group everything passes, recorded.
    for (pod, operation) in [("llm-0-0", Evict), ("llm-0-2", Update)] {
        assert_granted(&lone.operate(pod, operation), 0);
    }
    lone.settle();
    verify(&lone, (0, 2, 2, 3));
    // It comes back, and the next may go.
    for pod in ["llm-0-0", "llm-0-1", "llm-0-2"] {
        lone.delete_pod(pod);
    }
    verify(&lone, (0, 2, 2, 3));
    assert_denied(&lone.operate("llm-1-0", Delete));
    for index in 0..3 {
        let again = Pod { uid: format!("uid-again-{index}"), ..member("llm", 0, index, 3) };
        lone.pod(again);
    }
    // The eviction of the leader was pinned to the old pod.
    verify(&lone, (1, 3, 2, 3));
    assert_granted(&lone.operate("llm-1-0", Delete), 1);
}

/// Two `LeaderWorkerSets` both have a group 0.
#[test]
fn groups_are_of_one_owner() {
    let mut lone = Lone::new();
    serve(&mut lone, "a", 2, 2);
    serve(&mut lone, "b", 1, 2);
    lone.budget(grouped(max(Count(1)), GROUP, 2));
    verify(&lone, (1, 3, 2, 3));
    assert_granted(&lone.operate("a-0-0", Delete), 1);
    assert_denied(&lone.operate("b-0-0", Delete));
    assert_granted(&lone.operate("a-0-1", Delete), 0);
    // Not merged by value where the owners are of one name and of different kinds either.
    let mut lone = Lone::new();
    for (group, kind) in [
        ("apps", "StatefulSet"),
        (Owner::KRUISE_GROUP, "StatefulSet"),
        ("", "ReplicationController"),
    ] {
        let workload = Owner { uid: format!("uid-{group}"), ..owner(group, kind, "w", 1) };
        lone.owner(workload.clone());
        lone.pod(labelled(owned(&format!("{kind}-{group}"), &workload), SHARD, "0"));
    }
    lone.budget(total(grouped(max(Count(1)), SHARD, 1), 3));
    verify(&lone, (1, 3, 2, 3));
}

/// A Job that is deleted and made again under its name: what is left of the old one's pods neither counts nor speaks
/// for the group, nor is it one of its own.
#[test]
fn an_owner_is_made_again() {
    let mut lone = Lone::new();
    let job = |uid: &str| Owner {
        replicas: None,
        uid: uid.to_owned(),
        ..owner("batch", "Job", "train", 0)
    };
    let gang = |name: &str, uid: &str| labelled(owned(name, &job(uid)), SHARD, "0");
    lone.owner(job("j1"));
    // By name, the old pods come last.
    lone.pod(gang("train-x", "j1"));
    lone.pod(gang("train-y", "j1"));
    lone.budget(grouped(max(Count(1)), SHARD, 2));
    verify(&lone, (1, 1, 0, 1));
    lone.delete_owner(job("j1"));
    lone.owner(job("j2"));
    verify(&lone, (0, 0, 0, 1));
    for name in ["train-a", "train-b"] {
        lone.pod(Pod { ready: false, ..gang(name, "j2") });
    }
    for name in ["train-x", "train-y"] {
        lone.change_pod(name, |pod| pod.terminating = true);
    }
    for name in ["train-x", "train-y"] {
        lone.delete_pod(name);
    }
    verify(&lone, (0, 0, 0, 1));
    for name in ["train-a", "train-b"] {
        lone.change_pod(name, |pod| pod.ready = true);
    }
    verify(&lone, (1, 1, 0, 1));
    assert_granted(&lone.operate("train-a", Delete), 1);
}

/// As long as the old pods are there, they are no reason to let the new ones go.
#[test]
fn an_owner_is_made_again_and_its_old_pods_stay_for_a_while() {
    let mut lone = sharded(min(Count(2)), 4, 2, 1);
    verify(&lone, (0, 2, 2, 2));
    let again = Owner { uid: "again".to_owned(), ..sharding(4, 2) };
    lone.owner(again.clone());
    verify(&lone, (0, 0, 2, 2));
    for (name, shard) in [("web-0", "0"), ("web-2", "1"), ("web-3", "1")] {
        let new = Pod { uid: format!("uid-again-{name}"), ..owned(name, &again) };
        lone.delete_pod(name);
        lone.pod(labelled(new, SHARD, shard));
    }
    verify(&lone, (0, 2, 2, 2));
    assert_granted(&lone.operate("web-3", Evict), 0);
    assert_denied(&lone.operate("web-2", Evict));
    assert_denied(&lone.operate("web-0", Evict));
}

/// A set that is made smaller: workers of the old size that go last do not say how many its groups need.
#[test]
fn the_size_of_a_group_changes() {
    let mut lone = serving(max(Count(1)));
    lone.budget(grouped(max(Count(1)), GROUP, 2));
    for index in 0..2 {
        lone.delete_pod(&format!("llm-0-{index}"));
        lone.pod(Pod { uid: format!("uid-again-{index}"), ..member("llm", 0, index, 2) });
    }
    // Until they are known to go, they count for as much as they say.
    lone.delete_pod("llm-1-0");
    verify(&lone, (0, 2, 2, 3));
    lone.change_pod("llm-0-2", |pod| pod.terminating = true);
    verify(&lone, (0, 2, 2, 3));
    lone.delete_pod("llm-0-2");
    verify(&lone, (0, 2, 2, 3));
    assert_denied(&lone.operate("llm-0-1", Delete));
    lone.pod(Pod { uid: "uid-again".to_owned(), ..member("llm", 1, 0, 3) });
    verify(&lone, (1, 3, 2, 3));
}

/// The `targetRef` selects by the label that every pod of the set has, workers too.
#[test]
fn a_target_selects_leaders_and_workers() {
    let target = |budget| targeting(budget, Owner::LWS_GROUP, "LeaderWorkerSet", "llm");
    let mut lone = Lone::new();
    lone.budget(target(grouped(max(Count(1)), GROUP, 3)));
    serve(&mut lone, "llm", 2, 3);
    serve(&mut lone, "other", 1, 3);
    verify(&lone, (1, 2, 1, 2));
    assert_granted(&lone.operate("llm-0-2", Delete), 1);
    assert_denied(&lone.operate("llm-1-1", Delete));
    assert_passed(&lone.operate("other-0-1", Delete), AllowReason::NotCovered);
}

#[test]
fn thresholds_of_groups() {
    let both = |min_available, max_unavailable| {
        let mut budget = max(max_unavailable);
        budget.spec.min_available = Some(min_available);
        budget
    };
    let cases: Vec<(&str, Budget, Numbers)> = vec![
        ("max 1", max(Count(1)), (1, 5, 4, 5)),
        ("max 30%", max(Percent(30)), (2, 5, 3, 5)),
        ("min 2", min(Count(2)), (3, 5, 2, 5)),
        ("min 50%", min(Percent(50)), (2, 5, 3, 5)),
        ("both, min is stricter", both(Count(4), Count(3)), (1, 5, 4, 5)),
        ("both, max is stricter", both(Count(1), Count(1)), (1, 5, 4, 5)),
        ("both, by percentage", both(Percent(20), Percent(40)), (2, 5, 3, 5)),
        ("total", total(max(Count(1)), 6), (0, 5, 5, 6)),
        ("total below what is there", total(max(Count(1)), 3), (3, 5, 2, 3)),
    ];
    for (name, budget, numbers) in cases {
        case(name);
        let mut lone = sharded(budget, 10, 2, 2);
        verify(&lone, numbers);
        let allowed = numbers.0;
        for group in 0..5 {
            let verdict = lone.operate(&format!("web-{}", group * 2), Delete);
            assert_eq!(verdict.is_allow(), group < allowed, "group {group}: {verdict:?}");
        }
    }
}

/// Default 1: what is ready beyond that is free, and recorded.
#[test]
fn surplus_is_free() {
    for operation in Operation::ALL {
        let mut lone = sharded(max(Count(0)), 6, 3, 1);
        verify(&lone, (0, 2, 2, 2));
        assert_granted(&lone.operate("web-0", *operation), 0);
        assert_granted(&lone.operate("web-1", *operation), 0);
        assert_denied(&lone.operate("web-2", *operation));
        lone.settle();
        assert_eq!(lone.status("pub").grants.len(), 2);
        verify(&lone, (0, 2, 2, 2));
        // The other group has its own.
        assert_granted(&lone.operate("web-5", *operation), 0);
    }
}

/// A `LeaderWorkerSet` deletes the rest of a group that lost a pod, so none of its pods is surplus, unless
/// it restarts them one by one.
#[test]
fn surplus_of_a_leader_worker_set() {
    for keeps_group in [false, true] {
        let mut lone = Lone::new();
        serve(&mut lone, "llm", 2, 3);
        lone.owner(Owner { lws_keeps_group: keeps_group, ..lws("llm", 2) });
        lone.budget(grouped(max(Count(1)), GROUP, 1));
        verify(&lone, (1, 2, 1, 2));
        assert_granted(&lone.operate("llm-0-0", Delete), i64::from(!keeps_group));
        assert_eq!(lone.operate("llm-1-0", Delete).is_allow(), keeps_group);
        lone.settle();
        let grant = &lone.status("pub").grants[0];
        assert_eq!(grant.replica, "group 0 of LeaderWorkerSet llm");
    }
}

/// Rules 5b and 6. Evictions are held back while groups are missing, so that they can recover; a
/// controller that repairs a group by deleting the rest of it is not.
#[test]
fn broken_groups() {
    let cases = [
        // (broken groups, by a pod that is not ready, maxUnavailable, evictions pass)
        ("as many as may be", 1, Count(1), true),
        ("more than may be", 2, Count(1), false),
        ("none may be", 1, Count(0), false),
    ];
    for (name, broken, max_unavailable, evictions) in cases {
        case(name);
        let lone = || {
            let mut lone = sharded(max(max_unavailable.clone()), 9, 3, 3);
            for group in 0..broken {
                lone.change_pod(&format!("web-{}", group * 3), |pod| pod.ready = false);
            }
            lone
        };
        // The one that is not ready, and one that is.
        for pod in ["web-0", "web-1"] {
            for operation in Operation::ALL {
                let verdict = lone().operate(pod, *operation);
                if *operation != Evict || evictions {
                    assert_granted(&verdict, 0);
                } else {
                    assert_denied(&verdict);
                }
            }
        }
        assert_denied(&lone().operate("web-8", Delete));
    }
    // A pod that is not ready in a group that can do without it.
    for (max_unavailable, others, evictions) in [(0, true, true), (0, false, false)] {
        let mut lone = sharded(max(Count(max_unavailable)), 6, 3, 2);
        lone.change_pod("web-0", |pod| pod.ready = false);
        if !others {
            (3..6).for_each(|i| lone.change_pod(&format!("web-{i}"), |pod| pod.ready = false));
        }
        assert_eq!(lone.operate("web-0", Evict).is_allow(), evictions);
        assert_granted(&lone.operate("web-0", Delete), 0);
    }
}

/// No group has so many pods: none can be available, and that is said.
#[test]
fn impossible_min_ready() {
    let mut lone = sharded(max(Count(1)), 6, 3, 4);
    verify(&lone, (0, 0, 1, 2));
    assert_configured(&lone, "ImpossibleMinReadyReplicas");
    assert_denied(&lone.operate("web-0", Evict));
    for operation in [Delete, Update, Resize] {
        assert_granted(&lone.operate("web-0", operation), 0);
    }
    let fits = sharded(max(Count(1)), 6, 3, 3);
    assert_configured(&fits, "ValidConfig");
}

/// Pods without the label: one by one, in a pool of their own, under the same thresholds.
#[test]
fn pods_without_the_label() {
    let mut lone = serving(max(Count(1)));
    let other = owner("apps", "StatefulSet", "other", 3);
    lone.owner(other.clone());
    (0..3).for_each(|i| lone.pod(owned(&format!("other-{i}"), &other)));
    assert_configured(&lone, "MissingGroupLabel");
    let message = &lone.condition("pub", "BudgetConfigured").message;
    assert!(message.contains("3 of 12 selected pods lack label"), "{message}");
    // Groups are counted without them.
    verify(&lone, (1, 3, 2, 3));
    assert_granted(&lone.operate("other-0", Delete), 1);
    let verdict = lone.operate("other-1", Delete);
    let denied = denial(&verdict, DenyReason::BudgetExhausted);
    let numbers = "needs 2 available pods and has 2 of 3";
    assert!(denied.message.contains(numbers), "{}", denied.message);
    lone.settle();
    verify(&lone, (1, 3, 2, 3));
    assert_granted(&lone.operate("llm-0-0", Delete), 1);
    // A pod of the pool that is going, or gone, is still missing.
    lone.change_pod("other-0", |pod| pod.terminating = true);
    assert_denied(&lone.operate("other-1", Delete));
    lone.delete_pod("other-0");
    assert_denied(&lone.operate("other-1", Delete));
    lone.pod(Pod { uid: "uid-again".to_owned(), ..owned("other-0", &other) });
    assert_granted(&lone.operate("other-1", Delete), 1);
    assert_denied(&lone.operate("llm-1-0", Delete));
}

/// A pod that moves between the groups and the pool by its label.
#[test]
fn the_label_comes_late() {
    let mut lone = sharded(max(Count(1)), 4, 2, 2);
    lone.change_pod("web-0", |pod| {
        pod.labels.remove(SHARD);
    });
    assert_configured(&lone, "MissingGroupLabel");
    verify(&lone, (0, 1, 1, 2));
    lone.change_pod("web-0", |pod| {
        pod.labels.insert(SHARD.to_owned(), "0".to_owned());
    });
    assert_configured(&lone, "ValidConfig");
    verify(&lone, (1, 2, 1, 2));
}

/// A budget that cannot be computed lets nothing go, of the pool neither.
#[test]
fn an_invalid_threshold_closes_all() {
    let mut lone = serving(max(Threshold::Invalid("no number".to_owned())));
    lone.pod(bare("bare"));
    for pod in ["llm-0-0", "bare"] {
        denial(&lone.operate(pod, Delete), DenyReason::FailedClosed);
    }
    assert_eq!(lone.condition("pub", "DisruptionAllowed").reason, "SyncFailed");
}
