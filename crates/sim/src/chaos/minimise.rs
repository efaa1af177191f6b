//! Make a failing run smaller.

use super::params::Params;
use super::{Plan, Violation, run};

/// Runs that may be tried.
const TRIES_MAX: usize = 400;

/// Leaves out faults, then steps, as long as the same invariant still fails: another one may have another cause.
pub fn minimise(plan: &Plan) -> (Plan, Option<Violation>) {
    let mut search = Search { best: plan.clone(), violation: run(plan, false).violation, tries: 0 };
    let faults = Params::draw(plan.seed, plan.profile).faults;
    for fault in faults {
        let mut smaller = search.best.clone();
        smaller.without.insert(fault);
        search.attempt(smaller);
    }
    let steps = Params::draw(plan.seed, plan.profile).steps;
    let mut chunk = steps.div_ceil(2);
    loop {
        // From the end: what happens after the failure goes first.
        for start in (0..steps).step_by(chunk).rev() {
            let mut smaller = search.best.clone();
            smaller.skip.extend(start..(start + chunk).min(steps));
            if smaller.skip.len() > search.best.skip.len() {
                search.attempt(smaller);
            }
        }
        if chunk == 1 {
            break;
        }
        chunk = chunk.div_ceil(2);
    }
    (search.best, search.violation)
}

struct Search {
    best: Plan,
    violation: Option<Violation>,
    tries: usize,
}

impl Search {
    fn attempt(&mut self, smaller: Plan) {
        self.tries += 1;
        if self.violation.is_none() || self.tries > TRIES_MAX {
            return;
        }
        let violation = run(&smaller, false).violation;
        let invariant = |violation: &Option<Violation>| violation.as_ref().map(|v| v.invariant);
        if invariant(&violation) == invariant(&self.violation) {
            (self.best, self.violation) = (smaller, violation);
        }
    }
}
