//! The grants of one budget, and what its status on the API server says of them (semantics 5).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::live_grant::{LiveGrant, State};
use crate::model::{BudgetStatus, Grant, Operation, ResourceVersion, Timestamp};

/// A reservation in several budgets that nobody completes is refunded.
pub(super) const INCOMPLETE_AFTER: Duration = Duration::from_secs(15);
/// Longer than `kubectl drain` waits until it asks again.
const OTHERS_TURN: Duration = Duration::from_secs(10);
/// Bounds on one budget's grants: the object must fit into etcd with room to spare.
const GRANTS_MAX: usize = 2000;
const GRANTS_BYTES_MAX: usize = 512 * 1024;

#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// By pod name and uid.
    grants: BTreeMap<(String, String), LiveGrant>,
    /// Seen to have done their work, or expired. They count no more, and the next write drops them;
    /// until then the API server may still show them.
    ended: BTreeSet<Record>,
    /// Pods, by name and uid, whose requests are denied until then, and while the API server still shows their grant, so
    /// that others get a turn: requests went on until the grant expired, and did not delete the pod.
    refused: BTreeMap<(String, String), Timestamp>,
}

/// What tells grants apart in a status: the pod, the eviction that wrote it, and the pod's uid. Entries
/// that somebody else wrote have no eviction, and a time in place of a uid.
type Record = (String, String, String);

/// What came of making a ledger agree with a status.
#[derive(Default)]
pub(super) struct Agreed {
    /// Grants that are recorded for another pod of the name than they were bound to.
    pub(super) elsewhere: Vec<LiveGrant>,
    /// Grants that are recorded and were not known.
    pub(super) unknown: Vec<Grant>,
    /// Pods, by name and uid, that lost a grant, and since when they had it.
    pub(super) lost: BTreeMap<(String, String), Timestamp>,
}

impl Ledger {
    pub(super) fn live(&self) -> impl Iterator<Item = &Grant> {
        self.grants.values().map(|g| &g.grant)
    }

    /// The live grant for this very pod.
    pub(super) fn get(&self, pod: &str, uid: &str) -> Option<&Grant> {
        self.entry(pod, uid).map(|g| &g.grant)
    }

    pub(super) fn is_full(&self) -> bool {
        self.grants.len() >= GRANTS_MAX || self.live().map(size).sum::<usize>() >= GRANTS_BYTES_MAX
    }

    /// Whether there are grants of the budget's predecessor that its own object does not have yet.
    pub(super) fn has_adopted(&self) -> bool {
        self.grants.values().any(|g| g.state == State::Adopted)
    }

    /// The grants as they are to be written.
    pub(super) fn write_into(&self, status: &mut BudgetStatus, now: Timestamp) {
        status.disrupted_pods = self.live().map(|g| (g.pod.clone(), g.granted_at)).collect();
        let own = self.grants.values().filter(|g| !g.foreign);
        status.grants = own.map(|g| g.to_record(now)).collect();
    }

    pub(super) fn into_committed(self) -> Vec<LiveGrant> {
        // What a renewal in flight stands in for is still true.
        let settled = |live: LiveGrant| match live.state {
            State::InFlight => live.replaced.map(|replaced| *replaced),
            State::Committed | State::Adopted => Some(live),
        };
        self.grants.into_values().filter_map(settled).collect()
    }

    /// Returns a grant that is not just being written.
    pub(super) fn settled(&self, pod: &str, uid: &str) -> Option<&LiveGrant> {
        self.entry(pod, uid).filter(|g| g.state != State::InFlight)
    }

    /// Returns whether the API server is known to have the grant for this pod.
    pub(super) fn is_committed(&self, pod: &str, uid: &str) -> bool {
        self.entry(pod, uid).is_some_and(|g| g.state == State::Committed)
    }

    /// Whether the status is known to hold a grant for the pod, or the status of the budget's predecessor was.
    pub(super) fn is_recorded(&self, pod: &str, uid: &str) -> bool {
        let live = self.entry(pod, uid);
        live.is_some_and(|live| live.state != State::InFlight || live.replaced.is_some())
    }

    /// As [`Self::is_committed`], of a grant whose eviction cannot hit another pod of the name.
    pub(super) fn has_pinned(&self, pod: &str, uid: &str) -> bool {
        self.is_committed(pod, uid) && self.get(pod, uid).is_some_and(|grant| grant.pinned)
    }

    /// Returns whether requests for this pod are denied because its last grant came to nothing.
    pub(super) fn is_refused(&self, pod: &str, uid: &str, now: Timestamp) -> bool {
        if self.refused.is_empty() {
            return false;
        }
        let until = self.refused.get(&(pod.to_owned(), uid.to_owned()));
        until.is_some_and(|until| now < *until || is_among(&self.ended, pod, uid))
    }

    /// The grant expires, and its pod is still there.
    pub(super) fn refuse(&mut self, pod: &str, uid: &str, now: Timestamp) {
        self.forget_refused(now);
        if self.entry(pod, uid).is_some_and(|live| live.reported) {
            self.refused.insert((pod.to_owned(), uid.to_owned()), now + OTHERS_TURN);
        }
    }

    fn forget_refused(&mut self, now: Timestamp) {
        let ended = &self.ended;
        self.refused.retain(|(pod, uid), until| now < *until || is_among(ended, pod, uid));
    }

    /// Returns true once per grant: the event that its pod was not deleted is still to be published.
    pub(super) fn begin_report(&mut self, pod: &str, uid: &str) -> bool {
        let live = self.grants.get_mut(&(pod.to_owned(), uid.to_owned()));
        live.is_some_and(|live| !std::mem::replace(&mut live.reported, true))
    }

    /// Whether a write that carries it is under way.
    pub(super) fn is_in_flight(&self, pod: &str, uid: &str) -> bool {
        self.entry(pod, uid).is_some_and(|g| g.state == State::InFlight)
    }

    /// Whether any grant is for a pod of this name.
    pub(super) fn names(&self, pod: &str) -> bool {
        self.of_pod(pod).next().is_some()
    }

    pub(super) fn insert(&mut self, live: LiveGrant) {
        self.grants.insert((live.grant.pod.clone(), live.grant.uid.clone()), live);
    }

    pub(super) fn remove(&mut self, pod: &str, uid: &str) -> Option<LiveGrant> {
        self.grants.remove(&(pod.to_owned(), uid.to_owned()))
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Grant) -> bool) {
        self.grants.retain(|_, live| keep(&live.grant));
    }

    /// The pod terminates with the condition of the Eviction API. A grant that may stand for an eviction still under
    /// way goes on, to the next pod of the name, until it expires. Returns whether one ended.
    pub(super) fn end_taken(&mut self, pod: &str, uid: &str) -> bool {
        let ends = self.get(pod, uid).is_some_and(Grant::ends_by_evidence);
        ends && self.end(pod, uid)
    }

    /// The pods up to this version have no pod of this name. Ends grants that can hit no other pod, and those whose
    /// evictions by name have ended. Returns whether one ended.
    pub(super) fn end_gone(&mut self, pod: &str, seen: &ResourceVersion, now: Timestamp) -> bool {
        let is_over = |live: &&LiveGrant| {
            let known = live.read_as.as_ref().is_none_or(|read| !seen.is_older_than(read));
            known && !live.grant.uid.is_empty() && live.grant.is_exact()
                || known && live.passed && live.has_handler_ended(now)
        };
        let over = self.of_pod(pod).filter(is_over).map(|live| live.grant.uid.clone());
        let over: Vec<String> = over.collect();
        for uid in &over {
            self.end(pod, uid);
        }
        !over.is_empty()
    }

    /// The grant for this very pod has done its work, or expired. Returns whether there was one.
    pub(super) fn end(&mut self, pod: &str, uid: &str) -> bool {
        let live = self.remove(pod, uid);
        live.map(|live| self.bury(live)).is_some()
    }

    /// Whatever becomes of a renewal that is in flight, what it stands in for has ended too. Of one that is
    /// recorded for another pod of the name than it had passed to, that record has not.
    pub(super) fn bury(&mut self, live: LiveGrant) {
        self.ended.insert(record_of(&live.grant));
        if let Some(replaced) = live.replaced {
            self.bury(*replaced);
        }
    }

    /// The grants of other pods of this name pass to this one, as of this version, unless they may be for a
    /// later one: while we are behind what they were decided by, or when a live read has shown it. It keeps
    /// the one that it has; should that be refunded, it gets another one then.
    pub(super) fn pass_on(
        &mut self,
        (pod, uid): (&str, &str),
        version: &ResourceVersion,
        behind: bool,
        now: Timestamp,
    ) -> Passed {
        let mut passed = Passed::default();
        let is_later = |live: &LiveGrant| {
            let read = live.read_as.as_ref().is_some_and(|read| version.is_older_than(read));
            read || (behind && !live.grant.uid.is_empty())
        };
        let strays = self.of_pod(pod).map(|g| g.grant.uid.clone()).filter(|of| of != uid);
        for of in strays.filter(|_| !planted!(GrantByName)).collect::<Vec<_>>() {
            let ends = |g: &LiveGrant| g.grant.is_exact() || g.has_handler_ended(now);
            let ends = self.entry(pod, &of).is_some_and(ends);
            if self.entry(pod, uid).is_some() && !ends {
                continue;
            }
            if self.entry(pod, &of).is_some_and(is_later) {
                passed.held_back = true;
            } else if ends {
                passed.ended |= self.end(pod, &of);
            } else if let Some(mut live) = self.remove(pod, &of) {
                live.passed |= !live.foreign;
                uid.clone_into(&mut live.grant.uid);
                passed.expires_at = Some(live.expires_at());
                self.insert(live);
            }
        }
        passed
    }

    /// The write that carried uncommitted grants did not happen. Returns whose these were, and what they
    /// had stood in for, which is for the caller to put back: they may have passed on since.
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

    /// Make the ledger agree with the budget's status on the API server. Grants under way stay.
    pub(super) fn agree(&mut self, status: &BudgetStatus, writing: bool, now: Timestamp) -> Agreed {
        let mut recorded = recorded_grants(status);
        if !writing {
            // Nothing is on its way any more that could bring them back.
            let (shown, over) =
                std::mem::take(&mut self.ended).into_iter().partition(|e| recorded.contains_key(e));
            self.ended = shown;
            for (pod, _, uid) in BTreeSet::<Record>::into_iter(over) {
                self.refused.entry((pod, uid)).and_modify(|until| *until = now + OTHERS_TURN);
            }
        }
        recorded.retain(|record, _| !self.ended.contains(record));
        let mut agreed = Agreed::default();
        self.forget_refused(now);
        self.grants.retain(|_, live| {
            let replaced = live.replaced.take();
            if let Some(grant) = live.claim(&mut recorded) {
                live.state = State::Committed;
                live.take_in_age(&grant, now);
                let is_here = live.stands_at(&grant);
                if !is_here {
                    agreed.elsewhere.push(LiveGrant { grant, ..live.clone() });
                } else if !live.foreign {
                    live.grant = grant;
                }
                return is_here;
            }
            if let Some(mut replaced) = replaced {
                if let Some(grant) = replaced.claim(&mut recorded) {
                    replaced.state = State::Committed;
                    replaced.take_in_age(&grant, now);
                    if replaced.stands_at(&grant) {
                        live.replaced = Some(replaced);
                    } else {
                        agreed.elsewhere.push(LiveGrant { grant, ..*replaced });
                    }
                } else if replaced.state == State::Adopted {
                    // The predecessor had it, and it is still to be written.
                    live.replaced = Some(replaced);
                }
            }
            let stays = live.state != State::Committed;
            if !stays {
                let of = (live.grant.pod.clone(), live.grant.uid.clone());
                // Another instance ended it. If that one expired it, requests must wait here too.
                if live.reported {
                    self.refused.insert(of.clone(), now + OTHERS_TURN);
                }
                agreed.lost.insert(of, live.since);
            }
            stays
        });
        agreed.unknown = recorded.into_values().collect();
        agreed
    }

    /// It is recorded for another pod of the name than we had it bound to.
    pub(super) fn move_to_record(&mut self, recorded: LiveGrant) {
        let key = (recorded.grant.pod.clone(), recorded.grant.uid.clone());
        match self.grants.get_mut(&key) {
            // Ours renews it. Should that not be written, this one still is.
            Some(own) if own.state == State::InFlight => own.replaced = Some(Box::new(recorded)),
            Some(_) => {}
            None => self.insert(recorded),
        }
    }

    /// Returns the live grant of the pod with this uid.
    pub(super) fn entry(&self, pod: &str, uid: &str) -> Option<&LiveGrant> {
        self.grants.get(&(pod.to_owned(), uid.to_owned()))
    }

    fn of_pod<'a>(&'a self, pod: &'a str) -> impl Iterator<Item = &'a LiveGrant> {
        self.grants
            .range((pod.to_owned(), String::new())..)
            .take_while(move |((name, _), _)| name == pod)
            .map(|(_, g)| g)
    }
}

/// What came of passing grants on.
#[derive(Default)]
pub(super) struct Passed {
    /// When the one that passed expires.
    pub(super) expires_at: Option<Timestamp>,
    /// Some may not pass yet.
    pub(super) held_back: bool,
    /// Some were for that very pod alone, which is gone.
    pub(super) ended: bool,
}

impl LiveGrant {
    /// Takes out the record of this grant, if there is one. By eviction and not by uid: a grant that passed
    /// to a successor has another uid on the API server until that is written.
    fn claim(&self, recorded: &mut BTreeMap<Record, Grant>) -> Option<Grant> {
        let own = record_of(&self.grant);
        recorded.remove(&own).or_else(|| {
            let (pod, eviction, _) = own;
            let any = (pod.clone(), eviction.clone(), String::new());
            let (found, _) = recorded.range(any..).next()?;
            let found = (found.0 == pod && found.1 == eviction).then(|| found.clone())?;
            recorded.remove(&found)
        })
    }
}

/// Whether the status records this very grant. One of the same eviction for another pod of the name, or one
/// that names other budgets, was written before the eviction began again: the former may end with
/// its pod, and the latter look incomplete for ever.
pub(super) fn has_recorded(status: &BudgetStatus, grant: &Grant) -> bool {
    let same = |r: &Grant| record_of(r) == record_of(grant) && r.budgets == grant.budgets;
    status.grants.iter().any(same)
}

fn record_of(grant: &Grant) -> Record {
    // Not the uid of the pod that we have bound it to: the API server does not have that.
    let is_foreign = grant.eviction.is_empty();
    let of = if is_foreign { grant.granted_at.0.to_string() } else { grant.uid.clone() };
    (grant.pod.clone(), grant.eviction.clone(), of)
}

fn is_among(ended: &BTreeSet<Record>, pod: &str, uid: &str) -> bool {
    ended.iter().any(|(of, _, own)| of == pod && own == uid)
}

/// What a status records: our grants, and entries of `disruptedPods` that none of them explains.
fn recorded_grants(status: &BudgetStatus) -> BTreeMap<Record, Grant> {
    let named: BTreeSet<&str> = status.grants.iter().map(|g| g.pod.as_str()).collect();
    let others = status.disrupted_pods.iter().filter(|(pod, _)| !named.contains(pod.as_str()));
    let foreign = others.map(|(pod, at)| Grant {
        pod: pod.clone(),
        uid: String::new(),
        replica: String::new(),
        cost: 1,
        requester: String::new(),
        // As it will be on the wire when we have written it.
        granted_at: at.truncated(),
        eviction: String::new(),
        budgets: Vec::new(),
        operation: Operation::Evict,
        generation: 0,
        shared: false,
        age_seconds: 0,
        pinned: false,
        targeted_before: false,
    });
    let all = status.grants.iter().cloned().chain(foreign);
    all.map(|grant| (record_of(&grant), grant)).collect()
}

/// About what a grant takes up as JSON.
fn size(grant: &Grant) -> usize {
    const KEYS_AND_QUOTES: usize = 160;
    let texts = [&grant.pod, &grant.uid, &grant.replica, &grant.requester, &grant.eviction];
    let budgets: usize = grant.budgets.iter().map(|b| b.len() + 3).sum();
    KEYS_AND_QUOTES + texts.iter().map(|t| t.len()).sum::<usize>() + budgets
}
