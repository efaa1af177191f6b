//! Each planted bug is found, within a bounded number of seeds.

use holdfast_core::planted::Bug;
use holdfast_sim::chaos::planted::{SEEDS_MAX, find};

/// Random seeds take too long for these. Exploration finds each in every run (`planted_bugs_are_found` in `tests/explore.rs`).
const EXPLORED: &[Bug] = &[
    Bug::IgnoreRisen,
    Bug::ShrinkWhole,
    Bug::SkipCreation,
    Bug::GoneWithoutVersion,
    Bug::KeepOldScales,
];

#[test]
fn every_planted_bug_is_found() {
    let given = std::env::var("HOLDFAST_SEEDS").ok();
    let given = given.map(|text| text.parse::<u64>().expect("a whole number"));
    let seeds = given.unwrap_or(SEEDS_MAX);
    // One seed in three thousand shows it, so those alone who have the time look for it. The race that was written
    // for it always does: `a_lagging_instance_that_refunds_by_its_cache_is_found`.
    let wanted = |bug: &&Bug| given.is_some() || **bug != Bug::RefundByCache;
    let missed = |bug: &&Bug| find(**bug, 0, seeds).is_none();
    let drawn = Bug::ALL.iter().filter(|bug| !EXPLORED.contains(bug));
    let missed: Vec<&Bug> = drawn.filter(wanted).filter(missed).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
