//! Owners are scaled up, and an instance has seen the new pods and not the new scale (semantics 4).

use std::time::Duration;

use holdfast_core::model::{
    BudgetKey, GroupKind, LabelGroups, Operation, Owner, Target, UnavailableSpec,
};
use holdfast_core::{Command, Config, Kind};
use holdfast_sim::{BudgetBuilder, PodBuilder, World, budget, group, owner, pod};

const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The owner `x` of this kind.
struct Scaled {
    group: &'static str,
    kind: &'static str,
}

const STATEFUL_SET: Scaled = Scaled { group: "apps", kind: "StatefulSet" };
/// Not watched: its `/scale` is read.
const GAME: Scaled = Scaled { group: "example.com", kind: "Game" };
const LWS: Scaled = Scaled { group: Owner::LWS_GROUP, kind: "LeaderWorkerSet" };

impl Scaled {
    fn pod(&self, n: i64) -> PodBuilder {
        let pod = pod(&format!("x-{n}"));
        if self.kind == LWS.kind {
            let pod = pod.label("leaderworkerset.sigs.k8s.io/name", "x");
            return pod.label(GROUP_INDEX, &n.to_string()).lws("x", n, 1).ready();
        }
        pod.owned_by(self.group, self.kind, "x").ready()
    }

    fn scale_to(&self, world: &mut World, replicas: i64) {
        world.apply_owner(owner(self.group, self.kind, "x").replicas(replicas));
    }

    /// It has one pod, under this budget, and is scaled to three. The pods are ready, and no watch has shown the scale.
    fn up(&self, budget: BudgetBuilder) -> World {
        let mut world = World::new(Config::default());
        self.scale_to(&mut world, 1);
        world.apply_pod(self.pod(0));
        world.apply_budget(budget);
        world.sync();
        world.advance(secs(2));
        let kind = Kind::Owner(GroupKind::new(self.group, self.kind));
        world.instance(0).hold_kind(&kind);
        self.scale_to(&mut world, 3);
        for n in 1..3 {
            world.apply_pod(self.pod(n));
        }
        world.advance(secs(2));
        world
    }
}

fn delete(world: &mut World, pod: &str) -> bool {
    let mut request = world.eviction(pod);
    request.operation = Operation::Delete;
    world.decide(request).is_allow()
}

fn assert_one_of_three_may_go(world: &mut World) {
    assert!(world.evict_without_delete("x-1").is_allow());
    for pod in ["x-2", "x-0"] {
        assert!(!world.evict_without_delete(pod).is_allow(), "{pod} would be the second of three");
    }
    world.carry_out("x-1");
    world.advance(secs(2));
    assert!(!world.evict_without_delete("x-2").is_allow(), "x-1 is not back");
}

fn unavailable(spec: UnavailableSpec) -> BudgetBuilder {
    let budget = budget(&BudgetKey::unavailable("default", "one")).max_unavailable(1);
    budget.spec(|of| of.unavailable = Some(Box::new(spec)))
}

#[test]
fn pods_beyond_the_scale_of_a_watched_owner() {
    assert_one_of_three_may_go(&mut STATEFUL_SET.up(budget("one").max_unavailable(1)));
    assert_one_of_three_may_go(&mut STATEFUL_SET.up(budget("one").min_available_percent(60)));
}

#[test]
fn pods_beyond_the_scale_of_an_owner_that_is_not_watched() {
    assert_one_of_three_may_go(&mut GAME.up(budget("one").max_unavailable(1)));
}

#[test]
fn pods_of_a_pod_unavailable_budget_beyond_the_scale() {
    for scaled in [STATEFUL_SET, GAME] {
        assert_one_of_three_may_go(&mut scaled.up(unavailable(UnavailableSpec::default())));
        let target =
            Target { group_kind: GroupKind::new(scaled.group, scaled.kind), name: "x".to_owned() };
        let spec = UnavailableSpec { target: Some(target), ..UnavailableSpec::default() };
        assert_one_of_three_may_go(&mut scaled.up(unavailable(spec)));
    }
}

/// They are taken for groups that `LeaderWorkerSet` is about to delete, and those may go at no cost.
#[test]
fn groups_beyond_the_scale_of_a_leader_worker_set() {
    let groups = Some(LabelGroups { label: GROUP_INDEX.to_owned(), min_ready: 1 });
    let by_label = unavailable(UnavailableSpec { groups, ..UnavailableSpec::default() });
    for budget in [budget("one").max_unavailable(1), by_label] {
        assert_one_of_three_may_go(&mut LWS.up(budget.per_replica()));
    }
}

#[test]
fn deletes_of_groups_beyond_the_scale_of_a_leader_worker_set() {
    let groups = Some(LabelGroups { label: GROUP_INDEX.to_owned(), min_ready: 1 });
    let spec = UnavailableSpec { groups, ..UnavailableSpec::default() };
    let mut world = LWS.up(unavailable(spec).per_replica());
    assert!(delete(&mut world, "x-1"));
    assert!(!delete(&mut world, "x-2"), "it would be the second of three");
}

/// A group that is not there makes up for the new one, so there are no more replicas than the old scale says.
#[test]
fn a_group_beyond_the_scale_while_another_is_missing() {
    let mut world = LWS.up(budget("one").per_replica().max_unavailable(1));
    world.delete_pod("x-0");
    world.delete_pod("x-1");
    world.advance(secs(2));
    assert!(!world.evict_without_delete("x-2").is_allow(), "two of three are missing");
}

/// One owner has more replicas than the old scale says, the other one fewer.
#[test]
fn replicas_beyond_the_scale_of_one_of_two_stateful_sets() {
    let mut world = World::new(Config::default());
    let set = |name: &str, replicas: i64| {
        owner("apps", "StatefulSet", name).replicas(replicas).group_size(1)
    };
    let add = |world: &mut World, name: &str| {
        world.apply_pod_group(group(name).gang(1));
        let of = &name[..1];
        world.apply_pod(pod(name).group(name).owned_by("apps", "StatefulSet", of).ready());
    };
    world.apply_owner(set("a", 1));
    world.apply_owner(set("b", 3));
    for name in ["a-0", "b-0"] {
        add(&mut world, name);
    }
    world.apply_budget(budget("one").per_replica().max_unavailable(2));
    world.sync();
    world.advance(secs(2));
    world.instance(0).hold_kind(&Kind::Owner(GroupKind::new("apps", "StatefulSet")));
    world.apply_owner(set("a", 3));
    for name in ["a-1", "a-2"] {
        add(&mut world, name);
    }
    world.advance(secs(2));
    assert!(!world.evict_without_delete("a-1").is_allow(), "two of b are missing");
}

/// Pods without the label that groups go by are a pool. Nothing read the scale of an owner that is not watched.
#[test]
fn a_pool_expects_what_its_owner_is_scaled_to() {
    let groups = Some(LabelGroups { label: "g".to_owned(), min_ready: 1 });
    let spec = UnavailableSpec { groups, ..UnavailableSpec::default() };
    for scaled in [STATEFUL_SET, GAME] {
        let mut world = World::new(Config::default());
        scaled.scale_to(&mut world, 3);
        for n in 0..3 {
            world.apply_pod(scaled.pod(n));
        }
        world.apply_budget(unavailable(spec.clone()).per_replica());
        world.sync();
        world.advance(secs(2));
        assert!(world.evict("x-1").is_allow());
        world.advance(secs(2));
        assert!(!world.evict_without_delete("x-2").is_allow(), "x-1 is not back");
        let mut world = scaled.up(unavailable(spec.clone()).per_replica());
        assert_one_of_three_may_go(&mut world);
    }
}

/// A Deployment is deleted without its `ReplicaSet`, made again with more replicas, and takes the `ReplicaSet` over.
#[test]
fn a_deployment_that_is_made_again_with_more_replicas() {
    let mut world = World::new(Config::default());
    let kind = |kind: &str| GroupKind::new("apps", kind);
    let set = || owner("apps", "ReplicaSet", "d-1");
    let add = |world: &mut World, n: i64| {
        world.apply_pod(pod(&format!("x-{n}")).owned_by("apps", "ReplicaSet", "d-1").ready());
    };
    world.apply_owner(owner("apps", "Deployment", "d").replicas(1));
    world.apply_owner(set().replicas(1).owned_by("apps", "Deployment", "d"));
    add(&mut world, 0);
    world.apply_budget(budget("one").max_unavailable(1));
    world.sync();
    world.advance(secs(2));
    world.instance(0).hold_kind(&Kind::Owner(kind("Deployment")));
    world.instance(0).hold_kind(&Kind::Owner(kind("ReplicaSet")));
    world.delete_owner(&kind("Deployment"), "d");
    world.apply_owner(owner("apps", "Deployment", "d").replicas(3));
    world.apply_owner(set().replicas(3).owned_by("apps", "Deployment", "d"));
    for n in 1..3 {
        add(&mut world, n);
    }
    world.advance(secs(2));
    assert_one_of_three_may_go(&mut world);
}

/// The scale was read before the pods came, so it is read again. Until the answer comes, nothing is decided.
#[test]
fn a_scale_that_was_read_before_the_pods_came_does_not_count() {
    let mut world = GAME.up(budget("one").max_unavailable(1));
    world.hold_calls();
    let request = world.eviction("x-1");
    let id = world.submit(request);
    assert!(world.reply(&id).is_none(), "the scale is being read");
    let reads = |world: &World| {
        world.calls_under_way().filter(|call| matches!(call, Command::ReadScale { .. })).count()
    };
    assert_eq!(reads(&world), 1);
    world.apply_pod(GAME.pod(3));
    GAME.scale_to(&mut world, 4);
    assert_eq!(reads(&world), 1, "one at a time");
    world.release_calls();
    world.advance(secs(1));
    assert!(world.reply(&id).expect("answered").is_allow());
    assert!(!world.evict_without_delete("x-2").is_allow());
}

/// While pods come and go as they should, nothing is read for a decision.
#[test]
fn a_drain_reads_no_scales() {
    let mut world = World::new(Config::default());
    GAME.scale_to(&mut world, 3);
    for n in 0..3 {
        world.apply_pod(GAME.pod(n));
    }
    world.apply_budget(budget("one").max_unavailable(1));
    world.sync();
    world.advance(secs(2));
    for n in 0..3 {
        let name = format!("x-{n}");
        world.begin_eviction(&*name);
        world.apply_pod(pod(&format!("x-{}", n + 3)).owned_by("example.com", "Game", "x").ready());
        world.delete_pod(&*name);
        world.advance(secs(2));
    }
    world.hold_calls_and_lists();
    let request = world.eviction("x-3");
    world.submit(request);
    let is_read = |call: &&Command| matches!(call, Command::ReadScale { .. });
    assert_eq!(world.calls_under_way().filter(is_read).count(), 0);
}
