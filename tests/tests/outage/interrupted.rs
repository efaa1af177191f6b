//! Holdfast ends while evictions are in progress.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use holdfast_e2e::evict::Eviction;
use holdfast_e2e::server::Server;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::{World, grants};
use serde_json::json;

use super::half_sent::HalfSent;

pub fn killed_in_a_drain_nothing_is_evicted_until_it_is_back() {
    let mut server = Server::start("killed").expect("it starts");
    let world = World::new("killed");
    let (node, elsewhere) = (world.node("n"), world.node("elsewhere"));
    world.replica("a", 3, 3, &[&node]);
    world.replica("b", 3, 3, &[&node]);
    world.replica("c", 3, 3, &[&elsewhere]);
    world.budget("job", json!({"minAvailable": 2, "budgetScope": "Workload"}));
    let observer = world.observe();

    let drain = world.drain(&node);
    drain.wait_for("will retry after 5s");
    until("the first pods are gone", || match world.healthy_replicas() {
        2 => Ok(()),
        n => Err(format!("{n} healthy replicas")),
    });
    server.kill();
    let outcome = world.evict("c-0");
    assert_eq!(outcome.code, 500, "without an answer no eviction: {outcome:#?}");
    assert!(outcome.message.contains("failed calling webhook"), "{outcome:#?}");
    let (code, output) = drain.finish();
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("failed calling webhook"), "{output}");
    assert_eq!(observer.least(), 2);
    assert_eq!(world.healthy_replicas(), 2);

    let mut server = Server::start("killed-restarted").expect("it starts again");
    world.evict("c-0").assert_denied(&["job needs 2 healthy replicas and has 2", "PodGroup c"]);
    assert_eq!(observer.least(), 2);
    world.edit_budget("job", &json!({"minAvailable": 1}));
    let (code, output) = world.drain(&node).finish();
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(observer.least(), 1);
    let status =
        world.wait_status("job", "counts what is left", |s| s["currentHealthyReplicas"] == 1);
    assert_eq!(status["disruptionsAllowedReplicas"], 0, "{status:#}");
    world.evict("c-0").assert_denied(&["job needs 1 healthy replica and has 1"]);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

/// Grants that were recorded and not answered, or answered and not completed, count for the next instance.
pub fn a_crash_in_a_storm_leaves_the_count_right() {
    const REPLICAS: usize = 6;
    let mut server = Server::start("storm").expect("it starts");
    let world = World::new("crash");
    let node = world.node("n");
    let pods: Vec<String> =
        (0..REPLICAS).flat_map(|i| world.replica(&format!("r{i}"), 3, 3, &[&node])).collect();
    world.budget("job", json!({"minAvailable": REPLICAS - 1, "budgetScope": "Workload"}));
    let observer = world.observe();

    let stop = AtomicBool::new(false);
    let (answers, failures) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut server = std::thread::scope(|scope| {
        for client in 0..8 {
            let (world, pods, stop) = (&world, &pods, &stop);
            let (answers, failures) = (&answers, &failures);
            scope.spawn(move || {
                // Each client begins with another replica.
                for pod in pods.iter().cycle().skip(client * 3) {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let outcome = Eviction::of(pod).send(&world.drainer, &world.namespace);
                    match outcome.code {
                        500 => failures.fetch_add(1, Ordering::Relaxed),
                        201 | 404 | 429 => answers.fetch_add(1, Ordering::Relaxed),
                        _ => panic!("{outcome:#?}"),
                    };
                }
            });
        }
        wait_until(|| answers.load(Ordering::Relaxed) > 0);
        server.kill();
        wait_until(|| failures.load(Ordering::Relaxed) > 8);
        let server = Server::start("storm-restarted").expect("it starts again");
        let before = answers.load(Ordering::Relaxed);
        wait_until(|| answers.load(Ordering::Relaxed) > before + 2 * pods.len());
        stop.store(true, Ordering::Relaxed);
        server
    });
    // A grant whose answer no client got counts its replica as broken. After every pod was requested, that
    // replica is really broken, and no other is.
    for pod in &pods {
        let outcome = world.evict(pod);
        assert!([201, 404, 429].contains(&outcome.code), "{outcome:#?}");
    }
    assert_eq!(observer.least(), REPLICAS - 1);
    assert_eq!(world.healthy_replicas(), REPLICAS - 1);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

pub fn a_termination_answers_what_is_in_flight() {
    let mut server = Server::start("terminated").expect("it starts");
    let world = World::new("terminated");
    let node = world.node("n");
    world.replica("a", 1, 1, &[&node]);
    world.replica("b", 1, 1, &[&node]);
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));

    // Half of a request has arrived when the signal comes.
    let request = HalfSent::begin(&server.webhook(), &world.namespace, "a-0");
    server.terminate();
    std::thread::sleep(Duration::from_millis(500));
    let answer = request.finish();
    assert_eq!(answer["response"]["allowed"], true, "{answer:#}");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert!(!server.is_ready_file_there());
    // Every answer is recorded, and the next instance counts it.
    let status = world.status("job");
    assert_eq!(grants(&status), [("a-0".into(), 1)], "{status:#}");
    let mut server = Server::start("terminated-restarted").expect("it starts again");
    world.evict("b-0").assert_denied(&["job needs 1 healthy replica and has 1", "PodGroup b"]);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

#[track_caller]
fn wait_until(is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_mins(1), "the storm does not get on");
        std::thread::sleep(Duration::from_millis(5));
    }
}
