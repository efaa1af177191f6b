//! The last look at a grant before it is written: what must hold by now, checked once more. If it does
//! not, there is a bug in what led here; then the batch grants nothing, and the violation is counted.

use super::explain::refuse;
use super::writer::Granted;
use super::{BudgetId, Context, Namespace};
use crate::invariant::Invariant;
use crate::verdict::DenyReason;

impl Namespace {
    /// Takes the grants of a batch out again, and denies their requests.
    pub(super) fn withdraw(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        granted: &mut Vec<Granted>,
        broken: Invariant,
    ) {
        cx.counters.violations.count(broken);
        self.drop_uncommitted(cx, id);
        let why = format!(
            "a check of Holdfast's own failed ({broken}: {}); please report this",
            broken.what()
        );
        for Granted { grant, .. } in granted.drain(..) {
            self.deny(cx, &grant.eviction, refuse(DenyReason::FailedClosed, &why));
        }
    }

    /// Returns the invariant that this grant breaks. Call it when the grant is in the ledger and before the next
    /// request has its turn: a request that is denied lets others go on, which may take pods by other budgets.
    pub(super) fn broken_by(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        Granted { grant, renewal }: &Granted,
    ) -> Option<Invariant> {
        if self.requests.get(&grant.eviction).is_some_and(|r| r.eviction.dry_run) {
            return Some(Invariant::S8);
        }
        if !self.is_current(cx, id) {
            return Some(Invariant::S5);
        }
        if grant.cost == 0 || *renewal {
            return None;
        }
        // The pod counts as unhealthy by now.
        let evaluation = self.evaluation_of(self.budgets.get(id)?, &grant.pod);
        if evaluation.failure.is_some() {
            return Some(Invariant::S7);
        }
        (evaluation.healthy < evaluation.desired).then_some(Invariant::S1)
    }
}
