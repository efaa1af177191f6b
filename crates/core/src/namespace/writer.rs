//! One writer per budget: what arrives while a write is under way is decided together and committed
//! by the next one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::budgets::Shown;
use super::explain::refuse;
use super::reserve::Turn;
use super::status::is_misconfigured;
use super::{BudgetId, Context, Namespace};
use crate::grants::{AGE_STEP, has_recorded};
use crate::io::{Command, WriteOutcome};
use crate::leisure::{GATHER, Leisure};
use crate::model::{BudgetKey, BudgetStatus, Grant, Scope, Timestamp};
use crate::stats::Counters;
use crate::timer::Due;
use crate::verdict::DenyReason;

/// When the last write carried several requests, the next one waits until as many have come, and this long at
/// most for each of them: one write of ten grants costs the API server a tenth of ten writes.
const COMPANY: Duration = Duration::from_millis(2);
/// And no longer than that.
const COMPANY_MAX: Duration = Duration::from_millis(16);
/// Whoever evicts in parallel is back by then: an eviction takes a kube-apiserver at least the 100 ms in which
/// its list of built-in budgets becomes current.
const PARTED: Duration = Duration::from_millis(300);
/// A housekeeping write that the API server refused is tried again.
const REJECTED_AGAIN: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default)]
pub(super) struct Writer {
    queue: VecDeque<Op>,
    pub(super) in_flight: Option<Batch>,
    /// A look at the status is due then.
    housekeeping: Option<Timestamp>,
    /// A fresh read is under way, and was sent then.
    reading: Option<Timestamp>,
    /// When it last wrote.
    wrote_at: Option<Timestamp>,
    /// How many requests the last write carried.
    crowd: usize,
    /// What is queued waits for company until then.
    waits_until: Option<Timestamp>,
    /// When the newest call was sent whose answer showed the budget as the API server has it.
    pub(super) read_at: Option<Timestamp>,
}

/// Something to do to a budget's ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// It is the request's turn to be granted or denied.
    Reserve { eviction: String },
    /// Take back what this eviction wrote, if nobody renewed it.
    Refund { pod: String, eviction: String },
}

/// The requests that one write grants, and what it takes back.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    pub(super) granted: Vec<Granted>,
    refunds: Vec<Op>,
    /// Nobody waits for it.
    leisurely: bool,
    /// What it writes; None for a read.
    status: Option<Arc<BudgetStatus>>,
}

#[derive(Clone, Debug)]
pub(super) struct Granted {
    pub(super) grant: Grant,
    pub(super) renewal: bool,
}

impl Writer {
    pub(super) fn queued(&self) -> usize {
        self.queue.len() + usize::from(self.housekeeping.is_some())
    }

    /// A write or a read is under way; its answer leads on.
    fn is_busy(&self) -> bool {
        self.in_flight.is_some() || self.reading.is_some()
    }

    /// What the write that is under way, or of which nobody knows what became, makes of the status.
    pub(super) fn writing(&self) -> Option<Arc<BudgetStatus>> {
        self.in_flight.as_ref().and_then(|batch| batch.status.clone())
    }

    /// No look at the status is due any more.
    fn looked(&mut self, leisure: &mut Leisure) {
        if self.housekeeping.take().is_some() {
            leisure.done();
        }
    }

    /// Fewer are waiting than the last write carried, which was a moment ago.
    fn expects_company(&self, now: Timestamp) -> bool {
        self.queue.len() < self.crowd && self.wrote_at.is_some_and(|wrote| now < wrote + PARTED)
    }
}

impl Namespace {
    /// Something about the budget may have changed: look at its status. A write that nobody waits for keeps a
    /// distance from the write before it, whatever that was for.
    pub(super) fn touch(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        self.ensure_scales(cx, id);
        let Some(entry) = self.budgets.get_mut(id) else { return };
        if entry.writer.housekeeping.is_none() {
            let turn = cx.leisure.turn(cx.now, entry.writer.wrote_at);
            self.schedule(cx, id, turn);
        }
    }

    /// What it holds has to be on the object before others decide by it: that waits for nobody's turn.
    pub(super) fn touch_now(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        self.schedule(cx, id, cx.now + GATHER);
    }

    pub(super) fn enqueue(&mut self, cx: &mut Context<'_>, id: &BudgetId, op: Op) {
        let Some(entry) = self.budgets.get_mut(id) else {
            match op {
                Op::Reserve { eviction } => self.not_reserved(cx, id, &eviction),
                // Should the budget come back, it must not come back with this.
                Op::Refund { pod, eviction } => self.refund_orphan(cx, id, &pod, &eviction),
            }
            return;
        };
        entry.writer.queue.push_back(op);
        cx.counters.queue_adds += 1;
        self.pump(cx, id);
    }

    /// Takes the requests out of the queue. Refunds stay.
    pub(super) fn take_reservations(&mut self, id: &BudgetId) -> Vec<String> {
        let Some(entry) = self.budgets.get_mut(id) else { return Vec::new() };
        let (refunds, requests): (VecDeque<Op>, VecDeque<Op>) =
            std::mem::take(&mut entry.writer.queue)
                .into_iter()
                .partition(|op| matches!(op, Op::Refund { .. }));
        entry.writer.queue = refunds;
        let eviction = |op| match op {
            Op::Reserve { eviction } => Some(eviction),
            Op::Refund { .. } => None,
        };
        requests.into_iter().filter_map(eviction).collect()
    }

    /// Into the queue, for the write that is about to be decided on anyway.
    pub(super) fn enqueue_later(&mut self, id: &BudgetId, op: Op) {
        if let Some(entry) = self.budgets.get_mut(id) {
            entry.writer.queue.push_back(op);
        }
    }

    pub(super) fn housekeep(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        if let Some(entry) = self.budgets.get_mut(id)
            && entry.writer.housekeeping.is_some_and(|at| at <= cx.now)
        {
            if cx.leisure.is_full() {
                return cx.leisure.wait(&self.name, id);
            }
            if entry.writer.is_busy() {
                // What is under way does not know of the change.
                let turn = cx.leisure.turn(cx.now, Some(cx.now));
                self.schedule(cx, id, turn);
                return cx.leisure.wake_next(cx.now, cx.timers);
            }
            entry.writer.looked(cx.leisure);
            // Others do it, or it would be done by less than was seen already.
            // An instance that has adopted grants may be the only one that knows them.
            let adopted = self.grants.ledger(id).has_adopted();
            if (cx.leads || adopted) && self.may_write_status(cx, id) {
                self.announce(cx, id);
                self.commit(cx, id);
            } else {
                // Refunds wait for nobody.
                self.pump(cx, id);
            }
        }
        cx.leisure.wake_next(cx.now, cx.timers);
    }

    /// What became of the write, or of the read that asked after it.
    pub(crate) fn written(
        &mut self,
        cx: &mut Context<'_>,
        key: &BudgetKey,
        uid: &str,
        outcome: WriteOutcome,
    ) {
        let id = &self.budget_id(key);
        let Some(entry) = self.budgets.get_mut(id) else { return };
        if entry.object.uid != uid {
            // About its predecessor. What is under way for this one is not answered by that.
            if let WriteOutcome::Current(budget) = outcome
                && budget.uid == entry.object.uid
            {
                self.apply_budget(cx, *budget);
            }
            return;
        }
        if let WriteOutcome::Unknown(_) = outcome {
            #[cfg(feature = "planted-bugs")]
            if planted!(BelieveLostWrite) || planted!(NoReadAfterLoss) {
                return self.take_as_known(cx, id);
            }
            // The batch stays under way, its grants count, and nothing else is written until a
            // fresh read shows what happened.
            entry.writer.reading = None;
            // A budget whose answers cannot be read must not keep others from being written.
            let batch = entry.writer.in_flight.as_mut();
            if batch.is_some_and(|batch| std::mem::take(&mut batch.leisurely)) {
                cx.leisure.end(cx.now, cx.timers);
            }
            return self.read_afresh(cx, id);
        }
        let sent = entry.writer.reading.take().or(entry.writer.wrote_at);
        if matches!(outcome, WriteOutcome::Current(_)) {
            entry.writer.read_at = sent;
        }
        let batch = match (entry.writer.in_flight.take(), &outcome) {
            (Some(batch), _) => batch,
            // Nothing was under way: the answer to a read.
            (None, WriteOutcome::Current(_) | WriteOutcome::Gone) => Batch::default(),
            (None, _) => return,
        };
        let same = matches!(&outcome, WriteOutcome::Current(b) if b.uid == entry.object.uid);
        if batch.leisurely && (same || matches!(outcome, WriteOutcome::Rejected(_))) {
            cx.leisure.end(cx.now, cx.timers);
        }
        match outcome {
            WriteOutcome::Current(budget) if same => {
                if budget.version.is_older_than(&entry.object.version) {
                    // The watch has shown a newer state, and this write might have landed after that one.
                    self.take_in_grants(cx, id);
                } else {
                    self.take_in(cx, id, *budget, batch.status.as_deref());
                }
                let now = self.budgets.get(id).map(|b| &b.object.status);
                let written = now.is_some() && now == batch.status.as_deref();
                #[cfg(feature = "planted-bugs")]
                let Some(batch) = self.write_the_same_again(cx, id, batch) else { return };
                // Whatever the newest state does not hold was not written.
                self.drop_uncommitted(cx, id);
                self.refund_again(id, &batch);
                self.settle(cx, id, batch);
                if self.grants.ledger(id).has_adopted() {
                    self.touch_now(cx, id);
                } else if !written {
                    // By another: what was to be written may still have to be.
                    self.touch(cx, id);
                }
            }
            WriteOutcome::Current(budget) => {
                // The budget was recreated. The watch still has to show what its predecessor granted last; until
                // it has shown the deletion, the requests of this batch wait.
                entry.writer.in_flight = Some(batch);
                if !budget.version.is_older_than(&entry.object.version) {
                    let shown = Shown { budget: *budget, unreadable: None };
                    self.note_successor(id.clone(), shown);
                }
                return;
            }
            WriteOutcome::Gone => {
                entry.writer.in_flight = Some(batch);
                self.delete_budget(cx, id);
            }
            WriteOutcome::Rejected(why) => {
                self.drop_uncommitted(cx, id);
                // What was to be refunded is still there.
                self.take_in_grants(cx, id);
                let why =
                    format!("the grant could not be recorded in budget {}: {why}", id.object.name);
                self.refund_again(id, &batch);
                for Granted { grant, .. } in batch.granted {
                    self.deny(cx, &grant.eviction, refuse(DenyReason::NotRecorded, &why));
                }
                cx.counters.queue_retries += 1;
                // Not at once: it would be refused again.
                return self.schedule(cx, id, cx.now + REJECTED_AGAIN);
            }
            WriteOutcome::Unknown(_) => {}
        }
        self.pump(cx, id);
    }

    /// Not while a write is under way: its answer is as fresh, and one answer must not be taken for
    /// the other.
    pub(super) fn read_if_idle(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        if self.budgets.get(id).is_some_and(|b| b.writer.in_flight.is_none()) {
            self.read_afresh(cx, id);
        }
    }

    fn read_afresh(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        if let Some(entry) = self.budgets.get_mut(id)
            && entry.writer.reading.is_none()
        {
            entry.writer.reading = Some(cx.now);
            let uid = entry.object.uid.clone();
            cx.send(Command::ReadBudget { budget: (**id).clone(), uid });
        }
    }

    /// Refunds that were not written are still to be done. What the same request was granted after its
    /// refund is not to be taken for what was to be refunded.
    fn refund_again(&mut self, id: &BudgetId, batch: &Batch) {
        for refund in &batch.refunds {
            let Op::Refund { pod, eviction } = refund else { continue };
            let own = |g: &Grant| g.pod == *pod && g.eviction == *eviction;
            let granted_since = batch.granted.iter().any(|granted| own(&granted.grant));
            let recorded =
                self.budgets.get(id).is_some_and(|b| b.object.status.grants.iter().any(own));
            if recorded && !granted_since {
                self.enqueue_later(id, refund.clone());
            }
        }
    }

    /// The budget was deleted: nobody needs a grant in it any more, and what was being taken back must not
    /// come back.
    pub(super) fn budget_gone(&mut self, cx: &mut Context<'_>, id: &BudgetId, mut writer: Writer) {
        writer.looked(cx.leisure);
        let in_flight = writer.in_flight.unwrap_or_default();
        if in_flight.leisurely {
            cx.leisure.end(cx.now, cx.timers);
        }
        for Granted { grant, .. } in in_flight.granted {
            self.not_reserved(cx, id, &grant.eviction);
        }
        for op in in_flight.refunds.into_iter().chain(writer.queue) {
            match op {
                Op::Reserve { eviction } => self.not_reserved(cx, id, &eviction),
                // From its successor, or from what is kept until one comes.
                Op::Refund { .. } => self.enqueue(cx, id, op),
            }
        }
    }

    /// Decide everything that waits, together, and commit it by one write.
    pub(super) fn pump(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(entry) = self.budgets.get(id) else { return };
        if entry.writer.is_busy() || entry.writer.queue.is_empty() {
            return;
        }
        match &entry.writer.waits_until {
            _ if !entry.writer.expects_company(cx.now) => self.commit(cx, id),
            None => self.wait_for_company(cx, id),
            Some(until) if *until > cx.now => {}
            Some(_) => self.commit(cx, id),
        }
    }

    fn wait_for_company(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        let crowd = u32::try_from(entry.writer.crowd).unwrap_or(u32::MAX);
        let until = cx.now + COMPANY_MAX.min(COMPANY.saturating_mul(crowd));
        entry.writer.waits_until = Some(until);
        cx.timers.at(until, &self.name, Due::Commit { budget: id.clone() });
    }

    fn commit(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        assert!(!entry.writer.is_busy(), "one write at a time");
        if entry.unreadable.is_some() {
            return self.refuse_unreadable(cx, id);
        }
        // Marks the writer as busy: what deciding enqueues here waits for the next round.
        entry.writer.in_flight = Some(Batch::default());
        entry.writer.waits_until = None;
        let ops = std::mem::take(&mut entry.writer.queue);
        let mut granted = Vec::new();
        let mut refunds = Vec::new();
        let mut broken = None;
        for op in ops {
            match op {
                Op::Refund { ref pod, ref eviction } => {
                    self.ungrant(cx, id, pod, eviction);
                    refunds.push(op);
                }
                Op::Reserve { eviction } => {
                    let turn = self.take_turn(cx, id, &eviction);
                    if let Turn::Grant { grant, renewal, read_as } = turn {
                        self.expect_replacement(cx, id, &grant);
                        self.grant(cx, id, grant.clone(), read_as);
                        let new = Granted { grant, renewal };
                        broken = broken.or_else(|| self.broken_by(cx, id, &new));
                        granted.push(new);
                    }
                }
            }
        }
        if let Some(broken) = broken {
            self.withdraw(cx, id, &mut granted, broken);
        }
        let Some(entry) = self.budgets.get(id) else { return };
        let mut status = self.status(cx.config, cx.now, entry);
        self.trim_replacements(cx, entry, &mut status);
        count(cx.counters, entry.scope, &status);
        let unchanged = granted.is_empty() && says_the_same(&status, &entry.object.status);
        let (uid, version) = (entry.object.uid.clone(), entry.object.version.clone());
        let Some(entry) = self.budgets.get_mut(id) else { return };
        if unchanged {
            entry.writer.in_flight = None;
            return self.pump(cx, id);
        }
        let leisurely = granted.is_empty();
        entry.writer.crowd = granted.len();
        if leisurely {
            cx.leisure.begin(cx.now);
        }
        let status = Arc::new(status);
        let is_a_look = leisurely && refunds.is_empty();
        let writing = Some(status.clone());
        entry.writer.in_flight = Some(Batch { granted, refunds, leisurely, status: writing });
        entry.writer.wrote_at = Some(cx.now);
        let budget = (**id).clone();
        cx.send(Command::WriteStatus { budget, uid, version, status });
        if entry.writer.housekeeping.is_some() && !is_a_look {
            // There is more to a look than the write: events, and whether we are behind.
            let turn = cx.leisure.turn(cx.now, Some(cx.now));
            self.schedule(cx, id, turn);
        } else {
            entry.writer.looked(cx.leisure);
        }
    }

    /// Tell each request of the batch whether its grant is recorded.
    fn settle(&mut self, cx: &mut Context<'_>, id: &BudgetId, batch: Batch) {
        for Granted { grant, .. } in batch.granted {
            if self.budgets.get(id).is_some_and(|b| has_recorded(&b.object.status, &grant)) {
                self.reserved(cx, id, &grant.eviction, grant.cost);
            } else {
                self.not_reserved(cx, id, &grant.eviction);
            }
        }
    }

    fn schedule(&mut self, cx: &mut Context<'_>, id: &BudgetId, at: Timestamp) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        cx.counters.queue_adds += 1;
        if entry.writer.housekeeping.replace(at).is_none() {
            cx.leisure.plan();
        }
        cx.timers.at(at, &self.name, Due::Housekeep { budget: id.clone() });
    }
}

fn count(counters: &mut Counters, scope: Scope, status: &BudgetStatus) {
    match scope {
        Scope::Pod => counters.pod_reconciliations += 1,
        Scope::Workload => counters.workload_reconciliations += 1,
    }
    counters.misconfigured += u64::from(is_misconfigured(status));
}

/// A status is not written for its watermarks alone: every pod event would be a write. Nor is it for ages of grants,
/// but for steps of them.
fn says_the_same(new: &BudgetStatus, old: &BudgetStatus) -> bool {
    let mut new = BudgetStatus { watermarks: old.watermarks.clone(), ..new.clone() };
    let step = i64::try_from(AGE_STEP.as_secs()).unwrap_or(i64::MAX);
    for (grant, old) in new.grants.iter_mut().zip(&old.grants) {
        if (0..step).contains(&(grant.age_seconds - old.age_seconds)) {
            grant.age_seconds = old.age_seconds;
        }
    }
    new == *old
}
