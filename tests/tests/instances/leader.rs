//! Grants do not depend on which instance leads.

use std::time::{Duration, Instant};

use holdfast_e2e::wait::until;

use super::quiet::Writes;
use holdfast_e2e::fleet::Fleet;
use holdfast_e2e::job::{Job, Shape};
use holdfast_e2e::load::under_load;

const CLIENTS: usize = 8;

/// Longer than the lease's fifteen seconds, and long enough to show that nothing is written.
const PAUSE: Duration = Duration::from_secs(20);

/// Nothing changes while the leader is paused, so nothing is written. Its successor checks everything at its
/// start and does not write either.
pub fn a_paused_leader_is_replaced_and_two_at_once_break_no_budget() {
    let fleet = Fleet::start("paused", 3);
    let shape = Shape { budgets: 2, replicas: 6, pods: 3, min_count: 2, min_available: 5 };
    let job = Job::create("paused", shape);
    job.wait_status_is_true(Duration::from_secs(30));
    job.wait_alone();
    let observer = job.observe();
    let old = fleet.leader(None);

    fleet.pause(old, false);
    let quiet = Writes::count(&fleet, &job, Some(old));
    let paused = Instant::now();
    let new = fleet.leader(Some(old));
    println!("another instance led {:.1} s after the pause", paused.elapsed().as_secs_f64());
    assert_ne!(new, old);
    std::thread::sleep(PAUSE.saturating_sub(paused.elapsed()));
    quiet.assert_none(&fleet, &job);

    let tally = under_load(&job, CLIENTS, || {
        std::thread::sleep(Duration::from_secs(2));
        // It still acts as the leader, with its old state of the cluster.
        fleet.resume(old, false);
        std::thread::sleep(Duration::from_secs(4));
    });
    let least = job.assert_never_below(&observer);
    println!("paused leader: {tally}; fewest healthy replicas of a budget {least} of 6");
    assert!(tally.count(201) > 0, "nothing was evicted: {tally}");
    until("the old leader knows that it leads no more", || {
        let leads = fleet.servers[old].metric("holdfast_leader");
        if leads == Some(0.0) { Ok(()) } else { Err(format!("{leads:?}")) }
    });
    assert_eq!(fleet.leader(None), new);
    job.wait_whole();
    job.wait_status_is_true(Duration::from_secs(30));
    drop(job);
    fleet.stop();
}
