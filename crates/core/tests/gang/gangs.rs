//! Shape Holdfast: when gates are lifted, and what is said meanwhile.

use std::time::Duration;

use holdfast_core::gang::{Action, GroupApi, Placement, Priority, SCHEDULED};
use holdfast_core::model::{GroupPolicy, TemplateRef};

use super::cluster::{Cluster, group, job, job_pod, member, pod};

fn cluster() -> Cluster {
    Cluster::new(GroupApi::Holdfast)
}

/// A gang of so many pods, all there and gated.
fn gang(cluster: &mut Cluster, name: &str, min_count: i64, pods: usize) {
    cluster.group(name, min_count);
    for i in 0..pods {
        let _ = cluster.create(member(&format!("{name}-{i}"), name));
    }
}

fn is_scheduled(cluster: &Cluster, group: &str) -> String {
    cluster.condition(group, SCHEDULED).unwrap_or_default()
}

#[test]
fn a_gang_starts_whole_when_its_pods_are_there() {
    let mut c = cluster();
    c.node("a", 4);
    gang(&mut c, "g", 3, 2);
    c.pass(2);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 2);
    assert_eq!(
        is_scheduled(&c, "g"),
        "Unknown WaitingForPods: 2 of the 3 pods that it needs exist"
    );
    let _ = c.create(member("g-2", "g"));
    let lifted = c.settle();
    assert_eq!(lifted.iter().filter(|a| matches!(a, Action::Lift { .. })).count(), 3);
    c.schedule();
    let _ = c.settle();
    assert_eq!((c.gated("g"), c.bound("g")), (0, 3));
    assert_eq!(
        is_scheduled(&c, "g"),
        "True MinCountSatisfied: All required pods (3/3) have been assigned to nodes"
    );
    assert_eq!(c.groups["g"].status.scheduled_pods, 3);
}

#[test]
fn no_pod_starts_without_room_for_all_and_all_do_when_there_is() {
    let mut c = cluster();
    c.node("a", 3);
    gang(&mut c, "g", 4, 4);
    let _ = c.settle();
    c.schedule();
    assert_eq!((c.gated("g"), c.bound("g")), (4, 0));
    assert_eq!(
        is_scheduled(&c, "g"),
        "False Unschedulable: the cluster has room for 3 of the 4 pods that it needs"
    );
    c.node("b", 1);
    let _ = c.settle();
    c.schedule();
    assert_eq!(c.bound("g"), 4);
}

#[test]
fn the_chain_has_to_be_there() {
    let mut c = cluster();
    c.node("a", 4);
    for i in 0..2 {
        let _ = c.create(member(&format!("g-{i}"), "g"));
    }
    let _ = c.settle();
    assert_eq!(c.gated("g"), 2, "no PodGroup");
    let mut made = group("g", GroupPolicy::Absent, c.now);
    let (workload, template) = ("w".to_owned(), "workers".to_owned());
    made.object.template = Some(TemplateRef { workload, template });
    c.see_group(made);
    c.pass(2);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 2, "no Workload");
    assert_eq!(is_scheduled(&c, "g"), "Unknown WaitingForWorkload: Workload w does not exist");
    c.workload("w", "others", GroupPolicy::Gang { min_count: 2 });
    c.pass(2);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 2, "no template");
    assert!(is_scheduled(&c, "g").contains("has no pod group template named workers"));
    c.workload("w", "workers", GroupPolicy::Gang { min_count: 2 });
    let _ = c.settle();
    assert_eq!(c.gated("g"), 0);
}

#[test]
fn pods_of_a_basic_group_wait_for_nothing_but_the_group() {
    let mut c = cluster();
    c.node("a", 1);
    let _ = c.create(member("g-0", "g"));
    let _ = c.create(member("g-1", "g"));
    let _ = c.settle();
    assert_eq!(c.gated("g"), 2);
    c.see_group(group("g", GroupPolicy::Basic, c.now));
    let _ = c.settle();
    assert_eq!(c.gated("g"), 0, "whether or not there is room");
    c.schedule();
    let _ = c.settle();
    assert!(is_scheduled(&c, "g").starts_with("True"));
}

#[test]
fn a_pod_more_comes_along_if_there_is_room_and_later_if_not() {
    let mut c = cluster();
    c.node("a", 3);
    gang(&mut c, "g", 3, 4);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 1);
    c.schedule();
    let _ = c.settle();
    assert_eq!(
        (c.gated("g"), c.bound("g")),
        (0, 3),
        "one that has a whole gang before it waits by itself"
    );
    gang(&mut c, "h", 1, 0);
    c.node("b", 4);
    c.schedule();
    assert_eq!(c.bound("g"), 4);
    gang(&mut c, "i", 2, 3);
    let _ = c.settle();
    assert_eq!(c.gated("i"), 0);
}

#[test]
fn a_pod_that_is_replaced_does_not_wait_again() {
    let mut c = cluster();
    c.node("a", 2);
    gang(&mut c, "g", 2, 2);
    let _ = c.settle();
    c.schedule();
    let _ = c.settle();
    let _ = c.delete_pod("g-0");
    let _ = c.create(member("g-2", "g"));
    let _ = c.settle();
    assert_eq!(c.gated("g"), 0);
    c.pass(1000);
    let _ = c.settle();
    assert_eq!(c.evictions, 0, "a gang that was whole is never taken back");
    let _ = c.delete_pod("g-1");
    let _ = c.delete_pod("g-2");
    let _ = c.settle();
    assert!(
        is_scheduled(&c, "g").starts_with("Unknown WaitingForPods"),
        "all are gone: it begins anew"
    );
    let _ = c.create(member("g-3", "g"));
    let _ = c.settle();
    assert_eq!(c.gated("g"), 1);
}

#[test]
fn gates_of_others_are_waited_for() {
    let mut c = cluster();
    c.node("a", 2);
    c.group("g", 2);
    let _ = c.create(member("g-0", "g"));
    let held = holdfast_core::gang::Pod { held: true, ..member("g-1", "g") };
    let _ = c.create(held);
    c.pass(2);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 2);
    assert!(is_scheduled(&c, "g").ends_with("and 1 that have scheduling gates of others"));
    let mut free = c.pods["g-1"].clone();
    free.held = false;
    c.see_pod(free);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 0);
}

#[test]
fn what_is_not_whole_in_time_is_taken_back_and_tried_again_later_and_later() {
    let mut c = cluster();
    c.node("a", 2);
    gang(&mut c, "g", 2, 2);
    let _ = c.settle();
    // Something that we do not know of takes the room.
    assert!(c.bind("g-0", "a"));
    c.see_pod(holdfast_core::gang::Pod { node: Some("a".to_owned()), ..pod("other") });
    c.pass(299);
    let _ = c.settle();
    assert_eq!(c.evictions, 0);
    c.pass(1);
    let _ = c.settle();
    assert_eq!((c.evictions, c.gated("g"), c.bound("g")), (2, 2, 0));
    assert_eq!(c.events.last().unwrap().reason, "GangTakenBack");
    assert!(is_scheduled(&c, "g").starts_with("False Unschedulable: taken back"));
    let _ = c.delete_pod("other");
    let _ = c.settle();
    assert_eq!(c.gated("g"), 2, "there is room, but it is too early");
    c.pass(60);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 0);
    c.pass(300);
    let _ = c.settle();
    c.pass(119);
    let _ = c.settle();
    assert_eq!((c.evictions, c.gated("g")), (4, 2), "twice as long");
    c.pass(1);
    let _ = c.settle();
    c.schedule();
    let _ = c.settle();
    assert_eq!(c.bound("g"), 2);
}

#[test]
fn pods_that_nobody_would_make_again_are_not_taken_back() {
    let mut c = cluster();
    c.node("a", 2);
    c.group("g", 2);
    for i in 0..2 {
        let orphan = member(&format!("g-{i}"), "g");
        let _ = c.create(holdfast_core::gang::Pod { controller: None, ..orphan });
    }
    let _ = c.settle();
    assert!(c.bind("g-0", "a"));
    gang(&mut c, "other", 1, 1);
    let _ = c.settle();
    assert_eq!(c.gated("other"), 1, "g may yet want that place");
    c.pass(1000);
    let mut stuck = c.pods["g-1"].clone();
    stuck.unschedulable = true;
    c.see_pod(stuck);
    let _ = c.settle();
    assert_eq!((c.evictions, c.gated("g")), (0, 0));
    assert!(is_scheduled(&c, "g").contains("1 of the 2 pods that it needs found a node in time"));
    // There is a place for it, and the scheduler may be about to try again.
    c.pass(15);
    let _ = c.settle();
    assert_eq!(c.gated("other"), 0, "others do not wait for ever");
}

#[test]
fn a_budget_in_the_way_does_not_stop_a_gang_for_good() {
    let mut c = cluster();
    c.node("a", 1);
    gang(&mut c, "g", 2, 2);
    let _ = c.settle();
    c.pass(30);
    let _ = c.settle();
    c.schedule();
    c.pass(300);
    // g-0 may not be evicted; g-1 is, and comes back.
    let refused =
        |action: &Action| matches!(action, Action::Evict { pod, .. } if pod.name == "g-0");
    for action in c.world.plan(c.now).actions {
        if !refused(&action) {
            c.perform(&action);
        }
    }
    assert_eq!((c.bound("g"), c.gated("g")), (1, 1));
    c.node("b", 1);
    c.pass(299);
    assert!(c.world.plan(c.now).actions.iter().any(refused), "it is being tried");
    c.pass(1);
    let _ = c.settle();
    c.schedule();
    assert_eq!((c.bound("g"), c.evictions), (2, 1));
}

#[test]
fn pods_that_come_after_the_last_one_went_are_another_gang() {
    let mut c = cluster();
    c.node("a", 2);
    gang(&mut c, "g", 2, 2);
    let _ = c.settle();
    c.schedule();
    let _ = c.settle();
    assert!(is_scheduled(&c, "g").starts_with("True"));
    // Between two plans.
    for name in ["g-0", "g-1"] {
        let _ = c.delete_pod(name);
    }
    let _ = c.create(member("g-0", "g"));
    let _ = c.settle();
    assert_eq!(c.gated("g"), 1);
}

#[test]
fn a_workload_that_somebody_deletes_is_made_again() {
    let mut c = cluster();
    c.node("a", 2);
    c.owner(job("train", 2));
    let Placement::Into { group, make: Some(made), .. } = c.create(job_pod("train-a", "train"))
    else {
        panic!("no group");
    };
    c.delete_workload(&made.workload.name);
    let _ = c.create(job_pod("train-b", "train"));
    let done = c.settle();
    assert!(done.iter().any(|action| matches!(action, Action::Remake(_))));
    assert_eq!(c.gated(&group), 0);
}

#[test]
fn the_head_is_shown_to_whoever_adds_nodes() {
    let mut c = cluster();
    c.node("a", 1);
    gang(&mut c, "first", 3, 3);
    c.pass(1);
    gang(&mut c, "second", 2, 2);
    let _ = c.settle();
    c.pass(29);
    let _ = c.settle();
    assert_eq!(c.gated("first"), 3);
    c.pass(1);
    let _ = c.settle();
    assert_eq!((c.gated("first"), c.gated("second")), (0, 2), "one alone");
    assert_eq!(c.events.last().unwrap().reason, "GangWithoutRoom");
    c.pass(40);
    let _ = c.settle();
    assert_eq!(c.gated("second"), 2, "while the first is on its way");
    c.node("b", 2);
    c.schedule();
    let _ = c.settle();
    assert_eq!(c.bound("first"), 3);
    assert!(is_scheduled(&c, "first").starts_with("True"));
    let mut never = Cluster::with(GroupApi::Holdfast, Duration::from_mins(5), Duration::ZERO);
    never.node("a", 1);
    gang(&mut never, "g", 3, 3);
    let _ = never.settle();
    never.pass(10_000);
    let _ = never.settle();
    assert_eq!(never.gated("g"), 3);
}

#[test]
fn priority_comes_first_and_then_age() {
    let mut c = cluster();
    c.node("a", 2);
    gang(&mut c, "young", 2, 2);
    let mut old = group("zold", GroupPolicy::Gang { min_count: 2 }, c.now);
    old.created = holdfast_core::model::Timestamp::from_secs(1);
    c.see_group(old);
    for i in 0..2 {
        let _ = c.create(member(&format!("zold-{i}"), "zold"));
    }
    c.group("urgent", 2);
    for i in 0..2 {
        let priority = Priority { value: 10, ..Priority::default() };
        let urgent = member(&format!("urgent-{i}"), "urgent");
        let _ = c.create(holdfast_core::gang::Pod { priority, ..urgent });
    }
    let _ = c.settle();
    let order = ["urgent", "zold", "young"];
    for (i, going) in order.iter().enumerate() {
        for (j, other) in order.iter().enumerate() {
            assert_eq!(c.gated(other), if j <= i { 0 } else { 2 }, "{going}: {other}");
        }
        c.schedule();
        let _ = c.settle();
        assert_eq!(c.bound(going), 2);
        for i in 0..2 {
            let _ = c.delete_pod(&format!("{going}-{i}"));
        }
        let _ = c.settle();
    }
}

#[test]
fn a_gang_that_would_fit_waits_while_others_are_on_their_way() {
    let mut c = cluster();
    c.node("a", 5);
    gang(&mut c, "g", 2, 2);
    let _ = c.create(pod("alone"));
    let _ = c.settle();
    assert_eq!(c.gated("g"), 0, "room for all three");
    gang(&mut c, "h", 3, 3);
    let _ = c.settle();
    assert_eq!(c.gated("h"), 3);
    c.pass(2);
    let _ = c.settle();
    assert!(is_scheduled(&c, "h").starts_with("Unknown WaitingForRoom: others are on their way"));
    let mut stuck = c.pods["alone"].clone();
    stuck.unschedulable = true;
    c.see_pod(stuck);
    let _ = c.settle();
    assert_eq!(
        c.gated("h"),
        3,
        "there is a place for it, and the scheduler may be about to see it"
    );
    c.pass(15);
    let _ = c.settle();
    assert_eq!(c.gated("h"), 0, "one that finds no place is not waited for");
}

#[test]
fn a_pod_that_no_scheduler_looks_at_is_not_waited_for_for_ever() {
    let mut c = Cluster::with(GroupApi::Holdfast, Duration::from_mins(1), Duration::from_secs(30));
    c.node("a", 3);
    let _ = c.create(pod("of-another-scheduler"));
    gang(&mut c, "g", 3, 3);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 3);
    c.pass(59);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 3, "it may have many others to look at");
    c.pass(1);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 0);
}

#[test]
fn a_gang_does_not_wait_for_a_pod_that_has_no_place() {
    let mut c = cluster();
    c.node("a", 3);
    let mut large = pod("large");
    large.requests.insert("cpu".to_owned(), 4000);
    large.unschedulable = true;
    let _ = c.create(large);
    gang(&mut c, "g", 3, 3);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 0);
}

#[test]
fn a_restart_goes_on_with_what_was_begun() {
    let mut c = cluster();
    c.node("a", 4);
    gang(&mut c, "g", 3, 3);
    // The leader died after one of three.
    let mut lifted = c.pods["g-0"].clone();
    lifted.gated = false;
    c.see_pod(lifted);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 0);
}

#[test]
fn protection_ends_with_the_last_pod() {
    let mut c = cluster();
    c.node("a", 2);
    gang(&mut c, "g", 2, 2);
    let _ = c.settle();
    assert!(c.groups["g"].protected);
    let mut leaving = c.groups["g"].clone();
    leaving.object.terminating = true;
    c.see_group(leaving);
    c.schedule();
    let _ = c.settle();
    assert!(c.groups["g"].protected, "pods are in it");
    assert!(is_scheduled(&c, "g").starts_with("True"), "or it would be taken back later");
    let mut done = c.pods["g-0"].clone();
    done.finished = true;
    c.see_pod(done);
    let _ = c.delete_pod("g-1");
    let _ = c.settle();
    assert!(!c.groups.contains_key("g"));
}

#[test]
fn a_smaller_min_count_lets_it_go() {
    let mut c = cluster();
    c.node("a", 2);
    gang(&mut c, "g", 3, 3);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 3);
    let mut smaller = c.groups["g"].clone();
    smaller.object.policy = GroupPolicy::Gang { min_count: 2 };
    c.see_group(smaller);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 1);
}
