//! Which group a pod is put into when it is created.

use holdfast_core::Change;
use holdfast_core::gang::{
    GroupApi, JobSize, Namespace, NewGroup, OwnerSpec, Placement, Pod, Policy, Priority,
    ReplicatedJob, Seen,
};

use super::cluster::{
    Cluster, NS, controller, job, job_pod, leader, lws, owner, pod, set_pod, stateful_set, worker,
    workers_of,
};

fn into(placement: &Placement) -> &str {
    match placement {
        Placement::Into { group, .. } => group,
        other => panic!("{other:?}"),
    }
}

fn made(placement: &Placement) -> &NewGroup {
    match placement {
        Placement::Into { make: Some(make), .. } => make,
        other => panic!("{other:?}"),
    }
}

fn is_alone(placement: &Placement) -> bool {
    matches!(placement, Placement::Alone(_))
}

#[test]
fn a_group_of_a_leader_worker_set_begins_with_its_leader() {
    for api in [GroupApi::Kubernetes, GroupApi::Holdfast] {
        let mut c = Cluster::new(api);
        c.owner(lws("serve", 2, 3));
        let placed = c.create(leader("serve", 0, 3));
        let group = made(&placed).clone();
        assert_eq!((group.slot.as_str(), group.template.as_deref()), ("0", Some("replica")));
        assert_eq!((group.policy, group.whole), (Policy::Gang { min_count: 3 }, true));
        assert_eq!(group.owner.name, "serve");
        assert!(group.key.name.starts_with("serve-0-"), "{}", group.key.name);
        let gate = matches!(placed, Placement::Into { gate: true, .. });
        assert_eq!(gate, api == GroupApi::Holdfast);
        let first = c.pods["serve-0"].clone();
        assert!(matches!(c.world.place(&worker(&first, 1), "t"), Placement::Unseen(_)));
        c.owner(workers_of(&first));
        for i in 1..3 {
            assert_eq!(into(&c.create(worker(&first, i))), group.key.name);
        }
        assert_ne!(into(&c.create(leader("serve", 1, 3))), group.key.name);
        // The group is made anew: its leader is another, and workers of the last one are still there.
        let _ = c.delete_pod("serve-0");
        let again = made(&c.create(leader("serve", 0, 3))).key.name.clone();
        assert_ne!(again, group.key.name);
        let second = c.pods["serve-0"].clone();
        assert!(matches!(c.world.place(&worker(&second, 1), "t"), Placement::Unseen(_)));
        c.owner(workers_of(&second));
        let _ = c.delete_pod("serve-0-1");
        assert_eq!(into(&c.create(worker(&second, 1))), again);
    }
}

#[test]
fn a_leader_that_could_not_be_created_left_its_group_for_the_next() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    c.owner(lws("serve", 1, 2));
    let placed = c.world.place(&leader("serve", 0, 2), "first");
    c.make(made(&placed));
    let next = c.world.place(&leader("serve", 0, 2), "second");
    assert_eq!(next, Placement::Into { group: into(&placed).to_owned(), make: None, gate: true });
}

#[test]
fn ordinals_make_groups() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    c.owner(stateful_set("db", 5, Some(2)));
    let groups: Vec<NewGroup> =
        (0..5).map(|i| made(&c.world.place(&set_pod("db", i), "t")).clone()).collect();
    let slots: Vec<&str> = groups.iter().map(|g| g.slot.as_str()).collect();
    assert_eq!(slots, ["0", "0", "1", "1", "2"]);
    assert_eq!(groups[0].key, groups[1].key);
    assert_eq!(groups.iter().map(|g| g.min_count).collect::<Vec<_>>(), [2, 2, 2, 2, 1]);
    c.owner(stateful_set("db", 5, None));
    assert!(is_alone(&c.world.place(&set_pod("db", 0), "t")), "no group size");
    let mut later = stateful_set("db", 4, Some(2));
    if let OwnerSpec::StatefulSet { start, .. } = &mut later.spec {
        *start = 3;
    }
    c.owner(later);
    assert_eq!(made(&c.world.place(&set_pod("db", 5), "t")).slot, "1");
    assert!(is_alone(&c.world.place(&set_pod("db", 2), "t")));
}

#[test]
fn a_job_is_a_group_as_large_as_what_is_left_of_it() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    for (parallelism, completions, succeeded, expected) in [
        (4, None, 0, 4),
        (4, Some(4), 0, 4),
        (4, Some(10), 0, 4),
        (4, Some(10), 8, 2),
        (0, None, 0, 1),
    ] {
        let mut train = job("train", parallelism);
        train.spec = OwnerSpec::Job(JobSize { parallelism, completions, succeeded });
        c.owner(train);
        let group = made(&c.world.place(&job_pod("train-x", "train"), "t")).clone();
        assert_eq!(group.min_count, expected);
        assert!(!group.whole);
    }
    let first = into(&c.create(job_pod("train-x", "train"))).to_owned();
    let second = c.create(job_pod("train-y", "train"));
    assert_eq!(second, Placement::Into { group: first, make: None, gate: true });
}

#[test]
fn each_job_of_a_job_set_is_a_group_and_a_new_one_when_it_restarts() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    let size = JobSize { parallelism: 2, completions: Some(2), succeeded: 0 };
    let replicated = |name: &str| ReplicatedJob { name: name.to_owned(), size, depends: false };
    let jobs = vec![replicated("leader"), replicated("work-er")];
    let spec = OwnerSpec::JobSet { exclusive: false, jobs };
    c.owner(owner("jobset.x-k8s.io", "JobSet", "train", spec));
    let child = |name: &str, uid: &str| {
        let mut child = job(name, 2);
        child.uid = uid.to_owned();
        child.asks = None;
        child.controller = Some(controller("jobset.x-k8s.io", "JobSet", "train", "uid-of-train"));
        child
    };
    let of = |name: &str, job: &str, uid: &str| Pod {
        controller: Some(controller("batch", "Job", job, uid)),
        ..pod(name)
    };
    c.owner(child("train-work-er-1", "one"));
    let group = made(&c.create(of("a", "train-work-er-1", "one"))).clone();
    assert_eq!((group.slot.as_str(), group.template.as_deref()), ("work-er-1", Some("work-er")));
    assert_eq!(group.owner.name, "train");
    let templates: Vec<&str> = group.workload.templates.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(templates, ["leader", "work-er"]);
    assert_eq!(into(&c.create(of("b", "train-work-er-1", "one"))), group.key.name);
    c.owner(child("train-work-er-1", "two"));
    assert_ne!(into(&c.create(of("c", "train-work-er-1", "two"))), group.key.name);
    c.owner(child("train-unknown-1", "three"));
    assert!(is_alone(&c.world.place(&of("d", "train-unknown-1", "three"), "t")));
}

#[test]
fn more_kinds_of_jobs_than_a_workload_has_room_for() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    let size = JobSize { parallelism: 2, completions: None, succeeded: 0 };
    let jobs = (0..10).map(|i| ReplicatedJob { name: format!("j{i}"), size, depends: false });
    let spec = OwnerSpec::JobSet { exclusive: false, jobs: jobs.collect() };
    c.owner(owner("jobset.x-k8s.io", "JobSet", "train", spec));
    let mut child = job("train-j9-0", 2);
    child.controller = Some(controller("jobset.x-k8s.io", "JobSet", "train", "uid-of-train"));
    c.owner(child);
    let group = made(&c.world.place(&job_pod("p", "train-j9-0"), "t")).clone();
    assert_eq!((group.workload.templates.len(), group.template), (8, None));
    assert_eq!(group.policy, Policy::Gang { min_count: 2 });
}

#[test]
fn who_asks_and_who_does_not() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    let asking = |c: &mut Cluster, of_job, of_namespace: bool| {
        let mut train = job("train", 2);
        train.asks = of_job;
        c.owner(train);
        let (name, version) = (NS.to_owned(), u64::from(of_namespace).into());
        let namespace = Namespace { name, version, terminating: false, asks: of_namespace };
        c.world.see(Seen::Namespace(Change::Deleted(namespace.clone())));
        c.world.see(Seen::Namespace(Change::Applied(namespace)));
        !is_alone(&c.world.place(&job_pod("p", "train"), "t"))
    };
    assert!(!asking(&mut c, None, false));
    assert!(c.world.covered().is_empty());
    assert!(asking(&mut c, Some(true), false));
    assert!(asking(&mut c, None, true));
    assert!(!asking(&mut c, Some(false), true), "a workload may decline");
    assert_eq!(c.world.covered().into_iter().collect::<Vec<_>>(), [NS]);
}

#[test]
fn left_alone() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    c.owner(job("train", 2));
    let alone = |c: &Cluster, pod: Pod| is_alone(&c.world.place(&pod, "t"));
    assert!(!alone(&c, job_pod("p", "train")));
    assert!(alone(&c, Pod { node: Some("a".to_owned()), ..job_pod("p", "train") }));
    assert!(alone(&c, Pod { mirror: true, ..job_pod("p", "train") }));
    assert!(alone(&c, Pod { foreign: true, ..job_pod("p", "train") }));
    assert!(alone(&c, pod("p")));
    let daemon = Some(controller("apps", "DaemonSet", "d", "d"));
    assert!(alone(&c, Pod { controller: daemon, group: Some("g".to_owned()), ..pod("p") }));
    // A group of its own is held back until it is there, and not made.
    let own = Pod { group: Some("own".to_owned()), ..job_pod("p", "train") };
    let expected = Placement::Into { group: "own".to_owned(), make: None, gate: true };
    assert_eq!(c.world.place(&own, "t"), expected);
    assert!(is_alone(&Cluster::new(GroupApi::Kubernetes).world.place(&own, "t")));
    // Not all pods of a group can be in it any more.
    c.see_pod(job_pod("before", "train"));
    assert!(alone(&c, job_pod("p", "train")));
    let mut leaving = job("train", 2);
    leaving.terminating = true;
    let _ = c.delete_pod("before");
    c.owner(leaving);
    assert!(alone(&c, job_pod("p", "train")));
    assert!(matches!(c.world.place(&job_pod("p", "other"), "t"), Placement::Unseen(_)));
    // Labels can say anything.
    c.owner(stateful_set("db", 1, None));
    c.owner(lws("serve", 1, 2));
    for name in ["none", "serve"] {
        let mut claims = set_pod("db", 0);
        claims.lws = leader(name, 0, 2).lws;
        assert!(alone(&c, claims));
    }
}

#[test]
fn a_workload_that_asks_no_more_keeps_what_has_begun_whole() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    c.owner(job("train", 2));
    let group = into(&c.create(job_pod("a", "train"))).to_owned();
    let mut declines = job("train", 2);
    declines.asks = Some(false);
    c.owner(declines);
    assert_eq!(c.world.covered().into_iter().collect::<Vec<_>>(), [NS], "the others will come");
    assert_eq!(into(&c.create(job_pod("b", "train"))), group);
    c.pass(20);
    let _ = c.settle();
    assert!(c.groups.contains_key(&group));
    for name in ["a", "b"] {
        let _ = c.delete_pod(name);
    }
    let _ = c.settle();
    assert!(c.groups.is_empty() && c.world.covered().is_empty());
    assert!(is_alone(&c.create(job_pod("a", "train"))));
}

#[test]
fn the_priority_is_that_of_the_pods() {
    let mut c = Cluster::new(GroupApi::Kubernetes);
    c.owner(job("train", 2));
    let priority =
        Priority { value: 7, class: Some("high".to_owned()), preemption: Some("Never".to_owned()) };
    let pod = Pod { priority: priority.clone(), ..job_pod("p", "train") };
    assert_eq!(made(&c.world.place(&pod, "t")).priority, priority);
}
