//! The last look before grants are written: what must hold by now, looked at once more. If it does
//! not, there is a bug in what led here; then nothing is granted, and it is counted.

use super::explain::refuse;
use super::units::is_unavailable;
use super::writer::Granted;
use super::{BudgetId, Context, Namespace};
use crate::invariant::Invariant;
use crate::verdict::DenyReason;

impl Namespace {
    /// Takes the grants of a batch out again, and denies, if they must not be.
    pub(super) fn look_once_more(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        granted: &mut Vec<Granted>,
    ) {
        let Some(broken) = self.broken(cx, id, granted) else { return };
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

    fn broken(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        granted: &[Granted],
    ) -> Option<Invariant> {
        let is_dry =
            |g: &Granted| self.requests.get(&g.grant.eviction).is_some_and(|r| r.eviction.dry_run);
        if granted.iter().any(is_dry) {
            return Some(Invariant::S8);
        }
        if !granted.is_empty() && !self.is_current(cx, id) {
            return Some(Invariant::S5);
        }
        if granted.iter().all(|g| g.grant.cost == 0 || g.renewal) {
            return None;
        }
        // The grants are in the ledger by now, so their pods count as unhealthy.
        let budget = self.budgets.get(id)?;
        let paid = granted.iter().filter(|g| g.grant.cost > 0 && !g.renewal);
        // What a PodUnavailableBudget lets pass unweighed may be one too many, and takes none from what was.
        let unweighed = |g: &&Granted| g.grant.cost == 0 && is_unavailable(id);
        let free = granted.iter().filter(unweighed).count();
        let free = i64::try_from(free).unwrap_or(i64::MAX);
        for evaluation in paid.map(|g| self.evaluation_of(budget, &g.grant.pod)) {
            if evaluation.failure.is_some() {
                return Some(Invariant::S7);
            }
            if evaluation.healthy.saturating_add(free) < evaluation.desired {
                return Some(Invariant::S1);
            }
        }
        None
    }
}
