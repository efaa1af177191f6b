//! Many evictions at the same time.

use std::collections::BTreeSet;
use std::sync::Barrier;

use holdfast_e2e::client::Client;
use holdfast_e2e::evict::{Eviction, Outcome};
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::world::{World, grants};
use serde_json::json;

const CLIENTS: usize = 16;

/// Story 1 of KEP-5682.
pub fn eighty_evictions_at_once_break_one_replica_of_ten() {
    let world = World::new("storm");
    let pods = ten_by_eight(&world);
    world.budget("job", json!({"minAvailable": 9, "budgetScope": "Workload"}));
    assert_eq!(world.healthy_replicas(), 10);
    let observer = world.observe();

    let outcomes = evict_at_once(&world, &pods);
    assert_eq!(observer.least(), 9);
    let evicted = evicted(&outcomes);
    let broken: BTreeSet<&str> = evicted.iter().map(|pod| replica(pod)).collect();
    assert_eq!(broken.len(), 1, "the first one was to go, and no second: {evicted:?}");
    for (pod, outcome) in outcomes.iter().filter(|(_, outcome)| !outcome.is_evicted()) {
        assert_ne!(replica(pod), *broken.first().expect("one"), "{outcome:#?}");
        outcome.assert_denied(&["job needs 9 healthy replicas and has 9"]);
    }
    assert_eq!(world.pods().len(), 80 - evicted.len());
    assert_eq!(world.healthy_replicas(), 9);
}

pub fn two_budgets_on_every_pod_hold_and_agree_in_a_storm() {
    let world = World::new("storm-two");
    let node = world.node("n");
    let pods: Vec<String> =
        ["a", "b", "c", "d"].iter().flat_map(|name| world.replica(name, 6, 4, &[&node])).collect();
    world.budget("replicas", json!({"minAvailable": 3, "budgetScope": "Workload"}));
    world.budget("pods", json!({"minAvailable": 17, "budgetScope": "Pod"}));
    let observer = world.observe();

    let outcomes = evict_at_once(&world, &pods);
    assert!(observer.least() >= 3);
    let evicted = evicted(&outcomes);
    assert!(!evicted.is_empty() && evicted.len() <= 7, "{evicted:?}");
    let left = world.pods();
    assert_eq!(left.len(), 24 - evicted.len());
    // If one budget denies, the other has no grant after the refund.
    for budget in ["replicas", "pods"] {
        world.wait_status(budget, "has no grants left", |status| grants(status).is_empty());
    }
    assert_eq!(world.pods(), left);
}

/// Creates pods of ten replicas of eight on four nodes.
fn ten_by_eight(world: &World) -> Vec<String> {
    let nodes: Vec<String> = (0..4).map(|i| world.node(&format!("n{i}"))).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    std::thread::scope(|scope| {
        let replicas: Vec<_> = (0..10)
            .map(|i| {
                scope.spawn({
                    let nodes = &nodes;
                    move || world.replica(&format!("r{i}"), 8, 8, nodes)
                })
            })
            .collect();
        replicas.into_iter().flat_map(|made| made.join().expect("the replica is there")).collect()
    })
}

/// Evicts every pod once, all at the same time, over the connections of 16 clients. Each client has pods of
/// every replica.
fn evict_at_once(world: &World, pods: &[String]) -> Vec<(String, Outcome)> {
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|_| Client::new(&fixture().drainer_kubeconfig).expect("the kubeconfig is in use"))
        .collect();
    let start = Barrier::new(pods.len());
    std::thread::scope(|scope| {
        let evictions: Vec<_> = (pods.iter().zip(clients.iter().cycle()))
            .map(|(pod, client)| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    (pod.clone(), Eviction::of(pod).send(client, &world.namespace))
                })
            })
            .collect();
        evictions.into_iter().map(|sent| sent.join().expect("it was answered")).collect()
    })
}

fn evicted(outcomes: &[(String, Outcome)]) -> Vec<&str> {
    for (pod, outcome) in outcomes {
        assert!([201, 429].contains(&outcome.code), "{pod}: {outcome:#?}");
    }
    outcomes.iter().filter(|(_, o)| o.is_evicted()).map(|(pod, _)| pod.as_str()).collect()
}

fn replica(pod: &str) -> &str {
    pod.split('-').next().unwrap_or_default()
}
