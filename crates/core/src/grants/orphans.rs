//! Grants of deleted budgets: a budget that comes back within two minutes keeps them (semantics 5).

use std::collections::BTreeMap;
use std::time::Duration;

use super::live::LiveGrant;
use crate::model::{BudgetId, BudgetKey, Grant, PendingReplacement, Timestamp};

/// A budget that is deleted and comes back within this time keeps its grants.
pub(super) const KEPT: Duration = Duration::from_mins(2);

#[derive(Clone, Debug, Default)]
pub(super) struct Orphans(BTreeMap<BudgetId, Left>);

/// What a deleted budget has left.
#[derive(Clone, Debug)]
struct Left {
    grants: Vec<LiveGrant>,
    /// Replacements that the budget waited for.
    replacements: Vec<PendingReplacement>,
    /// A budget of the same name has taken all of it over. Until the end of the time it may be the only one that knows.
    is_adopted: bool,
    until: Timestamp,
}

impl Orphans {
    pub(super) fn is_empty(&self) -> bool {
        self.0.values().all(|left| left.is_adopted)
    }

    /// Returns until when it is kept; None if there is nothing to keep.
    pub(super) fn keep(
        &mut self,
        budget: &BudgetId,
        grants: Vec<LiveGrant>,
        replacements: Vec<PendingReplacement>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if grants.is_empty() && replacements.is_empty() {
            return None;
        }
        let until = now + KEPT;
        let left = Left { grants, replacements, is_adopted: false, until };
        self.0.insert(budget.clone(), left);
        Some(until)
    }

    /// The budget is back.
    pub(super) fn adopt(
        &mut self,
        budget: &BudgetKey,
    ) -> (Vec<LiveGrant>, Vec<PendingReplacement>) {
        let Some(left) = self.0.get_mut(budget) else { return (Vec::new(), Vec::new()) };
        left.is_adopted = true;
        (std::mem::take(&mut left.grants), std::mem::take(&mut left.replacements))
    }

    /// Returns None while a later deletion keeps what is left.
    pub(super) fn forget(&mut self, budget: &BudgetKey, now: Timestamp) -> Option<Vec<LiveGrant>> {
        if self.0.get(budget).is_some_and(|left| now < left.until) {
            return None;
        }
        Some(self.0.remove(budget).map(|left| left.grants).unwrap_or_default())
    }

    /// Returns whether the budget has left grants.
    pub(super) fn refund(&mut self, budget: &BudgetKey, pod: &str, eviction: &str) -> bool {
        let Some(left) = self.0.get_mut(budget).filter(|left| !left.is_adopted) else {
            return false;
        };
        left.grants.retain(|live| live.grant.pod != pod || live.grant.eviction != eviction);
        true
    }

    /// The grants for this pod for which that holds have ended.
    pub(super) fn end(&mut self, pod: &str, uid: &str, ends: impl Fn(&Grant) -> bool) {
        for left in self.0.values_mut() {
            let is_over = |g: &Grant| g.pod == pod && g.uid == uid && ends(g);
            left.grants.retain(|live| !is_over(&live.grant));
        }
    }

    /// Returns how many deleted budgets have left a grant for this pod.
    pub(super) fn count(&self, pod: &str, uid: &str) -> usize {
        let is_for = |live: &LiveGrant| live.grant.pod == pod && live.grant.uid == uid;
        self.0.values().filter(|left| left.grants.iter().any(is_for)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::live::State;
    use crate::grants::testing::{START, after, budget, grant};

    fn orphans() -> Orphans {
        let mut orphans = Orphans::default();
        let live = LiveGrant::new(grant("p", "u", "e"), START, State::Committed);
        assert_eq!(orphans.keep(&budget("b"), vec![live], Vec::new(), START), Some(after(120)));
        orphans
    }

    #[test]
    fn a_budget_without_grants_leaves_nothing() {
        let mut orphans = Orphans::default();
        assert_eq!(orphans.keep(&budget("b"), Vec::new(), Vec::new(), START), None);
        assert!(orphans.is_empty());
    }

    #[test]
    fn grants_count_until_they_are_adopted_or_forgotten() {
        let mut orphans = orphans();
        assert_eq!((orphans.count("p", "u"), orphans.count("p", "v")), (1, 0));
        assert_eq!(orphans.adopt(&budget("b")).0.len(), 1);
        assert!(orphans.is_empty());
        assert_eq!(orphans.count("p", "u"), 0);
        assert!(orphans.adopt(&budget("b")).0.is_empty());
    }

    #[test]
    fn a_later_deletion_keeps_what_it_left() {
        let mut orphans = orphans();
        let live = LiveGrant::new(grant("p", "u", "e"), START, State::Committed);
        orphans.keep(&budget("b"), vec![live], Vec::new(), after(60));
        assert!(orphans.forget(&budget("b"), after(120)).is_none());
        assert_eq!(orphans.forget(&budget("b"), after(180)).map(|left| left.len()), Some(1));
        assert!(orphans.is_empty());
    }

    #[test]
    fn refunds_and_ends_remove_single_grants() {
        let mut orphans = orphans();
        assert!(orphans.refund(&budget("b"), "p", "other"));
        assert_eq!(orphans.count("p", "u"), 1);
        assert!(orphans.refund(&budget("b"), "p", "e"));
        assert_eq!(orphans.count("p", "u"), 0);
        assert!(!orphans.refund(&budget("c"), "p", "e"));
        let mut orphans = self::orphans();
        orphans.end("p", "u", |_| false);
        assert_eq!(orphans.count("p", "u"), 1);
        orphans.end("p", "u", |_| true);
        assert_eq!(orphans.count("p", "u"), 0);
    }
}
