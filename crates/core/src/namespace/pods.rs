//! Pods and the replicas they form.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::budgets::BudgetEntry;
use super::units::{Step, contribute, is_unavailable};
use super::{BudgetId, Context, Covering, Namespace};
use crate::cache::{CachedPod, Known, PodEntry, PodEvent, PodState};
use crate::io::{Command, Kind};
use crate::model::{DisruptionTarget, ObjectKey, Pod, ResourceVersion};
use crate::replicas::{Member, Place, ReplicaKey};
use crate::timer::Due;

/// A `DisruptionTarget` that led to nothing for so long is stale (upstream 1.8).
const STALE_TARGET_AFTER: Duration = Duration::from_mins(2);
/// If the clearing is lost, it is asked for again.
const STALE_TARGET_RETRY: Duration = Duration::from_secs(10);

impl Namespace {
    pub(crate) fn apply_pod(&mut self, cx: &mut Context<'_>, pod: Pod) {
        let version = pod.version.clone();
        let (name, touched) = match self.cache.apply_pod(pod) {
            PodEvent::Late => return,
            PodEvent::State { pod, was, known } => {
                recount(known, &mut self.budgets, pod, was);
                (pod.name.clone(), pod.budgets.clone())
            }
            PodEvent::Replaced(name, pod) => {
                self.forget_pod(cx, &name, &version);
                let touched = self.place_pod(cx, &name, pod);
                (name, touched)
            }
            PodEvent::Placed(name, pod) => {
                let touched = self.place_pod(cx, &name, pod);
                (name, touched)
            }
        };
        self.bind_grants(cx, &name);
        self.end_done(cx, &name);
        for budget in &touched {
            self.saw_pod(cx, budget, &version);
        }
        self.watch_stale_target(cx, &name);
        if touched.iter().any(is_unavailable) {
            self.relate_soon(cx, &name);
        }
        self.unpark(cx, &name);
    }

    /// The pod is new, or more has changed than its state. Returns the budgets that count it, or did.
    fn place_pod(&mut self, cx: &mut Context<'_>, name: &Arc<str>, mut pod: Pod) -> Covering {
        let labels = self.cache.intern(&std::mem::take(&mut pod.labels));
        let mut touched = self.take_out(name);
        let budgets = self.covering(&labels, pod.controller.as_ref());
        touched.extend(budgets.iter().cloned());
        touched.sort_unstable();
        touched.dedup();
        let controller = pod.controller.take().map(|c| self.cache.share(c));
        let new = ReplicaKey::of(&pod, cx.config.lws)
            .map(|key| (Arc::new(key), Arc::new(Member::of(&pod, controller.clone()))));
        let (replica, member) = self.change_membership(cx, name, new).unzip();
        // Groups by label go by the size of a LeaderWorkerSet group where these groups are no replicas, too.
        let is_lws = pod.lws.is_some();
        let of_lws = || is_lws.then(|| Arc::new(Member::of(&pod, controller.clone())));
        let member = member.or_else(of_lws);
        if pod.is_evicted() {
            self.mark_evidence(cx, name, &pod.uid, &pod.version);
        }
        let uid = pod.uid.as_str().into();
        self.cache.put_pod(PodEntry {
            name: name.clone(),
            granted: self.grants.count(name, &pod.uid),
            pod: CachedPod::new(pod, uid, controller, member),
            labels,
            replica,
            budgets,
        });
        self.put_in(name);
        touched
    }

    /// The pod is gone. Its last state may show that an eviction took it.
    pub(crate) fn delete_pod(&mut self, cx: &mut Context<'_>, last: &Pod) {
        let name = match self.cache.pod(&last.key.name) {
            Some(entry) if entry.pod.uid == *last.uid => entry.name.clone(),
            // Already gone, or already replaced.
            _ => return,
        };
        if last.is_targeted() || planted!(NoSuccessor) {
            self.mark_evidence(cx, &name, &last.uid, &last.version);
        }
        self.forget_pod(cx, &name, &last.version);
        self.unpark(cx, &name);
    }

    /// The pod is gone by this version, and nothing shows how.
    pub(crate) fn forget_pod(
        &mut self,
        cx: &mut Context<'_>,
        name: &Arc<str>,
        version: &ResourceVersion,
    ) {
        self.cache.forget_unreadable(name);
        let budgets = self.take_out(name);
        let pod = self.cache.pod(name).map(|e| &e.pod).filter(|pod| pod.is_targeted());
        if let Some((uid, version)) = pod.map(|pod| (pod.uid.to_string(), pod.version.clone())) {
            self.mark_evidence(cx, name, &uid, &version);
        }
        self.change_membership(cx, name, None);
        if let Some(entry) = self.cache.remove_pod(name) {
            self.end_exact(cx, (name, &entry.pod.uid.to_string()), version);
        }
        for budget in budgets {
            self.saw_pod(cx, &budget, version);
        }
    }

    /// A budget's numbers now rest on this event.
    pub(super) fn saw_pod(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        version: &ResourceVersion,
    ) {
        if let Some(budget) = self.budgets.get_mut(id) {
            budget.seen.note(&Kind::Pod, version);
        }
        self.touch(cx, id);
    }

    /// Returns the budgets that count the pod.
    pub(super) fn set_granted(&mut self, name: &str, granted: u32) -> Covering {
        let Some(was) = self.cache.set_granted(name, granted) else { return Covering::default() };
        self.recount_pod(name, was)
    }

    /// The pod was in that state until now. Returns the budgets that count it.
    pub(super) fn recount_pod(&mut self, name: &str, was: PodState) -> Covering {
        let Some(entry) = self.cache.pod(name) else { return Covering::default() };
        recount(self.cache.known(), &mut self.budgets, entry, was);
        entry.budgets.clone()
    }

    /// Let one budget count one more of the pods, or one less.
    pub(super) fn select(&mut self, budget: &BudgetId, name: &Arc<str>, selected: bool) {
        self.take_out(name);
        self.cache.select(name, budget, selected);
        self.put_in(name);
    }

    /// Take the pod's part out of every budget that selects it.
    fn take_out(&mut self, name: &str) -> Covering {
        self.contribute(name, false);
        self.cache.pod(name).map(|entry| entry.budgets.clone()).unwrap_or_default()
    }

    fn put_in(&mut self, name: &str) {
        self.contribute(name, true);
    }

    fn contribute(&mut self, name: &str, adds: bool) {
        let step = if adds { Step::PutIn } else { Step::TakeOut };
        let Some(entry) = self.cache.pod(name) else { return };
        let replica = entry.replica.as_ref().and_then(|key| self.replicas.get(key));
        for id in &entry.budgets {
            let Some(budget) = self.budgets.get_mut(id) else { continue };
            contribute(self.cache.known(), (entry, replica), budget.counting(), step);
        }
        if let Some(key) = &entry.replica {
            self.replicas.count_budgets(key, &entry.budgets, adds);
        }
    }

    /// Move the pod from the replica that it was a member of to the one it is a member of now.
    /// Its part must be out of all budgets.
    fn change_membership(
        &mut self,
        cx: &mut Context<'_>,
        name: &Arc<str>,
        new: Option<Place>,
    ) -> Option<Place> {
        let old = self.cache.pod(name);
        let old = old.and_then(|e| Some((e.replica.clone()?, e.pod.member.clone()?)));
        if old == new {
            return old;
        }
        let (new, changed) = self.replicas.move_pod(name, old, new);
        for key in &changed {
            self.resolve(cx, key);
        }
        new
    }

    pub(super) fn resolve(&mut self, cx: &mut Context<'_>, key: &Arc<ReplicaKey>) {
        let was_whole = self.replicas.get(key).is_some_and(|replica| replica.resolution().whole);
        let Some(replica) = self.replicas.resolve(key, &self.cache.objects) else { return };
        let is_whole_now = replica.resolution().whole && !was_whole;
        let budgets: Vec<BudgetId> = replica.budgets().cloned().collect();
        for id in &budgets {
            if let Some(budget) = self.budgets.get_mut(id) {
                let basic = &budget.object.spec.basic_min_count;
                budget.tally.resolve(key, replica.resolution(), basic);
            }
        }
        for id in &budgets {
            if is_whole_now {
                self.expect_replacements(cx, id);
            }
            self.touch(cx, id);
        }
    }

    /// Upstream 1.8: a `DisruptionTarget` on a pod that was not deleted after all.
    fn watch_stale_target(&mut self, cx: &mut Context<'_>, name: &Arc<str>) {
        if !cx.config.clear_stale_disruption_targets {
            return;
        }
        let Some(entry) = self.cache.pod(name) else { return };
        if let Some(target) = stale_target_candidate(&entry.pod) {
            let at = (target.since + STALE_TARGET_AFTER).max(cx.now);
            let due = Due::StaleTarget { pod: name.clone(), uid: entry.pod.uid.to_string() };
            cx.timers.at(at, &self.name, due);
        }
    }

    pub(super) fn clear_stale_target(&mut self, cx: &mut Context<'_>, name: &Arc<str>, uid: &str) {
        let Some(entry) = self.cache.pod(name).filter(|e| e.pod.uid == *uid) else { return };
        let Some(target) = stale_target_candidate(&entry.pod) else { return };
        if target.since + STALE_TARGET_AFTER > cx.now {
            return;
        }
        if cx.leads {
            cx.send(Command::ClearDisruptionTarget {
                pod: ObjectKey::new(&*self.name, &**name),
                uid: uid.to_owned(),
            });
        }
        let due = Due::StaleTarget { pod: name.clone(), uid: uid.to_owned() };
        cx.timers.at(cx.now + STALE_TARGET_RETRY, &self.name, due);
    }
}

/// The pod was in that state until now.
fn recount(
    known: Known<'_>,
    budgets: &mut BTreeMap<BudgetId, BudgetEntry>,
    pod: &PodEntry,
    was: PodState,
) {
    if was == pod.state() {
        return;
    }
    for id in &pod.budgets {
        if let Some(budget) = budgets.get_mut(id) {
            contribute(known, (pod, None), budget.counting(), Step::Change(was));
        }
    }
}

fn stale_target_candidate(pod: &CachedPod) -> Option<&DisruptionTarget> {
    let target = pod.disruption_target.as_deref()?;
    let ending = pod.terminating || pod.is_terminal() || target.reason == DisruptionTarget::KUBELET;
    (!ending).then_some(target)
}
