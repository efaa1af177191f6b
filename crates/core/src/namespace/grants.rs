//! What the grants of the namespace learn from budgets and pods, and what follows for both (semantics 5).

use super::budgets::BudgetEntry;
use super::writer::Op;
use super::{BudgetId, Context, Namespace};
use crate::grants::{Changes, LiveGrant, Reconciled, check};
use crate::model::{Grant, ResourceVersion, Timestamp};

impl Namespace {
    /// Record a grant in memory; the write that makes it true follows at once.
    pub(super) fn grant(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        grant: Grant,
        read_as: Option<ResourceVersion>,
    ) {
        let changes = self.grants.add(id, grant, read_as, cx.now);
        self.apply_changes(cx, changes);
    }

    /// Remove a grant if this eviction wrote it and nothing has renewed it since.
    pub(super) fn ungrant(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        pod: &str,
        eviction: &str,
    ) {
        let changes = self.grants.refund(id, pod, eviction);
        self.apply_changes(cx, changes);
        self.bind_grants(cx, pod);
    }

    /// The write that carried uncommitted grants did not happen.
    pub(super) fn drop_uncommitted(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let mut changes = self.grants.drop_uncommitted(id, cx.now);
        let dropped = std::mem::take(&mut changes.pods);
        self.apply_changes(cx, changes);
        self.forget_written(cx, id);
        for pod in dropped {
            self.recount_grants(cx, &pod);
            self.bind_grants(cx, &pod);
        }
    }

    /// Make the ledger agree with the budget's status on the API server. Grants under way stay.
    pub(super) fn take_in_grants(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(entry) = self.budgets.get(id) else { return };
        let is_writing = entry.writer.in_flight.is_some();
        let cache = &self.cache;
        let pod_of = |name: &str| cache.pod(name).map(|entry| &entry.pod);
        let status = &entry.object.status;
        let Reconciled { changes, unknown, pods } =
            self.grants.reconcile(id, status, is_writing, cx.now, pod_of);
        for grant in unknown {
            if self.is_abandoned(id, &grant) {
                self.enqueue_later(id, Op::Refund { pod: grant.pod, eviction: grant.eviction });
            }
        }
        self.apply_changes(cx, changes);
        for pod in pods {
            self.bind_grants(cx, &pod);
            self.recount_grants(cx, &pod);
        }
        self.refresh_sizes(cx, id);
    }

    /// A write of ours, long given up for lost, and denied to whoever asked.
    fn is_abandoned(&self, id: &BudgetId, grant: &Grant) -> bool {
        let abandoned = self.abandoned.get(&grant.eviction);
        abandoned.is_some_and(|(_, budgets)| budgets.contains(id))
    }

    /// The pod's state of this version shows that an eviction took it.
    pub(super) fn mark_evidence(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        uid: &str,
        version: &ResourceVersion,
    ) {
        let changes = self.grants.end_taken(name, uid, version);
        self.apply_changes(cx, changes);
    }

    /// The pod may show that a delete, an update or a resize has happened to it.
    pub(super) fn end_done(&mut self, cx: &mut Context<'_>, name: &str) {
        let Some(entry) = self.cache.pod(name) else { return };
        let changes = self.grants.end_done(name, &entry.pod);
        self.apply_changes(cx, changes);
    }

    /// The pod is gone by this version.
    pub(super) fn end_exact(
        &mut self,
        cx: &mut Context<'_>,
        (name, uid): (&str, &str),
        version: &ResourceVersion,
    ) {
        let changes = self.grants.end_exact(name, uid, version);
        self.apply_changes(cx, changes);
    }

    /// Grants for an earlier pod of this name pass to the pod that has the name now, or end because no pod has it.
    pub(super) fn bind_grants(&mut self, cx: &mut Context<'_>, name: &str) {
        if !self.grants.names(name) {
            return;
        }
        let (budgets, catch_up, progress) = (&self.budgets, &self.catch_up, cx.progress);
        let is_behind =
            |id: &BudgetId| budgets.get(id).is_some_and(|b| !b.has_seen_pods(catch_up, progress));
        if let Some(entry) = self.cache.pod(name) {
            let changes = self.grants.rebind(name, &entry.pod, cx.now, is_behind);
            return self.apply_changes(cx, changes);
        }
        let Some(seen) = catch_up.pods_seen(progress) else { return };
        let names_pods =
            |id: &BudgetId| budgets.get(id).is_some_and(BudgetEntry::has_pod_watermark);
        let mut changes = self.grants.end_gone(name, &seen, cx.now, is_behind, names_pods);
        if planted!(GoneWithoutVersion) {
            for (id, _) in std::mem::take(&mut changes.ended) {
                self.touch(cx, &id);
            }
        }
        self.apply_changes(cx, changes);
    }

    /// The cache has caught up with what the budget's grants were decided by.
    pub(super) fn bind_held_back(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        for pod in self.grants.take_held_back(id) {
            self.bind_grants(cx, &pod);
        }
    }

    /// The budget is back: so are the grants that its predecessor had (semantics 5).
    pub(super) fn adopt_grants(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        left: Vec<LiveGrant>,
    ) {
        let is_lost = |live: &LiveGrant| self.is_abandoned(id, live.grant());
        let (lost, left): (Vec<_>, Vec<_>) = left.into_iter().partition(is_lost);
        for live in lost {
            self.recount_grants(cx, &live.grant().pod);
        }
        for live in left {
            let pod = live.grant().pod.clone();
            if let Some(changes) = self.grants.adopt(id, live, cx.now) {
                self.apply_changes(cx, changes);
                self.touch_now(cx, id);
                self.bind_grants(cx, &pod);
            }
            self.recount_grants(cx, &pod);
        }
    }

    /// A request wrote a grant into a budget that is gone, and came to nothing.
    pub(super) fn refund_orphan(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        pod: &str,
        eviction: &str,
    ) {
        if self.grants.refund_orphan(id, pod, eviction) {
            self.recount_grants(cx, pod);
        }
    }

    /// Two minutes are over: nothing that the deleted budget granted is under way any more.
    pub(super) fn forget_orphans(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        if let Some(changes) = self.grants.forget_orphans(id, cx.now) {
            self.forget_adopted(cx, id);
            self.apply_changes(cx, changes);
        }
    }

    /// Looks at the grant at this time, and before that whenever its age is to be recorded.
    pub(super) fn look_at(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        pod: (&str, &str),
        at: Timestamp,
    ) {
        let (at, due) = check(id, pod, at, cx.now);
        cx.timers.at(at, &self.name, due);
    }

    /// Bring the pod's count of grants up to date.
    pub(super) fn recount_grants(&mut self, cx: &mut Context<'_>, pod: &str) {
        let Some(entry) = self.cache.pod(pod) else { return };
        let granted = self.grants.count(pod, &entry.pod.uid.to_string());
        if granted != entry.granted && !planted!(StaleCounters) {
            for budget in self.set_granted(pod, granted) {
                self.touch(cx, &budget);
            }
        }
    }

    pub(super) fn apply_changes(&mut self, cx: &mut Context<'_>, changes: Changes) {
        for (at, due) in changes.timers {
            cx.timers.at(at, &self.name, due);
        }
        for (id, version) in changes.ended {
            self.saw_pod(cx, &id, &version);
        }
        for pod in changes.pods {
            self.recount_grants(cx, &pod);
        }
    }
}
