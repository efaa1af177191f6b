//! kube-apiserver serves evictions before its aggregator sends `policy/v1` to Holdfast.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_e2e::evict::Eviction;
use holdfast_e2e::localkube::restart;
use holdfast_e2e::server::Server;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

/// One client evicts each of these pods.
const PODS: usize = 8;

/// kube-apiserver creates an `APIService` for each group of custom resources. With a thousand, its aggregator
/// is ready about a second after evictions are served. With few, it may be ready before.
const API_SERVICES: usize = 1000;

/// The time of the aggregator varies, so restart several times.
const RESTARTS: usize = 2;

/// A starting API server may accept a connection and not answer.
const LIMIT: Duration = Duration::from_secs(15);

pub fn no_eviction_passes_from_the_moment_the_port_opens() {
    let mut server = Server::start("starting").expect("it starts");
    let world = World::new("starting");
    let node = world.node("n");
    let pods: Vec<String> =
        (0..PODS).flat_map(|i| world.replica(&format!("r{i}"), 1, 1, &[&node])).collect();
    world.budget("job", json!({"minAvailable": PODS, "budgetScope": "Workload"}));

    let groups = Groups::create(&world);
    for _ in 0..RESTARTS {
        let answers = evict_through_a_restart(&world, &pods);
        println!("answers while kube-apiserver restarted: {answers:?}");
        assert!(!answers.contains_key(&201), "an eviction passed unasked: {answers:?}");
        let early: usize = answers.iter().filter(|(code, _)| **code != 429).map(|(_, n)| n).sum();
        assert!(early > 0, "no eviction came before kube-apiserver was ready: {answers:?}");
    }
    drop(groups);
    assert_eq!(world.healthy_replicas(), PODS);
    until("evictions are decided again", || {
        let outcome = world.evict(&pods[0]);
        if outcome.code == 429 { Ok(()) } else { Err(format!("{outcome:#?}")) }
    });
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

/// Counts kube-apiserver's answers to clients that evict these pods all the time while it restarts.
fn evict_through_a_restart(world: &World, pods: &[String]) -> BTreeMap<u16, usize> {
    let (done, answers) = (AtomicBool::new(false), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for pod in pods {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // As an administrator, whose rights do not depend on roles that are still being loaded.
                    let outcome = Eviction::of(pod).attempt(&world.admin, &world.namespace, LIMIT);
                    if let Ok(outcome) = outcome {
                        *answers.lock().expect("not poisoned").entry(outcome.code).or_default() +=
                            1;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        restart("kube-apiserver");
        done.store(true, Ordering::Relaxed);
    });
    answers.into_inner().expect("not poisoned")
}

/// API groups for kube-apiserver, which its aggregator must load at its start.
struct Groups<'a>(&'a World);

impl<'a> Groups<'a> {
    fn create(world: &'a World) -> Self {
        std::thread::scope(|scope| {
            for part in 0..PODS {
                scope.spawn(move || {
                    for number in (part..API_SERVICES).step_by(PODS) {
                        let _ = world.admin.post(ALL, &api_service(number)).ok();
                    }
                });
            }
        });
        Self(world)
    }
}

impl Drop for Groups<'_> {
    fn drop(&mut self) {
        let _ = self.0.admin.delete(&format!("{ALL}?labelSelector={LABEL}")).ok();
    }
}

const ALL: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const LABEL: &str = "e2e.holdfast.dev/starting";

fn api_service(number: usize) -> Value {
    let group = format!("g{number}.starting.example");
    json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": format!("v1.{group}"), "labels": {LABEL: ""}},
        "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15},
    })
}
