//! Grants over all budgets of a namespace: which pods may go, since when, and how that ends
//! (semantics 5).

use std::collections::BTreeSet;
use std::time::Duration;

use super::kept::KeptPod;
use super::ledger::{Agreed, INCOMPLETE_AFTER};
use super::live_grant::{AGE_STEP, LiveGrant, State};
use super::writer::Op;
use super::{BudgetId, Context, Namespace};
use crate::model::{Grant, Operation, ResourceVersion, Timestamp};
use crate::timer::Due;

impl Namespace {
    /// Record a grant in memory; the write that makes it true follows at once.
    pub(super) fn grant(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        grant: Grant,
        read_as: Option<ResourceVersion>,
    ) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        let pod = grant.pod.clone();
        let replaced = entry.ledger.remove(&pod, &grant.uid).map(Box::new);
        let mut live = LiveGrant::new(grant, cx.now, State::InFlight);
        if let Some(replaced) = &replaced {
            // The record has whole seconds; a request that renews every moment must not stop the age.
            live = live.renews(replaced.since);
            live.reported = replaced.reported;
        }
        (live.read_as, live.replaced) = (read_as, replaced);
        self.insert_grant(cx, id, live);
        self.recount_grants(cx, &pod);
    }

    /// Remove a grant if this eviction wrote it and nobody has renewed it since.
    pub(super) fn ungrant(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        pod: &str,
        eviction: &str,
    ) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        let others = !planted!(RefundOthers);
        entry.ledger.retain(|g| g.pod != pod || (others && g.eviction != eviction));
        self.recount_grants(cx, pod);
        self.bind_grants(cx, pod);
    }

    /// The write that carried uncommitted grants did not happen.
    pub(super) fn drop_uncommitted(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        let (dropped, replaced) = entry.ledger.drop_uncommitted();
        for live in replaced {
            self.insert_grant(cx, id, live);
        }
        self.forget_written(cx, id);
        for pod in dropped {
            self.recount_grants(cx, &pod);
            self.bind_grants(cx, &pod);
        }
    }

    /// Make the ledger agree with the budget's status on the API server. Grants under way stay.
    pub(super) fn take_in_grants(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        let writing = entry.writer.in_flight.is_some();
        let Agreed { elsewhere, unknown, lost } =
            entry.ledger.agree(&entry.object.status, writing, cx.now);
        let mut touched: BTreeSet<String> = lost.keys().map(|(pod, _)| pod.clone()).collect();
        for recorded in elsewhere {
            let Grant { pod, uid, .. } = recorded.grant.clone();
            let expires = recorded.expires_at();
            if let Some(entry) = self.budgets.get_mut(id) {
                // Whoever wrote it may have seen a later pod of the name than we have. If we have seen as much,
                // it passes to the pod that is there now.
                entry.ledger.move_to_record(recorded);
            }
            self.look_at(cx, id, &pod, &uid, expires);
            touched.insert(pod);
        }
        for grant in unknown {
            touched.insert(grant.pod.clone());
            let known_since = lost.get(&(grant.pod.clone(), grant.uid.clone())).copied();
            self.take_in_unknown(cx, id, grant, known_since);
        }
        for pod in touched {
            self.bind_grants(cx, &pod);
            self.recount_grants(cx, &pod);
        }
        self.refresh_sizes(cx, id);
    }

    fn take_in_unknown(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        grant: Grant,
        known_since: Option<Timestamp>,
    ) {
        if self.is_abandoned(id, &grant) {
            let refund = Op::Refund { pod: grant.pod.clone(), eviction: grant.eviction.clone() };
            self.enqueue_later(id, refund);
        }
        let pod = self.pods.get(grant.pod.as_str()).map(|e| &e.pod);
        let pod = pod.filter(|p| p.uid == *grant.uid);
        let is_taken = |p: &KeptPod| grant.ends_by_evidence() && p.terminating && p.is_targeted();
        let taken = pod.filter(|p| is_taken(p) || shows(p, &grant)).map(|p| p.version.clone());
        let mut live = LiveGrant::new(grant, cx.now, State::Committed);
        if let Some(known_since) = known_since {
            live = live.renews(known_since);
        }
        let Some(version) = taken else { return self.insert_grant(cx, id, live) };
        if let Some(entry) = self.budgets.get_mut(id) {
            entry.ledger.bury(live);
        }
        self.saw_pod(cx, id, &version);
    }

    /// A write of ours, long given up for lost, and denied to whoever asked.
    pub(super) fn is_abandoned(&self, id: &BudgetId, grant: &Grant) -> bool {
        let abandoned = self.abandoned.get(&grant.eviction);
        abandoned.is_some_and(|(_, budgets)| budgets.contains(id))
    }

    /// The pod's state of this version shows that an eviction took it: its grants have done their
    /// work. Without that evidence they pass to the successor of the same name.
    pub(super) fn mark_evidence(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        uid: &str,
        version: &ResourceVersion,
    ) {
        for grants in self.orphans.values_mut() {
            let taken = |g: &Grant| g.pod == name && g.uid == uid && g.ends_by_evidence();
            grants.retain(|live| !taken(&live.grant));
        }
        for id in self.granted.get(name).cloned().unwrap_or_default() {
            let budget = self.budgets.get_mut(&id);
            if budget.is_some_and(|b| b.ledger.end_taken(name, uid)) {
                self.saw_pod(cx, &id, version);
            }
        }
        self.tidy_granted(name);
    }

    /// The pod shows that a delete, an update or a resize has happened to it: their grants end.
    pub(super) fn end_exact(&mut self, cx: &mut Context<'_>, name: &str) {
        if !self.granted.contains_key(name) {
            return;
        }
        let Some(pod) = self.pods.get(name).map(|e| &e.pod) else { return };
        let (uid, version) = (pod.uid.to_string(), pod.version.clone());
        let ended = self.holding(name, &uid, |grant| shows(pod, grant));
        self.end_grants(cx, &ended, (name, &uid), &version);
    }

    /// The pod is gone by this version. Grants that can hit no other pod end, for whatever reason it went.
    pub(super) fn end_exact_of(
        &mut self,
        cx: &mut Context<'_>,
        (name, uid): (&str, &str),
        version: &ResourceVersion,
    ) {
        if planted!(GrantByName) {
            return;
        }
        for grants in self.orphans.values_mut() {
            let of_pod = |g: &Grant| g.pod == name && g.uid == uid;
            grants.retain(|live| !(of_pod(&live.grant) && live.grant.is_exact()));
        }
        let ended = self.holding(name, uid, Grant::is_exact);
        self.end_grants(cx, &ended, (name, uid), version);
    }

    /// Ends grants together with the version that justifies it.
    fn end_grants(
        &mut self,
        cx: &mut Context<'_>,
        budgets: &[BudgetId],
        (pod, uid): (&str, &str),
        version: &ResourceVersion,
    ) {
        for id in budgets {
            if let Some(budget) = self.budgets.get_mut(id) {
                budget.ledger.end(pod, uid);
            }
            self.saw_pod(cx, id, version);
        }
        if !budgets.is_empty() {
            self.recount_grants(cx, pod);
        }
    }

    /// Budgets that have such a grant for this very pod.
    fn holding(&self, name: &str, uid: &str, is_such: impl Fn(&Grant) -> bool) -> Vec<BudgetId> {
        let budgets = self.granted.get(name).into_iter().flatten();
        let grant = |id: &BudgetId| self.budgets.get(id).and_then(|b| b.ledger.get(name, uid));
        budgets.filter(|id| grant(id).is_some_and(&is_such)).cloned().collect()
    }

    pub(super) fn count_grants(&self, name: &str, uid: &str) -> u32 {
        let holding = self.holding(name, uid, |_| true).len();
        let orphaned = self
            .orphans
            .values()
            .filter(|grants| grants.iter().any(|g| g.grant.pod == name && g.grant.uid == uid));
        u32::try_from(holding + orphaned.count()).unwrap_or(u32::MAX)
    }

    /// Grants for an earlier pod of this name pass to the pod that has the name now, and entries
    /// without uid are bound to it.
    pub(super) fn bind_grants(&mut self, cx: &mut Context<'_>, name: &str) {
        let Some(budgets) = self.granted.get(name) else { return };
        let Some(pod) = self.pods.get(name).map(|e| &e.pod) else {
            return self.end_gone(cx, name);
        };
        let (uid, version) = (pod.uid.to_string(), pod.version.clone());
        let budgets: Vec<BudgetId> = budgets.iter().cloned().collect();
        for id in budgets {
            let behind = !self.has_seen_pods(cx, &id);
            let Some(budget) = self.budgets.get_mut(&id) else { continue };
            let passed = budget.ledger.pass_on((name, &uid), &version, behind, cx.now);
            budget.strays |= passed.held_back;
            if passed.ended {
                self.saw_pod(cx, &id, &version);
            }
            if let Some(expires_at) = passed.expires_at {
                self.look_at(cx, &id, name, &uid, expires_at);
            }
        }
        self.recount_grants(cx, name);
    }

    /// No pod has the name. If this instance has seen the pods that a grant was decided by, its pod is gone.
    fn end_gone(&mut self, cx: &mut Context<'_>, name: &str) {
        let Some(seen) = self.pods_seen(cx) else { return };
        for id in self.granted.get(name).cloned().unwrap_or_default() {
            let behind = !self.has_seen_pods(cx, &id);
            let Some(budget) = self.budgets.get_mut(&id) else { continue };
            budget.strays |= behind;
            let may_end = !behind && budget.has_pod_watermark();
            let ended = may_end && budget.ledger.end_gone(name, &seen, cx.now);
            if ended && planted!(GoneWithoutVersion) {
                self.touch(cx, &id);
            } else if ended {
                self.saw_pod(cx, &id, &seen);
            }
        }
        self.tidy_granted(name);
    }

    /// The cache has caught up with what the budget's grants were decided by.
    pub(super) fn bind_strays(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(budget) = self.budgets.get_mut(id) else { return };
        budget.strays = false;
        let pods: BTreeSet<String> = budget.ledger.live().map(|g| g.pod.clone()).collect();
        for pod in pods {
            self.bind_grants(cx, &pod);
        }
    }

    /// The budget is gone: its grants bind nothing any more.
    pub(super) fn forget_granted(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let pods: Vec<String> = self
            .granted
            .iter()
            .filter(|(_, ids)| ids.contains(id))
            .map(|(pod, _)| pod.clone())
            .collect();
        for pod in pods {
            self.recount_grants(cx, &pod);
        }
    }

    pub(super) fn insert_grant(&mut self, cx: &mut Context<'_>, id: &BudgetId, live: LiveGrant) {
        let (pod, uid) = (live.grant.pod.clone(), live.grant.uid.clone());
        let (expires_at, recorded_at) = (live.expires_at(), live.recorded_at);
        let several = live.grant.budgets.len() > 1;
        let Some(entry) = self.budgets.get_mut(id) else { return };
        entry.ledger.insert(live);
        self.granted.entry(pod.clone()).or_default().insert(id.clone());
        self.look_at(cx, id, &pod, &uid, expires_at);
        if several {
            let due = Due::Incomplete { budget: id.clone(), pod, uid };
            cx.timers.at(recorded_at + INCOMPLETE_AFTER, &self.name, due);
        }
    }

    /// Looks at the grant at this time, and before that whenever its age is to be recorded.
    pub(super) fn look_at(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        pod: &str,
        uid: &str,
        at: Timestamp,
    ) {
        let due = Due::Expire { budget: id.clone(), pod: pod.to_owned(), uid: uid.to_owned() };
        // On a grid, so that several timers of one grant become one.
        let step = i64::try_from(AGE_STEP.as_millis()).unwrap_or(i64::MAX);
        let next_step = (cx.now + Duration::from_millis(1)).rounded_up(step);
        cx.timers.at(at.min(next_step), &self.name, due);
    }

    /// Bring the pod's count of grants, and the index that finds them, up to date.
    pub(super) fn recount_grants(&mut self, cx: &mut Context<'_>, pod: &str) {
        self.tidy_granted(pod);
        let Some(entry) = self.pods.get(pod) else { return };
        let granted = self.count_grants(pod, &entry.pod.uid.to_string());
        if granted != entry.granted && !planted!(StaleCounters) {
            for budget in self.set_granted(pod, granted) {
                self.touch(cx, &budget);
            }
        }
    }

    fn tidy_granted(&mut self, pod: &str) {
        if let Some(ids) = self.granted.get_mut(pod) {
            ids.retain(|id| self.budgets.get(id).is_some_and(|b| b.ledger.names(pod)));
            if ids.is_empty() {
                self.granted.remove(pod);
            }
        }
    }
}

/// Whether the grant's own pod shows that what was granted, other than an eviction, has happened to it.
fn shows(pod: &KeptPod, grant: &Grant) -> bool {
    match grant.operation {
        Operation::Evict => false,
        Operation::Delete => pod.terminating,
        // Its label says that it is unavailable, or all of the new spec is in effect.
        Operation::Update | Operation::Resize => {
            let stored = grant.generation > 0 && i64::from(pod.generation) >= grant.generation;
            let available = pod.ready && pod.facts.settled() && pod.facts.applied();
            pod.terminating
                || (grant.generation == 0 && !pod.facts.settled())
                || (stored && (available || planted!(UpdateIsOver)))
        }
    }
}
