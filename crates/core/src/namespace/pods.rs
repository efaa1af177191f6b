//! Pods and the replicas they form.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use litemap::LiteMap;

use super::budgets::BudgetEntry;
use super::units::{PodState, Step, contribute, is_unavailable};
use super::{BudgetId, Context, Covering, Namespace};
use crate::cache::CachedPod;
use crate::intern::Interner;
use crate::io::{Command, Kind};
use crate::model::{DisruptionTarget, ObjectKey, Pod, ResourceVersion};
use crate::replica::{Dependency, Member, Objects, ReplicaKey, Resolution};
use crate::selector::Labels;
use crate::timer::Due;

/// A `DisruptionTarget` that led to nothing for so long is stale (upstream 1.8).
const STALE_TARGET_AFTER: Duration = Duration::from_mins(2);
/// If the clearing is lost, it is asked for again.
const STALE_TARGET_RETRY: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct PodEntry {
    pub(super) name: Arc<str>,
    pub(super) pod: CachedPod,
    pub(super) labels: Labels,
    pub(super) replica: Option<Arc<ReplicaKey>>,
    pub(super) budgets: Covering,
    /// Live grants for this very pod, over all budgets.
    pub(super) granted: u32,
}

/// A replica, whichever budgets select its pods.
#[derive(Clone, Debug)]
pub(super) struct ReplicaEntry {
    pub(super) members: LiteMap<Arc<Member>, u32>,
    pub(super) names: BTreeSet<Arc<str>>,
    pub(super) resolution: Arc<Resolution>,
    dependencies: Box<[Dependency]>,
    /// Budgets that select at least one of its pods, and how many.
    pub(super) budgets: LiteMap<BudgetId, u32>,
}

impl Namespace {
    pub(crate) fn apply_pod(&mut self, cx: &mut Context<'_>, pod: Pod) {
        if !self.unreadable_pods.is_empty() {
            self.unreadable_pods.remove(pod.key.name.as_str());
        }
        let version = pod.version.clone();
        let (name, touched) = match self.pods.get_mut(pod.key.name.as_str()) {
            // An event that comes twice or late says nothing new.
            Some(old) if version.is_older_than(&old.pod.version) => return,
            Some(old) if old.pod.uid != *pod.uid => {
                let name = old.name.clone();
                self.forget_pod(cx, &name, &version);
                let touched = self.place_pod(cx, &name, pod);
                (name, touched)
            }
            Some(old) if stays(&self.interner, old, &pod) => {
                let was = old.state();
                old.pod.update(pod);
                recount((&self.interner, &self.objects), &mut self.budgets, old, was);
                (old.name.clone(), old.budgets.clone())
            }
            old => {
                let name = old.map_or_else(|| pod.key.name.as_str().into(), |old| old.name.clone());
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
        let labels = Labels::acquire(&mut self.interner, &std::mem::take(&mut pod.labels));
        let mut touched = self.take_out(name);
        let budgets = self.covering(&labels, pod.controller.as_ref());
        touched.extend(budgets.iter().cloned());
        touched.sort_unstable();
        touched.dedup();
        let controller = pod.controller.take().map(|c| self.controllers.acquire(c));
        let new = ReplicaKey::of(&pod, cx.config.lws)
            .map(|key| (Arc::new(key), Arc::new(Member::of(&pod, controller.clone()))));
        let (replica, member) = self.change_membership(cx, name, new).unzip();
        if is_taken(&pod) {
            self.mark_evidence(cx, name, &pod.uid, &pod.version);
        }
        let uid = pod.uid.as_str().into();
        let entry = PodEntry {
            name: name.clone(),
            granted: self.grants.count(name, &pod.uid),
            pod: CachedPod::new(pod, uid, controller, member),
            labels,
            replica,
            budgets,
        };
        if let Some(old) = self.pods.insert(name.clone(), Box::new(entry)) {
            self.release(&old);
        }
        self.put_in(name);
        touched
    }

    /// The pod is gone. Its last state may show that an eviction took it.
    pub(crate) fn delete_pod(&mut self, cx: &mut Context<'_>, last: &Pod) {
        let name: Arc<str> = last.key.name.as_str().into();
        match self.pods.get(&name) {
            Some(entry) if entry.pod.uid == *last.uid => {}
            // Already gone, or already replaced.
            _ => return,
        }
        if last.is_targeted() || planted!(NoSuccessor) {
            self.mark_evidence(cx, &name, &last.uid, &last.version);
        }
        self.forget_pod(cx, &name, &last.version);
        self.unpark(cx, &name);
    }

    /// The pod is gone by this version, and nobody knows how.
    pub(crate) fn forget_pod(
        &mut self,
        cx: &mut Context<'_>,
        name: &Arc<str>,
        version: &ResourceVersion,
    ) {
        self.unreadable_pods.remove(name);
        let budgets = self.take_out(name);
        let pod = self.pods.get(name).map(|e| &e.pod).filter(|pod| pod.is_targeted());
        if let Some((uid, version)) = pod.map(|pod| (pod.uid.to_string(), pod.version.clone())) {
            self.mark_evidence(cx, name, &uid, &version);
        }
        self.change_membership(cx, name, None);
        if let Some(entry) = self.pods.remove(name) {
            self.release(&entry);
            self.end_exact(cx, (name, &entry.pod.uid.to_string()), version);
        }
        for budget in budgets {
            self.saw_pod(cx, &budget, version);
        }
    }

    fn release(&mut self, entry: &PodEntry) {
        entry.labels.release(&mut self.interner);
        if let Some(controller) = &entry.pod.controller {
            self.controllers.release(controller);
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
        let Some(entry) = self.pods.get_mut(name) else { return Covering::default() };
        let was = entry.state();
        entry.granted = granted;
        recount((&self.interner, &self.objects), &mut self.budgets, entry, was);
        entry.budgets.clone()
    }

    /// Let one budget count one more of the pods, or one less.
    pub(super) fn select(&mut self, budget: &BudgetId, name: &Arc<str>, selected: bool) {
        self.take_out(name);
        if let Some(entry) = self.pods.get_mut(name) {
            entry.budgets.retain(|id| *id != *budget);
            if selected {
                entry.budgets.push(budget.clone());
                entry.budgets.sort_unstable();
            }
        }
        self.put_in(name);
    }

    /// An object that replicas depend on has changed.
    pub(super) fn resolve_dependents(&mut self, cx: &mut Context<'_>, changed: &Dependency) {
        let Some(keys) = self.dependents.get(changed) else { return };
        for key in keys.clone() {
            self.resolve(cx, &key);
        }
    }

    /// Take the pod's part out of every budget that selects it.
    fn take_out(&mut self, name: &str) -> Covering {
        self.contribute(name, false);
        self.pods.get(name).map(|entry| entry.budgets.clone()).unwrap_or_default()
    }

    fn put_in(&mut self, name: &str) {
        self.contribute(name, true);
    }

    fn contribute(&mut self, name: &str, adds: bool) {
        let step = if adds { Step::PutIn } else { Step::TakeOut };
        let Some(entry) = self.pods.get(name) else { return };
        let replica = entry.replica.as_ref().and_then(|key| self.replicas.get(key));
        for id in &entry.budgets {
            let Some(budget) = self.budgets.get_mut(id) else { continue };
            let known = (&self.interner, &self.objects);
            contribute(known, (entry, replica.map(|r| &**r)), budget.counting(), step);
        }
        let Some(replica) = entry.replica.as_ref().and_then(|key| self.replicas.get_mut(key))
        else {
            return;
        };
        for id in &entry.budgets {
            let n = replica.budgets.entry(id.clone()).or_insert(0);
            *n = if adds { *n + 1 } else { n.saturating_sub(1) };
            if *n == 0 {
                replica.budgets.remove(id);
            }
        }
    }

    /// Move the pod from the replica that it was a member of to the one it is a member of now.
    /// Its part must be out of all budgets.
    fn change_membership(
        &mut self,
        cx: &mut Context<'_>,
        name: &Arc<str>,
        new: Option<(Arc<ReplicaKey>, Arc<Member>)>,
    ) -> Option<(Arc<ReplicaKey>, Arc<Member>)> {
        let old = self.pods.get(name);
        let old = old.and_then(|e| Some((e.replica.clone()?, e.pod.member.clone()?)));
        if old == new {
            return old;
        }
        let mut changed = BTreeSet::new();
        if let Some((key, member)) = old
            && let Some(replica) = self.replicas.get_mut(&key)
        {
            replica.names.remove(name);
            if let Some(n) = replica.members.get_mut(&member) {
                *n -= 1;
                if *n == 0 {
                    replica.members.remove(&member);
                }
            }
            changed.insert(key);
        }
        let new = new.map(|(key, member)| {
            let key = self.replicas.get_key_value(&key).map_or(key, |(shared, _)| shared.clone());
            let replica = self.replicas.entry(key.clone()).or_default();
            replica.names.insert(name.clone());
            let shared = replica.members.find_index(&member).ok();
            let shared = shared.and_then(|i| replica.members.get_indexed(i));
            let member = shared.map_or(member, |(shared, _)| shared.clone());
            *replica.members.entry(member.clone()).or_insert(0) += 1;
            changed.insert(key.clone());
            (key, member)
        });
        for key in &changed {
            self.resolve(cx, key);
        }
        new
    }

    fn resolve(&mut self, cx: &mut Context<'_>, key: &Arc<ReplicaKey>) {
        let Some(replica) = self.replicas.get_mut(key) else { return };
        let (resolution, dependencies) = self.objects.resolve(key, &replica.members);
        let gone = replica.members.is_empty();
        if gone || dependencies != replica.dependencies {
            for dependency in &replica.dependencies {
                if let Some(keys) = self.dependents.get_mut(dependency) {
                    keys.remove(key);
                    if keys.is_empty() {
                        self.dependents.remove(dependency);
                    }
                }
            }
            if !gone {
                for dependency in &dependencies {
                    self.dependents.entry(dependency.clone()).or_default().insert(key.clone());
                }
            }
        }
        if gone {
            self.replicas.remove(key);
            return;
        }
        replica.dependencies = dependencies;
        if *replica.resolution == resolution {
            return;
        }
        let is_whole_now = resolution.whole && !replica.resolution.whole;
        replica.resolution = Arc::new(resolution);
        let budgets: Vec<BudgetId> = replica.budgets.keys().cloned().collect();
        for id in &budgets {
            if let Some(budget) = self.budgets.get_mut(id) {
                budget.tally.resolve(key, &replica.resolution, &budget.object.spec.basic_min_count);
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
        let Some(entry) = self.pods.get(name) else { return };
        if let Some(target) = stale_target_candidate(&entry.pod) {
            let at = (target.since + STALE_TARGET_AFTER).max(cx.now);
            let due = Due::StaleTarget { pod: name.clone(), uid: entry.pod.uid.to_string() };
            cx.timers.at(at, &self.name, due);
        }
    }

    pub(super) fn clear_stale_target(&mut self, cx: &mut Context<'_>, name: &Arc<str>, uid: &str) {
        let Some(entry) = self.pods.get(name).filter(|e| e.pod.uid == *uid) else { return };
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

impl Default for ReplicaEntry {
    fn default() -> Self {
        Self {
            members: LiteMap::new(),
            names: BTreeSet::new(),
            resolution: Arc::default(),
            dependencies: Box::default(),
            budgets: LiteMap::new(),
        }
    }
}

/// Nothing has changed but the pod's state, and that shows no eviction: so it is with nearly every event.
fn stays(interner: &Interner, old: &PodEntry, pod: &Pod) -> bool {
    let same_replica = match &old.pod.member {
        Some(member) => {
            member.lws.as_deref() == pod.lws.as_ref() && member.reference == pod.reference
        }
        None => pod.lws.is_none() && pod.reference.is_none(),
    };
    same_replica
        && !is_taken(pod)
        && old.pod.is_terminal() == pod.is_terminal()
        && old.pod.controller.as_deref() == pod.controller.as_ref()
        && old.labels.are(interner, &pod.labels)
}

/// An eviction has taken it.
fn is_taken(pod: &Pod) -> bool {
    pod.terminating && pod.is_targeted()
}

/// The pod was in that state until now.
fn recount(
    known: (&Interner, &Objects),
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
