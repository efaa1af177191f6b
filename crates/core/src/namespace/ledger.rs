//! Grants: which pods may go, since when, and how that ends (semantics 5).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::writer::Op;
use super::{BudgetId, Context, Namespace};
use crate::model::{BudgetStatus, Grant, ResourceVersion, Timestamp};
use crate::timer::Due;

/// A pod that has not been deleted for so long after its grant will not be (upstream 1.1).
pub(super) const GRANT_EXPIRES: Duration = Duration::from_mins(2);
/// A reservation in several budgets that nobody completes is refunded.
pub(super) const INCOMPLETE_AFTER: Duration = Duration::from_secs(15);
/// Bounds on one budget's grants: the object must fit into etcd with room to spare.
const GRANTS_MAX: usize = 2000;
const GRANTS_BYTES_MAX: usize = 512 * 1024;

/// The grants of one budget, by pod name and uid.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    grants: BTreeMap<(String, String), LiveGrant>,
}

#[derive(Clone, Debug)]
pub(crate) struct LiveGrant {
    pub(super) grant: Grant,
    /// Expiry counts from here, on our clock.
    first_seen: Timestamp,
    state: State,
    /// Seen to have done its work: does not count any more, and the next write drops it.
    ended: bool,
    /// An entry of `disruptedPods` that somebody else wrote.
    foreign: bool,
    /// What a renewal that is in flight stands in for: if it is not written, that is still true.
    replaced: Option<Box<LiveGrant>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The API server is known to have it.
    Committed,
    /// A write that carries it is under way, or nobody knows what became of that write.
    InFlight,
    /// Taken over from the budget's predecessor of the same name; the next write carries it.
    Adopted,
}

impl Ledger {
    pub(super) fn live(&self) -> impl Iterator<Item = &Grant> {
        self.grants.values().filter(|g| !g.ended).map(|g| &g.grant)
    }

    /// The live grant for this very pod.
    pub(super) fn get(&self, pod: &str, uid: &str) -> Option<&Grant> {
        let live = self.grants.get(&(pod.to_owned(), uid.to_owned())).filter(|g| !g.ended);
        live.map(|g| &g.grant)
    }

    /// Whether a grant that this eviction wrote or renewed is recorded. One that has ended counts only if
    /// it is for this very pod: the eviction may have been granted for a successor since.
    pub(super) fn committed(&self, pod: &str, uid: &str, eviction: &str) -> bool {
        let own = |g: &&LiveGrant| g.state == State::Committed && g.grant.eviction == eviction;
        self.of_pod(pod).filter(own).any(|g| !g.ended || g.grant.uid == uid)
    }

    pub(super) fn is_full(&self) -> bool {
        self.live().count() >= GRANTS_MAX
            || self.live().map(size).sum::<usize>() >= GRANTS_BYTES_MAX
    }

    /// The grants as they are to be written.
    pub(super) fn write_into(&self, status: &mut BudgetStatus) {
        status.disrupted_pods = self.live().map(|g| (g.pod.clone(), g.granted_at)).collect();
        let own = self.grants.values().filter(|g| !g.ended && !g.foreign);
        status.grants = own.map(|g| g.grant.clone()).collect();
    }

    pub(super) fn into_committed(self) -> Vec<LiveGrant> {
        self.grants.into_values().filter(|g| g.state != State::InFlight && !g.ended).collect()
    }

    /// When a grant that is live, and not just being written, was first seen.
    pub(super) fn first_seen(&self, pod: &str, uid: &str) -> Option<Timestamp> {
        let live = self.grants.get(&(pod.to_owned(), uid.to_owned()))?;
        (live.state != State::InFlight && !live.ended).then_some(live.first_seen)
    }

    pub(super) fn end(&mut self, pod: &str, uid: &str) {
        if let Some(live) = self.grants.get_mut(&(pod.to_owned(), uid.to_owned())) {
            live.end();
        }
    }

    /// Whether a write that carries it is under way.
    pub(super) fn is_in_flight(&self, pod: &str, uid: &str) -> bool {
        let live = self.grants.get(&(pod.to_owned(), uid.to_owned()));
        live.is_some_and(|g| g.state == State::InFlight && !g.ended)
    }

    /// Whether any grant is for a pod of this name.
    pub(super) fn names(&self, pod: &str) -> bool {
        self.of_pod(pod).next().is_some()
    }

    fn of_pod<'a>(&'a self, pod: &'a str) -> impl Iterator<Item = &'a LiveGrant> {
        self.grants
            .range((pod.to_owned(), String::new())..)
            .take_while(move |((name, _), _)| name == pod)
            .map(|(_, g)| g)
    }
}

impl Namespace {
    /// Record a grant in memory; the write that makes it true follows at once.
    pub(super) fn grant(&mut self, cx: &mut Context<'_>, id: &BudgetId, grant: Grant) {
        let pod = grant.pod.clone();
        let key = (pod.clone(), grant.uid.clone());
        let replaced = self.budgets.get_mut(id).and_then(|b| b.ledger.grants.remove(&key));
        let live = LiveGrant {
            grant,
            first_seen: cx.now,
            state: State::InFlight,
            ended: false,
            foreign: false,
            replaced: replaced.map(Box::new),
        };
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
        entry
            .ledger
            .grants
            .retain(|_, g| g.grant.pod != pod || (others && g.grant.eviction != eviction));
        self.recount_grants(cx, pod);
        self.bind_grants(cx, pod);
    }

    /// The write that carried uncommitted grants did not happen.
    pub(super) fn drop_uncommitted(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        let mut dropped = BTreeSet::new();
        let mut restored = Vec::new();
        entry.ledger.grants.retain(|_, live| {
            if live.state != State::InFlight {
                return true;
            }
            dropped.insert(live.grant.pod.clone());
            match live.replaced.take() {
                Some(replaced) => {
                    *live = *replaced;
                    let Grant { pod, uid, .. } = &live.grant;
                    restored.push((pod.clone(), uid.clone(), live.first_seen));
                    true
                }
                None => false,
            }
        });
        for (pod, uid, first_seen) in restored {
            self.look_at(cx, id, &pod, &uid, first_seen + GRANT_EXPIRES);
        }
        for pod in dropped {
            self.recount_grants(cx, &pod);
            self.bind_grants(cx, &pod);
        }
    }

    /// Make the ledger agree with the budget's status on the API server. Grants under way stay.
    pub(super) fn take_in_grants(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        let mut recorded = recorded_grants(&entry.object.status);
        let mut touched: BTreeSet<String> = BTreeSet::new();
        let mut elsewhere = Vec::new();
        entry.ledger.grants.retain(|key, live| {
            let replaced = live.replaced.take();
            if let Some(grant) = live.claim(&mut recorded) {
                live.state = State::Committed;
                if grant.uid == live.grant.uid {
                    live.grant = grant;
                } else if !grant.uid.is_empty() {
                    elsewhere.push((key.clone(), grant));
                }
                return true;
            }
            live.replaced = replaced.filter(|replaced| replaced.claim(&mut recorded).is_some());
            let stays = match live.state {
                State::Committed => false,
                State::InFlight => true,
                State::Adopted => !live.ended,
            };
            if !stays {
                touched.insert(live.grant.pod.clone());
            }
            stays
        });
        for (key, grant) in elsewhere {
            touched.insert(grant.pod.clone());
            self.put_where_recorded(cx, id, &key, grant);
        }
        for (_, grant) in recorded {
            touched.insert(grant.pod.clone());
            let foreign = grant.eviction.is_empty();
            if self.is_abandoned(id, &grant) {
                let refund =
                    Op::Refund { pod: grant.pod.clone(), eviction: grant.eviction.clone() };
                self.enqueue_later(id, refund);
            }
            let live = LiveGrant {
                grant,
                first_seen: cx.now,
                state: State::Committed,
                ended: false,
                foreign,
                replaced: None,
            };
            let evidence = self.pods.get(live.grant.pod.as_str()).is_some_and(|e| {
                e.pod.uid == *live.grant.uid && e.pod.terminating && e.pod.is_targeted()
            });
            let live = LiveGrant { ended: evidence, ..live };
            self.insert_grant(cx, id, live);
        }
        for pod in touched {
            self.bind_grants(cx, &pod);
            self.recount_grants(cx, &pod);
        }
    }

    /// A write of ours, long given up for lost, and denied to whoever asked.
    fn is_abandoned(&self, id: &BudgetId, grant: &Grant) -> bool {
        let abandoned = self.abandoned.get(&grant.eviction);
        abandoned.is_some_and(|(_, budgets)| budgets.contains(id))
    }

    /// Whoever wrote it may have seen a later pod of the name than we have. If we have seen as much, it
    /// is bound to the pod that is there now.
    fn put_where_recorded(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        key: &(String, String),
        grant: Grant,
    ) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        let Some(live) = entry.ledger.grants.remove(key) else { return };
        let (pod, uid, first_seen) = (grant.pod.clone(), grant.uid.clone(), live.first_seen);
        let recorded = LiveGrant { grant, ..live };
        match entry.ledger.grants.get_mut(&(pod.clone(), uid.clone())) {
            // Ours renews it. Should that not be written, this one still is.
            Some(own) if own.state == State::InFlight => own.replaced = Some(Box::new(recorded)),
            Some(own) if !own.ended => {}
            _ => {
                entry.ledger.grants.insert((pod.clone(), uid.clone()), recorded);
            }
        }
        self.look_at(cx, id, &pod, &uid, first_seen + GRANT_EXPIRES);
    }

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
            let known = self.budgets.get(id).is_some_and(|b| b.ledger.grants.contains_key(&key));
            if known {
                self.recount_grants(cx, &key.0);
                continue;
            }
            // Not on the new object yet; the write that `touch` leads to records it.
            live.state = State::Adopted;
            self.insert_grant(cx, id, live);
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
        for live in self.orphans.remove(id).unwrap_or_default() {
            self.recount_grants(cx, &live.grant.pod);
        }
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
        let key = (name.to_owned(), uid.to_owned());
        for grants in self.orphans.values_mut() {
            grants.retain(|live| live.grant.pod != key.0 || live.grant.uid != key.1);
        }
        for id in self.granted.get(name).cloned().unwrap_or_default() {
            let budget = self.budgets.get_mut(&id);
            if let Some(live) = budget.and_then(|b| b.ledger.grants.get_mut(&key)) {
                live.end();
                self.saw_pod(cx, &id, version);
            }
        }
    }

    pub(super) fn count_grants(&self, name: &str, uid: &str) -> u32 {
        let budgets = self.granted.get(name).into_iter().flatten();
        let holding = budgets
            .filter(|id| self.budgets.get(*id).is_some_and(|b| b.ledger.get(name, uid).is_some()));
        let orphaned = self
            .orphans
            .values()
            .filter(|grants| grants.iter().any(|g| g.grant.pod == name && g.grant.uid == uid));
        u32::try_from(holding.count() + orphaned.count()).unwrap_or(u32::MAX)
    }

    /// Grants for an earlier pod of this name pass to the pod that has the name now, and entries
    /// without uid are bound to it.
    pub(super) fn bind_grants(&mut self, cx: &mut Context<'_>, name: &str) {
        let Some(uid) = self.pods.get(name).map(|e| e.pod.uid.to_string()) else { return };
        let budgets: Vec<BudgetId> =
            self.granted.get(name).into_iter().flatten().cloned().collect();
        for id in budgets {
            let seen = self.has_seen_pods(cx, &id);
            let Some(budget) = self.budgets.get_mut(&id) else { continue };
            let stray: Vec<(String, String)> = budget
                .ledger
                .grants
                .range((name.to_owned(), String::new())..)
                .take_while(|((pod, _), _)| pod == name)
                .filter(|((_, grant_uid), live)| !live.ended && *grant_uid != uid)
                .map(|(key, _)| key.clone())
                .collect();
            for key in stray {
                let Some(budget) = self.budgets.get_mut(&id) else { continue };
                // It has one of its own. Should that be refunded, it gets this one then.
                if budget.ledger.get(name, &uid).is_some() {
                    continue;
                }
                // While we are behind, it may be for a successor that we have not seen yet.
                if !seen && !key.1.is_empty() {
                    budget.strays = true;
                    continue;
                }
                if let Some(mut live) = budget.ledger.grants.remove(&key) {
                    live.grant.uid.clone_from(&uid);
                    let first_seen = live.first_seen;
                    budget.ledger.grants.insert((name.to_owned(), uid.clone()), live);
                    self.look_at(cx, &id, name, &uid, first_seen + GRANT_EXPIRES);
                }
            }
        }
        self.recount_grants(cx, name);
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

    fn insert_grant(&mut self, cx: &mut Context<'_>, id: &BudgetId, live: LiveGrant) {
        let (pod, uid) = (live.grant.pod.clone(), live.grant.uid.clone());
        let (first_seen, several) = (live.first_seen, live.grant.budgets.len() > 1);
        let Some(entry) = self.budgets.get_mut(id) else { return };
        entry.ledger.grants.insert((pod.clone(), uid.clone()), live);
        self.granted.entry(pod.clone()).or_default().insert(id.clone());
        self.look_at(cx, id, &pod, &uid, first_seen + GRANT_EXPIRES);
        if several {
            let due = Due::Incomplete { budget: id.clone(), pod, uid };
            cx.timers.at(first_seen + INCOMPLETE_AFTER, &self.name, due);
        }
    }

    /// Whether the grant has expired is to be looked at then.
    pub(super) fn look_at(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        pod: &str,
        uid: &str,
        at: Timestamp,
    ) {
        let due = Due::Expire { budget: id.clone(), pod: pod.to_owned(), uid: uid.to_owned() };
        cx.timers.at(at, &self.name, due);
    }

    /// Bring the pod's count of grants, and the index that finds them, up to date.
    pub(super) fn recount_grants(&mut self, cx: &mut Context<'_>, pod: &str) {
        if let Some(ids) = self.granted.get_mut(pod) {
            ids.retain(|id| self.budgets.get(id).is_some_and(|b| b.ledger.names(pod)));
            if ids.is_empty() {
                self.granted.remove(pod);
            }
        }
        let Some(entry) = self.pods.get(pod) else { return };
        let granted = self.count_grants(pod, &entry.pod.uid.to_string());
        if granted != entry.granted && !planted!(StaleCounters) {
            self.with_pod(cx, pod, |entry| entry.granted = granted);
        }
    }
}

impl LiveGrant {
    /// Whatever becomes of a renewal that is in flight, the pod is gone.
    fn end(&mut self) {
        self.ended = true;
        if let Some(replaced) = &mut self.replaced {
            replaced.end();
        }
    }

    /// Takes out the record of this grant, if there is one. By eviction and not by uid: a grant that was
    /// bound to a successor has another uid on the API server until that is written. But one that has
    /// ended must not be taken for what its request was granted for a successor.
    fn claim(&self, recorded: &mut Recorded) -> Option<Grant> {
        let key = (self.grant.pod.clone(), self.grant.eviction.clone());
        recorded.get(&key).filter(|found| !self.ended || found.uid == self.grant.uid)?;
        recorded.remove(&key)
    }
}

/// By what tells grants apart in a status: the pod, and the eviction that wrote it. Entries that
/// somebody else wrote have none.
type Recorded = BTreeMap<(String, String), Grant>;

/// What a status records: our grants, and entries of `disruptedPods` that none of them explains.
fn recorded_grants(status: &BudgetStatus) -> Recorded {
    let named: BTreeSet<&str> = status.grants.iter().map(|g| g.pod.as_str()).collect();
    let others = status.disrupted_pods.iter().filter(|(pod, _)| !named.contains(pod.as_str()));
    let foreign = others.map(|(pod, at)| Grant {
        pod: pod.clone(),
        uid: String::new(),
        replica: String::new(),
        cost: 1,
        requester: String::new(),
        granted_at: *at,
        eviction: String::new(),
        budgets: Vec::new(),
    });
    let all = status.grants.iter().cloned().chain(foreign);
    all.map(|grant| ((grant.pod.clone(), grant.eviction.clone()), grant)).collect()
}

/// About what a grant takes up as JSON.
fn size(grant: &Grant) -> usize {
    const KEYS_AND_QUOTES: usize = 160;
    let texts = [&grant.pod, &grant.uid, &grant.replica, &grant.requester, &grant.eviction];
    let budgets: usize = grant.budgets.iter().map(|b| b.len() + 3).sum();
    KEYS_AND_QUOTES + texts.iter().map(|t| t.len()).sum::<usize>() + budgets
}
