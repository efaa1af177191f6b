//! Everything at the same time: clients that evict, pods that are replaced, instances that crash, end and
//! freeze.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use holdfast_e2e::history::{Event, History};
use holdfast_e2e::wait::{until, until_within};
use holdfast_sim::Random;
use serde_json::Value;

use holdfast_e2e::fleet::Fleet;
use holdfast_e2e::job::{Job, Shape};
use holdfast_e2e::load::{Tally, uid_of, under_load};

const INSTANCES: usize = 3;
const CLIENTS: usize = 32;

/// A grant whose pod was not deleted ends after two minutes.
const EXPIRED: Duration = Duration::from_secs(200);

pub fn kills_and_pauses_in_a_storm_break_no_budget() {
    storm("storm", Duration::from_secs(22), Leftovers::EvictAgain);
}

pub fn three_minutes_of_storm() {
    storm("long-storm", Duration::from_mins(3), Leftovers::WaitForExpiry);
}

/// How to handle grants whose answer no client got.
#[derive(Clone, Copy)]
enum Leftovers {
    /// A repeated eviction costs nothing and completes them.
    EvictAgain,
    WaitForExpiry,
}

fn storm(name: &'static str, length: Duration, leftovers: Leftovers) {
    let seed = u64::from(std::process::id());
    println!("{name}: seed {seed}");
    let mut fleet = Fleet::start(name, INSTANCES);
    let shape = Shape { budgets: 5, replicas: 8, pods: 8, min_count: 6, min_available: 6 };
    let job = Job::create(name, shape);
    let observer = job.observe();
    let history = History::of(&job.world.admin, &[job.budgets_path()]);
    let tally = under_load(&job, CLIENTS, || {
        rage(&mut fleet, length, &mut Random::new(seed));
    });
    let least = job.assert_never_below(&observer);
    let conflicts = fleet.metric("holdfast_conflicts_total");
    println!("{name}: {tally}\nfewest healthy replicas of a budget: {least} of 8, needed 6");
    println!("conflicts of the instances that are left: {conflicts}");
    assert!(tally.count(201) > 0 && tally.count(429) > 0, "{tally}");

    job.wait_whole();
    let left = job.grants();
    println!("{name}: {} grants on record after it", left.len());
    if matches!(leftovers, Leftovers::EvictAgain) {
        for pod in &left {
            until(&format!("pod {pod} is evicted or gone"), || {
                let outcome = job.world.evict(pod);
                if [201, 404].contains(&outcome.code) {
                    Ok(())
                } else {
                    Err(format!("{outcome:?}"))
                }
            });
        }
        job.wait_whole();
    }
    if matches!(leftovers, Leftovers::WaitForExpiry) {
        until_within(EXPIRED, "no grant is left", || {
            let left = job.grants();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
    }
    job.wait_status_is_true(Duration::from_mins(1));
    job.assert_never_below(&observer);
    assert_accounted_for(&job, &tally, &history.end());
    let versions = job.versions();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(versions, job.versions(), "the storm is over, and budgets are still written");
    drop(job);
    fleet.stop();
}

/// Injects a fault into an instance every few seconds.
fn rage(fleet: &mut Fleet, length: Duration, random: &mut Random) {
    let began = Instant::now();
    while began.elapsed() < length {
        std::thread::sleep(Duration::from_millis(500));
        let i = random.below(INSTANCES);
        match random.below(4) {
            0 | 1 => {
                println!("{:6.1} s: kill {i}", began.elapsed().as_secs_f64());
                let old = fleet.servers.remove(i);
                fleet.crash(old);
                fleet.servers.insert(i, fleet.start_one());
            }
            2 => {
                println!("{:6.1} s: terminate {i}", began.elapsed().as_secs_f64());
                fleet.replace(i);
            }
            _ => {
                // Mostly shorter than the webhook's timeout, sometimes longer than a lease.
                let left = length.saturating_sub(began.elapsed());
                let seconds = [1, 2, 3, 18][random.below(4)];
                let pause = Duration::from_secs(seconds).min(left);
                println!("{:6.1} s: pause {i} for {pause:?}", began.elapsed().as_secs_f64());
                fleet.pause(i, true);
                std::thread::sleep(pause);
                fleet.resume(i, true);
            }
        }
    }
}

/// Checks that every eviction was recorded, and that every evicted pod is gone.
fn assert_accounted_for(job: &Job, tally: &Tally, history: &[Event]) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let recorded: BTreeSet<(String, String)> = history
        .iter()
        .flat_map(|event| event.object["status"]["grants"].as_array().cloned().unwrap_or_default())
        .map(|grant| (text(&grant["pod"]), text(&grant["uid"])))
        .collect();
    let pods = job.by_name();
    let evicted: BTreeSet<(String, String)> = tally.evicted().into_iter().collect();
    for (name, uid) in &evicted {
        assert!(recorded.contains(&(name.clone(), uid.clone())), "no record of {name} ({uid})");
        assert_ne!(uid_of(&pods, name).as_ref(), Some(uid), "{name} was evicted and is there");
    }
    println!("{} pods evicted by uid, {} on record in all", evicted.len(), recorded.len());
}
