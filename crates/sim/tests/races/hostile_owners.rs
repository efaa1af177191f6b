//! Races about owners and groups that a grant has emptied, found by a hostile review.

use std::time::Duration;

use holdfast_core::model::{GroupKind, Owner, Scope, Threshold};
use holdfast_core::{Config, Kind};
use holdfast_sim::{World, budget, group, owner, pod};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// `LeaderWorkerSets` `x` and `y` of one pod each, and a budget that may lose one replica.
fn two_owners(instances: usize) -> World {
    let mut world = World::with_instances(Config::default(), instances);
    for name in ["x", "y"] {
        world.apply_owner(owner(Owner::LWS_GROUP, "LeaderWorkerSet", name).replicas(1));
        world.apply_pod(pod(&format!("{name}-0")).lws(name, 0, 1).ready());
    }
    world.apply_budget(budget("one").per_replica().max_unavailable(1));
    world.sync();
    for index in 1..instances {
        world.instance(index).lead(false);
    }
    world.advance(secs(2));
    world
}

/// `PodGroups` `a` and `b` of two pods each, disrupted as a whole, and a budget that may lose one.
fn two_groups(instances: usize) -> World {
    groups_in(World::with_instances(Config::default(), instances), instances)
}

fn groups_in(mut world: World, instances: usize) -> World {
    for name in ["a", "b"] {
        world.apply_pod_group(group(name).gang(1).disrupt_whole());
        for member in ["0", "1"] {
            world.apply_pod(pod(&format!("{name}-{member}")).group(name).ready());
        }
    }
    world.apply_budget(budget("one").per_replica().min_available(1));
    world.sync();
    for index in 1..instances {
        world.instance(index).lead(false);
    }
    world.advance(secs(2));
    world
}

#[test]
fn an_owner_that_lost_its_last_pod_by_a_grant_is_still_expected() {
    let mut world = two_owners(1);
    assert!(world.evict("x-0").is_allow());
    assert!(!world.evict_without_delete("y-0").is_allow(), "x is unavailable, and one may be");
}

#[test]
fn a_group_that_is_disrupted_whole_is_broken_until_its_pod_is_back() {
    let mut world = two_groups(1);
    assert!(world.evict("a-0").is_allow());
    // a-0 is gone and its controller has not made the next one yet.
    assert!(!world.evict_without_delete("b-0").is_allow());
}

/// The record is on the budget, so another instance knows of it, and so does the same one after a restart.
#[test]
fn what_a_grant_took_survives_failover_and_restart() {
    let mut world = two_owners(2);
    assert!(world.evict("x-0").is_allow());
    world.advance(secs(2));
    assert!(!world.instance(1).decide("y-0").is_allow(), "failover");
    world.instance(0).crash();
    world.instance(0).restart();
    assert!(!world.instance(0).decide("y-0").is_allow(), "restart");
    let mut world = two_groups(2);
    assert!(world.evict("a-0").is_allow());
    world.advance(secs(2));
    assert!(!world.instance(1).decide("b-0").is_allow(), "failover");
    world.instance(0).crash();
    world.instance(0).restart();
    assert!(!world.instance(0).decide("b-0").is_allow(), "restart");
}

#[test]
fn a_replacement_ends_the_record() {
    let mut world = two_owners(1);
    assert!(world.evict("x-0").is_allow());
    world.advance(secs(2));
    assert_eq!(replacements(&world), 1);
    world.apply_pod(pod("x-0").lws("x", 0, 1).ready());
    world.advance(secs(2));
    assert_eq!(replacements(&world), 0);
    assert!(world.evict("y-0").is_allow());
    let mut world = two_groups(1);
    assert!(world.evict("a-0").is_allow());
    world.advance(secs(2));
    assert_eq!(replacements(&world), 1);
    world.apply_pod(pod("a-2").group("a").ready());
    world.advance(secs(2));
    assert_eq!(replacements(&world), 0);
    assert!(world.evict("b-0").is_allow());
}

/// After ten minutes a group that was not refilled is taken to be as small as it is.
#[test]
fn a_size_is_kept_for_ten_minutes() {
    let mut world = two_groups(1);
    assert!(world.evict("a-0").is_allow());
    world.advance(secs(590));
    assert!(!world.evict_without_delete("b-0").is_allow());
    world.advance(secs(20));
    assert_eq!(replacements(&world), 0);
    assert!(world.evict("b-0").is_allow());
}

/// The record carries its age, because clocks of instances differ.
#[test]
fn a_clock_that_is_ahead_does_not_end_a_size_too_early() {
    let mut world = World::with_instances(Config::default(), 2);
    world.instance(1).skew(secs(660), 1000);
    let mut world = groups_in(world, 2);
    assert!(world.evict("a-0").is_allow());
    world.instance(0).lead(false);
    world.instance(1).lead(true);
    world.advance(secs(200));
    assert_eq!(replacements(&world), 1);
    assert!(!world.instance(1).decide("b-0").is_allow());
    world.advance(secs(420));
    assert_eq!(replacements(&world), 0);
}

#[test]
fn a_size_ends_although_every_instance_restarts_within_ten_minutes() {
    let mut world = two_groups(1);
    assert!(world.evict("a-0").is_allow());
    for _ in 0..5 {
        assert_eq!(replacements(&world), 1);
        world.advance(secs(150));
        world.instance(0).crash();
        world.instance(0).restart();
        world.advance(secs(2));
    }
    world.advance(secs(60));
    assert_eq!(replacements(&world), 0);
}

/// A grant is in transit when its budget is deleted and created again, and its pod goes otherwise.
#[test]
fn a_grant_that_was_never_recorded_leaves_no_owner_to_be_expected() {
    let mut world = two_owners(1);
    world.hold_calls();
    let eviction = world.eviction("x-0");
    world.submit(eviction);
    world.delete_budget("one");
    world.apply_budget(budget("one").per_replica().max_unavailable(1));
    world.delete_pod("x-0");
    world.release_calls();
    world.advance(secs(2));
    assert_eq!(replacements(&world), 0);
    assert!(world.evict("y-0").is_allow(), "no grant took the pod of x");
}

/// An instance grants a pod before it has seen the pod's `JobSet`, so it records the `PodGroups` as the source.
#[test]
fn a_job_set_that_is_seen_late_does_not_count_beside_its_groups() {
    let mut world = World::new(Config::default());
    for name in ["x", "y"] {
        world.apply_owner(owner("example.com", "Train", name));
        world.apply_pod_group(group(name).gang(1).owned_by("example.com", "Train", name));
    }
    world.apply_budget(budget("one").per_replica().max_unavailable(1));
    world.sync();
    let job_sets = Kind::Owner(GroupKind::new(Owner::JOBSET_GROUP, "JobSet"));
    world.instance(0).hold_kind(&job_sets);
    let make = |world: &mut World, name: &str| {
        let made = pod(&format!("{name}-0")).group(name).owned_by("batch", "Job", name);
        world.apply_pod(made.ready());
    };
    for name in ["x", "y"] {
        world.apply_owner(owner(Owner::JOBSET_GROUP, "JobSet", name).replicas(1));
        let job = owner("batch", "Job", name).owned_by(Owner::JOBSET_GROUP, "JobSet", name);
        world.apply_owner(job);
        make(&mut world, name);
    }
    world.advance(secs(2));
    assert!(world.evict("x-0").is_allow());
    world.advance(secs(2));
    assert_eq!(replacements(&world), 1);
    world.instance(0).release_kind(&job_sets);
    make(&mut world, "x");
    world.advance(secs(2));
    assert_eq!(replacements(&world), 0);
    assert_eq!(world.status("one").expected_replicas, 2);
    assert!(world.evict("y-0").is_allow());
}

/// Two pods of a group are evicted. The first one is back before the second one goes.
#[test]
fn a_second_grant_records_the_size_from_before_the_first() {
    let mut world = two_groups(1);
    world.apply_pod(pod("a-2").group("a").ready());
    world.advance(secs(2));
    assert!(world.evict("a-0").is_allow());
    assert!(world.evict_without_delete("a-1").is_allow());
    world.apply_pod(pod("a-0").group("a").ready());
    world.advance(secs(2));
    world.carry_out("a-1");
    world.advance(secs(2));
    assert!(!world.evict_without_delete("b-0").is_allow(), "a has two pods of three");
}

/// `PodGroup` `a` of three pods: one of `ReplicaSet` `lead`, two of `work`. `b` as in [`two_groups`].
fn group_of_two_controllers() -> World {
    let mut world = two_groups(1);
    for (set, replicas) in [("lead", 1), ("work", 2)] {
        world.apply_owner(owner("apps", "ReplicaSet", set).replicas(replicas));
    }
    for (name, set) in [("a-0", "lead"), ("a-1", "work"), ("a-2", "work")] {
        world.delete_pod(name);
        world.apply_pod(pod(name).group("a").owned_by("apps", "ReplicaSet", set).ready());
    }
    world.advance(secs(2));
    world
}

#[test]
fn a_controller_that_lost_its_last_pod_does_not_make_the_group_smaller() {
    let mut world = group_of_two_controllers();
    assert!(world.evict("a-0").is_allow());
    world.advance(secs(2));
    assert!(!world.evict_without_delete("b-0").is_allow(), "the pod of lead is missing");
}

#[test]
fn a_group_needs_no_more_pods_than_its_only_controller_wants() {
    for (replicas, allowed) in [(3, false), (2, true)] {
        let mut world = two_groups(1);
        world.apply_owner(owner("apps", "ReplicaSet", "all").replicas(3));
        for name in ["a-0", "a-1", "a-2"] {
            world.delete_pod(name);
            world.apply_pod(pod(name).group("a").owned_by("apps", "ReplicaSet", "all").ready());
        }
        world.advance(secs(2));
        assert!(world.evict("a-0").is_allow());
        world.advance(secs(2));
        world.apply_owner(owner("apps", "ReplicaSet", "all").replicas(replicas));
        world.advance(secs(2));
        assert_eq!(world.evict_without_delete("b-0").is_allow(), allowed, "wants {replicas}");
    }
}

/// An owner that is scaled to zero, or deleted, expects no pods.
#[test]
fn an_owner_that_wants_no_pods_is_not_expected() {
    let lws = |replicas| owner(Owner::LWS_GROUP, "LeaderWorkerSet", "x").replicas(replicas);
    for is_deleted in [false, true] {
        let mut world = two_owners(1);
        assert!(world.evict("x-0").is_allow());
        world.advance(secs(2));
        if is_deleted {
            world.delete_owner(&GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet"), "x");
        } else {
            world.apply_owner(lws(0));
        }
        world.advance(secs(2));
        assert_eq!(replacements(&world), 0);
        assert!(world.evict("y-0").is_allow());
    }
}

/// A node failure takes all pods of an owner, and no grant remembers them: the pod template does.
#[test]
fn an_owner_without_pods_counts_by_its_template() {
    for (label, allowed) in [("a", false), ("b", true)] {
        let mut world = World::new(Config::default());
        for name in ["x", "y"] {
            let lws = owner(Owner::LWS_GROUP, "LeaderWorkerSet", name).replicas(1);
            world.apply_owner(lws.template_label("app", if name == "x" { label } else { "a" }));
            world.apply_pod(pod(&format!("{name}-0")).label("app", "a").lws(name, 0, 1).ready());
        }
        world.apply_budget(budget("one").select("app", "a").per_replica().max_unavailable(1));
        world.sync();
        world.advance(secs(2));
        world.delete_pod("x-0");
        world.advance(secs(2));
        assert_eq!(world.evict_without_delete("y-0").is_allow(), allowed, "template app={label}");
        assert_eq!(replacements(&world), 0, "the template says it");
    }
}

/// A budget that is deleted and made again waits for the same replacements.
#[test]
fn a_budget_that_is_made_again_still_expects_the_owner() {
    let mut world = two_owners(1);
    assert!(world.evict("x-0").is_allow());
    world.advance(secs(2));
    world.delete_budget("one");
    world.apply_budget(budget("one").per_replica().max_unavailable(1));
    assert!(!world.evict_without_delete("y-0").is_allow());
    world.advance(secs(2));
    assert!(!world.evict_without_delete("y-0").is_allow());
    assert_eq!(replacements(&world), 1, "it is written");
}

/// A refund waits for no list: an instance that has not seen the pod go must not take the group for refilled.
#[test]
fn a_refund_by_an_instance_that_lags_does_not_forget_the_size() {
    let mut world = two_groups(2);
    world.apply_pod_group(group("c").gang(1).disrupt_whole());
    world.apply_pod(pod("c-0").group("c").ready());
    world.advance(secs(2));
    world.instance(1).hold_kind(&Kind::Pod);
    world.instance(1).hold_calls();
    let eviction = world.instance(1).eviction("b-1");
    world.instance(1).submit(eviction);
    world.instance(1).execute_call(0); // its grant is written, and the answer is on its way
    assert!(world.evict("a-0").is_allow());
    world.advance(secs(20)); // the request of b-1 is denied by its deadline
    world.instance(1).deliver_answer(0); // so its grant is refunded
    world.instance(1).execute_call(0);
    let waiting = &world.budget("one").expect("it exists").status.pending_replacements;
    assert!(waiting.iter().any(|pending| pending.pod == "a-0"), "{waiting:?}");
}

fn replacements(world: &World) -> usize {
    world.budget("one").expect("it exists").status.pending_replacements.len()
}

/// An edited selector that leaves the owner out does not wait for its pods; one that keeps it does.
#[test]
fn a_selector_that_is_edited_decides_whether_the_owner_still_counts() {
    for (key, allowed) in [("tier", false), ("name", true)] {
        let mut world = World::new(Config::default());
        for name in ["x", "y"] {
            world.apply_owner(owner(Owner::LWS_GROUP, "LeaderWorkerSet", name).replicas(1));
            let pod = pod(&format!("{name}-0")).label("tier", "y").label("name", name);
            world.apply_pod(pod.lws(name, 0, 1).ready());
        }
        world.apply_budget(budget("one").per_replica().max_unavailable(1));
        world.sync();
        world.advance(secs(2));
        assert!(world.evict("x-0").is_allow());
        world.advance(secs(2));
        world.apply_budget(budget("one").select(key, "y").per_replica().max_unavailable(1));
        world.advance(secs(2));
        assert_eq!(world.evict_without_delete("y-0").is_allow(), allowed, "{key}");
    }
}

/// An eviction is allowed while the budget counts pods, and takes its pod when the budget counts replicas.
#[test]
fn a_grant_from_before_an_edit_of_the_scope_is_remembered() {
    let mut world = two_owners(2);
    world.edit_budget("one", |spec| {
        spec.scope = Scope::Pod;
        (spec.max_unavailable, spec.min_available) = (None, Some(Threshold::Count(1)));
    });
    world.advance(secs(2));
    assert!(world.evict_without_delete("x-0").is_allow());
    assert_eq!(replacements(&world), 0, "pods are counted");
    world.edit_budget("one", |spec| {
        spec.scope = Scope::Workload;
        (spec.max_unavailable, spec.min_available) = (Some(Threshold::Count(1)), None);
    });
    world.advance(secs(2));
    assert_eq!(replacements(&world), 1);
    world.carry_out("x-0");
    world.advance(secs(2));
    for index in 0..2 {
        assert!(!world.instance(index).decide("y-0").is_allow(), "x is unavailable");
    }
    world.apply_pod(pod("x-0").lws("x", 0, 1).ready());
    world.advance(secs(2));
    assert_eq!(replacements(&world), 0);
}
