//! Prove the prover: each planted bug must be found, and how many seeds that takes.

use std::fmt;
use std::sync::OnceLock;

use holdfast_core::invariant::Invariant;
use holdfast_core::planted::{Bug, plant};

use super::{Plan, Profile, run};

/// Far more seeds than any bug takes.
pub const SEEDS_MAX: u64 = 4000;

/// The number of seeds until the bug was found, and by what.
pub type Found = (u64, Option<Invariant>);

/// Run seeds from this one on, with the bug.
pub fn find(bug: Bug, from: u64, seeds_max: u64) -> Option<Found> {
    plant(Some(bug));
    let mut seeds = from..from + seeds_max;
    let found = seeds.find_map(|seed| {
        let violation = run(&Plan::new(seed, profile(bug)), false).violation?;
        Some((seed - from + 1, violation.invariant))
    });
    plant(None);
    found
}

/// Where it can show.
fn profile(bug: Bug) -> Profile {
    match bug {
        Bug::UpdateIsOver | Bug::SpareGranted | Bug::ForgetWhole => Profile::Unavailable,
        // Webhook mode pins evictions to a uid, so a name that is used again matters in native mode only.
        Bug::NoSuccessor => Profile::Native,
        _ => Profile::Swarm,
    }
}

/// How many seeds each bug took, in several trials with other seeds each.
#[derive(Debug)]
pub struct Table(Vec<(Bug, Vec<Option<Found>>)>);

pub fn table(bugs: &[Bug], trials: u64) -> Table {
    let rows: Vec<OnceLock<_>> = bugs.iter().map(|_| OnceLock::new()).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(bug) = bugs.get(n) else { break };
                    let found = (0..trials).map(|t| find(*bug, t * SEEDS_MAX, SEEDS_MAX));
                    let found: Vec<_> = found.collect();
                    eprintln!("{bug:?} {found:?}");
                    let _ = rows[n].set(found);
                }
            });
        }
    });
    let rows = rows.into_iter().map(|row| row.into_inner().unwrap_or_default());
    Table(bugs.iter().copied().zip(rows).collect())
}

impl Table {
    pub fn all_found(&self) -> bool {
        self.0.iter().all(|(_, trials)| trials.iter().all(Option::is_some))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| bug | what is wrong | found by | seeds, median | most |")?;
        write!(f, "|---|---|---|---|---|")?;
        for (bug, trials) in &self.0 {
            let mut seeds: Vec<u64> =
                trials.iter().map(|found| found.map_or(u64::MAX, |(seeds, _)| seeds)).collect();
            seeds.sort_unstable();
            let name = |id: Option<Invariant>| id.map_or("panic".to_owned(), |id| id.to_string());
            let mut by: Vec<String> = trials.iter().flatten().map(|(_, id)| name(*id)).collect();
            by.sort();
            by.dedup();
            let show = |n: u64| if n == u64::MAX { "not found".to_owned() } else { n.to_string() };
            let (median, most) = (seeds[seeds.len() / 2], seeds[seeds.len() - 1]);
            let (what, by) = (bug.what(), by.join(", "));
            write!(f, "\n| `{bug:?}` | {what} | {by} | {} | {} |", show(median), show(most))?;
        }
        Ok(())
    }
}
