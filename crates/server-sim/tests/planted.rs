//! Holes 7 and 8 of the first review, put back as planted bugs: the simulation finds each of them.

use holdfast_core::planted as engine;
use holdfast_server::planted as server;
use holdfast_server_sim::run;

/// The most seeds that a bug may take.
const SEEDS_MAX: u64 = 300;

/// Runs seeds until one shows a violation of one of these rules.
fn find(rules: &[&str]) -> u64 {
    for seed in 0..SEEDS_MAX {
        let Some(violation) = run(seed).violation else { continue };
        println!("seed {seed}: {violation}");
        let expected = rules.iter().any(|rule| violation.starts_with(rule));
        assert!(expected, "seed {seed} shows another rule: {violation}");
        return seed;
    }
    panic!("not found in {SEEDS_MAX} seeds");
}

#[test]
fn coverage_from_a_cache_of_any_age_is_found() {
    engine::plant(Some(engine::Bug::StaleCoverage));
    find(&["S3"]);
}

#[test]
fn a_list_that_keeps_failing_and_never_loses_its_kind_is_found() {
    server::plant(Some(server::Bug::KeepCacheWhileListing));
    find(&["R1", "S1"]);
}

#[test]
fn a_budget_that_cannot_be_decoded_and_covers_nothing_is_found() {
    server::plant(Some(server::Bug::SkipUnreadableBudget));
    find(&["S3", "S1", "S7"]);
}

#[test]
fn a_pod_that_cannot_be_decoded_and_stays_ready_is_found() {
    server::plant(Some(server::Bug::SkipUnreadablePod));
    find(&["S1"]);
}
