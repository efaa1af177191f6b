//! An eviction on its way to an answer.
//!
//! ```text
//! start --(cache is not enough)--> Reading --(cache is behind)--> Parked --> start again
//!   \--> every budget asked in memory --(one objects)--> Reply Deny
//!           \--(no recent list of budgets)--> Listing --> start again, or Reply Deny
//!           \--> Reserving: one compare-and-swap per budget, in order --> Reply Allow
//!                   \--(objection, rejection, deadline)--> refunds, Reply Deny
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use super::assess::{Basis, Objection, Opinion};
use super::explain::refuse;
use super::lists::{Missing, kinds_for};
use super::units::concerned;
use super::writer::Op;
use super::{BudgetId, Context, Covering, Namespace, ReadPurpose};
use crate::cache::{Claim, PodEntry};
use crate::io::{Command, Eviction, Kind, PodReadOutcome};
use crate::model::{BudgetKey, Operation, Phase, Pod, ResourceVersion, Timestamp};
use crate::replicas::label_group;
use crate::timer::Due;
use crate::verdict::{AllowReason, Allowed, Denial, DenyReason, Verdict};

/// Longest text kept of who asked.
const REQUESTER_BYTES_MAX: usize = 128;

/// To an eviction by name. A successor could be there when it lands, and nothing would be recorded of it.
const ENDED: &str = "the pod ended a moment ago; try again to see that it is gone";

/// Far longer than a write is under way, and than another instance may keep what a deleted budget had
/// granted to bring it back.
const ABANDONED_KEPT: Duration = Duration::from_mins(10);

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) eviction: Eviction,
    pub(super) stage: Stage,
    pub(super) grants: Vec<(BudgetKey, i64)>,
    /// Budgets of which a write has carried a grant of its, one that was not there before: refunded if it
    /// comes to nothing, known to be written or not.
    pub(super) wrote: BTreeSet<BudgetId>,
    /// The pod that is decided about, by uid.
    pub(super) uid: Option<String>,
    /// The deadline passed while a write was under way; its outcome only matters for the refund.
    pub(super) answered: bool,
    /// The uid and the version of the pod that the API server has shown since the request came.
    read: Option<(String, ResourceVersion)>,
}

#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// A live read of the pod is under way.
    Reading,
    /// A live read was newer than the cache.
    Parked,
    /// A list of the namespace's budgets is under way.
    Listing,
    Reserving(Reserving),
}

#[derive(Clone, Debug)]
pub(super) struct Reserving {
    /// Covering budgets in reservation order, and which one is next.
    pub(super) budgets: Covering,
    pub(super) next: usize,
    pub(super) uid: String,
    /// A pod that a live read showed to be Pending passes without being asked about.
    pub(super) pending: Option<Box<Pod>>,
    pub(super) in_flight: bool,
}

impl Namespace {
    pub(crate) fn evict(&mut self, cx: &mut Context<'_>, mut eviction: Eviction) {
        truncate(&mut eviction.requester, REQUESTER_BYTES_MAX);
        if eviction.object.as_ref().is_some_and(|pod| pod.generation == eviction.generation) {
            // Nothing of the spec changes, so no generation will tell.
            eviction.generation = 0;
        }
        let id = eviction.id.clone();
        let deadline = eviction.deadline;
        if let Some(denial) = unsynced(cx) {
            let verdict = denial.of(eviction.operation);
            cx.send(Command::Reply { eviction: id, verdict });
            return;
        }
        let request = Request {
            eviction,
            stage: Stage::Parked,
            grants: Vec::new(),
            wrote: BTreeSet::new(),
            uid: None,
            answered: false,
            read: None,
        };
        self.requests.insert(id.clone(), Box::new(request));
        self.start(cx, &id);
        // Most are answered by now.
        if self.requests.contains_key(&id) {
            cx.timers.at(deadline, &self.name, Due::Deadline { eviction: id });
        }
    }

    /// Decide from the cache if it may be (semantics 6.1), else read the pod first.
    pub(super) fn start(&mut self, cx: &mut Context<'_>, id: &str) {
        // A watch may have been lost while the request waited.
        if let Some(denial) = unsynced(cx) {
            return self.deny(cx, id, denial);
        }
        // News of the pod that is older than what the API server has shown.
        if self.is_behind_read(id) {
            return self.park(id);
        }
        let Some(request) = self.requests.get_mut(id) else { return };
        let eviction = &request.eviction;
        let enough = self.cache.pod(eviction.pod.name.as_str()).is_some_and(|entry| {
            let same = eviction.uid.as_ref().is_none_or(|uid| entry.pod.uid == **uid);
            same && entry.is_running()
        });
        if enough {
            self.decide(cx, id);
            return;
        }
        self.read_pod(cx, id);
    }

    fn read_pod(&mut self, cx: &mut Context<'_>, id: &str) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if let Some(object) = request.eviction.object.take() {
            // As good as a read: what the API server is about to change is this very state.
            return self.decide_read(cx, id, PodReadOutcome::Found(object));
        }
        request.stage = Stage::Reading;
        let pod = request.eviction.pod.clone();
        let token = cx.reads.begin(&self.name, ReadPurpose::Decide { eviction: id.to_owned() });
        cx.send(Command::ReadPod { token, pod });
    }

    /// The live read that a request waited for.
    pub(super) fn decide_read(&mut self, cx: &mut Context<'_>, id: &str, outcome: PodReadOutcome) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let pod = match outcome {
            PodReadOutcome::Found(pod) => pod,
            PodReadOutcome::NotFound if request.eviction.by_name => {
                return self.deny(cx, id, refuse(DenyReason::BeingProcessed, ENDED));
            }
            PodReadOutcome::NotFound => {
                request.uid = None;
                return self.allow(cx, id, AllowReason::PodGone);
            }
            PodReadOutcome::Failed(why) => {
                let why = format!("the pod could not be read from the API server: {why}");
                return self.deny(cx, id, refuse(DenyReason::BeingProcessed, &why));
            }
        };
        request.uid = Some(pod.uid.clone());
        request.read = Some((pod.uid.clone(), pod.version.clone()));
        if request.eviction.uid.as_ref().is_some_and(|uid| *uid != pod.uid) {
            return self.allow(cx, id, AllowReason::UidMismatch);
        }
        if pod.terminating || pod.is_terminal() {
            if request.eviction.by_name {
                return self.deny(cx, id, refuse(DenyReason::BeingProcessed, ENDED));
            }
            return self.allow(cx, id, AllowReason::PodEnded);
        }
        if pod.phase == Phase::Pending {
            return self.reserve_pending(cx, id, pod);
        }
        // By the cache, unless that shows by now that it is on its way out.
        if self.has_caught_up(id) {
            self.start(cx, id);
        } else {
            self.park(id);
        }
    }

    /// Returns whether the cache has the pod that the API server has shown to this request, as new as that.
    fn has_caught_up(&self, id: &str) -> bool {
        self.compare_with_read(id, |cached, read| !cached.is_older_than(read))
    }

    fn is_behind_read(&self, id: &str) -> bool {
        self.compare_with_read(id, ResourceVersion::is_older_than)
    }

    fn compare_with_read(
        &self,
        id: &str,
        holds: impl Fn(&ResourceVersion, &ResourceVersion) -> bool,
    ) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        let cached = self.cache.pod(&request.eviction.pod.name);
        let read = cached.zip(request.read.as_ref());
        read.is_some_and(|(cached, (uid, version))| {
            cached.pod.uid == **uid && holds(&cached.pod.version, version)
        })
    }

    /// The request goes on when the cache has news of its pod.
    pub(super) fn park(&mut self, id: &str) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.stage = Stage::Parked;
        let pod = request.eviction.pod.name.clone();
        self.parked.entry(pod).or_default().insert(id.to_owned());
    }

    /// The cache has news of this pod: requests that waited for it start again.
    pub(super) fn unpark(&mut self, cx: &mut Context<'_>, name: &str) {
        for id in self.parked.remove(name).unwrap_or_default() {
            self.start(cx, &id);
        }
    }

    /// Ask every budget in memory; only if none objects, begin to record.
    fn decide(&mut self, cx: &mut Context<'_>, id: &str) {
        if self.wait_for_successors(id) {
            return;
        }
        let Some(request) = self.requests.get_mut(id) else { return };
        let name = request.eviction.pod.name.clone();
        let Some(entry) = self.cache.pod(name.as_str()) else { return };
        request.uid = Some(entry.pod.uid.to_string());
        let operation = request.eviction.operation;
        let exempt = request.eviction.exempt;
        let covering = concerned(&entry.budgets, operation);
        if let Some(owners) = self.needs_owners(cx, &name) {
            return self.wait(id, vec![owners]);
        }
        // Every one is asked, so that all that is needed is asked for at once.
        let missing: Vec<Missing> =
            covering.iter().filter_map(|budget| self.missing(cx, budget)).collect();
        if !missing.is_empty() {
            return self.wait(id, missing.into_iter().flat_map(|missing| missing.0).collect());
        }
        let Some(pod) = self.cache.pod(name.as_str()) else { return };
        let covering = concerned(&pod.budgets, operation);
        let builtin = (operation == Operation::Evict).then(|| self.builtin_objection(pod));
        if let Some(why) = builtin.flatten() {
            return self.deny(cx, id, refuse(DenyReason::BuiltinBudget, &why));
        }
        let mut objections = Vec::new();
        let mut basis = Basis::ROOM;
        let mut grants = Vec::new();
        let mut recorded = Covering::new();
        for budget in &covering {
            match self.opinion(cx.now, budget, pod, operation, exempt) {
                Opinion::Deny(objection) => {
                    let blamed = if planted!(BlameAnother) { &covering[0] } else { budget };
                    objections.push((blamed.clone(), objection));
                }
                Opinion::Allow { cost, basis: of } | Opinion::Renew { cost, basis: of } => {
                    basis = basis.and(of);
                    grants.push(((**budget).clone(), cost));
                    recorded.push(budget.clone());
                }
                Opinion::Pass => {}
            }
        }
        if !objections.is_empty() {
            // The first one gives the reason. This one tells most: the budgets' numbers are not what is wrong.
            objections.sort_by_key(|(_, objection)| objection.reason != DenyReason::NotDeleted);
            let denial = self.explain(pod, operation, &objections);
            let uid = pod.pod.uid.to_string();
            for (budget, objection) in &objections {
                if objection.reason == DenyReason::NotDeleted {
                    self.report_not_deleted(cx, budget, &name, &uid);
                }
            }
            return self.deny(cx, id, denial);
        }
        let uid = pod.pod.uid.to_string();
        // The pod may have labels by now that another budget selects.
        if !self.has_caught_up(id) && self.has_budget_beside(cx, &covering, id) {
            return self.read_pod(cx, id);
        }
        // A budget that the cache does not have yet may object too.
        if !self.has_recent_budgets(cx, id) {
            return;
        }
        if !self.is_proven(cx, id, basis) {
            return self.prove(cx, id, basis);
        }
        if covering.is_empty() {
            return self.allow(cx, id, AllowReason::NotCovered);
        }
        if recorded.is_empty() {
            return self.allow(cx, id, AllowReason::Exempt);
        }
        let reserving = Reserving {
            budgets: recorded[..if planted!(FirstBudgetOnly) { 1 } else { recorded.len() }].into(),
            next: 0,
            uid,
            pending: None,
            in_flight: false,
        };
        self.reserve(cx, id, reserving, grants);
    }

    /// Returns whether this namespace has a budget that the operation concerns and that does not cover the pod, as far
    /// as the cache shows the pod's labels.
    fn has_budget_beside(&self, cx: &Context<'_>, covering: &Covering, id: &str) -> bool {
        let Some(eviction) = self.requests.get(id).map(|request| &request.eviction) else {
            return false;
        };
        let is_system = eviction.exempt && eviction.operation != Operation::Evict;
        if is_system || planted!(StaleCoverage) {
            return false;
        }
        if planted!(ServeUnsynced) && cx.unsynced.is_some() {
            return false;
        }
        let all: Covering = self.budgets.keys().cloned().collect();
        concerned(&all, eviction.operation).iter().any(|budget| !covering.contains(budget))
    }

    /// Returns whether the cache is new enough for what the allow rests on.
    pub(super) fn is_proven(&self, cx: &Context<'_>, id: &str, basis: Basis) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        let is_pod_read = !basis.pod || self.has_caught_up(id);
        let operation = request.eviction.operation;
        let are_pods_seen = || self.pods_to_see(operation).iter().all(|c| self.has_seen(cx, c));
        is_pod_read && (!basis.group || are_pods_seen())
    }

    /// The pods as of the lists of budgets that a request rests on.
    fn pods_to_see(&self, operation: Operation) -> Vec<Claim> {
        let listed = kinds_for(operation).iter();
        let listed = listed.filter_map(|kind| self.budget_lists.version(kind)).cloned();
        listed.map(|version| Claim { budget: String::new(), kind: Kind::Pod, version }).collect()
    }

    /// The request goes on when the cache is new enough.
    fn prove(&mut self, cx: &mut Context<'_>, id: &str, basis: Basis) {
        if basis.pod && !self.has_caught_up(id) {
            return self.read_pod(cx, id);
        }
        let operation = self.requests.get(id).map(|r| r.eviction.operation).unwrap_or_default();
        let needs = self.pods_to_see(operation);
        self.list(cx, Kind::Pod);
        self.wait(id, needs);
    }

    pub(super) fn deny(&mut self, cx: &mut Context<'_>, id: &str, denial: Denial) {
        if let Some(request) = self.requests.get_mut(id) {
            if !request.answered {
                let verdict = denial.of(request.eviction.operation);
                cx.send(Command::Reply { eviction: id.to_owned(), verdict });
            }
            self.abandon(cx, id);
        }
    }

    pub(super) fn deadline(&mut self, cx: &mut Context<'_>, id: &str) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if planted!(NoDeadline) {
            return;
        }
        if cx.now < request.eviction.deadline || request.answered {
            return;
        }
        let (reason, why) = match &request.stage {
            Stage::Reading => (
                DenyReason::BeingProcessed,
                "the API server did not answer in time when asked for the pod",
            ),
            Stage::Parked if self.waiting.contains_key(id) => (
                DenyReason::BeingProcessed,
                "the decision needs newer objects than Holdfast's watches have shown, and the API server has not \
                 answered in time when asked for them; try again in a moment",
            ),
            Stage::Parked => (
                DenyReason::BeingProcessed,
                "Holdfast's view of this pod is behind the API server's; try again in a moment",
            ),
            Stage::Listing => (
                DenyReason::BeingProcessed,
                "Holdfast cannot tell which budgets cover the pod, because the API server did not list the \
                 namespace's budgets in time; try again once the API server answers",
            ),
            Stage::Reserving(_) => (
                DenyReason::NotRecorded,
                "the grant could not be recorded in time; try again in a moment",
            ),
        };
        let unconfirmed = matches!(request.stage, Stage::Parked).then_some(());
        let denial = refuse(reason, why);
        let denial = unconfirmed.and_then(|()| self.successor_denial()).unwrap_or(denial);
        let Some(request) = self.requests.get_mut(id) else { return };
        let in_flight =
            matches!(&request.stage, Stage::Reserving(reserving) if reserving.in_flight);
        if in_flight {
            // Whether the grant was written shows later; then it is refunded.
            request.answered = true;
            let verdict = denial.of(request.eviction.operation);
            cx.send(Command::Reply { eviction: id.to_owned(), verdict });
        } else {
            self.deny(cx, id, denial);
        }
    }

    /// Rule 0 to 7 for one budget, and the bounds on its grants.
    pub(super) fn opinion(
        &self,
        now: Timestamp,
        budget: &BudgetId,
        pod: &PodEntry,
        operation: Operation,
        exempt: bool,
    ) -> Opinion {
        let Some(entry) = self.budgets.get(budget) else {
            return Opinion::Allow { cost: 0, basis: Basis::ROOM };
        };
        let opinion = self.assess(entry, pod, operation, exempt);
        let uid = pod.pod.uid.to_string();
        let ledger = self.grants.ledger(budget);
        let is_full = ledger.is_full() || entry.has_too_many_replacements();
        let reason = match opinion {
            Opinion::Allow { .. } if is_full => Some(DenyReason::TooManyGrants),
            Opinion::Allow { .. } if ledger.is_denied(&pod.name, &uid, now) => {
                Some(DenyReason::NotDeleted)
            }
            Opinion::Renew { .. } => {
                let live = ledger.get(&pod.name, &uid);
                let is_old = live.is_some_and(|live| !live.may_be_renewed(operation, now));
                is_old.then_some(DenyReason::NotDeleted)
            }
            Opinion::Allow { .. } | Opinion::Pass | Opinion::Deny(_) => None,
        };
        match reason {
            None => opinion,
            Some(_) if exempt => Opinion::Pass,
            Some(reason) => {
                let evaluation = self.evaluate(entry);
                Opinion::Deny(Objection { reason, evaluation, replica: None })
            }
        }
    }

    pub(super) fn allow(&mut self, cx: &mut Context<'_>, id: &str, reason: AllowReason) {
        let Some(request) = self.requests.remove(id) else { return };
        let Request { uid, grants, eviction, .. } = *request;
        let verdict = Verdict::Allow(Allowed { reason, uid, grants });
        cx.send(Command::Reply { eviction: id.to_owned(), verdict });
        self.unpark(cx, &eviction.pod.name);
    }

    /// The request goes on when the watch or the lists in transit have shown what it needs. Without needs it waits for
    /// an answer alone.
    pub(super) fn wait(&mut self, id: &str, needs: Vec<Claim>) {
        if let Some(request) = self.requests.get_mut(id) {
            request.stage = Stage::Parked;
            self.waiting.insert(id.to_owned(), needs);
        }
    }

    /// What it rested on has changed: give back what it holds and begin again.
    pub(super) fn restart(&mut self, cx: &mut Context<'_>, id: &str) {
        self.refund(cx, id);
        self.start(cx, id);
    }

    pub(super) fn abandon(&mut self, cx: &mut Context<'_>, id: &str) {
        self.refund(cx, id);
        let Some(request) = self.requests.remove(id) else { return };
        let pod = request.eviction.pod.name;
        if !request.wrote.is_empty() {
            self.abandoned.retain(|_, (at, _)| *at + ABANDONED_KEPT > cx.now);
            self.abandoned.insert(id.to_owned(), (cx.now, request.wrote));
        }
        if let Some(ids) = self.parked.get_mut(&pod) {
            ids.remove(id);
        }
        self.unpark(cx, &pod);
    }

    /// In reverse, and only what this request wrote. A refund may be written at once, together with what waits in the
    /// budget's queue. If the request itself waits there, it no longer does.
    pub(super) fn refund(&mut self, cx: &mut Context<'_>, id: &str) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.stage = Stage::Parked;
        let pod = request.eviction.pod.name.clone();
        let wrote = request.wrote.clone();
        request.grants.clear();
        if planted!(NoRefund) {
            return;
        }
        for budget in wrote.into_iter().rev() {
            self.enqueue(cx, &budget, Op::Refund { pod: pod.clone(), eviction: id.to_owned() });
        }
    }

    /// What the pod is a part of, as the budget sees it.
    pub(super) fn replica_label(&self, budget: &BudgetId, pod: &PodEntry) -> String {
        if let Some(groups) = self.budgets.get(budget).and_then(|b| b.groups()) {
            let group = label_group(self.cache.known(), groups, pod);
            return group.map(|group| group.resolution.label.clone()).unwrap_or_default();
        }
        let replica = pod.replica.as_ref().and_then(|key| self.replicas.get(key));
        replica.map(|r| r.resolution().label.clone()).unwrap_or_default()
    }
}

/// The denial of every request while a cache is incomplete.
pub(super) fn unsynced(cx: &Context<'_>) -> Option<Denial> {
    let kind = cx.unsynced.filter(|_| !planted!(ServeUnsynced))?;
    let why = format!("Holdfast is still reading the cluster ({kind}); try again in a moment");
    Some(refuse(DenyReason::BeingProcessed, &why))
}

fn truncate(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let mut end = bytes_max;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
}
