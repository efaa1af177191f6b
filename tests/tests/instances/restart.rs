//! Instances are replaced one after the other while evictions continue.

use std::time::Duration;

use holdfast_e2e::fleet::Fleet;
use holdfast_e2e::job::{Job, Shape};
use holdfast_e2e::load::under_load;

const CLIENTS: usize = 16;

pub fn a_rolling_restart_under_load_breaks_no_budget() {
    let mut fleet = Fleet::start("rolling", 3);
    let shape = Shape { budgets: 2, replicas: 6, pods: 3, min_count: 2, min_available: 5 };
    let job = Job::create("rolling", shape);
    let observer = job.observe();
    let tally = under_load(&job, CLIENTS, || {
        for i in 0..fleet.servers.len() {
            std::thread::sleep(Duration::from_secs(1));
            fleet.replace(i);
        }
        std::thread::sleep(Duration::from_secs(1));
    });
    let least = job.assert_never_below(&observer);
    println!("rolling restart: {tally}; fewest healthy replicas of a budget {least} of 6");
    assert!(tally.count(201) > 0, "nothing was evicted: {tally}");
    // Evictions may be denied or delayed, but must not fail.
    assert_eq!(tally.count(500), 0, "{tally}");
    job.wait_whole();
    job.wait_status_is_true(Duration::from_secs(30));
    drop(job);
    fleet.stop();
}
