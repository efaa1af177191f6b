//! Races that a third hostile review found. docs/simulator.md names the hole of each.

use std::time::Duration;

use holdfast_core::Config;
use holdfast_core::model::{BudgetKey, BudgetStatus, LabelGroups, Owner, UnavailableSpec};
use holdfast_sim::{World, budget, group, owner, pod};

use super::{cluster, grants};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A budget over groups by the label `g`, each with one available pod at least, that may lose one group.
fn budget_of_groups() -> (BudgetKey, holdfast_sim::BudgetBuilder) {
    let key = BudgetKey::unavailable("default", "one");
    let groups = Some(LabelGroups { label: "g".to_owned(), min_ready: 1 });
    let spec = UnavailableSpec { groups, ..UnavailableSpec::default() };
    let budget = budget(&key).per_replica().max_unavailable(1);
    (key, budget.spec(|of| of.unavailable = Some(Box::new(spec))))
}

/// `LeaderWorkerSet` `x` with groups of a leader (`x-0`) and three workers (`x-0-1`). It keeps what is left of a group, and two
/// pods are enough.
fn kept_groups(groups: i64) -> World {
    let mut world = World::new(Config::default());
    let lws = owner(Owner::LWS_GROUP, "LeaderWorkerSet", "x").replicas(groups).keeps_group();
    world.apply_owner(lws);
    let leaders = owner("apps", "StatefulSet", "x").replicas(groups);
    world.apply_owner(leaders.owned_by(Owner::LWS_GROUP, "LeaderWorkerSet", "x"));
    for n in 0..groups {
        let leader = format!("x-{n}");
        world.apply_pod_group(group(&leader).gang(2));
        let part = |name: &str, set: &str| {
            let labelled =
                pod(name).label("leaderworkerset.sigs.k8s.io/name", "x").label("g", &leader);
            labelled.lws("x", n, 4).group(&leader).owned_by("apps", "StatefulSet", set).ready()
        };
        world.apply_pod(part(&leader, "x"));
        let workers = owner("apps", "StatefulSet", leader.as_str()).replicas(3);
        world.apply_owner(workers.owned_by("", "Pod", &leader));
        for worker in 1..4 {
            world.apply_pod(part(&format!("{leader}-{worker}"), &leader));
        }
    }
    world
}

/// The garbage collector deletes the workers of a leader that is gone, whatever the restartPolicy.
#[test]
fn the_leader_of_a_group_that_is_kept_is_no_surplus() {
    let (_, of_groups) = budget_of_groups();
    for budget in [budget("one").per_replica().max_unavailable(1), of_groups] {
        let mut world = kept_groups(3);
        world.apply_budget(budget);
        world.sync();
        world.advance(secs(2));
        assert!(world.evict_without_delete("x-1-1").is_allow(), "two of four are enough");
        assert!(world.evict_without_delete("x-0").is_allow());
        assert!(world.evict_without_delete("x-0").is_allow(), "the same eviction");
        assert!(!world.evict_without_delete("x-1").is_allow(), "x-0 and its workers may go");
        assert!(world.evict_without_delete("x-1-2").is_allow(), "one worker more");
        world.carry_out("x-0");
        assert!(!world.evict_without_delete("x-2").is_allow(), "x-0 is gone");
    }
}

/// A leader that is not ready takes its workers along too.
#[test]
fn a_group_without_a_healthy_leader_is_not_healthy() {
    let (_, of_groups) = budget_of_groups();
    for budget in [budget("one").per_replica().max_unavailable(1).always_allow(), of_groups] {
        let mut world = kept_groups(3);
        world.apply_budget(budget);
        world.sync();
        world.edit_pod("x-0", |pod| pod.ready = false);
        world.advance(secs(2));
        assert!(!world.evict_without_delete("x-1").is_allow(), "one is down already");
        assert!(world.evict_without_delete("x-0").is_allow(), "it costs nothing");
        world.edit_pod("x-0", |pod| pod.ready = true);
        world.advance(secs(2));
        assert!(!world.evict_without_delete("x-1").is_allow(), "x-0 may still go");
    }
}

/// A node failure takes the only group of a `LeaderWorkerSet` that an object of another kind controls.
#[test]
fn a_leader_worker_set_with_a_controller_counts_by_its_template() {
    let mut world = World::new(Config::default());
    for name in ["x", "y"] {
        let lws = owner(Owner::LWS_GROUP, "LeaderWorkerSet", name).replicas(1);
        let lws = lws.template_label("app", "a").owned_by("example.com", "Service", name);
        world.apply_owner(lws);
        world.apply_pod(pod(&format!("{name}-0")).label("app", "a").lws(name, 0, 1).ready());
    }
    world.apply_budget(budget("one").select("app", "a").per_replica().max_unavailable(1));
    world.sync();
    world.advance(secs(2));
    world.delete_pod("x-0");
    world.advance(secs(2));
    assert!(!world.evict_without_delete("y-0").is_allow(), "x is down already");
}

/// The predecessor of a budget counted pods, so its grants recorded nothing.
#[test]
fn a_budget_that_is_made_again_to_count_replicas_expects_the_owner_of_a_granted_pod() {
    let mut world = World::with_instances(Config::default(), 2);
    for name in ["x", "y"] {
        world.apply_owner(owner(Owner::LWS_GROUP, "LeaderWorkerSet", name).replicas(1));
        world.apply_pod(pod(&format!("{name}-0")).lws(name, 0, 1).ready());
    }
    world.apply_budget(budget("one").min_available(1));
    world.sync();
    world.instance(1).lead(false);
    world.advance(secs(2));
    assert!(world.evict_without_delete("x-0").is_allow());
    world.delete_budget("one");
    world.apply_budget(budget("one").per_replica().max_unavailable(1));
    world.advance(secs(2));
    world.carry_out("x-0");
    world.advance(secs(2));
    for index in 0..2 {
        assert!(!world.instance(index).decide("y-0").is_allow(), "x is unavailable");
    }
    world.apply_pod(pod("x-0").lws("x", 0, 1).ready());
    world.advance(secs(2));
    assert!(world.status("one").pending_replacements.is_empty());
    assert!(world.evict("y-0").is_allow());
}

/// A `PodGroup` comes to be disrupted as a whole while an eviction of one of its pods is under way. The other groups may
/// have the source of their number recorded already.
#[test]
fn a_group_that_comes_to_be_disrupted_whole_keeps_the_size_from_before_its_grant() {
    for has_source in [false, true] {
        let mut world = World::new(Config::default());
        let of = |name: &str, is_whole: bool| {
            let mut group = group(name).gang(1);
            if has_source {
                group = group.owned_by("example.com", "Train", "t");
            }
            if is_whole { group.disrupt_whole() } else { group }
        };
        for name in ["a", "b"] {
            world.apply_pod_group(of(name, false));
            for member in ["0", "1"] {
                world.apply_pod(pod(&format!("{name}-{member}")).group(name).ready());
            }
        }
        world.apply_budget(budget("one").per_replica().min_available(1));
        world.sync();
        world.advance(secs(2));
        assert!(world.evict_without_delete("a-0").is_allow());
        assert_eq!(world.status("one").pending_replacements.len(), usize::from(has_source));
        for name in ["a", "b"] {
            world.apply_pod_group(of(name, true));
        }
        world.advance(secs(2));
        world.carry_out("a-0");
        world.advance(secs(2));
        assert!(!world.evict_without_delete("b-0").is_allow(), "a has one pod of two");
        world.apply_pod(pod("a-2").group("a").ready());
        world.advance(secs(2));
        assert!(world.status("one").pending_replacements.is_empty());
        assert!(world.evict("b-0").is_allow());
    }
}

/// A backup tool, or a person, replaces the status of a budget while an eviction is under way.
#[test]
fn a_status_that_is_reset_loses_no_grants() {
    let mut world = cluster(2);
    assert!(world.evict_without_delete("a-0").is_allow());
    let before = world.status("one").clone();
    world.edit_status("one", |status| *status = BudgetStatus::default());
    assert!(!world.instance(1).decide("b-0").is_allow(), "a-0 may still go");
    world.advance(secs(2));
    assert_eq!(grants(&world, "one"), before.grants, "the grant is written again");
    assert!(!world.evict_without_delete("b-0").is_allow());
    world.carry_out("a-0");
    world.apply_pod(pod("a-0").group("a").ready());
    world.advance(secs(2));
    assert_eq!(grants(&world, "one"), []);
    assert!(world.evict("b-0").is_allow());
}

/// As above, when the pod of an owner is gone and not replaced yet. Then the record ends as it always does.
#[test]
fn a_status_that_is_reset_loses_no_replacements() {
    let mut world = World::with_instances(Config::default(), 2);
    for name in ["x", "y"] {
        world.apply_owner(owner(Owner::LWS_GROUP, "LeaderWorkerSet", name).replicas(1));
        world.apply_pod(pod(&format!("{name}-0")).lws(name, 0, 1).ready());
    }
    world.apply_budget(budget("one").per_replica().max_unavailable(1));
    world.sync();
    world.instance(1).lead(false);
    world.advance(secs(2));
    let early = world.status("one").clone();
    assert!(world.evict("x-0").is_allow());
    world.advance(secs(2));
    world.edit_status("one", |status| *status = early);
    world.advance(secs(2));
    for index in 0..2 {
        assert!(!world.instance(index).decide("y-0").is_allow(), "x is unavailable");
    }
    world.apply_pod(pod("x-0").lws("x", 0, 1).ready());
    world.advance(secs(150));
    assert!(world.status("one").pending_replacements.is_empty());
    assert!(world.evict("y-0").is_allow());
}

/// `LeaderWorkerSets` delete a group that lost a pod, also where their groups are no replicas.
#[test]
fn a_group_by_label_goes_as_a_whole_although_groups_of_leader_worker_sets_are_off() {
    let mut world = World::new(Config { lws: false, ..Config::default() });
    world.apply_owner(owner(Owner::LWS_GROUP, "LeaderWorkerSet", "x").replicas(2));
    let leaders = owner("apps", "StatefulSet", "x").replicas(2);
    world.apply_owner(leaders.owned_by(Owner::LWS_GROUP, "LeaderWorkerSet", "x"));
    for n in 0..2 {
        let leader = format!("x-{n}");
        let part = |name: &str, set: &str| {
            let labelled =
                pod(name).label("leaderworkerset.sigs.k8s.io/name", "x").label("g", &leader);
            labelled.lws("x", n, 2).owned_by("apps", "StatefulSet", set).ready()
        };
        world.apply_pod(part(&leader, "x"));
        let workers = owner("apps", "StatefulSet", leader.as_str()).replicas(1);
        world.apply_owner(workers.owned_by("", "Pod", &leader));
        world.apply_pod(part(&format!("{leader}-1"), &leader));
    }
    let (_, budget) = budget_of_groups();
    world.apply_budget(budget);
    world.sync();
    world.advance(secs(2));
    assert!(world.evict_without_delete("x-0-1").is_allow());
    assert!(!world.evict_without_delete("x-1-1").is_allow(), "x-0 ends with its worker");
}
