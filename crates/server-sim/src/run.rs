//! One seed from the beginning to its end: faults and evictions, then a calm in which everything must settle.

use std::collections::BTreeMap;
use std::pin::pin;

use crate::cluster::{self, Cluster};
use crate::evictions::{self, Outcome};
use crate::fault::Fault;
use crate::instance;
use crate::objects::NAMESPACE;
use crate::params::Params;
use crate::resources::PODS;
use crate::world::Sim;
use crate::{chaos, installation, panics};

/// How long after the last fault everything has settled: a watch on a dead connection is noticed after 150 s, and a
/// grant that was not used ends after two minutes.
const SETTLED_MS: u64 = 420_000;

/// How long a drain may take that nothing hinders.
const DRAINED_MS: u64 = 420_000;

/// A client asks again after this time.
const AGAIN_MS: u64 = 5_000;

/// How a run ended.
#[derive(Debug)]
pub struct Report {
    pub params: Params,
    /// One line per event. The same seed gives the same bytes.
    pub trace: String,
    pub violation: Option<String>,
    pub struck: BTreeMap<Fault, u64>,
    pub allowed: u64,
    pub denied: u64,
    pub failed: u64,
    pub carried_out: u64,
    pub virtual_ms: u64,
}

/// Runs one seed, on a runtime of its own.
pub fn run(seed: u64) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO");
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, simulate(Params::new(seed)))
}

async fn simulate(params: Params) -> Report {
    holdfast_server::simulation::seed(params.seed);
    panics::forget();
    let until = params.chaos_ms;
    let sim = Sim::new(params);
    {
        let mut world = sim.world();
        installation::create(&mut world);
        Cluster::create(&mut world);
    }
    tokio::task::spawn_local(Cluster::default().run(sim.clone()));
    tokio::task::spawn_local(instance::watch_readiness(sim.clone()));
    let instances = sim.world().seats.len();
    for instance in 0..instances {
        tokio::task::spawn_local(instance::supervise(sim.clone(), instance));
    }
    tokio::task::spawn_local(evictions::drive(sim.clone(), until));
    let calm = async {
        chaos::drive(sim.clone(), until).await;
        settle(&sim, "after the faults").await;
        drain(&sim).await;
        settle(&sim, "after the drain").await;
    };
    let bell = sim.world().bell();
    let broken = async {
        loop {
            let mut rung = pin!(bell.notified());
            rung.as_mut().enable();
            if let Some(panic) = panics::first() {
                sim.world().violate(&format!("a task has panicked: {panic}"));
            }
            if sim.world().violation().is_some() {
                return;
            }
            rung.await;
        }
    };
    tokio::select! {
        biased;
        () = broken => {}
        () = calm => {}
    }
    report(&sim)
}

/// Waits until every instance is ready and every status is right.
async fn settle(sim: &Sim, when: &str) {
    let limit = sim.world().now() + SETTLED_MS;
    loop {
        sim.sleep(1000).await;
        let mut wrong = Vec::new();
        let instances = sim.world().seats.len();
        for instance in 0..instances {
            if !instance::is_ready(sim, instance).await {
                wrong.push(format!("R2: instance {instance} is not ready"));
            }
        }
        let mut world = sim.world();
        if !cluster::is_whole(&world) {
            wrong.push("pods are missing".to_owned());
        }
        wrong.extend(world.judge.unsettled());
        if wrong.is_empty() {
            world.note(&format!("settled {when}"));
            return;
        }
        if world.now() > limit {
            world.violate(&format!("not settled {when}: {}", wrong.join("; ")));
            return;
        }
    }
}

/// Every pod is evicted, again and again until it is gone. No budget forbids it for good.
async fn drain(sim: &Sim) {
    let limit = sim.world().now() + DRAINED_MS;
    let mut left: Vec<(String, serde_json::Value)> = {
        let world = sim.world();
        let pods = world.store.list(&PODS, Some(NAMESPACE));
        let name = |pod: &serde_json::Value| {
            pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()
        };
        pods.map(|pod| (name(pod), pod["metadata"]["uid"].clone())).collect()
    };
    sim.world().note("the drain begins");
    loop {
        left.retain(|(name, uid)| {
            let world = sim.world();
            let pod = world.store.get(&PODS, NAMESPACE, name);
            pod.is_some_and(|pod| {
                pod["metadata"]["uid"] == *uid && pod["metadata"]["deletionTimestamp"].is_null()
            })
        });
        if left.is_empty() {
            return;
        }
        let mut denied = 0;
        for (name, _) in &left {
            let outcome = evictions::evict(sim, name, false).await;
            denied += usize::from(outcome != Outcome::Evicted);
        }
        if sim.world().now() > limit {
            let names: Vec<&String> = left.iter().map(|(name, _)| name).collect();
            sim.world().violate(&format!("L3: the drain does not end: {names:?}"));
            return;
        }
        if denied > 0 {
            sim.sleep(AGAIN_MS).await;
        }
    }
}

fn report(sim: &Sim) -> Report {
    let world = sim.world();
    Report {
        params: world.params.clone(),
        trace: world.trace().to_owned(),
        violation: world.violation().map(str::to_owned),
        struck: world.struck.clone(),
        allowed: world.judge.allowed,
        denied: world.judge.denied,
        failed: world.judge.failed,
        carried_out: world.judge.carried_out,
        virtual_ms: world.now(),
    }
}
