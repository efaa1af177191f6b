//! A request takes its turn at one budget's writer after the other.

use super::assess::{Basis, Opinion};
use super::explain::{not_deleted, refuse};
use super::lists::Missing;
use super::requests::{Request, Reserving, Stage, unsynced};
use super::units::concerned;
use super::writer::Op;
use super::{BudgetId, Context, Namespace};
use crate::grants::LiveGrant;
use crate::io::{Eviction, Kind};
use crate::model::{BudgetKey, Grant, Operation, Phase, Pod, ResourceVersion};
use crate::replicas::ReplicaKey;
use crate::verdict::{AllowReason, Denial, DenyReason};

/// The answer to a request whose grants were recorded too late.
const LATE: &str = "the grants were recorded too late; try again in a moment";

/// What a budget's writer shall do with a request whose turn it is.
#[allow(clippy::large_enum_variant, reason = "one at a time, and nearly always the large one")]
pub(super) enum Turn {
    Grant {
        grant: Grant,
        renewal: bool,
        /// The version of the pod that a live read showed, if that was decided by.
        read_as: Option<ResourceVersion>,
    },
    /// Nothing to write for this request now.
    Done,
}

/// What a budget says to a request whose turn it is.
struct Weighed {
    cost: i64,
    replica: String,
    uid: String,
    /// The pod has the condition that the Eviction API sets, from an earlier eviction.
    targeted: bool,
}

/// What a grant that is about to be written stands in for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Renewed {
    Nothing,
    /// A grant that the same request wrote before it began again.
    Own,
    /// A grant that another request rests on.
    Others,
}

impl Namespace {
    /// A Pending pod passes, recorded: it may be Ready before the eviction lands.
    pub(super) fn reserve_pending(&mut self, cx: &mut Context<'_>, id: &str, pod: Box<Pod>) {
        if !self.has_recent_budgets(cx, id) || self.wait_for_successors(id) {
            return;
        }
        let labels = self.cache.look_up(&pod.labels);
        let budgets = self.covering(&labels, pod.controller.as_ref());
        let operation = self.requests.get(id).map(|r| r.eviction.operation).unwrap_or_default();
        let budgets = concerned(&budgets, operation);
        if budgets.is_empty() {
            return self.allow(cx, id, AllowReason::NotCovered);
        }
        if let Some(denial) = self.unreadable_among(&budgets) {
            return self.deny(cx, id, denial);
        }
        for budget in &budgets {
            if let Some(denial) = self.pending_objection(cx, budget, id, &pod) {
                return self.deny(cx, id, denial);
            }
        }
        let grants = budgets.iter().map(|b| ((**b).clone(), 0)).collect();
        let uid = pod.uid.clone();
        let reserving = Reserving { budgets, next: 0, uid, pending: Some(pod), in_flight: false };
        self.reserve(cx, id, reserving, grants);
    }

    /// Returns whether the request waits, because an answer has shown a budget that the watch has not shown.
    pub(super) fn wait_for_successors(&mut self, id: &str) -> bool {
        let waits = !self.successors.is_empty();
        if waits {
            self.wait(id, Vec::new());
        }
        waits
    }

    /// The denial of requests while a budget is not in force that an answer has shown.
    pub(super) fn successor_denial(&self) -> Option<Denial> {
        let budget = self.successors.keys().next()?;
        let why = format!(
            "budget {} was created a moment ago, and Holdfast's watch has not shown it yet; try again in a moment",
            budget.object.name
        );
        Some(refuse(DenyReason::BeingProcessed, &why))
    }

    /// The bounds on grants hold for Pending pods too.
    fn pending_objection(
        &mut self,
        cx: &mut Context<'_>,
        budget: &BudgetId,
        id: &str,
        pod: &Pod,
    ) -> Option<Denial> {
        let eviction = &self.requests.get(id)?.eviction;
        if eviction.exempt || !self.budgets.contains_key(budget) {
            return None;
        }
        let ledger = self.grants.ledger(budget);
        let (name, of) = (&pod.key.name, &budget.object.name);
        let live = ledger.get(name, &pod.uid);
        if live.is_none() && ledger.is_full() {
            let why = format!("budget {of} has too many evictions in flight");
            return Some(refuse(DenyReason::TooManyGrants, &why));
        }
        let goes_on = match live {
            Some(live) => live.may_be_renewed(eviction.operation, cx.now),
            None => !ledger.is_denied(name, &pod.uid, cx.now),
        };
        if goes_on {
            return None;
        }
        self.report_not_deleted(cx, budget, name, &pod.uid);
        Some(refuse(DenyReason::NotDeleted, &not_deleted(name, of)))
    }

    pub(super) fn reserve(
        &mut self,
        cx: &mut Context<'_>,
        id: &str,
        reserving: Reserving,
        grants: Vec<(BudgetKey, i64)>,
    ) {
        let Some(request) = self.requests.get(id) else { return };
        // One at a time for one pod: whether the earlier one's grants stay decides about this one.
        let name = &request.eviction.pod.name;
        let reserving_now =
            |r: &Request| matches!(r.stage, Stage::Reserving(_)) && r.eviction.pod.name == *name;
        let mut others = self.requests.iter().filter(|(other, _)| *other != id);
        let busy = others.any(|(_, other)| reserving_now(other));
        let name = name.clone();
        // The webhook of native mode has recorded and pinned the eviction that the gate is asked about now.
        let pinned = |b: &BudgetId| self.grants.ledger(b).has_pinned(&name, &reserving.uid);
        let held = request.eviction.by_name && reserving.budgets.iter().all(pinned);
        let Some(request) = self.requests.get_mut(id) else { return };
        let surplus = planted!(ForgetSurplus) && grants.iter().all(|(_, cost)| *cost == 0);
        if surplus || held || (request.eviction.dry_run && !planted!(RecordDryRun)) {
            // The grants of the webhook's request are not this request's own.
            request.grants = if held { Vec::new() } else { grants };
            return self.allow(cx, id, AllowReason::Granted);
        }
        request.grants.clear();
        if busy {
            return self.park(id);
        }
        let first = reserving.budgets[0].clone();
        request.stage = Stage::Reserving(reserving);
        self.enqueue(cx, &first, Op::Reserve { eviction: id.to_owned() });
    }

    /// It is this request's turn at a budget's writer: decide again, on what is known now.
    pub(super) fn take_turn(&mut self, cx: &mut Context<'_>, budget: &BudgetId, id: &str) -> Turn {
        if let Some(denial) = unsynced(cx) {
            self.deny(cx, id, denial);
            return Turn::Done;
        }
        let pod = self.requests.get(id).map(|request| request.eviction.pod.name.clone());
        let owners = pod.and_then(|pod| self.needs_owners(cx, &pod));
        let missing = owners.map(|owners| Missing(vec![owners]));
        if let Some(Missing(needs)) = missing.or_else(|| self.missing(cx, budget)) {
            self.refund(cx, id);
            self.wait(id, needs);
            return Turn::Done;
        }
        let Some(weighed) = self.weigh(cx, budget, id) else { return Turn::Done };
        let Some((grant, renewed)) = self.draft(cx, budget, id, weighed) else { return Turn::Done };
        let Some(request) = self.requests.get_mut(id) else { return Turn::Done };
        if renewed == Renewed::Others {
            // From here on its name stands for what another request wrote, which is not ours to take back.
            request.wrote.remove(budget);
        } else {
            request.wrote.insert(budget.clone());
        }
        let Stage::Reserving(reserving) = &mut request.stage else { return Turn::Done };
        reserving.in_flight = true;
        // Known from a live read, maybe ahead of every watch: nobody may take an earlier pod of the name,
        // which it still sees, for the one that this grant is for.
        let read_as = reserving.pending.as_ref().map(|pod| pod.version.clone());
        if let Some(version) = &read_as
            && let Some(entry) = self.budgets.get_mut(budget)
        {
            entry.seen.note(&Kind::Pod, version);
        }
        Turn::Grant { grant, renewal: renewed != Renewed::Nothing, read_as }
    }

    /// Asks the budget. None if the request was denied, or begins again.
    fn weigh(&mut self, cx: &mut Context<'_>, budget: &BudgetId, id: &str) -> Option<Weighed> {
        let request = self.requests.get(id)?;
        let Stage::Reserving(reserving) = &request.stage else { return None };
        let eviction = &request.eviction;
        let entry = self.cache.pod(eviction.pod.name.as_str());
        if let Some(pod) = &reserving.pending {
            // An older state in the cache is none to go by.
            let newer = entry.filter(|e| !e.pod.version.is_older_than(&pod.version));
            let moved_on = newer.is_some_and(|e| {
                e.pod.uid != *pod.uid || e.pod.phase != Phase::Pending || e.pod.terminating
            });
            if moved_on {
                self.restart(cx, id);
                return None;
            }
            let pod = pod.clone();
            return self.weigh_pending(cx, budget, id, &pod);
        }
        let entry = entry.filter(|e| {
            // The budget, or the pod's labels, may have changed meanwhile. What is recorded elsewhere would then name
            // a budget that does not cover the pod any more, and look incomplete for ever.
            e.pod.uid == *reserving.uid && e.is_running() && e.budgets.contains(budget)
        });
        let Some(entry) = entry else {
            self.restart(cx, id);
            return None;
        };
        let Eviction { operation, exempt, .. } = *eviction;
        let uid = entry.pod.uid.to_string();
        let (cost, basis) = match self.opinion(cx.now, budget, entry, operation, exempt) {
            Opinion::Allow { cost, basis } | Opinion::Renew { cost, basis } => (cost, basis),
            Opinion::Pass => (0, Basis::ROOM),
            Opinion::Deny(objection) => {
                let (name, reason) = (entry.name.clone(), objection.reason);
                let denial = self.explain(entry, operation, &[(budget.clone(), objection)]);
                if reason == DenyReason::NotDeleted {
                    self.report_not_deleted(cx, budget, &name, &uid);
                }
                self.deny(cx, id, denial);
                return None;
            }
        };
        let (replica, targeted) = (self.replica_label(budget, entry), entry.pod.is_targeted());
        if !self.is_proven(cx, id, basis) {
            self.restart(cx, id);
            return None;
        }
        Some(Weighed { cost, replica, uid, targeted })
    }

    fn weigh_pending(
        &mut self,
        cx: &mut Context<'_>,
        budget: &BudgetId,
        id: &str,
        pod: &Pod,
    ) -> Option<Weighed> {
        if let Some(denial) = self.pending_objection(cx, budget, id, pod) {
            self.deny(cx, id, denial);
            return None;
        }
        let known = self.grants.ledger(budget).get(&pod.key.name, &pod.uid);
        let replica = ReplicaKey::of(pod, cx.config.lws).map(|key| key.to_string());
        Some(Weighed {
            cost: known.map_or(0, |live| live.grant().cost),
            replica: replica.unwrap_or_default(),
            uid: pod.uid.clone(),
            targeted: pod.is_targeted(),
        })
    }

    /// The grant to write, and what it renews.
    fn draft(
        &self,
        cx: &Context<'_>,
        budget: &BudgetId,
        id: &str,
        Weighed { cost, replica, uid, targeted }: Weighed,
    ) -> Option<(Grant, Renewed)> {
        let request = self.requests.get(id)?;
        let Stage::Reserving(reserving) = &request.stage else { return None };
        let eviction = &request.eviction;
        let live = self.grants.ledger(budget).get(&eviction.pod.name, &uid);
        let renewed = live.map(LiveGrant::grant);
        // What is renewed may stand for an earlier request, which is complete without those that came to
        // cover the pod since; and this one without those that ceased to. What this request itself wrote
        // before it began again stands for nobody else.
        let others = renewed.filter(|r| r.eviction != id || !request.wrote.contains(budget));
        // One grant stands for all that was asked of the pod, and lasts as long as the longest lasting.
        let operation = renewed.map_or(eviction.operation, |r| r.operation.min(eviction.operation));
        let generation = renewed.map_or(0, |r| r.generation).max(eviction.generation);
        let by_uid = !eviction.by_name;
        let exact = renewed.map_or(by_uid, |r| r.pinned || (by_uid && r.is_exact()));
        let shared = renewed.is_some_and(|r| r.shared || (r.eviction != id && !exact));
        // A renewal does not extend a grant, but every update disrupts its pod anew, and so does an operation that the
        // grant does not stand for.
        let first = live.filter(|live| {
            let same = live.grant().stands_for(eviction.operation);
            same && !eviction.operation.keeps_pod() && !planted!(RenewForEver)
        });
        let age = first.map_or(0, |live| live.age(cx.now).as_secs());
        let uids = reserving.budgets.iter().filter_map(|b| self.budgets.get(b));
        let uids = uids.map(|b| b.object.uid.clone());
        let budgets = uids.filter(|u| others.is_none_or(|o| o.budgets.contains(u))).collect();
        let grant = Grant {
            pod: eviction.pod.name.clone(),
            uid,
            replica,
            cost,
            requester: eviction.requester.clone(),
            granted_at: first.map_or(cx.now.truncated(), |live| live.grant().granted_at),
            eviction: id.to_owned(),
            budgets,
            operation,
            generation,
            shared,
            age_seconds: i64::try_from(age).unwrap_or(0),
            pinned: exact && operation == Operation::Evict,
            targeted_before: targeted || renewed.is_some_and(|r| r.targeted_before),
        };
        let renewed = match (renewed, others) {
            (None, _) => Renewed::Nothing,
            (Some(_), None) => Renewed::Own,
            (Some(_), Some(_)) => Renewed::Others,
        };
        Some((grant, renewed))
    }

    /// This budget has its grant: on to the next, or to the answer.
    pub(super) fn reserved(
        &mut self,
        cx: &mut Context<'_>,
        budget: &BudgetId,
        id: &str,
        cost: i64,
    ) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.grants.push(((**budget).clone(), cost));
        let Stage::Reserving(reserving) = &mut request.stage else { return };
        reserving.in_flight = false;
        reserving.next += 1;
        if reserving.next == reserving.budgets.len() {
            self.cover_newcomers(id);
        }
        let Some(request) = self.requests.get_mut(id) else { return };
        let Stage::Reserving(reserving) = &request.stage else { return };
        let next = reserving.budgets.get(reserving.next).cloned();
        if request.answered {
            self.abandon(cx, id);
        } else if let Some(next) = next {
            self.enqueue(cx, &next, Op::Reserve { eviction: id.to_owned() });
        } else {
            self.allow_if_held(cx, id);
        }
    }

    /// Directly before the answer: the process may have stood still since the first grant was recorded, and other
    /// instances refund a reservation that is not completed in time.
    fn allow_if_held(&mut self, cx: &mut Context<'_>, id: &str) {
        // A list may have shown meanwhile that a budget was recreated, and the new one may cover the pod.
        if let Some(denial) = self.successor_denial() {
            return self.deny(cx, id, denial);
        }
        let Some(request) = self.requests.get(id) else { return };
        let Stage::Reserving(reserving) = &request.stage else { return };
        if cx.now >= request.eviction.deadline {
            return self.deny(cx, id, refuse(DenyReason::NotRecorded, LATE));
        }
        let name = &request.eviction.pod.name;
        let is_held =
            |budget: &BudgetId| self.grants.ledger(budget).is_committed(name, &reserving.uid);
        if reserving.budgets.iter().all(is_held) {
            self.allow(cx, id, AllowReason::Granted);
        } else {
            self.restart(cx, id);
        }
    }

    /// A budget may have come to cover the pod since the others were asked.
    fn cover_newcomers(&mut self, id: &str) {
        let Some(request) = self.requests.get(id) else { return };
        let Stage::Reserving(reserving) = &request.stage else { return };
        if planted!(FirstBudgetOnly) {
            return;
        }
        let operation = request.eviction.operation;
        let cached = self.cache.pod(request.eviction.pod.name.as_str()).map(|e| &e.budgets[..]);
        let mut covering = concerned(cached.unwrap_or_default(), operation);
        if let Some(pod) = &reserving.pending {
            let labels = self.cache.look_up(&pod.labels);
            let seen = self.covering(&labels, pod.controller.as_ref());
            covering.extend(concerned(&seen, operation));
            covering.sort_unstable();
            covering.dedup();
        }
        if let Some(request) = self.requests.get_mut(id)
            && let Stage::Reserving(reserving) = &mut request.stage
        {
            let new: Vec<BudgetId> =
                covering.into_iter().filter(|b| !reserving.budgets.contains(b)).collect();
            reserving.budgets.extend(new);
        }
    }

    /// The budget is gone, and with it what it recorded: should it come back before a request is
    /// through, it is asked again. What is still to be taken back stays in `wrote`.
    pub(super) fn forget_reservations(&mut self, id: &BudgetId) {
        for request in self.requests.values_mut() {
            let Stage::Reserving(reserving) = &mut request.stage else { continue };
            if let Some(done) = reserving.budgets[..reserving.next].iter().position(|b| b == id) {
                reserving.budgets.remove(done);
                reserving.next -= 1;
                request.grants.retain(|(budget, _)| *budget != **id);
            }
        }
    }

    /// The write that carried this request's grant did not happen, and it may be tried again.
    pub(super) fn not_reserved(&mut self, cx: &mut Context<'_>, budget: &BudgetId, id: &str) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if let Stage::Reserving(reserving) = &mut request.stage {
            reserving.in_flight = false;
        }
        if request.answered {
            self.abandon(cx, id);
        } else if self.budgets.contains_key(budget) {
            cx.counters.queue_retries += 1;
            self.enqueue(cx, budget, Op::Reserve { eviction: id.to_owned() });
        } else {
            self.restart(cx, id);
        }
    }
}
