//! Exhaustive exploration of small worlds with the real engine.
//!
//! ```text
//!   Scope --start--> State --steps()--> Step, Step, ... --apply--> State ...   breadth first
//!                      |                                             |
//!                      +-- fingerprint: visited before? -------------+-- promise broken? -> Schedule
//! ```
//!
//! A [`Scope`] is a small world and a bound on what may happen in it. The search visits every state
//! that some order of steps reaches, each state once, the shortest schedules first. So the first
//! violation has a shortest schedule, and [`replay`] runs that schedule again.
//!
//! The crate `stateright` can carry the engine, but it keeps every state of the frontier in memory.
//! One engine takes some 30 kB, so a frontier of a million states does not fit. This search keeps 24
//! bytes per state and executes the steps again that lead to the state that it expands. That is cheap,
//! because states share the processes and the outcomes of their inputs (`process.rs`).

mod api;
mod apply;
mod describe;
mod fingerprint;
mod possible;
mod process;
mod promise;
mod scope;
mod search;
mod start;
mod state;
mod step;

pub use scope::{SCOPES, Scope};
pub use search::{Found, Limits, Outcome, explore};
pub use step::{Schedule, Step};

use state::State;

/// The outcome of one schedule.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// One line per step and per answer.
    pub lines: Vec<String>,
    /// What the last step broke.
    pub violation: Option<String>,
}

/// Runs a schedule in a scope, as a violation prints it.
///
/// A step that is not possible ends the run: after a fix the engine takes another way, and the rest
/// of the schedule has no meaning.
///
/// # Panics
/// If the scope does not exist or the schedule cannot be read.
pub fn replay(scope: &str, schedule: &str) -> Replayed {
    let scope = Scope::named(scope).unwrap_or_else(|| panic!("there is no scope {scope}"));
    let schedule: Schedule = schedule.parse().unwrap_or_else(|why| panic!("{why}"));
    let mut state = State::start(scope);
    let mut lines = Vec::new();
    for step in schedule.0 {
        if !state.steps().contains(&step) {
            lines.push(format!("{step}: not possible here, the run ends"));
            break;
        }
        lines.push(format!("{step}: {}", state.describe(step)));
        state.apply(step);
        lines.extend(state.replies().iter().map(|reply| format!("    {reply}")));
        if state.violation().is_some() {
            break;
        }
    }
    Replayed { lines, violation: state.violation().map(str::to_owned) }
}
