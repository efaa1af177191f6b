//! Grants that did not come to anything (semantics 5): expiry, and refunds of what was never completed.

use std::time::Duration;

use super::writer::Op;
use super::{BudgetId, Context, Namespace, ReadPurpose};
use crate::grants::{Cached, Check, Finding, LiveGrant, READ_AGAIN, judge_read};
use crate::io::{Command, Event, Kind, PodReadOutcome, Regarding};
use crate::model::{ObjectKey, ResourceVersion, Timestamp};
use crate::timer::Due;
use crate::verdict::signature;

/// By then a read has usually been answered.
const READ_TAKES: Duration = Duration::from_millis(500);

impl Namespace {
    /// Looks at a grant. When it is old enough, a live read shows whether the pod is still there. Until then the
    /// leader records its age from time to time.
    pub(super) fn expire(&mut self, cx: &mut Context<'_>, id: &BudgetId, pod: &str, uid: &str) {
        match self.grants.ledger(id).check(pod, uid, cx.now) {
            Check::Over => return,
            Check::Wait { until, is_age_due } => {
                if cx.leads && is_age_due {
                    self.touch_now(cx, id);
                }
                return self.look_at(cx, id, (pod, uid), until);
            }
            Check::Read => {}
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
        let live = self.grants.ledger(id).settled(pod, uid);
        let Some(live) = live.filter(|live| live.expires_at() <= asked) else { return };
        let deletes = live.deletes_its_pod();
        let cached = self.cache.pod(pod).map(|entry| &entry.pod);
        let cached = cached.map(|p| Cached { is_same: p.uid == *uid, version: &p.version });
        let is_seen =
            self.budgets.get(id).is_none_or(|b| b.has_seen_pods(&self.catch_up, cx.progress));
        let seen = self.catch_up.pods_seen(cx.progress).filter(|_| is_seen);
        match judge_read(uid, outcome, cached, seen) {
            Finding::CacheIsBehind => {}
            Finding::Unsure => self.bind_grants(cx, pod),
            Finding::Survived(version) => {
                if deletes {
                    self.grants.deny_for_a_while(id, pod, uid, cx.now);
                }
                if cx.leads && deletes {
                    self.report_not_deleted(cx, id, pod, uid);
                }
                return self.end_grant(cx, id, pod, uid, Some(&version));
            }
            Finding::Gone(version) => {
                let version = Some(&version).filter(|_| !planted!(GoneWithoutVersion));
                return self.end_grant(cx, id, pod, uid, version);
            }
        }
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
        if !self.grants.begin_report(id, pod, uid) {
            return;
        }
        let grant = self.grants.ledger(id).get(pod, uid).map(LiveGrant::grant);
        let refused = grant.filter(|grant| !grant.eviction.is_empty()).map(|grant| {
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
        self.grants.end(id, pod, uid);
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
        let Some(live) = self.grants.ledger(id).settled(pod, uid) else { return };
        let (grant, due) = (live.grant(), live.complete_by());
        if cx.now < due || self.requests.contains_key(&grant.eviction) {
            return;
        }
        let eviction = grant.eviction.clone();
        let others = self.budgets.values().filter(|b| grant.budgets.contains(&b.object.uid));
        let missing =
            others.filter(|b| !self.grants.ledger(&b.id).names(pod)).map(|b| b.id.clone());
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
