//! One group that lives for each slot, of the right size.

use holdfast_core::gang::{
    Action, GANG_IMPOSSIBLE, GroupApi, JobSize, OwnerSpec, Placement, Pod, Policy, ReplicatedJob,
};
use holdfast_core::model::GroupPolicy;

use super::cluster::{
    Cluster, controller, job, job_pod, leader, lws, owner, set_pod, stateful_set, worker,
    workers_of,
};

fn living(c: &Cluster) -> Vec<&str> {
    let living = c.groups.values().filter(|group| !group.object.terminating);
    living.filter_map(|group| group.slot.as_deref()).collect()
}

fn group_of(c: &Cluster, pod: &str) -> String {
    c.pods[pod].group.clone().unwrap()
}

#[test]
fn groups_come_and_go_with_the_scale() {
    for api in [GroupApi::Kubernetes, GroupApi::Holdfast] {
        let mut c = Cluster::new(api);
        c.node("a", 100);
        c.owner(lws("serve", 3, 1));
        for i in 0..3 {
            let _ = c.create(leader("serve", i, 1));
        }
        let _ = c.settle();
        assert_eq!(living(&c).len(), 3);
        c.owner(lws("serve", 1, 1));
        c.pass(20);
        let _ = c.settle();
        assert_eq!(living(&c).len(), 3, "their pods are still there");
        for i in 1..3 {
            let _ = c.delete_pod(&format!("serve-{i}"));
        }
        let _ = c.settle();
        assert_eq!(living(&c), ["0"]);
        assert_eq!(c.groups.len(), 1);
    }
}

#[test]
fn a_group_that_is_made_anew_takes_the_place_of_the_last() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    c.node("a", 100);
    c.owner(lws("serve", 1, 2));
    let _ = c.create(leader("serve", 0, 2));
    let first = c.pods["serve-0"].clone();
    c.owner(workers_of(&first));
    let _ = c.create(worker(&first, 1));
    let old = group_of(&c, "serve-0");
    let _ = c.settle();
    let mut leaving = c.pods["serve-0-1"].clone();
    leaving.terminating = true;
    c.see_pod(leaving);
    let _ = c.delete_pod("serve-0");
    c.pass(20);
    let _ = c.settle();
    assert_eq!(living(&c), ["0"], "none other is there yet");
    let _ = c.create(leader("serve", 0, 2));
    let new = group_of(&c, "serve-0");
    let _ = c.settle();
    assert!(c.groups[&old].object.terminating && !c.groups[&new].object.terminating);
    let _ = c.delete_pod("serve-0-1");
    let _ = c.settle();
    assert_eq!(c.groups.keys().collect::<Vec<_>>(), [&new]);
}

#[test]
fn a_group_just_made_waits_for_its_first_pod() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    c.owner(lws("serve", 1, 2));
    let Placement::Into { make: Some(extra), .. } = c.world.place(&leader("serve", 0, 2), "x")
    else {
        panic!()
    };
    let _ = c.create(leader("serve", 0, 2));
    // One more, for a pod that was there already: its creation failed.
    c.make(&extra);
    let _ = c.settle();
    assert_eq!(living(&c).len(), 2);
    c.pass(10);
    let _ = c.settle();
    assert_eq!(living(&c).len(), 1);
    let kept = group_of(&c, "serve-0");
    assert!(!c.groups[&kept].object.terminating, "the one with a pod in it");
}

#[test]
fn a_job_that_is_scaled_is_a_larger_gang() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    c.node("a", 6);
    c.owner(job("train", 4));
    for i in 0..4 {
        let _ = c.create(job_pod(&format!("train-{i}"), "train"));
    }
    let _ = c.settle();
    c.schedule();
    let _ = c.settle();
    let group = group_of(&c, "train-0");
    assert_eq!(c.bound(&group), 4);
    c.owner(job("train", 8));
    let resized = c.settle();
    assert!(matches!(&resized[..], [Action::Resize { min_count: 8, .. }]), "{resized:?}");
    for i in 4..8 {
        let _ = c.create(job_pod(&format!("train-{i}"), "train"));
    }
    let _ = c.settle();
    assert_eq!(c.gated(&group), 0, "the gang runs, and these are more of it");
    c.node("b", 2);
    c.schedule();
    assert_eq!(c.bound(&group), 8);
    assert_eq!(c.groups.len(), 1);
}

#[test]
fn a_group_that_was_deleted_is_made_again() {
    for api in [GroupApi::Kubernetes, GroupApi::Holdfast] {
        let mut c = Cluster::new(api);
        c.node("a", 4);
        c.owner(stateful_set("db", 2, Some(2)));
        let _ = c.create(set_pod("db", 0));
        let _ = c.create(set_pod("db", 1));
        let name = group_of(&c, "db-0");
        c.delete_group(&name);
        let _ = c.settle();
        assert_eq!(c.groups[&name].slot.as_deref(), Some("0"));
        // Somebody else's is not ours to make.
        c.see_pod(Pod { group: Some("theirs".to_owned()), ..set_pod("db", 3) });
        let _ = c.settle();
        assert!(!c.groups.contains_key("theirs"));
    }
}

#[test]
fn gangs_that_can_never_be_whole() {
    let size = JobSize { parallelism: 2, completions: None, succeeded: 0 };
    let with_lws = |leader_ready, exclusive| {
        let mut set = lws("w", 1, 2);
        if let OwnerSpec::LeaderWorkerSet { leader_ready: l, exclusive: e, .. } = &mut set.spec {
            (*l, *e) = (leader_ready, exclusive);
        }
        (vec![set], leader("w", 0, 2))
    };
    let ordered = {
        let mut set = stateful_set("w", 4, Some(2));
        if let OwnerSpec::StatefulSet { ordered, .. } = &mut set.spec {
            *ordered = true;
        }
        (vec![set], set_pod("w", 0))
    };
    let job_set = |exclusive, depends| {
        let replicated = ReplicatedJob { name: "j".to_owned(), size, depends };
        let spec = OwnerSpec::JobSet { exclusive, jobs: vec![replicated] };
        let mut child = job("w-j-0", 2);
        child.controller = Some(controller("jobset.x-k8s.io", "JobSet", "w", "uid-of-w"));
        (vec![owner("jobset.x-k8s.io", "JobSet", "w", spec), child], job_pod("p", "w-j-0"))
    };
    for ((owners, pod), field, reason) in [
        (with_lws(true, false), "set spec.startupPolicy to LeaderCreated", "StartupPolicy"),
        (
            with_lws(false, true),
            "remove metadata.annotations[leaderworkerset.sigs.k8s.io/exclusive-topology]",
            "Exclusivetopology",
        ),
        (ordered, "set spec.podManagementPolicy to Parallel", "PodManagementPolicy"),
        (
            job_set(true, false),
            "remove metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]",
            "Exclusivetopology",
        ),
        (job_set(false, true), "remove spec.replicatedJobs[0].dependsOn", "DependsOn"),
    ] {
        for api in [GroupApi::Kubernetes, GroupApi::Holdfast] {
            let mut c = Cluster::new(api);
            owners.iter().cloned().for_each(|owner| c.owner(owner));
            let placed = c.create(pod.clone());
            let Placement::Into { make: Some(made), gate, .. } = &placed else {
                panic!("{placed:?}")
            };
            assert_eq!((made.policy, made.min_count, *gate), (Policy::Basic, 2, false), "{field}");
            c.pass(2);
            let _ = c.settle();
            let name = &made.key.name;
            let condition = c.condition(name, GANG_IMPOSSIBLE).unwrap();
            assert!(condition.starts_with(&format!("True {reason}: ")), "{condition}");
            assert!(condition.contains(field), "{condition}");
            let told: Vec<_> = c.events.iter().filter(|e| e.reason == GANG_IMPOSSIBLE).collect();
            assert_eq!(told.len(), 1);
            assert!(told[0].message.contains(field));
            c.pass(100);
            let _ = c.settle();
            assert_eq!(c.events.len(), 1, "said once");
        }
    }
    let mut c = Cluster::new(GroupApi::Kubernetes);
    c.owner(lws("w", 1, 2));
    let _ = c.create(leader("w", 0, 2));
    let name = group_of(&c, "w-0");
    assert_eq!(c.groups[&name].object.policy, GroupPolicy::Gang { min_count: 2 });
    assert!(c.settle().is_empty(), "the scheduler's status is not ours to write");
}
