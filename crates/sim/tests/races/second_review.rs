//! Races that a second hostile review found, on the engine of 2026-11-18. docs/simulator.md names the hole of each.

use std::time::Duration;

use holdfast_core::io::{Salvaged, SnapshotOutcome};
use holdfast_core::model::{
    BudgetKey, GroupKind, ObjectKey, Operation, Owner, Target, UnavailableSpec,
};
use holdfast_core::verdict::Verdict;
use holdfast_core::{Change, Command, Config, Engine, Eviction, Input, Kind};
use holdfast_sim::{World, budget, group, owner, pod};

use super::{cluster, grants};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn one() -> holdfast_sim::BudgetBuilder {
    budget("one").per_replica().min_available(2)
}

/// The timer of the first deletion forgets what the second deletion left.
#[test]
fn a_budget_that_is_deleted_twice_keeps_its_grants() {
    let mut world = cluster(1);
    assert!(world.evict_without_delete("a-0").is_allow());
    world.delete_budget("one");
    world.apply_budget(one());
    world.advance(secs(1));
    world.carry_out("a-0");
    world.apply_pod(pod("a-0").group("a").ready());
    world.advance(secs(99));
    assert_eq!(grants(&world, "one"), []);
    // At 100 s.
    assert!(world.evict_without_delete("b-0").is_allow());
    world.advance(secs(10));
    world.delete_budget("one");
    world.advance(secs(12));
    world.apply_budget(one());
    assert!(!world.evict_without_delete("c-0").is_allow(), "the grant of b-0 is 22 s old");
}

/// As above, without the first deletion: this is what must hold.
/// A renewal is in flight when the budget is deleted: what it renews is forgotten with it.
#[test]
fn a_renewal_in_flight_does_not_lose_the_grant_of_a_deleted_budget() {
    let mut world = cluster(1);
    assert!(world.evict_without_delete("a-0").is_allow());
    world.advance(secs(2));
    world.hold_calls();
    let again = world.eviction("a-0");
    let id = world.submit(again);
    // It is answered with a denial, at its deadline.
    world.advance(secs(10));
    assert!(!world.reply(&id).expect("answered").is_allow());
    world.delete_budget("one");
    world.apply_budget(one());
    world.release_calls();
    world.advance(secs(1));
    assert!(!world.evict_without_delete("b-0").is_allow(), "the grant of a-0 is 13 s old");
}

/// The same without time passing: the second request is still undecided when the budget is recreated.
/// The instance that saw the grant does not lead, and never writes it into the new budget.
#[test]
fn adopted_grants_are_written_by_who_does_not_lead() {
    let mut world = cluster(2);
    assert!(world.instance(1).decide("a-0").is_allow());
    world.advance(secs(2));
    world.instance(0).crash();
    world.delete_budget("one");
    world.apply_budget(one());
    world.advance(secs(5));
    world.instance(0).restart();
    world.advance(secs(10));
    assert_eq!(grants(&world, "one").len(), 1, "instance 1 knows it");
    assert!(!world.instance(0).decide("b-0").is_allow());
}

/// An instance learns of a budget by a list, and does not know that it had a predecessor.
#[test]
fn a_listed_budget_may_have_a_predecessor_that_the_watch_has_not_shown() {
    let mut world = World::with_instances(Config::default(), 2);
    for name in ["a", "b", "c"] {
        world.apply_pod_group(group(name).gang(1));
        world.apply_pod(pod(&format!("{name}-0")).group(name).ready());
    }
    world.sync();
    world.instance(1).lead(false);
    world.instance(1).hold_kind(&Kind::Budget);
    world.apply_budget(one());
    world.advance(secs(30));
    assert!(world.instance(0).decide("a-0").is_allow());
    world.instance(0).hold_calls();
    world.delete_budget("one");
    world.apply_budget(one());
    assert!(!world.instance(1).decide("b-0").is_allow(), "a-0 may still go");
}

#[test]
fn a_request_in_the_queue_is_denied_when_a_kind_is_lost() {
    let mut world = cluster(1);
    world.edit_budget("one", |spec| {
        spec.min_available = Some(holdfast_core::model::Threshold::Count(1));
    });
    world.advance(secs(2));
    world.hold_calls();
    let first = world.eviction("a-0");
    world.submit(first);
    let second = world.eviction("b-0");
    let id = world.submit(second);
    world.inject(Input::Lost(Kind::Pod));
    world.release_calls();
    assert!(!world.reply(&id).expect("answered").is_allow(), "pods are lost");
}

fn replica_set() -> Kind {
    Kind::Owner(GroupKind::new("apps", "ReplicaSet"))
}

/// A pod under a budget for a Deployment, of a `ReplicaSet` that the watch has not shown.
#[test]
fn a_target_ref_covers_pods_of_a_replica_set_that_was_not_seen_yet() {
    let mut world = World::new(Config::default());
    let target =
        Target { group_kind: GroupKind::new("apps", "Deployment"), name: "web".to_owned() };
    let key = BudgetKey::unavailable("default", "one");
    let spec = UnavailableSpec { target: Some(target), ..UnavailableSpec::default() };
    world.apply_budget(
        budget(&key).spec(|of| of.unavailable = Some(Box::new(spec))).max_unavailable(1),
    );
    world.apply_owner(owner("apps", "Deployment", "web").replicas(2));
    world.sync();
    world.instance(0).hold_kind(&replica_set());
    world.apply_owner(owner("apps", "ReplicaSet", "web-1").replicas(2).owned_by(
        "apps",
        "Deployment",
        "web",
    ));
    for name in ["w-0", "w-1"] {
        world.apply_pod(pod(name).owned_by("apps", "ReplicaSet", "web-1").ready());
    }
    world.advance(secs(60));
    let verdicts = [world.evict("w-0").is_allow(), world.evict("w-1").is_allow()];
    assert_ne!(verdicts, [true, true], "two were lost, and one may be");
}

/// A group that is disrupted as a whole, of a driver and workers, each with a controller of its own.
#[test]
fn a_whole_group_of_two_controllers_is_broken_until_the_driver_is_back() {
    let mut world = World::new(Config::default());
    for name in ["a", "b"] {
        world.apply_pod_group(group(name).gang(1).disrupt_whole());
        let (driver, workers) = (format!("{name}-driver"), format!("{name}-workers"));
        world.apply_owner(owner("apps", "ReplicaSet", driver.as_str()).replicas(1));
        world.apply_owner(owner("apps", "ReplicaSet", workers.as_str()).replicas(2));
        let part = |pod_name: &str, of: &str| {
            pod(pod_name).group(name).owned_by("apps", "ReplicaSet", of).ready()
        };
        world.apply_pod(part(&format!("{name}-0"), &driver));
        world.apply_pod(part(&format!("{name}-1"), &workers));
        world.apply_pod(part(&format!("{name}-2"), &workers));
    }
    world.apply_budget(budget("one").per_replica().min_available(1));
    world.sync();
    world.advance(secs(2));
    assert!(world.evict("a-0").is_allow());
    world.advance(secs(2));
    // The driver's Job waits before it makes the next pod.
    assert!(!world.evict_without_delete("b-0").is_allow(), "a has lost its driver");
}

/// A kind that another instance has seen is not served any more, and this instance is new.
#[test]
fn a_watermark_of_a_kind_that_is_gone_does_not_deny_for_ever() {
    let lws = Kind::Owner(GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet"));
    let mut world = World::new(Config::default());
    world.apply_pod(pod("p").lws("x", 0, 1).ready());
    world.apply_pod(pod("q").lws("x", 1, 1).ready());
    world.apply_budget(budget("one").per_replica().min_available(1));
    world.sync();
    world.advance(secs(5));
    world.apply_owner(owner(Owner::LWS_GROUP, "LeaderWorkerSet", "x").replicas(3));
    world.advance(secs(5));
    assert!(
        world.status("one").watermarks.contains_key(&lws.to_string()),
        "{:?}",
        world.status("one").watermarks
    );
    // The CustomResourceDefinition is removed, and Holdfast is restarted.
    let mut engine = Engine::new(Config::default());
    let now = world.now();
    for kind in Config::default().kinds {
        if kind == lws {
            engine.handle(now, Input::NotServed(kind));
            continue;
        }
        engine.handle(now, Input::ListBegan(kind.clone()));
        if kind == Kind::Pod {
            for pod in world.pods() {
                engine.handle(now, Input::Pod(Change::Applied(pod.clone())));
            }
        }
        if kind == Kind::Budget {
            for budget in world.budgets() {
                engine.handle(now, Input::Budget(Change::Applied(budget.clone())));
            }
        }
        engine.handle(now, Input::ListEnded(kind, world.version()));
    }
    while engine.poll().is_some() {}
    assert!(engine.unsynced().is_empty());
    let mut denials = Vec::new();
    for n in 0..10 {
        let at = now + secs(30 * n);
        let eviction = Eviction {
            id: format!("e{n}"),
            pod: ObjectKey::new("default", "p"),
            uid: None,
            requester: String::new(),
            dry_run: true,
            operation: Operation::Evict,
            object: None,
            generation: 0,
            exempt: false,
            by_name: false,
            deadline: at + secs(9),
        };
        engine.handle(at, Input::Evict(eviction));
        while let Some(command) = engine.poll() {
            match command {
                Command::ListNamespace { kind, namespace } if kind == lws => {
                    let outcome = SnapshotOutcome::NotServed;
                    engine.handle(at, Input::Snapshot { kind, namespace, outcome });
                }
                Command::ListNamespace { kind, namespace } => {
                    let objects = match kind {
                        Kind::Budget => world
                            .budgets()
                            .map(|b| Input::Budget(Change::Applied(b.clone())))
                            .collect(),
                        _ => Vec::new(),
                    };
                    let outcome = SnapshotOutcome::Listed { version: world.version(), objects };
                    engine.handle(at, Input::Snapshot { kind, namespace, outcome });
                }
                Command::Reply { verdict: Verdict::Deny(denial), .. } => {
                    denials.push(denial.message);
                }
                Command::Reply { verdict: Verdict::Allow(_), .. } => return,
                _ => {}
            }
        }
    }
    panic!("denied for five minutes: {denials:#?}");
}

/// An old state of a pod that cannot be read comes after a list that shows that the pod is gone.
#[test]
fn an_unreadable_state_brings_no_pod_back() {
    let mut world = cluster(2);
    world.instance(1).hold_kind(&Kind::Pod);
    world.apply_pod(pod("c-2").group("c").ready());
    let old = world.pod("c-2").cloned().expect("it is there");
    // Instance 0 writes by what it sees.
    world.edit_pod("a-0", |pod| pod.ready = false);
    world.advance(secs(2));
    world.delete_pod("c-2");
    world.edit_pod("a-0", |pod| pod.ready = true);
    world.advance(secs(2));
    // Instance 1 is behind, and lists.
    let _ = world.instance(1).decide("b-0");
    world.instance(1).inject(Input::Unreadable {
        kind: Kind::Pod,
        key: old.key.clone(),
        why: "garbled".to_owned(),
        salvaged: Some(Box::new(Salvaged::Pod(old.clone()))),
    });
    world.instance(1).release_kind(&Kind::Pod);
    world.edit_pod("b-0", |pod| pod.generation += 1);
    let key = BudgetKey::pdb("default", "one");
    let pods = |world: &mut World, n| {
        world.instance(n).engine().status(&key).expect("known").expected_pods
    };
    let counts = (pods(&mut world, 0), pods(&mut world, 1));
    assert_eq!(counts, (6, 6));
}

/// The other instance has seen a change of minCount before the budget was created, and decides by it.
#[test]
fn a_new_budget_demands_the_groups_as_of_its_creation() {
    let mut world = World::with_instances(Config::default(), 2);
    for name in ["a", "b", "c"] {
        world.apply_pod_group(group(name).gang(1));
        for member in ["0", "1"] {
            world.apply_pod(pod(&format!("{name}-{member}")).group(name).ready());
        }
    }
    world.sync();
    world.instance(1).lead(false);
    world.instance(1).hold_kind(&Kind::PodGroup(holdfast_core::model::GroupApi::Kubernetes));
    for name in ["a", "b", "c"] {
        world.apply_pod_group(group(name).gang(2));
    }
    world.advance(secs(2));
    world.apply_budget(one());
    world.advance(secs(2));
    assert!(world.instance(0).decide("a-0").is_allow());
    world.carry_out("a-0");
    world.advance(secs(2));
    assert!(!world.instance(1).decide("b-0").is_allow(), "a is broken, and the status says so");
}

/// Pods get the label that a budget selects. The watch of pods lags.
#[test]
fn pods_are_covered_by_the_labels_that_they_have() {
    let mut world = World::new(Config::default());
    for name in ["p", "q"] {
        world.apply_pod(pod(name).label("app", "canary").ready());
    }
    world.apply_budget(budget("one").min_available(1).select("app", "web"));
    world.sync();
    world.hold_watch();
    for name in ["p", "q"] {
        world.edit_pod(name, |pod| {
            pod.labels.insert("app".to_owned(), "web".to_owned());
        });
    }
    world.advance(secs(60));
    let verdicts = [world.evict("p").is_allow(), world.evict("q").is_allow()];
    assert_ne!(verdicts, [true, true], "two were lost, and one may be");
}

/// A budget takes over from another one by an edit of its selector.
#[test]
fn an_edited_selector_demands_the_pods_as_of_the_edit() {
    let mut world = World::with_instances(Config::default(), 2);
    for name in ["a", "b", "c"] {
        world.apply_pod(pod(name).label("app", "web").ready());
    }
    world.apply_budget(budget("old").min_available(2).select("app", "web"));
    world.apply_budget(budget("new").min_available(2).select("app", "none"));
    world.sync();
    world.instance(1).lead(false);
    world.advance(secs(2));
    world.instance(1).hold_kind(&Kind::Pod);
    assert!(world.instance(0).decide("a").is_allow());
    world.carry_out("a");
    world.advance(secs(5));
    assert_eq!(grants(&world, "old"), []);
    world.edit_budget("new", |spec| {
        let selector = spec.selector.get_or_insert_default();
        selector.match_labels.insert("app".to_owned(), "web".to_owned());
    });
    world.delete_budget("old");
    world.advance(secs(5));
    assert!(!world.instance(1).decide("b").is_allow(), "a is gone, and two are needed");
}

/// At the gate: an eviction by name that the webhook was not asked about, of a pod that another one is pinned to.
/// The watch has not shown the very workload that the budget names, and no pods of it are expected.
#[test]
fn a_target_ref_to_a_workload_that_was_not_seen_yet() {
    let mut world = World::new(Config::default());
    let target =
        Target { group_kind: GroupKind::new("apps", "Deployment"), name: "web".to_owned() };
    let key = BudgetKey::unavailable("default", "one");
    let spec = UnavailableSpec { target: Some(target), ..UnavailableSpec::default() };
    world.apply_budget(
        budget(&key).spec(|of| of.unavailable = Some(Box::new(spec))).max_unavailable(1),
    );
    world.sync();
    world.instance(0).hold_kind(&Kind::Owner(GroupKind::new("apps", "Deployment")));
    world.apply_owner(owner("apps", "Deployment", "web").replicas(2));
    world.apply_owner(owner("apps", "ReplicaSet", "web-1").replicas(2).owned_by(
        "apps",
        "Deployment",
        "web",
    ));
    for name in ["w-0", "w-1"] {
        world.apply_pod(pod(name).owned_by("apps", "ReplicaSet", "web-1").ready());
    }
    world.advance(secs(60));
    let verdicts = [world.evict("w-0").is_allow(), world.evict("w-1").is_allow()];
    assert_ne!(verdicts, [true, true], "two were lost, and one may be");
}

/// As above, with groups of a `LeaderWorkerSet`.
#[test]
fn a_target_ref_to_a_leader_worker_set_that_was_not_seen_yet() {
    let mut world = World::new(Config::default());
    let lws = GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet");
    let target = Target { group_kind: lws.clone(), name: "x".to_owned() };
    let key = BudgetKey::unavailable("default", "one");
    let spec = UnavailableSpec { target: Some(target), ..UnavailableSpec::default() };
    world.apply_budget(
        budget(&key).spec(|of| of.unavailable = Some(Box::new(spec))).max_unavailable(1),
    );
    world.sync();
    world.instance(0).hold_kind(&Kind::Owner(lws));
    world.apply_owner(owner(Owner::LWS_GROUP, "LeaderWorkerSet", "x").replicas(2));
    world.apply_owner(owner("apps", "StatefulSet", "x").replicas(2).owned_by(
        Owner::LWS_GROUP,
        "LeaderWorkerSet",
        "x",
    ));
    for n in 0..2 {
        let made =
            pod(&format!("x-{n}")).lws("x", n, 1).label("leaderworkerset.sigs.k8s.io/name", "x");
        world.apply_pod(made.owned_by("apps", "StatefulSet", "x").ready());
    }
    world.advance(secs(60));
    let verdicts = [world.evict("x-0").is_allow(), world.evict("x-1").is_allow()];
    assert_ne!(verdicts, [true, true], "two were lost, and one may be");
}

/// A workload of a kind that is not watched is made again under its name. Its scale was read of the first one.
#[test]
fn a_workload_that_is_made_again_is_expected() {
    let foo = GroupKind::new("example.com", "Foo");
    let mut world = World::new(Config::default());
    let key = BudgetKey::unavailable("default", "one");
    let spec = UnavailableSpec::default();
    world.apply_budget(
        budget(&key).spec(|of| of.unavailable = Some(Box::new(spec))).max_unavailable(1),
    );
    world.sync();
    let begin = |world: &mut World| {
        world.apply_owner(owner("example.com", "Foo", "web").replicas(2));
        for name in ["w-0", "w-1"] {
            world.apply_pod(pod(name).owned_by("example.com", "Foo", "web").ready());
        }
    };
    begin(&mut world);
    world.advance(secs(31));
    for name in ["w-0", "w-1"] {
        world.delete_pod(name);
    }
    world.delete_owner(&foo, "web");
    begin(&mut world);
    world.advance(secs(5));
    let verdicts = [world.evict("w-0").is_allow(), world.evict("w-1").is_allow()];
    assert_ne!(verdicts, [true, true], "two were lost, and one may be");
}

/// The kind is not served for a moment, and a list of it is as old as the watch.
#[test]
fn budgets_of_a_kind_that_is_served_again_cover_their_pods() {
    let mut world = World::new(Config::default());
    let key = BudgetKey::unavailable("default", "one");
    let spec = UnavailableSpec { total: Some(2), ..UnavailableSpec::default() };
    world.apply_budget(
        budget(&key).spec(|of| of.unavailable = Some(Box::new(spec))).max_unavailable(0),
    );
    for name in ["p", "q"] {
        world.apply_pod(pod(name).ready());
    }
    world.hold_calls();
    world.sync();
    world.advance(secs(30));
    world.inject(Input::NotServed(Kind::UnavailableBudget));
    // It is served again, and a request comes before the watch has listed it.
    let eviction = world.eviction("p");
    let id = world.submit(eviction);
    assert!(world.reply(&id).is_none(), "the list shows a budget that the watch does not");
    world.instance(0).relist(&Kind::UnavailableBudget);
    assert!(!world.reply(&id).expect("answered").is_allow());
    assert_eq!(world.engine().budgets().count(), 1);
}
