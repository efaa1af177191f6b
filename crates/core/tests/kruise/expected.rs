//! How many groups there should be (semantics 4 and 9), and groups on their way out.

use holdfast_core::model::Operation::{Delete, Evict};
use holdfast_core::model::Threshold::Count;
use holdfast_core::model::{Budget, Owner, Phase, Pod};
use holdfast_core::verdict::{AllowReason, DenyReason};

use super::groups::{SHARD, serving, sharding, verify};
use super::make::{
    GROUP, assert_denied, assert_granted, assert_passed, case, denial, deployment, grouped,
    labelled, lws, max, member, min, serve, set_of, total,
};
use crate::upstream::lone::{Lone, owned, owner, pod, reference_to};

/// The label, the owners, the controllers of one pod each in groups 0 and 1, and how many that makes.
type Case = (&'static str, &'static str, Vec<Owner>, [Option<Owner>; 2], Option<i64>);

/// Where the number of groups comes from (semantics 4 b and c), with two groups there of how many.
#[test]
fn expected_groups() {
    let job = |name: &str| Owner { replicas: None, ..owner("batch", "Job", name, 0) };
    let jobset = owner(Owner::JOBSET_GROUP, "JobSet", "js", 4);
    let child = |name: &str| Owner { controller: Some(reference_to(&jobset)), ..job(name) };
    let deployment = deployment(8);
    let set = set_of(&deployment);
    let cases: Vec<Case> = vec![
        (
            "StatefulSet of groups of 2",
            SHARD,
            vec![sharding(7, 2)],
            [Some(sharding(7, 2)), Some(sharding(7, 2))],
            Some(4),
        ),
        (
            "StatefulSet without group-size",
            SHARD,
            vec![owner("apps", "StatefulSet", "web", 8)],
            [Some(sharding(8, 2)), Some(sharding(8, 2))],
            None,
        ),
        ("Jobs", SHARD, vec![job("a"), job("b")], [Some(job("a")), Some(job("b"))], Some(2)),
        (
            "Jobs of a JobSet",
            "batch.kubernetes.io/job-name",
            vec![jobset.clone(), child("js-0"), child("js-1")],
            [Some(child("js-0")), Some(child("js-1"))],
            Some(4),
        ),
        (
            "JobSet, by another label",
            SHARD,
            vec![jobset.clone(), child("js-0"), child("js-1")],
            [Some(child("js-0")), Some(child("js-1"))],
            None,
        ),
        ("Deployment", SHARD, vec![deployment, set.clone()], [Some(set.clone()), Some(set)], None),
        ("nobody's", SHARD, vec![], [None, None], None),
    ];
    for (name, label, owners, controllers, expected) in cases {
        for owners_late in [false, true] {
            case(format!("{name}, owners late: {owners_late}"));
            let feed = |lone: &mut Lone| {
                for owner in &owners {
                    lone.owner(owner.clone());
                }
            };
            let world = |budget: Budget| {
                let mut lone = Lone::new();
                lone.budget(grouped(budget, label, 1));
                if !owners_late {
                    feed(&mut lone);
                }
                for (i, controller) in controllers.iter().enumerate() {
                    let pod = pod(&format!("p{i}"));
                    let controller = controller.as_ref().map(reference_to);
                    lone.pod(labelled(Pod { controller, ..pod }, label, &i.to_string()));
                }
                if owners_late {
                    feed(&mut lone);
                }
                lone
            };
            let mut lone = world(max(Count(1)));
            if let Some(expected) = expected {
                verify(&lone, ((3 - expected).max(0), 2, expected - 1, expected));
            } else {
                let condition = lone.condition("pub", "DisruptionAllowed");
                assert_eq!(condition.reason, "WorkloadResolutionFailed", "{condition:?}");
                denial(&lone.operate("p0", Delete), DenyReason::FailedClosed);
                denial(&lone.operate("p0", Evict), DenyReason::FailedClosed);
            }
            // An integer minAvailable needs no total.
            let mut counted = world(min(Count(1)));
            assert_granted(&counted.operate("p0", Delete), 1);
            assert_denied(&counted.operate("p1", Delete));
            verify(&world(total(max(Count(1)), 2)), (1, 2, 1, 2));
        }
    }
}

/// A group that lost all its pods still counts.
#[test]
fn a_lost_group_counts() {
    let mut lone = serving(max(Count(1)));
    (0..3).for_each(|index| lone.delete_pod(&format!("llm-2-{index}")));
    verify(&lone, (0, 2, 2, 3));
    assert_denied(&lone.operate("llm-0-0", Delete));
}

/// Nobody can tell whether such a group is whole.
#[test]
fn a_group_whose_size_cannot_be_read_is_not_available() {
    let mut lone = serving(max(Count(1)));
    verify(&lone, (1, 3, 2, 3));
    for index in 0..3 {
        lone.change_pod(&format!("llm-2-{index}"), |pod| {
            pod.lws.as_mut().expect("a member").size = None;
        });
    }
    verify(&lone, (0, 2, 2, 3));
    assert_denied(&lone.operate("llm-0-0", Delete));
    for operation in [Delete, Evict] {
        let verdict = lone.operate("llm-2-1", operation);
        let message = &denial(&verdict, DenyReason::FailedClosed).message;
        assert!(message.contains("no readable annotation"), "{message}");
    }
}

/// Scale-down: groups beyond the scale are leaving, and neither count nor are held.
#[test]
fn leaving_groups() {
    let mut lone = serving(max(Count(1)));
    lone.owner(lws("llm", 2));
    verify(&lone, (1, 2, 1, 2));
    for (pod, operation) in [("llm-2-0", Delete), ("llm-2-1", Evict)] {
        assert_granted(&lone.operate(pod, operation), 0);
    }
    assert_granted(&lone.operate("llm-0-0", Delete), 1);
    assert_denied(&lone.operate("llm-1-0", Delete));
    // Leaving deletes pass all the same; evictions as long as nothing else is missing.
    lone.change_pod("llm-1-0", |pod| pod.ready = false);
    assert_denied(&lone.operate("llm-2-2", Evict));
    assert_granted(&lone.operate("llm-2-2", Delete), 0);
    // Scaled to 0, all of them may go.
    lone.owner(lws("llm", 0));
    verify(&lone, (0, 0, 0, 0));
    assert_passed(&lone.operate("llm-0-1", Delete), AllowReason::Exempt);
}

/// A group by label that spans groups of the `LeaderWorkerSet`: pods above its scale are about to be deleted, and
/// do not keep the rest healthy.
#[test]
fn pods_above_the_scale_do_not_count_in_their_group() {
    let mut lone = Lone::new();
    serve(&mut lone, "llm", 2, 1);
    for group in 0..2 {
        lone.pod(labelled(member("llm", group, 0, 1), "shard", "s"));
    }
    lone.budget(grouped(max(Count(0)), "shard", 2));
    verify(&lone, (0, 1, 2, 2));
    lone.owner(lws("llm", 1));
    verify(&lone, (0, 0, 1, 1));
    assert_granted(&lone.operate("llm-1-0", Delete), 0);
}

/// Deleting the whole `LeaderWorkerSet` must finish, whichever way its objects go first.
#[test]
fn a_deleted_leader_worker_set() {
    let set = |name: &str| owner("apps", "StatefulSet", name, 2);
    let served = || {
        let mut lone = Lone::new();
        serve(&mut lone, "llm", 3, 3);
        lone.budget(grouped(max(Count(0)), GROUP, 3));
        assert_denied(&lone.operate("llm-0-0", Delete));
        lone
    };
    let mut foreground = served();
    foreground.owner(Owner { terminating: true, ..lws("llm", 3) });
    assert_passed(&foreground.operate("llm-0-0", Delete), AllowReason::Exempt);
    assert_passed(&foreground.operate("llm-0-1", Delete), AllowReason::Exempt);
    let mut background = served();
    background.delete_owner(lws("llm", 3));
    background.delete_owner(set("llm"));
    // That an owner is gone the shell finds out, by a live look, and asks again.
    for pod in ["llm-0-0", "llm-0-1"] {
        denial(&background.operate(pod, Delete), DenyReason::FailedClosed);
        let verdict = background.operate_with(pod, Delete, |request| request.exempt = true);
        assert_granted(&verdict, 0);
    }
}

/// The number of a `JobSet` is the sum that it says itself (semantics 4 c).
#[test]
fn a_jobset_expects_every_job_finished_or_not_selected() {
    let jobset = owner(Owner::JOBSET_GROUP, "JobSet", "js", 4);
    let controller = Some(reference_to(&jobset));
    let job = |i: usize| Owner {
        replicas: None,
        controller: controller.clone(),
        ..owner("batch", "Job", &format!("js-{i}"), 0)
    };
    let label = "batch.kubernetes.io/job-name";
    let mut lone = Lone::new();
    lone.owner(jobset.clone());
    lone.budget(grouped(max(Count(1)), label, 1));
    for i in 0..4 {
        lone.owner(job(i));
        lone.pod(labelled(owned(&format!("p{i}"), &job(i)), label, &format!("js-{i}")));
    }
    verify(&lone, (1, 4, 3, 4));
    lone.change_pod("p3", |pod| pod.labels.remove("foo").map_or((), drop));
    verify(&lone, (0, 3, 3, 4));
    lone.change_pod("p2", |pod| (pod.phase, pod.ready) = (Phase::Succeeded, false));
    let mut finished = job(2);
    finished.pods.finished = true;
    lone.owner(finished);
    verify(&lone, (0, 2, 3, 4));
    for pod in ["p0", "p1"] {
        lone.change_pod(pod, |pod| (pod.phase, pod.ready) = (Phase::Succeeded, false));
    }
    verify(&lone, (0, 0, 0, 0));
}

/// What is finished is in no group that has to be available.
#[test]
fn finished_pods_are_no_group() {
    let job = |name: &str| Owner { replicas: None, ..owner("batch", "Job", name, 0) };
    let mut lone = Lone::new();
    lone.budget(grouped(max(Count(1)), SHARD, 1));
    for name in ["a", "b"] {
        lone.owner(job(name));
        lone.pod(labelled(owned(name, &job(name)), SHARD, name));
    }
    verify(&lone, (1, 2, 1, 2));
    lone.change_pod("b", |pod| (pod.phase, pod.ready) = (Phase::Succeeded, false));
    verify(&lone, (1, 1, 0, 1));
}
