//! The grants of one budget (semantics 5).

use std::collections::{BTreeMap, BTreeSet};

use super::PodKey;
use super::live::{LiveGrant, State};
use super::reconcile::OTHERS_TURN;
use super::record::{RecordKey, size};
use crate::model::{BudgetStatus, Grant, ResourceVersion, Timestamp};

/// Bounds on one budget's grants: the object must fit into etcd with room to spare.
const GRANTS_MAX: usize = 2000;
const GRANTS_BYTES_MAX: usize = 512 * 1024;

#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(super) grants: BTreeMap<PodKey, LiveGrant>,
    /// Grants that have done their work or expired. They count no more, and the next write drops them. Until then the
    /// API server may still show them.
    pub(super) ended: BTreeSet<RecordKey>,
    /// Pods whose requests are denied until then, and while the API server still shows their grant. Requests for such
    /// a pod went on until its grant expired, and did not delete it. Now other pods get a turn.
    pub(super) denied_until: BTreeMap<PodKey, Timestamp>,
    /// Grants were held back because they may be for a later pod than the cache has.
    pub(super) has_held_back: bool,
}

impl Ledger {
    pub(super) const EMPTY: Self = Self {
        grants: BTreeMap::new(),
        ended: BTreeSet::new(),
        denied_until: BTreeMap::new(),
        has_held_back: false,
    };

    pub(crate) fn live(&self) -> impl Iterator<Item = &Grant> {
        self.grants.values().map(|live| &live.grant)
    }

    /// Returns the live grant of the pod with this uid.
    pub(crate) fn get(&self, pod: &str, uid: &str) -> Option<&LiveGrant> {
        self.grants.get(&(pod.to_owned(), uid.to_owned()))
    }

    /// Another client has replaced the status. Grants that the new one lacks are to be written again.
    pub(super) fn keep_unrecorded(&mut self) {
        for live in self.grants.values_mut().filter(|live| !live.is_foreign) {
            let replaced = live.replaced.as_deref_mut().map(|replaced| &mut replaced.state);
            for state in replaced.into_iter().chain([&mut live.state]) {
                if *state == State::Committed {
                    *state = State::Adopted;
                }
            }
        }
    }

    /// Returns the grant of the pod with this uid unless its first write is under way.
    pub(crate) fn settled(&self, pod: &str, uid: &str) -> Option<&LiveGrant> {
        self.get(pod, uid).filter(|live| live.state != State::InFlight)
    }

    /// Returns whether the API server is known to have the grant for this pod.
    pub(crate) fn is_committed(&self, pod: &str, uid: &str) -> bool {
        self.get(pod, uid).is_some_and(|live| live.state == State::Committed)
    }

    /// Returns whether the status is known to hold a grant for the pod, or the status of the budget's predecessor was.
    pub(crate) fn is_recorded(&self, pod: &str, uid: &str) -> bool {
        let live = self.get(pod, uid);
        live.is_some_and(|live| live.state != State::InFlight || live.replaced.is_some())
    }

    /// As [`Self::is_committed`], of a grant whose eviction cannot hit another pod of the name.
    pub(crate) fn has_pinned(&self, pod: &str, uid: &str) -> bool {
        self.is_committed(pod, uid) && self.get(pod, uid).is_some_and(|live| live.grant.pinned)
    }

    /// Returns whether any grant is for a pod of this name.
    pub(crate) fn names(&self, pod: &str) -> bool {
        self.of_pod(pod).next().is_some()
    }

    /// Returns whether the budget may grant no more.
    pub(crate) fn is_full(&self) -> bool {
        self.grants.len() >= GRANTS_MAX || self.live().map(size).sum::<usize>() >= GRANTS_BYTES_MAX
    }

    /// Returns whether there are grants of the budget's predecessor that its own object does not have yet.
    pub(crate) fn has_adopted(&self) -> bool {
        self.grants.values().any(|live| live.state == State::Adopted)
    }

    /// Returns whether grants wait for the cache to catch up with what they were decided by.
    pub(crate) fn has_held_back(&self) -> bool {
        self.has_held_back
    }

    /// Returns whether requests for this pod are denied because its last grant came to nothing.
    pub(crate) fn is_denied(&self, pod: &str, uid: &str, now: Timestamp) -> bool {
        if self.denied_until.is_empty() {
            return false;
        }
        let until = self.denied_until.get(&(pod.to_owned(), uid.to_owned()));
        until.is_some_and(|until| now < *until || is_among(&self.ended, pod, uid))
    }

    /// Puts the grants into a status that is about to be written.
    pub(crate) fn write_into(&self, status: &mut BudgetStatus, now: Timestamp) {
        status.disrupted_pods = self.live().map(|g| (g.pod.clone(), g.granted_at)).collect();
        let own = self.grants.values().filter(|live| !live.is_foreign);
        status.grants = own.map(|live| live.to_record(now)).collect();
    }

    pub(super) fn insert(&mut self, live: LiveGrant) {
        self.grants.insert((live.grant.pod.clone(), live.grant.uid.clone()), live);
    }

    pub(super) fn remove(&mut self, pod: &str, uid: &str) -> Option<LiveGrant> {
        self.grants.remove(&(pod.to_owned(), uid.to_owned()))
    }

    /// A grant that is to be written. It renews the grant that the pod has.
    pub(super) fn renew_or_insert(
        &mut self,
        grant: Grant,
        read_as: Option<ResourceVersion>,
        now: Timestamp,
    ) -> &LiveGrant {
        let replaced = self.remove(&grant.pod, &grant.uid).map(Box::new);
        let mut live = LiveGrant::new(grant, now, State::InFlight);
        if let Some(replaced) = &replaced {
            // The record has whole seconds; a request that renews every moment must not stop the age.
            live = live.renewing(replaced.since);
            live.is_reported = replaced.is_reported;
        }
        (live.read_as, live.replaced) = (read_as, replaced);
        self.grants
            .entry((live.grant.pod.clone(), live.grant.uid.clone()))
            .insert_entry(live)
            .into_mut()
    }

    /// Removes the grants that this eviction wrote for pods of the name and that nothing has renewed since.
    pub(super) fn refund(&mut self, pod: &str, eviction: &str) {
        let others = !planted!(RefundOthers);
        self.grants
            .retain(|_, live| live.grant.pod != pod || (others && live.grant.eviction != eviction));
    }

    /// A grant is recorded for another pod of the name than it was bound to.
    pub(super) fn move_to_record(&mut self, recorded: LiveGrant) {
        let key = (recorded.grant.pod.clone(), recorded.grant.uid.clone());
        match self.grants.get_mut(&key) {
            // Ours renews it. Should that not be written, this one still is.
            Some(own) if own.state == State::InFlight => own.replaced = Some(Box::new(recorded)),
            Some(_) => {}
            None => self.insert(recorded),
        }
    }

    /// The write that carried uncommitted grants did not happen. Returns the names of their pods, and the grants that
    /// they were to replace.
    pub(super) fn drop_uncommitted(&mut self) -> (BTreeSet<String>, Vec<LiveGrant>) {
        let (mut dropped, mut replaced) = (BTreeSet::new(), Vec::new());
        self.grants.retain(|_, live| {
            let stays = live.state != State::InFlight;
            if !stays {
                dropped.insert(live.grant.pod.clone());
                replaced.extend(live.replaced.take());
            }
            stays
        });
        (dropped, replaced.into_iter().map(|live| *live).collect())
    }

    /// Ends the grant of the pod with this uid. Returns whether there was one.
    pub(super) fn end(&mut self, pod: &str, uid: &str) -> bool {
        let live = self.remove(pod, uid);
        live.map(|live| self.note_ended(live)).is_some()
    }

    /// The pod terminates with the condition of the Eviction API. A grant that may stand for an eviction still under
    /// way goes on, to the next pod of the name, until it expires. Returns whether one ended.
    pub(super) fn end_taken(&mut self, pod: &str, uid: &str) -> bool {
        let ends = self.get(pod, uid).is_some_and(|live| live.grant.ends_by_evidence());
        ends && self.end(pod, uid)
    }

    /// The pods up to this version have no pod of this name. Ends grants that can hit no other pod, and those whose
    /// evictions by name have ended. Returns whether one ended.
    pub(super) fn end_gone(&mut self, pod: &str, seen: &ResourceVersion, now: Timestamp) -> bool {
        let is_over = |live: &&LiveGrant| {
            let known = live.read_as.as_ref().is_none_or(|read| !seen.is_older_than(read));
            known && !live.grant.uid.is_empty() && live.grant.is_exact()
                || known && live.is_rebound && live.has_handler_ended(now)
        };
        let over = self.of_pod(pod).filter(is_over).map(|live| live.grant.uid.clone());
        let over: Vec<String> = over.collect();
        for uid in &over {
            self.end(pod, uid);
        }
        !over.is_empty()
    }

    /// Whatever becomes of a renewal that is in flight, the grant that it replaces has ended too. A renewal that is
    /// recorded for another pod of the name than it was rebound to keeps that record.
    pub(super) fn note_ended(&mut self, live: LiveGrant) {
        self.ended.insert(RecordKey::of(&live.grant));
        if let Some(replaced) = live.replaced {
            self.note_ended(*replaced);
        }
    }

    /// The grant expires, and its pod is still there.
    pub(super) fn deny_for_a_while(&mut self, pod: &str, uid: &str, now: Timestamp) {
        self.forget_denied(now);
        if self.get(pod, uid).is_some_and(|live| live.is_reported) {
            self.denied_until.insert((pod.to_owned(), uid.to_owned()), now + OTHERS_TURN);
        }
    }

    pub(super) fn forget_denied(&mut self, now: Timestamp) {
        let ended = &self.ended;
        self.denied_until.retain(|(pod, uid), until| now < *until || is_among(ended, pod, uid));
    }

    /// Returns true once per grant: the event that its pod was not deleted is still to be published.
    pub(super) fn begin_report(&mut self, pod: &str, uid: &str) -> bool {
        let live = self.grants.get_mut(&(pod.to_owned(), uid.to_owned()));
        live.is_some_and(|live| !std::mem::replace(&mut live.is_reported, true))
    }

    /// Returns the grants that the API server has, or should have because a predecessor of the budget had them.
    pub(super) fn into_committed(self) -> Vec<LiveGrant> {
        let settled = |live: LiveGrant| match live.state {
            // The grant that a renewal in flight replaces is still true.
            State::InFlight => live.replaced.map(|replaced| *replaced),
            State::Committed | State::Adopted => Some(live),
        };
        self.grants.into_values().filter_map(settled).collect()
    }

    pub(super) fn of_pod<'a>(&'a self, pod: &'a str) -> impl Iterator<Item = &'a LiveGrant> {
        self.grants
            .range((pod.to_owned(), String::new())..)
            .take_while(move |((name, _), _)| name == pod)
            .map(|(_, live)| live)
    }
}

fn is_among(ended: &BTreeSet<RecordKey>, pod: &str, uid: &str) -> bool {
    ended.iter().any(|key| key.is_for(pod, uid))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::grants::testing::{START, after, foreign, grant};

    fn ledger(grants: &[(State, Grant)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (state, grant) in grants {
            ledger.insert(LiveGrant::new(grant.clone(), START, *state));
        }
        ledger
    }

    #[test]
    fn a_renewal_that_is_not_written_leaves_the_earlier_grant() {
        let mut ledger = ledger(&[(State::Committed, grant("p", "u", "old"))]);
        // The record has whole seconds.
        let renewal = Grant { age_seconds: 10, ..grant("p", "u", "new") };
        ledger.renew_or_insert(renewal, None, after(10) + Duration::from_millis(900));
        let live = ledger.get("p", "u").unwrap();
        assert_eq!((&*live.grant.eviction, live.since), ("new", START), "as old as the first");
        assert!(ledger.settled("p", "u").is_none());
        let (pods, replaced) = ledger.drop_uncommitted();
        assert_eq!(pods, BTreeSet::from(["p".to_owned()]));
        assert_eq!(replaced[0].grant.eviction, "old");
    }

    #[test]
    fn a_refund_removes_the_grant_of_its_own_eviction_alone() {
        let mut ledger = ledger(&[(State::Committed, grant("p", "u", "e"))]);
        ledger.refund("p", "other");
        ledger.refund("q", "e");
        assert!(ledger.names("p"));
        ledger.refund("p", "e");
        assert!(!ledger.names("p"));
    }

    #[test]
    fn evidence_ends_a_grant_unless_another_eviction_may_share_it() {
        let shared = Grant { shared: true, ..grant("p", "u", "e") };
        let targeted_before = Grant { targeted_before: true, ..grant("p", "u", "e") };
        let pinned = Grant { pinned: true, shared: true, ..grant("p", "u", "e") };
        for (grant, ends) in [
            (grant("p", "u", "e"), true),
            (shared, false),
            (targeted_before, false),
            (pinned, true),
        ] {
            let mut ledger = ledger(&[(State::Committed, grant.clone())]);
            assert_eq!(ledger.end_taken("p", "u"), ends, "{grant:?}");
            assert!(!ledger.end_taken("p", "other"));
        }
    }

    #[test]
    fn a_pod_that_is_gone_ends_grants_that_can_hit_no_other() {
        let pinned = Grant { pinned: true, ..grant("p", "u", "e") };
        let deletes = Grant { operation: crate::model::Operation::Delete, ..grant("p", "u", "e") };
        for (grant, ends) in [
            (grant("p", "u", "e"), false),
            (pinned.clone(), true),
            (deletes, true),
            (foreign("p"), false),
        ] {
            let mut ledger = ledger(&[(State::Committed, grant.clone())]);
            assert_eq!(ledger.end_gone("p", &5.into(), START), ends, "{grant:?}");
        }
        // Decided by a read of version 6, which the pods seen so far do not include.
        let mut ledger = Ledger::default();
        ledger.renew_or_insert(pinned, Some(6.into()), START);
        assert!(!ledger.end_gone("p", &5.into(), START));
        assert!(ledger.end_gone("p", &6.into(), START));
    }

    #[test]
    fn a_deleted_budget_leaves_what_the_api_server_has() {
        let mut ledger = ledger(&[
            (State::Committed, grant("a", "u", "e")),
            (State::Adopted, grant("b", "u", "e")),
            (State::InFlight, grant("c", "u", "e")),
            (State::Committed, grant("d", "u", "old")),
        ]);
        ledger.renew_or_insert(grant("d", "u", "new"), None, START);
        let left = ledger.into_committed();
        let left: Vec<_> = left.iter().map(|l| (&*l.grant.pod, &*l.grant.eviction)).collect();
        assert_eq!(left, [("a", "e"), ("b", "e"), ("d", "old")]);
    }

    #[test]
    fn requests_are_denied_while_an_expired_grant_is_shown_and_ten_seconds_more() {
        let mut ledger = ledger(&[(State::Committed, grant("p", "u", "e"))]);
        ledger.deny_for_a_while("p", "u", START);
        assert!(!ledger.is_denied("p", "u", START), "no request was told that it is not deleted");
        assert!(ledger.begin_report("p", "u"));
        assert!(!ledger.begin_report("p", "u"), "once");
        ledger.deny_for_a_while("p", "u", START);
        assert!(ledger.end("p", "u"));
        assert!(ledger.is_denied("p", "u", after(60)), "the status may still show it");
        let _ = ledger.reconcile(&BudgetStatus::default(), false, after(60));
        assert!(ledger.is_denied("p", "u", after(69)));
        assert!(!ledger.is_denied("p", "u", after(70)));
        assert!(!ledger.is_denied("p", "another", START));
    }

    #[test]
    fn a_full_ledger_is_full_by_number_or_by_size() {
        let many = |n: usize| {
            let grants = (0..n).map(|n| (State::Committed, grant(&format!("p{n}"), "u", "e")));
            ledger(&grants.collect::<Vec<_>>())
        };
        assert!(!many(GRANTS_MAX - 1).is_full());
        assert!(many(GRANTS_MAX).is_full());
        let large = Grant { requester: "r".repeat(GRANTS_BYTES_MAX), ..grant("p", "u", "e") };
        assert!(ledger(&[(State::Committed, large)]).is_full());
    }
}
