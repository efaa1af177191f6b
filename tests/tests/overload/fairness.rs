//! An eviction keeps its seat at the API server while it waits for Holdfast, and Holdfast's write needs a
//! seat too.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use holdfast_e2e::evict::{CANNOT_EVICT, Eviction, Outcome};
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::server::{self, Server};
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::json;

const PODS: usize = 300;
const NEEDED: usize = 100;

/// How often a client tries again after 429.
const PATIENT: usize = 5;

pub fn three_hundred_evictions_at_once_are_all_answered() {
    let (_server, world) = start("fair");
    let answers = evict_all(&world, PATIENT);

    // Every budgeted eviction succeeded, and no other.
    let summary = answers.summary();
    assert_eq!(answers.count(Kind::Evicted), PODS - NEEDED, "{summary}");
    assert_eq!(answers.count(Kind::Denied), NEEDED, "{summary}");
    assert_eq!(world.pods().len(), NEEDED);
}

/// Shows that the test above can fail: without the flow schema both use the pool of all users.
pub fn without_our_flow_schema_they_wait_for_each_other() {
    let (_server, world) = start("unfair");
    for kind in ["flowschemas", "prioritylevelconfigurations"] {
        let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/{kind}/holdfast");
        let _ = world.admin.delete(&path).ok();
        until("it is gone", || {
            let answer = world.admin.get(&path);
            if answer.code == 404 { Ok(()) } else { Err(answer.body.to_string()) }
        });
    }
    // The API server notices by a watch.
    std::thread::sleep(Duration::from_secs(2));
    let answers = evict_all(&world, 1);

    let summary = answers.summary();
    assert!(answers.count(Kind::InVain) > 0, "{summary}");
    assert!(answers.count(Kind::Evicted) < (PODS - NEEDED) / 2, "{summary}");
}

fn start(name: &str) -> (Uninstalled, World) {
    let server = Server::start(name).unwrap_or_else(|error| panic!("{error}"));
    let server = Uninstalled(server);
    let world = World::new(name);
    let node = world.node("n");
    std::thread::scope(|scope| {
        for first in 0..10 {
            let (world, node) = (&world, &node);
            scope.spawn(move || {
                for i in (first..PODS).step_by(10) {
                    world.pod(&Pod::new(format!("p-{i}")).on(node));
                }
            });
        }
    });
    world.budget("job", json!({"minAvailable": NEEDED}));
    world.wait_status("job", "counts every pod", |s| s["currentHealthy"] == PODS);
    (server, world)
}

/// Uninstalls when it is dropped.
struct Uninstalled(Server);

impl Drop for Uninstalled {
    fn drop(&mut self) {
        // First remove the objects that would wait for the server.
        if let Err(error) = server::uninstall() {
            eprintln!("{error}");
        }
        self.0.kill();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Evicted,
    /// A budget denied.
    Denied,
    /// The API server rejected it, because it had too many other requests.
    Rejected,
    /// Holdfast gave up its write, or the API server gave up waiting for Holdfast.
    InVain,
}

fn kind(outcome: &Outcome) -> Kind {
    match outcome.code {
        201 => Kind::Evicted,
        429 if outcome.message.contains("job needs 100 healthy pods") => Kind::Denied,
        429 if !outcome.message.contains(CANNOT_EVICT) => Kind::Rejected,
        _ => Kind::InVain,
    }
}

struct Answers(Vec<(Outcome, Duration)>);

impl Answers {
    fn count(&self, wanted: Kind) -> usize {
        self.0.iter().filter(|(outcome, _)| kind(outcome) == wanted).count()
    }

    /// Returns how many answers of each kind there were, the time of the last, and one message.
    fn summary(&self) -> String {
        let mut kinds: BTreeMap<Kind, (usize, Duration, &Outcome)> = BTreeMap::new();
        for (outcome, time) in &self.0 {
            let (n, last, _) = kinds.entry(kind(outcome)).or_insert((0, *time, outcome));
            *n += 1;
            *last = *time.max(last);
        }
        let line = |(kind, (n, last, outcome)): (&Kind, &(usize, Duration, &Outcome))| {
            let (last, code, message) = (last.as_secs_f64(), outcome.code, &outcome.message);
            let message: String = message.chars().take(150).collect();
            format!("{n} {kind:?} within {last:.1} s: {code} {message}")
        };
        kinds.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Evicts all pods at the same time. A rejected client tries again, as every client does.
fn evict_all(world: &World, attempts: usize) -> Answers {
    assert_ne!(fixture().drainer_kubeconfig, fixture().admin_kubeconfig, "not as an administrator");
    let start = Barrier::new(PODS);
    let evict = |i: usize| {
        let eviction = Eviction::of(&format!("p-{i}"));
        start.wait();
        let began = Instant::now();
        let mut outcome = world.send(&eviction);
        for _ in 1..attempts {
            if kind(&outcome) != Kind::Rejected {
                break;
            }
            std::thread::sleep(Duration::from_secs(1));
            outcome = world.send(&eviction);
        }
        (outcome, began.elapsed())
    };
    let answers = std::thread::scope(|scope| {
        let evict = &evict;
        let sent: Vec<_> = (0..PODS).map(|i| scope.spawn(move || evict(i))).collect();
        sent.into_iter().map(|sent| sent.join().expect("it was answered")).collect()
    });
    let answers = Answers(answers);
    println!("\n{}", answers.summary());
    answers
}
