//! Many seeds, on all cores.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use holdfast_core::invariant::Invariant;

use super::fault::{Counts, Fault};
use super::{Plan, Profile, Violation, run};

/// What came of many runs.
#[derive(Debug, Default)]
pub struct Soak {
    pub seeds: u64,
    pub faults: Counts<Fault>,
    pub checks: Counts<Invariant>,
    /// Seeds that failed, in order.
    pub failed: Vec<(u64, Violation)>,
}

/// More than a person looks at.
const FAILED_MAX: usize = 20;

/// Run these seeds until many have failed, or `enough` says so.
pub fn soak(
    profile: Profile,
    seeds: Range<u64>,
    threads: usize,
    enough: impl Fn() -> bool + Sync,
) -> Soak {
    let next = AtomicU64::new(seeds.start);
    let total = Mutex::new(Soak::default());
    let work = || {
        while !enough() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let outcome = run(&Plan::new(seed, profile), false);
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.seeds += 1;
            add(&mut total.faults, &outcome.faults);
            add(&mut total.checks, &outcome.checks);
            total.failed.extend(outcome.violation.map(|violation| (seed, violation)));
            if total.failed.len() >= FAILED_MAX {
                break;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    total.failed.sort_by_key(|(seed, _)| *seed);
    total
}

fn add<T: Ord + Copy>(to: &mut Counts<T>, from: &Counts<T>) {
    for (key, count) in from {
        *to.entry(*key).or_default() += count;
    }
}
