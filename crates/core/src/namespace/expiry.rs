//! Grants that did not come to anything (semantics 5): expiry, and refunds of what was never completed.

use std::time::Duration;

use super::ledger::INCOMPLETE_AFTER;
use super::writer::Op;
use super::{BudgetId, Context, Namespace, ReadPurpose};
use crate::io::{Command, Event, Kind, PodReadOutcome, Regarding};
use crate::model::{ObjectKey, Pod, ResourceVersion, Timestamp};
use crate::timer::Due;
use crate::verdict::signature;

/// A live read that failed is tried again.
const READ_AGAIN: Duration = Duration::from_secs(5);

/// By then a read has usually been answered.
const READ_TAKES: Duration = Duration::from_millis(500);

impl Namespace {
    /// Looks at a grant. When it is old enough, a live read shows whether the pod is still there. Until then the
    /// leader records its age from time to time.
    pub(super) fn expire(&mut self, cx: &mut Context<'_>, id: &BudgetId, pod: &str, uid: &str) {
        let Some(ledger) = self.budgets.get(id).map(|b| &b.ledger) else { return };
        let Some(live) = ledger.settled(pod, uid) else {
            if ledger.is_in_flight(pod, uid) {
                // Nobody can say yet whether it is there.
                self.look_at(cx, id, pod, uid, cx.now + READ_AGAIN);
            }
            return;
        };
        let expires_at = live.expires_at();
        if cx.now < expires_at {
            if cx.leads && live.is_age_due(cx.now) {
                self.touch_now(cx, id);
            }
            return self.look_at(cx, id, pod, uid, expires_at);
        }
        if planted!(ExpireBlindly) {
            return self.end_grant(cx, id, pod, uid, None);
        }
        let purpose = ReadPurpose::Expire {
            budget: id.clone(),
            pod: pod.to_owned(),
            uid: uid.to_owned(),
            asked: cx.now,
        };
        let token = cx.reads.begin(&self.name, purpose);
        cx.send(Command::ReadPod { token, pod: ObjectKey::new(&*self.name, pod) });
    }

    pub(super) fn expire_read(
        &mut self,
        cx: &mut Context<'_>,
        (id, pod, uid): (&BudgetId, &str, &str),
        asked: Timestamp,
        outcome: &PodReadOutcome,
    ) {
        // Renewed, ended or refunded since we asked: what was seen then is no evidence now.
        let live = self.budgets.get(id).and_then(|b| b.ledger.settled(pod, uid));
        let Some(live) = live.filter(|live| live.expires_at() <= asked) else { return };
        let deletes = !live.grant.operation.keeps_pod() && !live.passed;
        let cached = self.pods.get(pod).is_some_and(|entry| entry.pod.uid == *uid);
        // By what the cache has of it the pod counts from now on: an update may have changed it since.
        let is_cached = |found: &Pod| {
            self.pods.get(pod).is_some_and(|entry| !entry.pod.version.is_older_than(&found.version))
        };
        let version = match outcome {
            // Gone here as there. While the cache still has it, it would count as healthy.
            PodReadOutcome::NotFound if !cached && self.has_seen_pods(cx, id) => self.pods_seen(cx),
            PodReadOutcome::Found(found) if !is_cached(found) => {
                return self.look_again(cx, id, pod, uid);
            }
            PodReadOutcome::Found(found) if found.uid == uid && !found.terminating => {
                if deletes && let Some(budget) = self.budgets.get_mut(id) {
                    budget.ledger.refuse(pod, uid, cx.now);
                }
                if cx.leads && deletes {
                    self.report_not_deleted(cx, id, pod, uid);
                }
                Some(found.version.clone())
            }
            // On its way out; or gone or replaced, and the cache will learn of it; or unknown. Unsure
            // keeps the grant.
            _ => None,
        };
        let Some(version) = version else {
            self.bind_grants(cx, pod);
            return self.look_again(cx, id, pod, uid);
        };
        let is_gone = matches!(outcome, PodReadOutcome::NotFound);
        let version = Some(&version).filter(|_| !(is_gone && planted!(GoneWithoutVersion)));
        self.end_grant(cx, id, pod, uid, version);
    }

    fn look_again(&mut self, cx: &mut Context<'_>, id: &BudgetId, pod: &str, uid: &str) {
        let due = Due::Expire { budget: id.clone(), pod: pod.to_owned(), uid: uid.to_owned() };
        cx.timers.at(cx.now + READ_AGAIN, &self.name, due);
    }

    /// Publishes, once per grant, that an allowed eviction did not delete the pod.
    pub(super) fn report_not_deleted(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        pod: &str,
        uid: &str,
    ) {
        let Some(ledger) = self.budgets.get_mut(id).map(|b| &mut b.ledger) else { return };
        if !ledger.begin_report(pod, uid) {
            return;
        }
        let grant = ledger.get(pod, uid).filter(|grant| !grant.eviction.is_empty());
        let refused = grant.map(|grant| {
            let signature = signature(&grant.eviction);
            format!("; the API server or another admission check refuses the eviction{signature}")
        });
        cx.send(Command::Event(Event {
            regarding: Regarding::Pod {
                key: ObjectKey::new(&*self.name, pod),
                uid: uid.to_owned(),
            },
            warning: true,
            reason: "NotDeleted",
            message: format!(
                "Pod was expected by {} {id} to be deleted but it wasn't{}",
                id.kind.short(),
                refused.unwrap_or_default()
            ),
        }));
    }

    /// The version shows that the grant's pod still exists, or that it is gone.
    fn end_grant(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        pod: &str,
        uid: &str,
        version: Option<&ResourceVersion>,
    ) {
        let Some(budget) = self.budgets.get_mut(id) else { return };
        budget.ledger.end(pod, uid);
        if let Some(version) = version {
            budget.seen.note(&Kind::Pod, version);
        }
        // One that was for an earlier pod of the name, and had not passed on because of this one, does now.
        self.bind_grants(cx, pod);
        self.recount_grants(cx, pod);
        self.touch(cx, id);
    }

    /// A grant that is one of several whose others never came: whoever reserved it is gone.
    pub(super) fn refund_incomplete(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        pod: &str,
        uid: &str,
    ) {
        let Some(live) = self.budgets.get(id).and_then(|b| b.ledger.settled(pod, uid)) else {
            return;
        };
        let due = live.recorded_at + INCOMPLETE_AFTER;
        if cx.now < due || self.requests.contains_key(&live.grant.eviction) {
            return;
        }
        let eviction = live.grant.eviction.clone();
        let others = self.budgets.values().filter(|b| live.grant.budgets.contains(&b.object.uid));
        let missing = others.filter(|b| !b.ledger.names(pod)).map(|b| b.id.clone());
        let missing: Vec<BudgetId> = missing.collect();
        if missing.is_empty() {
            return;
        }
        if self.is_refund_safe(cx, id, &missing, due) {
            self.justify_refund(id, &missing);
            return self.enqueue(cx, id, Op::Refund { pod: pod.to_owned(), eviction });
        }
        let due = Due::Incomplete { budget: id.clone(), pod: pod.to_owned(), uid: uid.to_owned() };
        cx.timers.at(cx.now + READ_TAKES, &self.name, due);
    }

    /// Returns whether this instance may believe that the reservation was never completed. Another budget lacks the
    /// grant either because it never had it, or because the eviction was executed and the grant ended. So a read
    /// that began after the reservation was due shows the budget, and this instance has seen what the budget rests
    /// on: then an executed eviction shows in the cache, and has ended the grant here too.
    fn is_refund_safe(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        missing: &[BudgetId],
        due: Timestamp,
    ) -> bool {
        if planted!(RefundByCache) {
            return true;
        }
        let mut is_safe = self.is_current(cx, id);
        for other in missing {
            let read_at = self.budgets.get(other).and_then(|b| b.writer.read_at);
            if read_at.is_none_or(|at| at <= due) {
                self.read_if_idle(cx, other);
                is_safe = false;
            }
            is_safe &= self.is_current(cx, other);
        }
        is_safe
    }

    /// The refund rests on what the other budgets were computed from.
    fn justify_refund(&mut self, id: &BudgetId, missing: &[BudgetId]) {
        let pods = Kind::Pod.to_string();
        let others = missing.iter().filter_map(|other| self.budgets.get(other));
        let watermarks = others.filter_map(|b| b.object.status.watermarks.get(&pods)).cloned();
        for version in watermarks.collect::<Vec<_>>() {
            if let Some(budget) = self.budgets.get_mut(id) {
                budget.seen.note(&Kind::Pod, &version);
            }
        }
    }
}
