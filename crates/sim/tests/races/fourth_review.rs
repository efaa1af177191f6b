//! Races that a fourth hostile review found. docs/simulator.md names the hole of each.

use std::time::Duration;

use holdfast_core::model::{BudgetKey, GroupKind, LabelGroups, Operation, Owner, UnavailableSpec};
use holdfast_core::{Config, Kind};
use holdfast_sim::{BudgetBuilder, World, budget, group, owner, pod};

use super::{cluster, grants};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn unavailable(spec: UnavailableSpec) -> BudgetBuilder {
    let budget = budget(&BudgetKey::unavailable("default", "one")).max_unavailable(1);
    budget.spec(|of| of.unavailable = Some(Box::new(spec)))
}

/// Two Jobs of `pods` pods each, whose namespace asks for groups: neither the Jobs nor their templates say so.
fn jobs(pods: usize) -> World {
    let mut world = World::new(Config::default());
    for name in ["x", "y"] {
        world.apply_owner(owner("batch", "Job", name).template_label("app", "a"));
        world.apply_pod_group(group(name).gang(i64::try_from(pods).unwrap()));
        for n in 0..pods {
            let pod = pod(&format!("{name}-{n}")).label("app", "a").group(name);
            world.apply_pod(pod.owned_by("batch", "Job", name).ready());
        }
    }
    world.apply_budget(budget("one").select("app", "a").per_replica().max_unavailable(1));
    world.sync();
    world.advance(secs(2));
    world
}

#[test]
fn a_job_that_lost_its_node_is_expected_although_only_its_namespace_asks_for_groups() {
    let mut world = jobs(1);
    world.delete_pod("x-0");
    world.advance(secs(2));
    assert!(!world.evict_without_delete("y-0").is_allow(), "x is down already");
}

#[test]
fn a_job_whose_pods_are_in_no_group_is_not_expected() {
    let mut world = jobs(1);
    world.apply_owner(owner("batch", "Job", "z").template_label("app", "a"));
    world.apply_pod(pod("z-0").label("app", "a").owned_by("batch", "Job", "z").ready());
    world.advance(secs(2));
    assert!(world.evict("y-0").is_allow(), "z is no replica, so x and y are two");
}

/// The rest of a group lives a little longer than the pod that was evicted.
#[test]
fn a_source_is_remembered_until_a_healthy_replica_is_back() {
    let mut world = World::new(Config::default());
    for name in ["x", "y"] {
        world.apply_owner(owner("example.com", "Train", name));
        world.apply_pod_group(group(name).gang(2).owned_by("example.com", "Train", name));
        for n in 0..2 {
            world.apply_pod(pod(&format!("{name}-{n}")).group(name).ready());
        }
    }
    world.apply_budget(budget("one").per_replica().max_unavailable(1));
    world.sync();
    world.advance(secs(2));
    assert!(world.evict("x-0").is_allow());
    world.advance(secs(2));
    assert_eq!(grants(&world, "one"), [], "x-0 is gone, and x-1 lives on");
    world.delete_pod("x-1");
    world.advance(secs(2));
    assert!(!world.evict_without_delete("y-0").is_allow(), "x is down");
    for n in 0..2 {
        world.apply_pod(pod(&format!("x-{n}")).group("x").ready());
    }
    world.advance(secs(2));
    assert!(world.status("one").pending_replacements.is_empty());
    assert!(world.evict("y-0").is_allow());
}

/// The old `LeaderWorkerSet` is being deleted as far as the watch has shown, and the pods are those of the next.
#[test]
fn pods_of_a_leader_worker_set_that_was_made_again_are_not_abandoned() {
    let kind = GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet");
    let set = || owner(Owner::LWS_GROUP, "LeaderWorkerSet", "x").replicas(2);
    let mut world = World::new(Config::default());
    world.apply_owner(set());
    world.apply_budget(unavailable(UnavailableSpec::default()));
    world.sync();
    world.apply_owner(set().terminating());
    world.advance(secs(2));
    world.instance(0).hold_kind(&Kind::Owner(kind.clone()));
    world.delete_owner(&kind, "x");
    world.apply_owner(set());
    world.apply_owner(owner("apps", "StatefulSet", "x").replicas(2));
    for n in 0..2 {
        let leader = pod(&format!("x-{n}")).label("leaderworkerset.sigs.k8s.io/name", "x");
        world.apply_pod(leader.lws("x", n, 1).owned_by("apps", "StatefulSet", "x").ready());
    }
    world.advance(secs(2));
    for n in 0..2 {
        let mut request = world.eviction(&*format!("x-{n}"));
        request.operation = Operation::Delete;
        assert_eq!(world.decide(request).is_allow(), n == 0, "one of two may go");
    }
}

/// The pod was not ready, and is ready again. The watch has not shown that.
#[test]
fn what_the_cache_shows_as_not_ready_is_read_before_it_goes_below_the_desired_number() {
    let always = || budget("one").min_available(2).always_allow();
    for (budget, operation) in [
        (always(), Operation::Evict),
        (unavailable(UnavailableSpec::default()), Operation::Delete),
        (unavailable(UnavailableSpec::default()), Operation::Evict),
    ] {
        let mut world = World::new(Config::default());
        world.apply_owner(owner("apps", "StatefulSet", "s").replicas(3));
        for n in 0..3 {
            world.apply_pod(pod(&format!("p-{n}")).owned_by("apps", "StatefulSet", "s").ready());
        }
        world.apply_budget(budget);
        world.sync();
        world.delete_pod("p-0");
        world.edit_pod("p-1", |pod| pod.ready = false);
        world.advance(secs(2));
        world.instance(0).hold_kind(&Kind::Pod);
        world.edit_pod("p-1", |pod| pod.ready = true);
        world.advance(secs(2));
        let mut request = world.eviction("p-1");
        request.operation = operation;
        assert!(!world.decide(request).is_allow(), "two are healthy, and two are needed");
    }
}

/// The watch delivers what happened before the state that the API server has shown.
#[test]
fn an_older_event_does_not_stand_for_the_state_that_was_read() {
    let mut world = World::new(Config::default());
    for n in 0..3 {
        world.apply_pod(pod(&format!("p-{n}")).ready());
    }
    world.apply_budget(budget("one").min_available(2).always_allow());
    world.sync();
    world.delete_pod("p-0");
    world.edit_pod("p-1", |pod| pod.ready = false);
    world.advance(secs(2));
    world.instance(0).hold_kind(&Kind::Pod);
    world.edit_pod("p-1", |pod| pod.generation += 1);
    world.edit_pod("p-1", |pod| pod.ready = true);
    let request = world.eviction("p-1");
    let id = world.submit(request);
    world.instance(0).deliver(&Kind::Pod);
    world.advance(secs(2));
    assert!(world.reply(&id).is_none(), "it waits for the state that was read");
    world.instance(0).release_kind(&Kind::Pod);
    world.advance(secs(2));
    assert!(!world.reply(&id).expect("answered").is_allow(), "two are healthy, and two are needed");
}

/// One budget lets the pod pass because it is not ready, the other one because its group is broken.
#[test]
fn budgets_that_let_a_pod_pass_for_different_reasons() {
    let groups = Some(LabelGroups { label: "g".to_owned(), min_ready: 2 });
    let mut world = World::new(Config::default());
    world.apply_owner(owner(Owner::LWS_GROUP, "LeaderWorkerSet", "x").replicas(3));
    for index in 0..3 {
        for n in 0..2 {
            let pod = pod(&format!("x-{index}-{n}")).label("g", &index.to_string());
            let pod = pod.label("leaderworkerset.sigs.k8s.io/name", "x").lws("x", index, 2);
            world.apply_pod(pod.owned_by(Owner::LWS_GROUP, "LeaderWorkerSet", "x").ready());
        }
    }
    let total = |total| UnavailableSpec { total: Some(total), ..UnavailableSpec::default() };
    for (name, spec) in [("a", total(6)), ("b", UnavailableSpec { groups, ..total(3) })] {
        let budget = budget(&BudgetKey::unavailable("default", name)).max_unavailable(0);
        let budget = if spec.groups.is_some() { budget.per_replica() } else { budget };
        world.apply_budget(budget.spec(|of| of.unavailable = Some(Box::new(spec))));
    }
    world.sync();
    world.edit_pod("x-0-0", |pod| pod.ready = false);
    world.advance(secs(2));
    let mut request = world.eviction("x-0-0");
    request.operation = Operation::Delete;
    assert!(world.decide(request).is_allow(), "it is down, and so is its group");
}

/// The budget remembers one source, and not each of its pods.
#[test]
fn a_source_is_recorded_once() {
    const PODS: usize = 20;
    let mut world = jobs(PODS);
    for n in 0..PODS {
        assert!(world.evict(&*format!("x-{n}")).is_allow());
    }
    world.advance(secs(2));
    let sources = world.status("one").pending_replacements.iter().map(|p| &p.sources);
    assert_eq!(sources.collect::<Vec<_>>(), [&vec!["Job/x".to_owned()]]);
    assert!(!world.evict_without_delete("y-0").is_allow(), "x is down");
}

#[test]
fn a_job_that_makes_no_pods_is_not_expected() {
    let mut world = jobs(1);
    world.apply_owner(owner("batch", "Job", "z").template_label("app", "a").parallelism(0));
    world.advance(secs(2));
    assert!(world.evict("y-0").is_allow(), "x and y are two");
}

/// A pod of the group was not ready, and is ready again. The watch has not shown that.
#[test]
fn a_group_that_the_cache_shows_as_broken_is_listed_before_it_goes_below_the_desired_number() {
    let groups = Some(LabelGroups { label: "g".to_owned(), min_ready: 2 });
    let of_groups = unavailable(UnavailableSpec { groups, ..UnavailableSpec::default() });
    let always = budget("one").min_available(2).always_allow();
    for (budget, operation) in [(always, Operation::Evict), (of_groups, Operation::Delete)] {
        let mut world = World::new(Config::default());
        for name in ["a", "b", "c"] {
            world.apply_pod_group(group(name).gang(2).owned_by("example.com", "Train", "t"));
            for n in 0..2 {
                let pod = pod(&format!("{name}-{n}")).label("g", name).group(name);
                world.apply_pod(pod.owned_by("example.com", "Train", "t").ready());
            }
        }
        world.apply_budget(budget.per_replica().spec(|spec| {
            if let Some(of) = &mut spec.unavailable {
                of.total = Some(3);
            }
        }));
        world.sync();
        world.edit_pod("a-0", |pod| pod.ready = false);
        world.edit_pod("b-0", |pod| pod.ready = false);
        world.advance(secs(2));
        world.instance(0).hold_kind(&Kind::Pod);
        world.edit_pod("b-0", |pod| pod.ready = true);
        world.advance(secs(2));
        let mut request = world.eviction("b-1");
        request.operation = operation;
        assert!(!world.decide(request).is_allow(), "two are healthy, and two are needed");
    }
}

/// The first eviction is refused behind Holdfast. The second one comes when the size that the first one recorded is old.
#[test]
fn a_size_is_as_old_as_the_last_grant_for_its_pod() {
    let mut world = World::new(Config::default());
    for name in ["a", "b"] {
        world.apply_pod_group(group(name).gang(1).disrupt_whole());
        for n in 0..3 {
            world.apply_pod(pod(&format!("{name}-{n}")).group(name).ready());
        }
    }
    world.apply_budget(budget("one").per_replica().min_available(1));
    world.sync();
    world.advance(secs(2));
    assert!(world.evict("a-0").is_allow());
    assert!(world.evict_without_delete("a-1").is_allow(), "and it is refused");
    world.advance(secs(580));
    assert_eq!(grants(&world, "one"), []);
    assert!(world.evict("a-1").is_allow());
    world.advance(secs(60));
    assert!(!world.evict_without_delete("b-0").is_allow(), "a-1 went a minute ago");
    world.advance(secs(600));
    assert!(world.evict_without_delete("b-0").is_allow(), "a is taken to be of one pod");
}

/// It is created, grants, and is deleted, and a list shows its end before the watch shows anything of it.
#[test]
fn a_budget_that_came_and_went_leaves_its_grants() {
    let mut world = cluster(2);
    world.delete_budget("one");
    world.advance(secs(130));
    world.instance(1).hold_kind(&Kind::Budget);
    world.apply_budget(budget("one").per_replica().min_available(2));
    world.advance(secs(1));
    assert!(world.evict_without_delete("a-0").is_allow());
    world.delete_budget("one");
    // Nothing covers the pod, as a list shows.
    assert!(world.instance(1).decide("c-0").is_allow());
    world.instance(0).crash();
    world.instance(1).release_kind(&Kind::Budget);
    world.instance(1).lead(true);
    world.apply_budget(budget("one").per_replica().min_available(2));
    world.advance(secs(1));
    assert!(!world.instance(1).decide("b-0").is_allow(), "a-0 may go at any time");
}

/// An instance that had not seen the `StatefulSet` recorded the `PodGroups` in its place. Found by seeds 7104136 and 7201026
/// of native.
#[test]
fn a_stateful_set_that_is_seen_late_does_not_count_beside_its_groups() {
    let sets = Kind::Owner(GroupKind::new("apps", "StatefulSet"));
    let member = |name: &str| pod(name).group(name).owned_by("apps", "StatefulSet", "s").ready();
    let mut world = World::new(Config::default());
    world.apply_budget(budget("one").per_replica().max_unavailable(1));
    world.sync();
    world.instance(0).hold_kind(&sets);
    world.apply_owner(owner("example.com", "Train", "t"));
    world.apply_owner(owner("apps", "StatefulSet", "s").replicas(2).group_size(1));
    for name in ["a", "b"] {
        world.apply_pod_group(group(name).gang(1).owned_by("example.com", "Train", "t"));
        world.apply_pod(member(name));
    }
    world.advance(secs(2));
    assert!(world.evict("a").is_allow());
    world.instance(0).release_kind(&sets);
    world.advance(secs(2));
    assert_eq!(world.status("one").expected_replicas, 2);
    world.apply_pod(member("a"));
    world.advance(secs(2));
    assert_eq!(world.status("one").expected_replicas, 2);
    assert!(world.status("one").pending_replacements.is_empty());
}
