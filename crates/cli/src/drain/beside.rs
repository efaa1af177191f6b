//! In random clusters our drain breaks no more replicas than kubectl's, and none twice.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::Config;
use holdfast_core::model::ObjectKey;
use holdfast_server::Evicted;
use holdfast_sim::{Answer, Behaviour, Drain, DrainOptions, Random, Replica, ReplicaKind, World};
use serde_json::{Value, json};

use super::follow::{Follow, Seen};
use super::plan::Unit;
use super::{Choice, DrainPlan};
use crate::ask::{Builtins, Cluster, documents};
use crate::simulate::{Input, world};

const WORLDS: u64 = 1000;
const WORLDS_OF_GROUPS: u64 = 100;
const LIMIT: Duration = Duration::from_hours(2);

#[test]
fn no_more_replicas_break_than_by_kubectl_in_1000_random_worlds() {
    let mut sums = [Sum::default(); 3];
    for seed in 0..WORLDS {
        let (objects, nodes) = draw(&mut Random::new(seed));
        let all: Vec<&[String]> = vec![&nodes];
        let each: Vec<&[String]> = nodes.chunks(1).collect();
        let outcomes = [
            by_holdfast(simulated(&objects, seed), &objects, &nodes),
            by_kubectl(simulated(&objects, seed), &all, seed),
            by_kubectl(simulated(&objects, seed), &each, seed),
        ];
        let [ours, kubectl @ ..] = &outcomes;
        assert!(ours.broken.values().all(|times| *times == 1), "{seed}: {ours:?}");
        for theirs in kubectl {
            assert!(ours.ended && theirs.ended, "{seed}: {ours:?} {theirs:?}");
            assert!(ours.breaks() <= theirs.breaks(), "{seed}: {ours:?} {theirs:?}");
        }
        for (sum, outcome) in sums.iter_mut().zip(&outcomes) {
            (sum.breaks, sum.took) = (sum.breaks + outcome.breaks(), sum.took + outcome.took);
        }
    }
    println!("holdfast, kubectl with all nodes, kubectl node after node: {sums:?}");
    let [ours, together, each] = sums;
    assert!(ours.breaks < together.breaks && together.breaks < each.breaks);
    assert!(ours.took < together.took && ours.took < each.took);
}

/// Whether the cluster deletes the rest of a group (the usual restart policy) or keeps it (None), no group breaks twice.
#[test]
fn groups_that_go_as_a_whole_break_once_in_100_random_worlds() {
    let mut taken_along = 0;
    for seed in 0..WORLDS_OF_GROUPS {
        let (objects, nodes) = draw_groups(&mut Random::new(seed));
        let ours = by_holdfast(simulated(&objects, seed), &objects, &nodes);
        assert!(ours.ended, "{seed}: {ours:?}");
        assert!(ours.broken.values().all(|times| *times == 1), "{seed}: {ours:?}");
        let on_nodes = objects
            .iter()
            .filter(|object| nodes.iter().any(|node| object["spec"]["nodeName"] == **node));
        let pods = on_nodes.count();
        assert!(ours.evicted <= pods, "{seed}: {ours:?}");
        taken_along += pods - ours.evicted;
    }
    assert!(taken_along > 0, "the drain evicted every pod of every group");
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    breaks: usize,
    took: Duration,
}

#[derive(Debug)]
struct Outcome {
    ended: bool,
    broken: BTreeMap<Replica, usize>,
    /// Evictions that were granted.
    evicted: usize,
    took: Duration,
}

impl Outcome {
    fn new(ended: bool) -> Self {
        Self { ended, broken: BTreeMap::new(), evicted: 0, took: Duration::ZERO }
    }

    fn breaks(&self) -> usize {
        self.broken.values().sum()
    }

    fn evict(&mut self, world: &mut World, pods: &[ObjectKey]) -> Vec<bool> {
        let before = world.healthy_replicas();
        let verdicts = world.evict_together(pods);
        for replica in before.difference(&world.healthy_replicas()) {
            *self.broken.entry(replica.clone()).or_default() += 1;
        }
        let allowed: Vec<bool> =
            verdicts.iter().map(holdfast_core::verdict::Verdict::is_allow).collect();
        self.evicted += allowed.iter().filter(|allowed| **allowed).count();
        allowed
    }
}

/// One command after the other. Each cordons its nodes first.
fn by_kubectl(mut world: World, commands: &[&[String]], seed: u64) -> Outcome {
    let mut outcome = Outcome::new(true);
    for nodes in commands {
        let options = DrainOptions { seed, ..DrainOptions::default() };
        let mut drain = Drain::new(nodes.iter().cloned(), options);
        drain.cordon(&mut world);
        while world.elapsed() < LIMIT {
            let targets = drain.poll(&world);
            let pods: Vec<ObjectKey> = targets.iter().map(|target| target.pod.clone()).collect();
            let allowed = outcome.evict(&mut world, &pods);
            for (target, allowed) in targets.into_iter().zip(allowed) {
                let answer = if allowed { Answer::Granted } else { Answer::Denied };
                drain.answer(world.now(), target, answer);
            }
            let Some(due) = drain.next_due() else { break };
            world.advance_to(due);
        }
        outcome.ended &= drain.is_done();
    }
    Outcome { took: world.elapsed(), ..outcome }
}

fn by_holdfast(mut world: World, objects: &[Value], nodes: &[String]) -> Outcome {
    let lists = documents::lists(with_uids(objects, &world), "default");
    let cluster = Cluster::new(Config::default(), lists, world.now(), Builtins::Counted);
    let (plan, _) = DrainPlan::make(&cluster, nodes, &Choice::default());
    let may_go = |unit: &Unit| !plan.blocked.iter().any(|blocked| blocked.unit == *unit);
    let mut follow = Follow::new(plan.units().map(|unit| (unit.clone(), may_go(unit))));
    let mut outcome = Outcome::new(false);
    for node in nodes {
        world.cordon(node);
    }
    while !follow.is_done() && world.elapsed() < LIMIT {
        let asks = follow.poll(world.elapsed());
        if asks.is_empty() {
            let soon = world.now() + Duration::from_secs(5);
            let due = world.next_due().map_or(soon, |due| due.min(soon));
            world.advance_to(due.max(world.now() + Duration::from_millis(1)));
            see(&mut follow, &world);
            follow.changed(world.elapsed(), "default");
        }
        for ask in asks {
            let going = &follow.units()[ask.unit];
            let key = ObjectKey::new(&going.unit.namespace, &going.unit.pods[ask.pod].name);
            let allowed = outcome.evict(&mut world, &[key])[0];
            let denied = Evicted::Denied(String::new());
            follow.answer(world.elapsed(), ask, if allowed { Evicted::Granted } else { denied });
        }
    }
    Outcome { ended: follow.is_done(), took: world.elapsed(), ..outcome }
}

/// As the watch would tell.
fn see(follow: &mut Follow, world: &World) {
    let keys = follow.units().iter().flat_map(|going| {
        going.unit.pods.iter().map(|pod| ObjectKey::new(&going.unit.namespace, &pod.name))
    });
    for key in keys.collect::<Vec<_>>() {
        follow.saw(world.elapsed(), &key, |of| match world.pod(&key) {
            None => Some(Seen::Gone),
            Some(pod) if pod.uid != of.uid => Some(Seen::Replaced),
            Some(pod) => pod.terminating.then_some(Seen::Leaving),
        });
    }
    follow.look(world.elapsed(), |unit| {
        let named = world.replicas().find(|replica| match &replica.kind {
            ReplicaKind::AnnotatedGroup { name } => unit.name == format!("PodGroup {name}"),
            _ => false,
        });
        let health = named.and_then(|replica| world.health_of(replica, None));
        let at_once = i64::try_from(unit.at_once).expect("few");
        health
            .is_some_and(|health| health.min.is_ok_and(|min| health.healthy_pods >= min + at_once))
    });
}

/// Replicas over nodes of which some are drained, and a budget that lets some of them go.
fn draw(random: &mut Random) -> (Vec<Value>, Vec<String>) {
    let nodes = random.between(3, 6);
    let drained = random.between(1, nodes - 1);
    let name = |node: i64| format!("node-{node}");
    let mut objects: Vec<Value> = (0..nodes)
        .map(|node| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name(node)}}))
        .collect();
    let replicas = random.between(2, 6);
    let field = if random.chance(50) { "minAvailable" } else { "maxUnavailable" };
    objects.push(json!({"apiVersion": "policy.holdfast.dev/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget"}, "spec": {"selector": {"matchLabels": {"app": "all"}},
            field: random.between(1, replicas - 1), "budgetScope": "Workload"}}));
    for replica in 0..replicas {
        let (group, size) = (format!("g{replica}"), random.between(1, 4));
        let min = if random.chance(60) { size } else { random.between(1, size) };
        let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": group,
            "controller": true, "uid": ""}]);
        objects.push(json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": group}, "spec": {"replicas": size}}));
        objects.push(json!({"apiVersion": "scheduling.holdfast.dev/v1alpha1",
            "kind": "PodGroup", "metadata": {"name": group, "ownerReferences": owner},
            "spec": {"schedulingPolicy": {"gang": {"minCount": min}}}}));
        for pod in 0..size {
            objects.push(json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("{group}-{pod}"), "labels": {"app": "all"},
                    "annotations": {"holdfast.dev/pod-group": group}, "ownerReferences": owner},
                "spec": {"nodeName": name(random.between(0, nodes - 1)),
                    "containers": [{"name": "c", "image": "i"}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}));
        }
    }
    (objects, (0..drained).map(name).collect())
}

/// A `LeaderWorkerSet` over nodes of which some are drained, and a budget that lets some of its groups go.
fn draw_groups(random: &mut Random) -> (Vec<Value>, Vec<String>) {
    let nodes = random.between(3, 6);
    let drained = random.between(1, nodes - 1);
    let name = |node: i64| format!("node-{node}");
    let mut objects: Vec<Value> = (0..nodes)
        .map(|node| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name(node)}}))
        .collect();
    let (groups, size) = (random.between(2, 6), random.between(2, 4));
    objects.push(json!({"apiVersion": "policy.holdfast.dev/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget"}, "spec": {"selector": {"matchLabels": {"app": "all"}},
            "maxUnavailable": random.between(1, groups - 1), "budgetScope": "Workload"}}));
    let policy = if random.chance(70) { "RecreateGroupOnPodRestart" } else { "None" };
    let set = "leaderworkerset.x-k8s.io/v1";
    objects.push(
        json!({"apiVersion": set, "kind": "LeaderWorkerSet", "metadata": {"name": "serve"},
        "spec": {"replicas": groups,
            "leaderWorkerTemplate": {"size": size, "restartPolicy": policy}}}),
    );
    let stateful_set = |name: &str, replicas: i64, owner: Value| {
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": replicas},
            "metadata": {"name": name, "ownerReferences": [owner]}})
    };
    let owner = |api: &str, kind: &str, name: &str| json!({"apiVersion": api, "kind": kind, "name": name, "controller": true, "uid": ""});
    objects.push(stateful_set("serve", groups, owner(set, "LeaderWorkerSet", "serve")));
    for group in 0..groups {
        let leader = format!("serve-{group}");
        objects.push(stateful_set(&leader, size - 1, owner("v1", "Pod", &leader)));
        for worker in 0..size {
            let (pod, of) = match worker {
                0 => (leader.clone(), "serve"),
                _ => (format!("{leader}-{worker}"), leader.as_str()),
            };
            let labels = json!({"app": "all", "leaderworkerset.sigs.k8s.io/name": "serve",
                "leaderworkerset.sigs.k8s.io/group-index": group.to_string(),
                "leaderworkerset.sigs.k8s.io/group-key": leader,
                "leaderworkerset.sigs.k8s.io/worker-index": worker.to_string()});
            objects.push(json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": pod, "labels": labels,
                    "annotations": {"leaderworkerset.sigs.k8s.io/size": size.to_string()},
                    "ownerReferences": [owner("apps/v1", "StatefulSet", of)]},
                "spec": {"nodeName": name(random.between(0, nodes - 1)),
                    "containers": [{"name": "c", "image": "i"}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}));
        }
    }
    (objects, (0..drained).map(name).collect())
}

fn simulated(objects: &[Value], seed: u64) -> World {
    let mut input = Input::default();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    input.parse("random.json", &list.to_string());
    let mut world = world(input).unwrap();
    world.behave(Behaviour {
        startup: Duration::from_secs(30).into(),
        grace: Duration::from_secs(2).into(),
        seed,
    });
    world
}

/// Those of the simulated API server, by which pods are told from their successors.
fn with_uids(objects: &[Value], world: &World) -> Vec<Value> {
    let mut objects = objects.to_vec();
    for object in objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        let pod = world.pods().find(|pod| object["metadata"]["name"] == *pod.key.name);
        object["metadata"]["uid"] = json!(pod.map(|pod| &pod.uid));
    }
    objects
}
