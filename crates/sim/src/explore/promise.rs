//! The promise: a grant never takes a budget below its desired healthy count.
//!
//! The auditor (`holdfast-audit`) judges it. Nothing here counts, and nothing here asks an engine.
//!
//! - Every status write that records a new grant must leave enough healthy replicas, by what its writer
//!   had been told when it sent the write, less every pod that a grant of this budget has taken or may
//!   still take ([`Auditor::judge_grants`](holdfast_audit::Auditor::judge_grants)).
//! - Every allowed eviction must have a grant in every budget that covers its pod, at the moment of the
//!   answer ([`Auditor::judge_allow`](holdfast_audit::Auditor::judge_allow)).
//!
//! Together they are the promise: of two evictions that are too much together, the later record counts
//! the other one, either as a stored grant or as an eviction that was allowed.

use std::time::Duration;

use holdfast_audit::{Allow, Finding};
use holdfast_core::model::{Budget, BudgetSpec, Operation, Threshold};

use super::scope::Wants;
use super::state::{Allowed, State};
use crate::audited;
use crate::view::View;

impl State {
    /// Judges the grants of a status write that has just been stored.
    pub(super) fn judge_write(&mut self, before: &Budget, after: &Budget, known: &View) {
        let (before, after) = (audited::budget(before), audited::budget(after));
        let auditor = &self.audited.auditor;
        let new = auditor.new_grants(&before, &after);
        if new.is_empty() {
            return;
        }
        let old = after.status.grants.iter().filter(|grant| !new.contains(grant)).cloned();
        let old: Vec<_> = old.collect();
        self.broken_by(auditor.judge_grants(&after, (&old, &new), &known.state));
    }

    /// Notes an allowed eviction and judges it.
    pub(super) fn allowed(&mut self, allowed: Allowed, recorded: bool) {
        let allow = Allow {
            id: allowed.eviction.clone(),
            pod: audited::name(&self.layout.pods[allowed.pod]),
            uid: allowed.uid.clone(),
            by_name: self.scope.by_name,
            operation: audited::operation(Operation::Evict),
            version: 0,
            recorded,
            budgets: holdfast_audit::objects::BudgetKeys::new(),
        };
        self.auditor().allow(allow);
        self.broken_by(self.audited.auditor.judge_allow(&allowed.eviction));
        self.clients.allows.push(allowed);
    }

    fn broken_by(&mut self, finding: Option<Finding>) {
        let violation = finding.map(|finding| finding.to_string());
        self.violation = self.violation.take().or(violation);
    }

    /// No grant of a live pod is older than the scope allows: its eviction is refused, and others wait.
    pub(super) fn check_grants(&mut self, secs: u32) {
        let old = |since| self.now.since(since) > Duration::from_secs(secs.into());
        if let Some(grant) = self.clients.grants.iter().find(|grant| old(grant.since)) {
            let budget = self.scope.budgets[grant.budget].name;
            let age = self.now.since(grant.since).as_secs();
            self.violation = Some(format!(
                "budget {budget} has held a grant of a live pod for {age} s, and {secs} s is the most"
            ));
        }
    }
}

impl Wants {
    pub(super) fn write_into(self, spec: &mut BudgetSpec) {
        (spec.min_available, spec.max_unavailable) = match self {
            Self::MinAvailable(min) => (Some(Threshold::Count(min)), None),
            Self::MaxUnavailable(max) => (None, Some(Threshold::Count(max))),
        };
    }

    pub(super) fn is_in(self, spec: &BudgetSpec) -> bool {
        let mut own = spec.clone();
        self.write_into(&mut own);
        own == *spec
    }
}
