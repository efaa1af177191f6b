//! Recorded permissions to disrupt pods, over all budgets of a namespace (semantics 5).
//!
//! ```text
//! status on the API server --reconcile--> ledger of the budget --by pod--> how many grants a pod has
//! request --add, refund-------------------^  |          |
//! pods --evidence, rebind, expiry------------+          v
//!                                                    ended: counts no more, the next write drops it
//! deleted budget --> orphans, for two minutes --adopt--> ledger of the next budget of that name
//! ```
//!
//! Nothing here sends a command or counts a pod. Each change says in [`Changes`] what follows from it.

mod evidence;
mod expiry;
mod ledger;
mod live;
mod orphans;
mod rebind;
mod reconcile;
mod record;
#[cfg(test)]
mod testing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cache::CachedPod;
use crate::model::{
    BudgetId, BudgetKey, BudgetStatus, Grant, PendingReplacement, ResourceVersion, Timestamp,
};
use crate::timer::Due;
pub(crate) use expiry::{Cached, Check, Finding, READ_AGAIN, judge_read};
pub(crate) use ledger::Ledger;
use live::State;
pub(crate) use live::{AGE_STEP, LiveGrant};
use orphans::Orphans;
use rebind::CurrentPod;
pub(crate) use record::has_recorded;

/// Name and uid of a pod.
type PodKey = (String, String);

#[derive(Clone, Debug, Default)]
pub(crate) struct Grants {
    /// One for each budget that exists.
    ledgers: BTreeMap<BudgetId, Ledger>,
    /// Pod name to the budgets whose ledger names it.
    by_pod: BTreeMap<String, BTreeSet<BudgetId>>,
    orphans: Orphans,
}

/// What follows from a change of grants. Empty after nearly every event of a pod.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Changes {
    pub(crate) timers: Vec<(Timestamp, Due)>,
    /// Budgets that ended a grant because of the pods of a version. Their status has to name that version.
    pub(crate) ended: Vec<(BudgetId, ResourceVersion)>,
    /// Names of pods whose grants have to be counted again.
    pub(crate) pods: Vec<String>,
}

/// What a reconciliation with a status has brought.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Reconciled {
    pub(crate) changes: Changes,
    /// Grants that were not known before.
    pub(crate) unknown: Vec<Grant>,
    /// Names of pods whose grants may have to be rebound.
    pub(crate) pods: BTreeSet<String>,
}

impl Grants {
    pub(crate) fn ledger(&self, budget: &BudgetKey) -> &Ledger {
        static EMPTY: Ledger = Ledger::EMPTY;
        self.ledgers.get(budget).unwrap_or(&EMPTY)
    }

    /// Returns how many budgets, deleted ones too, have a grant for the pod.
    pub(crate) fn count(&self, pod: &str, uid: &str) -> u32 {
        let holding = self.of_pod(pod).filter(|id| self.ledger(id).get(pod, uid).is_some()).count();
        u32::try_from(holding + self.orphans.count(pod, uid)).unwrap_or(u32::MAX)
    }

    /// Returns whether a budget has a grant for a pod of this name.
    pub(crate) fn names(&self, pod: &str) -> bool {
        self.by_pod.contains_key(pod)
    }

    /// Returns the budgets that have a grant for a pod of this name.
    pub(crate) fn of_pod(&self, pod: &str) -> impl Iterator<Item = &BudgetId> {
        self.by_pod.get(pod).into_iter().flatten()
    }

    /// Returns whether deleted budgets have left anything.
    pub(crate) fn has_orphans(&self) -> bool {
        !self.orphans.is_empty()
    }

    /// The budget exists from now on.
    pub(crate) fn open(&mut self, budget: &BudgetId) {
        self.ledgers.insert(budget.clone(), Ledger::default());
    }

    /// The budget is gone. What the API server had of its grants is kept for a successor.
    pub(crate) fn close(
        &mut self,
        budget: &BudgetId,
        replacements: Vec<PendingReplacement>,
        now: Timestamp,
    ) -> Changes {
        let mut changes = Changes::default();
        let Some(ledger) = self.ledgers.remove(budget) else { return changes };
        if let Some(until) = self.orphans.keep(budget, ledger.into_committed(), replacements, now) {
            changes.timers.push((until, Due::Orphan { budget: budget.clone() }));
        }
        let named = self.by_pod.iter().filter(|(_, ids)| ids.contains(budget));
        changes.pods = named.map(|(pod, _)| pod.clone()).collect();
        for pod in &changes.pods {
            self.tidy(pod);
        }
        changes
    }

    /// Another client has replaced the budget's status. What that lacks is kept as if a predecessor had left it.
    pub(crate) fn keep_unrecorded(&mut self, budget: &BudgetId, now: Timestamp) -> Changes {
        let mut changes = Changes::default();
        if let Some(ledger) = self.ledgers.get_mut(budget) {
            ledger.keep_unrecorded();
            changes.timers.push((now + orphans::KEPT, Due::Orphan { budget: budget.clone() }));
        }
        changes
    }

    /// Adds a grant that is about to be written. `read_as` is the pod's version, if a read was decided by.
    pub(crate) fn add(
        &mut self,
        budget: &BudgetId,
        grant: Grant,
        read_as: Option<ResourceVersion>,
        now: Timestamp,
    ) -> Changes {
        let mut changes = Changes::default();
        let Some(ledger) = self.ledgers.get_mut(budget) else { return changes };
        let live = ledger.renew_or_insert(grant, read_as, now);
        let pod = live.grant.pod.clone();
        changes.watch(budget, live, now);
        changes.pods.push(pod.clone());
        self.by_pod.entry(pod).or_default().insert(budget.clone());
        changes
    }

    /// Removes the grant that this eviction wrote, if nothing has renewed it since.
    pub(crate) fn refund(&mut self, budget: &BudgetKey, pod: &str, eviction: &str) -> Changes {
        let mut changes = Changes::default();
        if let Some(ledger) = self.ledgers.get_mut(budget) {
            ledger.refund(pod, eviction);
            self.tidy(pod);
            changes.pods.push(pod.to_owned());
        }
        changes
    }

    /// The write that carried uncommitted grants did not happen. The pods of the changes may have to be rebound.
    pub(crate) fn drop_uncommitted(&mut self, budget: &BudgetId, now: Timestamp) -> Changes {
        let mut changes = Changes::default();
        let Some(ledger) = self.ledgers.get_mut(budget) else { return changes };
        let (dropped, replaced) = ledger.drop_uncommitted();
        for live in replaced {
            self.insert(budget, live, now, &mut changes);
        }
        for pod in &dropped {
            self.tidy(pod);
        }
        changes.pods.extend(dropped);
        changes
    }

    /// Makes the ledger agree with the budget's status on the API server. Grants under way stay.
    pub(crate) fn reconcile<'a>(
        &mut self,
        budget: &BudgetId,
        status: &BudgetStatus,
        is_writing: bool,
        now: Timestamp,
        pod_of: impl Fn(&str) -> Option<&'a CachedPod>,
    ) -> Reconciled {
        let mut result = Reconciled::default();
        let Some(ledger) = self.ledgers.get_mut(budget) else { return result };
        let differences = ledger.reconcile(status, is_writing, now);
        let lost = differences.lost;
        result.pods = lost.keys().map(|(pod, _)| pod.clone()).collect();
        for recorded in differences.moved {
            // Its writer may have seen a later pod of the name than we have. If we have seen as much, it passes to the
            // pod that is there now.
            let Grant { pod, uid, .. } = &recorded.grant;
            result.changes.check_at(budget, (pod, uid), recorded.expires_at(), now);
            result.pods.insert(pod.clone());
            ledger.move_to_record(recorded);
        }
        for grant in differences.unknown {
            result.unknown.push(grant.clone());
            result.pods.insert(grant.pod.clone());
            let pod = pod_of(&grant.pod).filter(|pod| pod.uid == *grant.uid);
            let is_over = |p: &&CachedPod| {
                evidence::shows_eviction(p, &grant) || evidence::shows_other_operation(p, &grant)
            };
            let ended_by = pod.filter(is_over).map(|pod| pod.version.clone());
            let known_since = lost.get(&(grant.pod.clone(), grant.uid.clone())).copied();
            let mut live = LiveGrant::new(grant, now, State::Committed);
            if let Some(known_since) = known_since {
                live = live.renewing(known_since);
            }
            match ended_by {
                None => self.insert(budget, live, now, &mut result.changes),
                Some(version) => {
                    if let Some(ledger) = self.ledgers.get_mut(budget) {
                        ledger.note_ended(live);
                    }
                    result.changes.ended.push((budget.clone(), version));
                }
            }
        }
        for pod in &result.pods {
            self.tidy(pod);
        }
        result
    }

    /// The pod's state of this version shows that an eviction took it: its grants have done their work. Without that
    /// evidence they pass to the successor of the same name.
    pub(crate) fn end_taken(&mut self, pod: &str, uid: &str, version: &ResourceVersion) -> Changes {
        self.orphans.end(pod, uid, Grant::ends_by_evidence);
        self.end_each(pod, version, |ledger| ledger.end_taken(pod, uid))
    }

    /// The pod shows that a delete, an update or a resize has happened to it: their grants end.
    pub(crate) fn end_done(&mut self, name: &str, pod: &CachedPod) -> Changes {
        if !self.names(name) {
            return Changes::default();
        }
        let uid = pod.uid.to_string();
        let is_done = |grant: &Grant| evidence::shows_other_operation(pod, grant);
        self.end_such(name, &uid, &pod.version, is_done)
    }

    /// The pod is gone by this version. Grants that can hit no other pod end, for whatever reason it went.
    pub(crate) fn end_exact(&mut self, pod: &str, uid: &str, version: &ResourceVersion) -> Changes {
        if planted!(GrantByName) {
            return Changes::default();
        }
        self.orphans.end(pod, uid, Grant::is_exact);
        self.end_such(pod, uid, version, Grant::is_exact)
    }

    /// Ends one grant. Returns whether there was one.
    pub(crate) fn end(&mut self, budget: &BudgetKey, pod: &str, uid: &str) -> bool {
        let ended = self.ledgers.get_mut(budget).is_some_and(|ledger| ledger.end(pod, uid));
        self.tidy(pod);
        ended
    }

    /// Grants for an earlier pod of this name pass to the pod that has the name now, and entries without uid are bound
    /// to it. `is_behind`: whether this instance has seen fewer pods than the budget's grants were decided by.
    pub(crate) fn rebind(
        &mut self,
        name: &str,
        pod: &CachedPod,
        now: Timestamp,
        is_behind: impl Fn(&BudgetId) -> bool,
    ) -> Changes {
        let mut changes = Changes::default();
        let uid = pod.uid.to_string();
        for id in self.of_pod(name).cloned().collect::<Vec<_>>() {
            let Some(ledger) = self.ledgers.get_mut(&id) else { continue };
            let pod =
                CurrentPod { name, uid: &uid, version: &pod.version, is_behind: is_behind(&id) };
            let rebound = ledger.rebind(pod, now);
            ledger.has_held_back |= rebound.held_back;
            if let Some(expires_at) = rebound.expires_at {
                changes.check_at(&id, (name, &uid), expires_at, now);
            }
            if rebound.ended {
                changes.ended.push((id, pod.version.clone()));
            }
        }
        self.tidy(name);
        changes.pods.push(name.to_owned());
        changes
    }

    /// No pod up to this version has the name. Where this instance has seen the pods that a grant was decided by, the
    /// pod of that grant is gone. `names_pods`: whether the budget's status says which pods it was computed from.
    pub(crate) fn end_gone(
        &mut self,
        name: &str,
        seen: &ResourceVersion,
        now: Timestamp,
        is_behind: impl Fn(&BudgetId) -> bool,
        names_pods: impl Fn(&BudgetId) -> bool,
    ) -> Changes {
        let mut changes = Changes::default();
        for id in self.of_pod(name).cloned().collect::<Vec<_>>() {
            let Some(ledger) = self.ledgers.get_mut(&id) else { continue };
            let is_behind = is_behind(&id);
            ledger.has_held_back |= is_behind;
            if !is_behind && names_pods(&id) && ledger.end_gone(name, seen, now) {
                changes.ended.push((id, seen.clone()));
            }
        }
        self.tidy(name);
        changes
    }

    /// The cache has caught up with what the budget's grants were decided by. Returns the pods that have grants in it.
    pub(crate) fn take_held_back(&mut self, budget: &BudgetKey) -> BTreeSet<String> {
        let Some(ledger) = self.ledgers.get_mut(budget) else { return BTreeSet::new() };
        ledger.has_held_back = false;
        ledger.live().map(|grant| grant.pod.clone()).collect()
    }

    /// The grant expires, and its pod is still there: requests for it are denied for a while.
    pub(crate) fn deny_for_a_while(
        &mut self,
        budget: &BudgetKey,
        pod: &str,
        uid: &str,
        now: Timestamp,
    ) {
        if let Some(ledger) = self.ledgers.get_mut(budget) {
            ledger.deny_for_a_while(pod, uid, now);
        }
    }

    /// Returns true once per grant: the event that its pod was not deleted is still to be published.
    pub(crate) fn begin_report(&mut self, budget: &BudgetKey, pod: &str, uid: &str) -> bool {
        self.ledgers.get_mut(budget).is_some_and(|ledger| ledger.begin_report(pod, uid))
    }

    /// The budget is back. Returns what its predecessor has left, which [`Self::adopt`] takes in one by one.
    pub(crate) fn take_orphans(
        &mut self,
        budget: &BudgetKey,
    ) -> (Vec<LiveGrant>, Vec<PendingReplacement>) {
        self.orphans.adopt(budget)
    }

    /// Takes in a grant of the budget's predecessor. None if the budget's own object has one for that pod.
    pub(crate) fn adopt(
        &mut self,
        budget: &BudgetId,
        mut live: LiveGrant,
        now: Timestamp,
    ) -> Option<Changes> {
        if self.ledger(budget).get(&live.grant.pod, &live.grant.uid).is_some() {
            return None;
        }
        // Not on the new object yet; the write that this leads to records it.
        live.state = State::Adopted;
        let mut changes = Changes::default();
        self.insert(budget, live, now, &mut changes);
        Some(changes)
    }

    /// A request wrote a grant into a budget that is gone, and came to nothing. Returns whether grants are left of that.
    pub(crate) fn refund_orphan(&mut self, budget: &BudgetKey, pod: &str, eviction: &str) -> bool {
        self.orphans.refund(budget, pod, eviction)
    }

    /// Nothing that the deleted budget granted is under way any more. None while a later deletion keeps what is left.
    pub(crate) fn forget_orphans(&mut self, budget: &BudgetKey, now: Timestamp) -> Option<Changes> {
        let left = self.orphans.forget(budget, now)?;
        let pods = left.into_iter().map(|live| live.grant.pod).collect();
        Some(Changes { pods, ..Changes::default() })
    }

    /// Ends the grants of a pod for which that holds, together with the version that justifies it.
    fn end_such(
        &mut self,
        pod: &str,
        uid: &str,
        version: &ResourceVersion,
        ends: impl Fn(&Grant) -> bool,
    ) -> Changes {
        let mut changes = self.end_each(pod, version, |ledger| {
            let is_over = ledger.get(pod, uid).is_some_and(|live| ends(&live.grant));
            is_over && ledger.end(pod, uid)
        });
        if !changes.ended.is_empty() {
            changes.pods.push(pod.to_owned());
        }
        changes
    }

    fn end_each(
        &mut self,
        pod: &str,
        version: &ResourceVersion,
        mut end: impl FnMut(&mut Ledger) -> bool,
    ) -> Changes {
        let mut changes = Changes::default();
        for id in self.by_pod.get(pod).into_iter().flatten() {
            if self.ledgers.get_mut(id).is_some_and(&mut end) {
                changes.ended.push((id.clone(), version.clone()));
            }
        }
        self.tidy(pod);
        changes
    }

    fn insert(
        &mut self,
        budget: &BudgetId,
        live: LiveGrant,
        now: Timestamp,
        changes: &mut Changes,
    ) {
        let Some(ledger) = self.ledgers.get_mut(budget) else { return };
        changes.watch(budget, &live, now);
        self.by_pod.entry(live.grant.pod.clone()).or_default().insert(budget.clone());
        ledger.insert(live);
    }

    fn tidy(&mut self, pod: &str) {
        if let Some(ids) = self.by_pod.get_mut(pod) {
            ids.retain(|id| self.ledgers.get(id).is_some_and(|ledger| ledger.names(pod)));
            if ids.is_empty() {
                self.by_pod.remove(pod);
            }
        }
    }
}

impl Changes {
    /// Looks at the grant when it expires, and when its reservations are to be complete.
    fn watch(&mut self, budget: &BudgetId, live: &LiveGrant, now: Timestamp) {
        let Grant { pod, uid, .. } = &live.grant;
        self.check_at(budget, (pod, uid), live.expires_at(), now);
        if live.grant.budgets.len() > 1 {
            let (budget, pod, uid) = (budget.clone(), pod.clone(), uid.clone());
            self.timers.push((live.complete_by(), Due::Incomplete { budget, pod, uid }));
        }
    }

    fn check_at(&mut self, budget: &BudgetId, pod: (&str, &str), at: Timestamp, now: Timestamp) {
        self.timers.push(check(budget, pod, at, now));
    }
}

/// Returns a timer of a grant that is to be looked at then. It fires earlier if its age is to be recorded before.
pub(crate) fn check(
    budget: &BudgetId,
    (pod, uid): (&str, &str),
    at: Timestamp,
    now: Timestamp,
) -> (Timestamp, Due) {
    // On a grid, so that several timers of one grant become one.
    let step = i64::try_from(AGE_STEP.as_millis()).unwrap_or(i64::MAX);
    let next_step = (now + Duration::from_millis(1)).rounded_up(step);
    let due = Due::Expire { budget: budget.clone(), pod: pod.to_owned(), uid: uid.to_owned() };
    (at.min(next_step), due)
}
