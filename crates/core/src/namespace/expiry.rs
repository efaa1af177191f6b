//! Grants that did not come to anything (semantics 5): expiry, and refunds of what was never completed.

use std::time::Duration;

use super::budgets::BudgetEntry;
use super::ledger::{GRANT_EXPIRES, INCOMPLETE_AFTER};
use super::writer::Op;
use super::{BudgetId, Context, Namespace, ReadPurpose};
use crate::io::{Command, Event, PodReadOutcome, Regarding};
use crate::model::{ObjectKey, Pod, Timestamp};
use crate::timer::Due;
use crate::verdict::signature;

/// A live read that failed is tried again.
const READ_AGAIN: Duration = Duration::from_secs(5);

/// By then a read has usually been answered.
const READ_TAKES: Duration = Duration::from_millis(500);

impl Namespace {
    /// Two minutes have passed: look whether the pod is still there, on the API server itself.
    pub(super) fn expire(&mut self, cx: &mut Context<'_>, id: &BudgetId, pod: &str, uid: &str) {
        if !self.is_due(cx.now, id, pod, uid, GRANT_EXPIRES) {
            if self.budgets.get(id).is_some_and(|b| b.ledger.is_in_flight(pod, uid)) {
                // Nobody can say yet whether it is there.
                self.look_at(cx, id, pod, uid, cx.now + READ_AGAIN);
            }
            return;
        }
        if planted!(ExpireBlindly) {
            return self.end_grant(cx, id, pod, uid);
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
        if !self.is_due(asked, id, pod, uid, GRANT_EXPIRES) {
            return;
        }
        let grant = self.budgets.get(id).and_then(|b| b.ledger.get(pod, uid));
        let keeps_pod = grant.is_some_and(|g| g.operation.keeps_pod());
        let cached = self.pods.get(pod).is_some_and(|entry| entry.pod.uid == *uid);
        // By what the cache has of it the pod counts from now on: an update may have changed it since.
        let is_cached = |found: &Pod| {
            self.pods.get(pod).is_some_and(|entry| !entry.pod.version.is_older_than(&found.version))
        };
        match outcome {
            // Gone here as there. While the cache still has it, it would count as healthy.
            PodReadOutcome::NotFound if !cached => {}
            PodReadOutcome::Found(found) if !is_cached(found) => {
                return self.look_at(cx, id, pod, uid, cx.now + READ_AGAIN);
            }
            PodReadOutcome::Found(found)
                if found.uid == uid && !found.terminating && (!cx.leads || keeps_pod) => {}
            PodReadOutcome::Found(found) if found.uid == uid && !found.terminating => {
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
                        grant.map(|g| signature(&g.eviction)).unwrap_or_default()
                    ),
                }));
            }
            // On its way out; or gone or replaced, and the cache will learn of it; or unknown. Unsure
            // keeps the grant.
            _ => {
                self.bind_grants(cx, pod);
                self.look_at(cx, id, pod, uid, cx.now + READ_AGAIN);
                return;
            }
        }
        self.end_grant(cx, id, pod, uid);
    }

    fn end_grant(&mut self, cx: &mut Context<'_>, id: &BudgetId, pod: &str, uid: &str) {
        let Some(budget) = self.budgets.get_mut(id) else { return };
        budget.ledger.end(pod, uid);
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
        if !self.is_due(cx.now, id, pod, uid, INCOMPLETE_AFTER) {
            return;
        }
        let Some(grant) = self.budgets.get(id).and_then(|b| b.ledger.get(pod, uid)) else { return };
        if self.requests.contains_key(&grant.eviction) {
            return;
        }
        let eviction = grant.eviction.clone();
        let others = self.budgets.values().filter(|b| grant.budgets.contains(&b.object.uid));
        let missing = others.filter(|b| !b.ledger.names(pod));
        // Our view of the others may lag: what it lacks is believed only of a fresh read.
        let due = self.budgets.get(id).and_then(|b| b.ledger.first_seen(pod, uid));
        let due = due.map_or(cx.now, |first_seen| first_seen + INCOMPLETE_AFTER);
        let (fresh, stale): (Vec<&BudgetEntry>, Vec<&BudgetEntry>) = missing
            .partition(|b| planted!(RefundByCache) || b.writer.read_at.is_some_and(|at| at > due));
        let stale: Vec<BudgetId> = stale.into_iter().map(|b| b.id.clone()).collect();
        if !fresh.is_empty() {
            self.enqueue(cx, id, Op::Refund { pod: pod.to_owned(), eviction });
        } else if !stale.is_empty() {
            for other in &stale {
                self.read_if_idle(cx, other);
            }
            let due =
                Due::Incomplete { budget: id.clone(), pod: pod.to_owned(), uid: uid.to_owned() };
            cx.timers.at(cx.now + READ_TAKES, &self.name, due);
        }
    }

    fn is_due(&self, by: Timestamp, id: &BudgetId, pod: &str, uid: &str, age: Duration) -> bool {
        let first_seen = self.budgets.get(id).and_then(|b| b.ledger.first_seen(pod, uid));
        first_seen.is_some_and(|at| at + age <= by)
    }
}
