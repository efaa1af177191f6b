//! The simulator: a seed decides a world, what goes wrong in it, and when.
//!
//! ```text
//! seed --> params (which faults, how often; how many pods, nodes, budgets, instances)
//!      --> safety phase: one random thing after the other, every invariant after each
//!      --> liveness phase: the faults end, drains go on, everything comes to rest
//! ```
//!
//! The engines, their ledgers and their elections are those of production; what is around them is this
//! crate's [`crate::World`]. What is checked is in `invariants`, one file each, by the world's own
//! objects and never by an engine's cache. How to run it, and what is not modelled: docs/simulator.md.

mod act;
mod audit;
mod clients;
mod fault;
mod invariants;
mod leader;
mod meddle;
mod minimise;
mod owners;
mod params;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod processes;
mod rest;
mod run;
mod soak;
mod watches;
mod workloads;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use holdfast_core::invariant::Invariant;

pub use fault::{Counts, Fault};
pub use minimise::minimise;
pub use params::{Owners, Params, Profile};
pub use soak::{Soak, soak};

use run::Run;

/// What to run: a seed, and what to leave out of what it decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    pub profile: Profile,
    pub without: BTreeSet<Fault>,
    pub skip: BTreeSet<usize>,
}

impl Plan {
    pub fn new(seed: u64, profile: Profile) -> Self {
        Self { seed, profile, without: BTreeSet::new(), skip: BTreeSet::new() }
    }
}

/// As the flags of `cargo xtask sim` that run it again.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--seed {} --profile {}", self.seed, self.profile)?;
        if !self.without.is_empty() {
            let names: Vec<String> = self.without.iter().map(ToString::to_string).collect();
            write!(f, " --without {}", names.join(","))?;
        }
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for step in &self.skip {
            match ranges.last_mut() {
                Some((_, end)) if *end + 1 == *step => *end = *step,
                _ => ranges.push((*step, *step)),
            }
        }
        if !ranges.is_empty() {
            let ranges: Vec<String> = ranges.iter().map(|(a, b)| format!("{a}-{b}")).collect();
            write!(f, " --skip {}", ranges.join(","))?;
        }
        Ok(())
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    pub faults: Counts<Fault>,
    pub checks: Counts<Invariant>,
    pub violation: Option<Violation>,
    /// One line per event; empty unless asked for.
    pub trace: Vec<String>,
}

/// Something that must hold, and does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// None if an engine or the world panicked.
    pub invariant: Option<Invariant>,
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.invariant {
            Some(id) => write!(f, "{id} ({}): {}", id.what(), self.message),
            None => write!(f, "panic: {}", self.message),
        }
    }
}

/// Run it. Panics of the engine are violations too.
pub fn run(plan: &Plan, traced: bool) -> Outcome {
    be_quiet();
    let mut run = Run::new(plan, traced);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        QUIET.set(true);
        run.disturb(plan);
        run.rest(plan);
    }));
    QUIET.set(false);
    let violation = ran.err().map(|payload| match payload.downcast::<Violation>() {
        Ok(violation) => *violation,
        Err(payload) => Violation { invariant: CHECKING.take(), message: text(&*payload) },
    });
    Outcome {
        faults: std::mem::take(&mut run.faults),
        checks: std::mem::take(&mut run.checks),
        violation,
        trace: run.take_trace(),
    }
}

/// Everything that a person needs to follow the run: what was chosen, what happened, how it ended.
pub fn report(plan: &Plan) -> String {
    use std::fmt::Write as _;
    let outcome = run(plan, true);
    let mut text = format!("{plan}\n{:#?}\n", Params::draw(plan.seed, plan.profile));
    for line in &outcome.trace {
        text.push_str(line);
        text.push('\n');
    }
    for (fault, count) in &outcome.faults {
        let _ = writeln!(text, "{count:>8} {fault}");
    }
    for (invariant, count) in &outcome.checks {
        let _ = writeln!(text, "{count:>8} {invariant}");
    }
    let _ = match &outcome.violation {
        Some(violation) => writeln!(text, "VIOLATION {violation}"),
        None => writeln!(text, "no violation"),
    };
    text
}

thread_local! {
    /// Panics on this thread are expected, and told by whoever catches them.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    /// What an assertion of the engine stands for, while one is called upon.
    pub(crate) static CHECKING: Cell<Option<Invariant>> = const { Cell::new(None) };
}

fn be_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
}

fn text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "without a message".to_owned())
}
