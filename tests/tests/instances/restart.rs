//! One instance after the other is replaced while evictions go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fleet::Fleet;
use crate::job::{Job, Shape};
use crate::load::{Tally, evict_all_the_time};

const CLIENTS: usize = 16;

pub fn a_rolling_restart_under_load_breaks_no_budget() {
    let mut fleet = Fleet::start("rolling", 3);
    let shape = Shape { budgets: 2, replicas: 6, pods: 3, min_count: 2, min_available: 5 };
    let job = Job::create("rolling", shape);
    let observer = job.observe();
    let (tally, stop) = (Tally::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| job.keep_bringing_back(&stop));
        for client in 0..CLIENTS {
            let (job, tally, stop) = (&job, &tally, &stop);
            scope.spawn(move || evict_all_the_time(job, tally, client, stop));
        }
        for i in 0..fleet.servers.len() {
            std::thread::sleep(Duration::from_secs(1));
            // As a Deployment does: the new one is there before the old one goes.
            let new = fleet.start_one();
            let old = std::mem::replace(&mut fleet.servers[i], new);
            fleet.retire(old);
        }
        std::thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
    });
    let least = job.assert_never_below(&observer);
    println!("rolling restart: {tally}; fewest healthy replicas of a budget {least} of 6");
    assert!(tally.count(201) > 0, "nothing was evicted: {tally}");
    // Denied or delayed, not failed.
    assert_eq!(tally.count(500), 0, "{tally}");
    job.wait_whole();
    job.wait_status_is_true(Duration::from_secs(30));
    drop(job);
    fleet.stop();
}
