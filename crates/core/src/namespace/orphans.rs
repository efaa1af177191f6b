//! Grants of budgets that were deleted: a budget that comes back within two minutes keeps them
//! (semantics 5).

use super::live_grant::{LiveGrant, State};
use super::{BudgetId, Context, Namespace};

impl Namespace {
    /// The budget is back: so are the grants that its predecessor had (semantics 5).
    pub(super) fn adopt_orphans(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let orphans = self.orphans.remove(id).unwrap_or_default();
        let abandoned = |live: &LiveGrant| self.is_abandoned(id, &live.grant);
        let (lost, orphans): (Vec<_>, Vec<_>) = orphans.into_iter().partition(abandoned);
        for live in lost {
            self.recount_grants(cx, &live.grant.pod);
        }
        for mut live in orphans {
            let key = (live.grant.pod.clone(), live.grant.uid.clone());
            if self.budgets.get(id).is_some_and(|b| b.ledger.get(&key.0, &key.1).is_some()) {
                self.recount_grants(cx, &key.0);
                continue;
            }
            // Not on the new object yet; the write that this leads to records it.
            live.state = State::Adopted;
            self.insert_grant(cx, id, live);
            self.touch_now(cx, id);
            self.bind_grants(cx, &key.0);
            self.recount_grants(cx, &key.0);
        }
    }

    /// What a request wrote into a budget that is gone, and that came to nothing.
    pub(super) fn refund_orphan(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        pod: &str,
        eviction: &str,
    ) {
        if let Some(grants) = self.orphans.get_mut(id) {
            grants.retain(|live| live.grant.pod != pod || live.grant.eviction != eviction);
            self.recount_grants(cx, pod);
        }
    }

    /// Two minutes are over: nothing that the deleted budget granted is under way any more.
    pub(super) fn forget_orphans(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        // A timer of an earlier deletion says nothing of the last one.
        if self.orphans_until.get(id).is_some_and(|until| cx.now < *until) {
            return;
        }
        self.orphans_until.remove(id);
        self.forget_adopted(cx, id);
        for live in self.orphans.remove(id).unwrap_or_default() {
            self.recount_grants(cx, &live.grant.pod);
        }
    }
}
