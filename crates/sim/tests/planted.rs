//! Each planted bug is found, within a bounded number of seeds.
#![cfg(feature = "planted-bugs")]

use holdfast_core::planted::Bug;
use holdfast_sim::chaos::planted::find;

/// Far more than the median of the hardest (docs/simulator.md).
const SEEDS_MAX: u64 = 600;

#[test]
fn every_planted_bug_is_found() {
    let missed: Vec<&Bug> =
        Bug::ALL.iter().filter(|bug| find(**bug, 0, SEEDS_MAX).is_none()).collect();
    assert!(missed.is_empty(), "not found within {SEEDS_MAX} seeds: {missed:?}");
}
