//! In random clusters `why` says what an eviction is then answered: the same verdict, in the same words.
//!
//! One side is the command's: manifests listed into an engine of its own. The other is a simulated cluster
//! with the engine in front of its Eviction API, from the same manifests.

use holdfast_api::time;
use holdfast_core::Config;
use holdfast_core::model::{BudgetKey, ObjectKey};
use holdfast_core::verdict::Verdict;
use holdfast_core::view::Answer;
use holdfast_sim::{Random, World};
use serde_json::{Value, json};

use crate::ask::{Builtins, Cluster, documents};
use crate::simulate::{Input, world};

const WORLDS: u64 = 1000;
/// Evictions that are granted, and stay in flight, one after the other.
const ROUNDS: usize = 3;

#[test]
fn why_agrees_with_the_eviction_api_in_1000_random_worlds() {
    let (mut allowed, mut denied) = (0, 0);
    for seed in 0..WORLDS {
        let mut random = Random::new(seed);
        let mut objects = draw(&mut random);
        let mut world = simulated(&objects);
        adopt_uids(&mut objects, &world);
        for _ in 0..ROUNDS {
            let mut cluster = listed(&objects, &world);
            let pods: Vec<ObjectKey> = world.pods().map(|pod| pod.key.clone()).collect();
            for pod in &pods {
                let why = cluster.verdict(pod);
                let mut eviction = world.eviction(pod);
                eviction.dry_run = true;
                assert_same(seed, pod, &why, &world.decide(eviction));
                assert_explained(seed, pod, &cluster, &why);
                *if why.is_allow() { &mut allowed } else { &mut denied } += 1;
            }
            let Some(pod) = random.pick(&pods) else { break };
            let why = cluster.verdict(pod);
            assert_same(seed, pod, &why, &world.evict_without_delete(pod));
            copy_grants(&mut objects, &world);
        }
    }
    // Neither is the answer to everything.
    assert!(allowed > 2_000 && denied > 2_000, "{allowed} allowed, {denied} denied");
}

fn assert_same(seed: u64, pod: &ObjectKey, why: &Verdict, answer: &Verdict) {
    match (why, answer) {
        (Verdict::Allow(why), Verdict::Allow(answer)) => {
            assert_eq!((why.reason, &why.grants), (answer.reason, &answer.grants), "{seed} {pod}");
        }
        _ => assert_eq!(why, answer, "{seed} {pod}"),
    }
}

/// A denial has a budget to blame, and only a denial has.
fn assert_explained(seed: u64, pod: &ObjectKey, cluster: &Cluster, why: &Verdict) {
    let (opinions, _) = cluster.opinions(pod);
    let objects = opinions.iter().any(|o| matches!(o.answer, Answer::Deny { .. }));
    let running = cluster.pod(pod).is_some_and(|pod| {
        pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
    });
    if running {
        assert_eq!(objects, !why.is_allow(), "{seed} {pod} {opinions:?}");
    } else {
        assert!(why.is_allow(), "{seed} {pod}");
    }
}

fn draw(random: &mut Random) -> Vec<Value> {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set",
        "controller": true, "uid": ""}]);
    let mut objects = Vec::new();
    let mut pods = 0;
    for replica in 0..random.between(1, 4) {
        let group = format!("g{replica}");
        let size = random.between(1, 3);
        let min = random.between(1, size);
        // Now and then it is missing, or says no minCount.
        if !random.chance(3) {
            let gang = json!({"gang": {"minCount": min}});
            let policy = if random.chance(3) { json!({"basic": {}}) } else { gang };
            objects.push(json!({"apiVersion": "scheduling.holdfast.dev/v1alpha1",
                "kind": "PodGroup", "metadata": {"name": group, "ownerReferences": owner},
                "spec": {"schedulingPolicy": policy}}));
        }
        for index in 0..size {
            pods += 1;
            objects.push(pod(random, &format!("{group}-{index}"), &group, &owner));
        }
    }
    objects.push(json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "set"}, "spec": {"replicas": pods}}));
    for index in 0..random.between(0, 2) {
        objects.push(budget(random, index));
    }
    objects
}

fn pod(random: &mut Random, name: &str, group: &str, owner: &Value) -> Value {
    let mut meta = json!({"name": name, "labels": {"app": "all", "group": group},
        "ownerReferences": owner});
    if !random.chance(3) {
        meta["annotations"] = json!({"holdfast.dev/pod-group": group});
    }
    let state = random.below(20);
    if state == 0 {
        meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    let (phase, ready) = match state {
        1 => ("Pending", "False"),
        2 => ("Succeeded", "False"),
        3..=6 => ("Running", "False"),
        _ => ("Running", "True"),
    };
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta,
        "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}})
}

fn budget(random: &mut Random, index: i64) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": "all"}}});
    if random.chance(25) {
        spec["selector"] = json!({"matchLabels": {"group": "g0"}});
    }
    let field = if random.chance(50) { "minAvailable" } else { "maxUnavailable" };
    spec[field] = if random.chance(30) {
        json!(format!("{}%", random.between(0, 100)))
    } else {
        json!(random.between(0, 3))
    };
    if random.chance(70) {
        spec["budgetScope"] = json!("Workload");
    }
    if random.chance(30) {
        spec["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow");
    }
    json!({"apiVersion": "policy.holdfast.dev/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": format!("budget-{index}")}, "spec": spec})
}

fn simulated(objects: &[Value]) -> World {
    let mut input = Input::default();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    input.parse("random.json", &list.to_string());
    world(input).unwrap()
}

fn listed(objects: &[Value], world: &World) -> Cluster {
    let lists = documents::lists(objects.to_vec(), "default");
    Cluster::new(Config::default(), lists, world.now(), Builtins::Gate)
}

/// Grants name pods by uid, which are the simulated API server's to give.
fn adopt_uids(objects: &mut [Value], world: &World) {
    for object in objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        let pod = world.pods().find(|pod| object["metadata"]["name"] == *pod.key.name);
        object["metadata"]["uid"] = json!(pod.map(|pod| &pod.uid));
    }
}

fn copy_grants(objects: &mut [Value], world: &World) {
    for object in objects.iter_mut().filter(|object| object["kind"] == "PodDisruptionBudget") {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let status = world.engine().status(&BudgetKey::pdb("default", name)).unwrap();
        let grants = status.grants.iter().map(|grant| {
            json!({"pod": grant.pod, "uid": grant.uid, "replica": grant.replica, "cost": grant.cost,
                "requester": grant.requester, "time": time::format(grant.granted_at),
                "eviction": grant.eviction, "budgets": grant.budgets})
        });
        object["status"]["grants"] = grants.collect();
    }
}
