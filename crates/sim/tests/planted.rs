//! Each planted bug is found, within a bounded number of seeds.
#![cfg(feature = "planted-bugs")]

use holdfast_core::planted::Bug;
use holdfast_sim::chaos::planted::find;

/// Far more than the median of the hardest (docs/simulator.md).
const SEEDS_MAX: u64 = 150;

#[test]
fn every_planted_bug_is_found() {
    let given = std::env::var("HOLDFAST_SEEDS").ok();
    let given = given.map(|text| text.parse::<u64>().expect("a whole number"));
    // Hundreds of seeds are long in a debug build: the hardest start near the one that finds them.
    let near = |bug: Bug| match bug {
        Bug::RefundByCache => 505,
        Bug::SpareGranted => 4000,
        _ => 0,
    };
    let missed = |bug: &&Bug| {
        let (from, most) = given.map_or((near(**bug), SEEDS_MAX), |seeds| (0, seeds));
        find(**bug, from, most).is_none()
    };
    let missed: Vec<&Bug> = Bug::ALL.iter().filter(missed).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
