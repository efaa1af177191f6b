//! The test: faults everywhere while clients evict, and then an audit of the stored history.

use std::env;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_audit::cluster::ClusterAudit;
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::localkube;
use holdfast_e2e::server;
use holdfast_e2e::wait::SetWhenDropped;
use serde_json::{Value, json};

use super::clients::{Answers, evict_all_the_time};
use super::etcd::{Change, Etcd};
use super::faults::Nemesis;
use super::instances::Instances;
use super::judge::{explain, judge};
use super::kubelet;
use super::workload::Workload;

const CLIENTS: usize = 32;

const CONTROLLERS: &str = "kube-controller-manager";

/// A grant whose pod was not deleted ends after two minutes.
const EXPIRED: Duration = Duration::from_mins(4);

pub fn faults_in_every_part_break_no_budget() {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let length = Duration::from_secs(number("HOLDFAST_NEMESIS_SECONDS").unwrap_or(75));
    let seed = number("HOLDFAST_NEMESIS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let mode = fixture().mode.flag();
    println!("nemesis, {mode} mode: {} s, HOLDFAST_NEMESIS_SEED={seed}", length.as_secs());

    let etcd = Etcd::of_localkube().unwrap_or_else(|error| panic!("{error}"));
    let instances = Instances::start();
    let workload = Workload::create(&etcd);
    let from = etcd.revision().expect("etcd answers");
    let first = etcd.list(&workload.prefixes(), from).unwrap_or_else(|error| panic!("{error}"));

    let began = Instant::now();
    let (answers, over, clock) = (Answers::default(), AtomicBool::new(false), Clock::new(began));
    let nemesis = Nemesis::new(&instances, began, length);
    let mut problems = Vec::new();
    std::thread::scope(|scope| {
        let ends = SetWhenDropped(&over);
        let pods = workload.world.path("api/v1", "pods", "");
        let (over, clock, etcd) = (&over, &clock, &etcd);
        scope.spawn(move || kubelet::run(&pods, over));
        scope.spawn(move || clock.run(etcd, over));
        storm(&workload, &nemesis, seed, &answers);
        problems = settle(&workload, etcd);
        drop(ends);
    });

    let history = history(&workload, &etcd, &first, from);
    keep(mode, &first, &history);
    let audit = judge(&first, &history, |revision| clock.at(revision));
    report(mode, &audit, &answers, &clock, &history);
    println!("faults: {:?}", nemesis.done());
    println!(
        "decided by the instances at the end: {:?}",
        instances.decided(&workload.world.namespace)
    );
    drop(workload);
    // In native mode this needs running instances.
    server::uninstall().expect("it can be uninstalled");
    assert!(answers.count(201) > 0 && answers.count(429) > 0, "{answers}");
    assert!(audit.evicted() > 0, "no eviction took a pod");
    assert!(audit.findings().is_empty(), "{} rules broken", audit.findings().len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Runs the clients until the faults are over.
fn storm(workload: &Workload, nemesis: &Nemesis<'_>, seed: u64, answers: &Answers) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = SetWhenDropped(&stop);
        for client in 0..CLIENTS {
            let stop = &stop;
            scope.spawn(move || evict_all_the_time(workload, client, answers, stop));
        }
        nemesis.rage(seed);
        drop(ends);
    });
}

/// Waits until everything has recovered. Returns what has not.
fn settle(workload: &Workload, etcd: &Etcd) -> Vec<String> {
    let mut problems = Vec::new();
    if workload.wait_whole(etcd).is_err() {
        // The garbage collector can miss workers whose StatefulSet was deleted while API servers were down.
        // Their names are then in use, and the group never recovers.
        println!("not every group is whole: restart {CONTROLLERS}");
        problems.extend(localkube::restart_dead(CONTROLLERS).err());
        problems.extend(workload.wait_whole(etcd).err());
    }
    let left = workload.state(etcd).map(|state| state.grants().len());
    println!("grants on record when every group was whole again: {left:?}");
    match workload.wait_no_grants(etcd, EXPIRED) {
        Ok(took) => println!("the last grant ended {:.0} s later", took.as_secs_f64()),
        Err(error) => problems.push(error),
    }
    problems.extend(workload.wait_status_is_true(etcd).err());
    problems
}

/// Returns all stored writes, in order.
fn history(workload: &Workload, etcd: &Etcd, first: &[Change], from: u64) -> Vec<Change> {
    let mut history = Vec::new();
    for (prefix, last) in workload.prefixes().iter().zip(workload.mark_end()) {
        let part = etcd.history(prefix, first, from, last);
        history.extend(part.unwrap_or_else(|error| panic!("{error}")));
    }
    history.sort_by_key(|change| change.revision);
    history
}

fn report(mode: &str, audit: &ClusterAudit, answers: &Answers, clock: &Clock, history: &[Change]) {
    println!("nemesis, {mode} mode: {} writes of pods, sets and budgets", history.len());
    println!("{answers}");
    for (budget, fewest) in audit.fewest() {
        let at = clock.at(fewest.version).as_secs_f64();
        println!("budget {budget}: {fewest}, at {at:.1} s");
    }
    println!("pods that evictions took: {}", audit.evicted());
    for finding in audit.findings() {
        let at = clock.at(finding.0).as_secs_f64();
        println!("VIOLATION at {at:.1} s: {}", explain(&finding, history));
    }
}

/// Saves the history for a human reader.
fn keep(mode: &str, first: &[Change], history: &[Change]) {
    let line = |change: &Change| -> Value {
        json!({"revision": change.revision, "key": change.key, "object": change.object})
    };
    let lines: Vec<String> =
        first.iter().chain(history).map(|change| line(change).to_string()).collect();
    let path = fixture().log(&format!("nemesis-{mode}-history"));
    fs::write(&path, lines.join("\n")).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// Records the time of each revision of etcd.
#[derive(Debug)]
struct Clock {
    began: Instant,
    seen: Mutex<Vec<(Duration, u64)>>,
}

impl Clock {
    fn new(began: Instant) -> Self {
        Self { began, seen: Mutex::default() }
    }

    /// Runs until `stop` is set.
    fn run(&self, etcd: &Etcd, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            if let Some(revision) = etcd.revision() {
                let seen = (self.began.elapsed(), revision);
                self.seen.lock().expect("not poisoned").push(seen);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Returns the time of a revision, to a fraction of a second.
    fn at(&self, revision: u64) -> Duration {
        let seen = self.seen.lock().expect("not poisoned");
        let first = seen.partition_point(|(_, known)| *known < revision);
        let found = seen.get(first).or(seen.last());
        found.map_or(Duration::ZERO, |(at, _)| *at)
    }
}
