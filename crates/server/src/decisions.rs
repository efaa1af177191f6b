//! The latest decisions, for people to look at.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_core::Eviction;
use holdfast_core::model::Timestamp;
use holdfast_core::verdict::Verdict;
use serde::Serialize;

use crate::decide::Told;

/// Some minutes of a drain.
const KEPT: usize = 500;

/// Shared by whoever decides and whoever looks.
#[derive(Clone, Debug, Default)]
pub struct Decisions(Arc<Mutex<Ring>>);

#[derive(Debug, Default)]
struct Ring {
    latest: VecDeque<Decision>,
    /// Of the last one.
    number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Counted from the start of the server.
    pub number: u64,
    pub at: String,
    pub id: String,
    pub operation: &'static str,
    pub pod: String,
    pub by: String,
    pub dry_run: bool,
    pub allowed: bool,
    pub reason: String,
    /// Of a denial.
    pub message: Option<String>,
    /// Those that granted it, or that stand in the way.
    pub budgets: Vec<String>,
    /// In units of its budgets.
    pub cost: i64,
}

impl Decisions {
    /// Those after that number, oldest first.
    pub fn after(&self, number: u64) -> Vec<Decision> {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ring.latest.iter().filter(|decision| decision.number > number).cloned().collect()
    }

    pub(crate) fn note(&self, eviction: &Eviction, verdict: &Verdict, told: Told) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let message = match verdict {
            Verdict::Allow(_) => None,
            Verdict::Deny(denial) => Some(denial.message.clone()),
        };
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ring.number += 1;
        let decision = Decision {
            number: ring.number,
            at: holdfast_api::time::format(Timestamp(0) + wall),
            id: eviction.id.clone(),
            operation: eviction.operation.name(),
            pod: eviction.pod.to_string(),
            by: eviction.requester.clone(),
            dry_run: eviction.dry_run,
            allowed: verdict.is_allow(),
            reason: told.reason,
            message,
            budgets: told.budgets,
            cost: told.cost,
        };
        if ring.latest.len() == KEPT {
            ring.latest.pop_front();
        }
        ring.latest.push_back(decision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::sample::eviction;
    use holdfast_core::model::Operation;
    use holdfast_core::verdict::{Denial, DenyReason};

    fn note(decisions: &Decisions, pod: &str) {
        let message = "No.".to_owned();
        let denial = Denial { reason: DenyReason::BudgetExhausted, message, causes: Vec::new() };
        let verdict = Verdict::Deny(denial);
        decisions.note(&eviction(Operation::Evict, pod), &verdict, Told::of(&verdict));
    }

    #[test]
    fn the_latest_are_kept_and_told_once() {
        let decisions = Decisions::default();
        for n in 0..KEPT + 2 {
            note(&decisions, &format!("p{n}"));
        }
        let all = decisions.after(0);
        assert_eq!((all.len(), all[0].number), (KEPT, 3));
        let last = all.last().unwrap();
        assert_eq!((last.pod.as_str(), last.reason.as_str()), ("n/p501", "BudgetExhausted"));
        assert_eq!((last.allowed, last.message.as_deref()), (false, Some("No.")));
        assert_eq!(decisions.after(last.number - 1), std::slice::from_ref(last));
        assert_eq!(decisions.after(last.number), []);
    }
}
