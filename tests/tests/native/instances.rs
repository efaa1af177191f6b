//! Several instances behind the Service in the `APIService`.

use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_e2e::balancer::Balancer;
use holdfast_e2e::server::Server;
use holdfast_e2e::wait::{SetWhenDropped, until};
use holdfast_e2e::world::World;
use serde_json::json;

use super::remove;

const REPLICAS: usize = 6;
const CLIENTS: usize = 8;

pub fn two_behind_one_service_hold_a_budget_while_one_crashes() {
    let balancer = Balancer::start();
    // The addresses must be known before the instances are ready: the API server calls them while the first
    // one installs.
    let addresses = [free_address(), free_address()];
    for address in &addresses {
        balancer.add(address.clone());
    }
    let start = |n: usize| {
        let (name, url) = (format!("pair-{n}"), balancer.url());
        Server::start_at(&name, &addresses[n], &["--advertise", &url])
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let (first, mut second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| start(1));
        (start(0), second.join().expect("it starts"))
    });

    let world = World::new("pair");
    let node = world.node("n");
    let pods: Vec<String> =
        (0..REPLICAS).flat_map(|n| world.replica(&format!("r{n}"), 2, 2, &[&node])).collect();
    world.budget("job", json!({"minAvailable": REPLICAS - 1, "budgetScope": "Workload"}));
    let observer = world.observe();
    let evicted = Mutex::new(Vec::new());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ending = SetWhenDropped(&done);
        for client in 0..CLIENTS {
            let (world, pods, evicted, done) = (&world, &pods, &evicted, &done);
            scope.spawn(move || {
                for pod in pods.iter().cycle().skip(client) {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    if world.evict(pod).is_evicted() {
                        evicted.lock().expect("not poisoned").push(pod.clone());
                    }
                }
            });
        }
        std::thread::sleep(std::time::Duration::from_secs(2));
        second.kill();
        balancer.remove(&addresses[1]);
        until("the other has decided since", || {
            let refused = world.evict(&pods[pods.len() - 1]);
            if refused.code == 429 { Ok(()) } else { Err(format!("{refused:#?}")) }
        });
        drop(ending);
    });
    assert_eq!(observer.least(), REPLICAS - 1);
    let evicted = evicted.into_inner().expect("not poisoned");
    let replicas: std::collections::BTreeSet<&str> =
        evicted.iter().filter_map(|pod| pod.split('-').next()).collect();
    assert_eq!(replicas.len(), 1, "one was to go, and no second: {evicted:?}");
    remove(first);
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}
