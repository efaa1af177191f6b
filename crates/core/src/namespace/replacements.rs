//! Pods that a grant took and that have not been replaced yet (semantics 3.2 and 4).
//!
//! A grant ends when its pod is terminating. From then until the pod's controller has made the next one, the
//! budget remembers two facts: how large a group is that is disrupted as a whole, and where the number of
//! expected replicas came from. The write that records the grant records them too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::budgets::BudgetEntry;
use super::owners::selects;
use super::{BudgetId, Context, Namespace};
use crate::cache::PodEntry;
use crate::grants::Ledger;
use crate::model::{BudgetStatus, Grant, PendingReplacement, Scope, Timestamp};
use crate::replicas::{Member, Replica, ReplicaKey, Source};
use crate::timer::Due;

/// A group that has not been refilled by then is taken to be as small as it is.
const SIZE_KEPT: Duration = Duration::from_mins(10);
/// The leader records the age of a size so often, so that it ends although instances restart.
const AGE_STEP: Duration = Duration::from_mins(1);
/// The object must fit into etcd with room to spare.
const REPLACEMENTS_MAX: usize = 2000;
const LABELS_BYTES_MAX: usize = 256 * 1024;

/// Replacements that the budget's object does not hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Unwritten {
    /// Of grants: of those that a write under way carries, and of those that the budget recorded while it counted pods.
    granted: Vec<PendingReplacement>,
    /// Of the budget's predecessor of the same name, or of a status that another client has replaced.
    pub(super) adopted: Vec<PendingReplacement>,
}

impl BudgetEntry {
    /// Every replacement that the budget waits for, written or not.
    pub(super) fn replacements(&self) -> impl Iterator<Item = &PendingReplacement> {
        let Unwritten { granted, adopted } = &self.unwritten;
        let written = &self.object.status.pending_replacements;
        let is_in =
            |of: &[PendingReplacement], p: &PendingReplacement| of.iter().any(|o| is_same(o, p));
        // A new grant for a pod replaces what an earlier one recorded.
        let written_before = written.iter().filter(move |p| !is_in(granted, p));
        let adopted = adopted.iter().filter(move |p| !is_in(granted, p) && !is_in(written, p));
        granted.iter().chain(written_before).chain(adopted)
    }

    /// Whether a write is known to have recorded the replacement, or the grant that it comes from.
    pub(super) fn has_recorded(&self, pending: &PendingReplacement, ledger: &Ledger) -> bool {
        let written = &self.object.status.pending_replacements;
        let mut recorded = written.iter().chain(&self.unwritten.adopted);
        recorded.any(|p| is_same(p, pending)) || ledger.is_recorded(&pending.pod, &pending.uid)
    }

    /// The replacements as they are to be written.
    pub(super) fn aged_replacements(
        &self,
        now: Timestamp,
    ) -> impl Iterator<Item = PendingReplacement> {
        self.replacements().map(move |pending| {
            let steps = self.size_age(pending, now).as_secs() / AGE_STEP.as_secs();
            let age = i64::try_from(steps * AGE_STEP.as_secs()).unwrap_or(i64::MAX);
            PendingReplacement { age_seconds: age.max(pending.age_seconds), ..pending.clone() }
        })
    }

    /// By this instance's own clock, because the clocks of instances differ.
    fn size_age(&self, pending: &PendingReplacement, now: Timestamp) -> Duration {
        let since = self.sizes_since.get(&pending.uid).filter(|_| pending.size > 0);
        since.map_or(Duration::ZERO, |since| now.since(*since).min(SIZE_KEPT))
    }

    /// Learns the ages of recorded sizes. Returns when the next one is to be written, or has ended.
    fn note_sizes(&mut self, now: Timestamp) -> Option<Timestamp> {
        let age = |pending: &PendingReplacement| {
            Duration::from_secs(u64::try_from(pending.age_seconds).unwrap_or(0)).min(SIZE_KEPT)
        };
        let sized = self.replacements().filter(|pending| pending.size > 0);
        let noted = sized.map(|pending| {
            let recorded = now.before(age(pending));
            let known = self.sizes_since.get(&pending.uid);
            (pending.uid.clone(), known.map_or(recorded, |known| recorded.min(*known)))
        });
        self.sizes_since = noted.collect();
        let next = |since: &Timestamp| {
            let steps = now.since(*since).as_secs() / AGE_STEP.as_secs() + 1;
            *since + SIZE_KEPT.min(Duration::from_secs(steps * AGE_STEP.as_secs()))
        };
        self.sizes_since.values().map(next).min()
    }

    pub(super) fn has_too_many_replacements(&self) -> bool {
        let labels = self.replacements().flat_map(|pending| &pending.labels);
        let bytes: usize = labels.map(|(key, value)| key.len() + value.len()).sum();
        self.replacements().count() >= REPLACEMENTS_MAX || bytes >= LABELS_BYTES_MAX
    }
}

impl Namespace {
    /// A grant is about to be written: remember what its pod stands for.
    pub(super) fn expect_replacement(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        grant: &Grant,
    ) {
        let Some(mut pending) = self.replacement_of(id, grant) else { return };
        let Some(entry) = self.budgets.get_mut(id) else { return };
        let of_pod = |p: &&PendingReplacement| p.pod == grant.pod && p.uid == grant.uid;
        // One record of a source is enough, however many of its pods go.
        let others = entry.replacements().filter(|p| !of_pod(p) && selects(entry, p));
        let recorded: BTreeSet<&String> = others.flat_map(|p| &p.sources).collect();
        pending.sources.retain(|source| !recorded.contains(source));
        if pending.sources.is_empty() {
            pending.labels.clear();
        }
        if pending.size == 0 && pending.sources.is_empty() {
            return;
        }
        let is_held = self.grants.ledger(id).get(&grant.pod, &grant.uid).is_some();
        if let Some(size) = entry.replacements().filter(of_pod).map(|p| p.size).max() {
            if pending.size == 0 || (size > 0 && is_held) {
                return;
            }
            if size > 0 {
                // An earlier grant for the pod came to nothing. The size is as old as the grant.
                entry.sizes_since.remove(&pending.uid);
                entry.unwritten.granted.retain(|p| !is_same(p, &pending));
                entry.unwritten.granted.push(pending);
                return self.refresh_sizes(cx, id);
            }
            // The sources are recorded. The group has come to be disrupted as a whole since then.
            pending.sources.clear();
            pending.labels.clear();
        }
        entry.unwritten.granted.push(pending);
        self.refresh_sizes(cx, id);
    }

    /// The budget counted pods and counts replicas now, or a group has come to be disrupted as a whole: the next write
    /// records what the pods of its grants stand for.
    pub(super) fn expect_replacements(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(entry) = self.budgets.get(id) else { return };
        for grant in self.grants.ledger(&entry.id).live().cloned().collect::<Vec<_>>() {
            self.expect_replacement(cx, id, &grant);
        }
    }

    fn replacement_of(&self, id: &BudgetId, grant: &Grant) -> Option<PendingReplacement> {
        let budget = self.budgets.get(id).filter(|b| b.scope == Scope::Workload)?;
        let pod = self.cache.pod(grant.pod.as_str()).filter(|e| e.pod.uid == *grant.uid)?;
        if grant.operation.keeps_pod() {
            return None;
        }
        let key = self.unit_of(budget, pod)?;
        let tally = budget.tally.replica(&key)?;
        let resolution = tally.resolution();
        let is_sized = tally.summary.min.is_some() && resolution.whole;
        let replica = key.encode().filter(|_| is_sized).unwrap_or_default();
        // A pod that an earlier grant took may be on its way out, and still has to come back.
        let same_group = budget.replacements().filter(|p| p.replica == replica && is_sized);
        let recorded = same_group.map(|p| p.size).max().unwrap_or(0);
        let size = if replica.is_empty() { 0 } else { recorded.max(self.live_pods(&key)) };
        let kept = resolution.sources.iter().filter(|source| !self.has_template(budget, source));
        let sources: Vec<String> = kept.filter_map(Source::encode).collect();
        (size > 0 || !sources.is_empty()).then(|| PendingReplacement {
            pod: grant.pod.clone(),
            uid: grant.uid.clone(),
            controller: if size > 0 { self.sole_controller(&key) } else { String::new() },
            replica,
            size,
            labels: if sources.is_empty() {
                BTreeMap::new()
            } else {
                self.cache.texts(&pod.labels)
            },
            sources,
            age_seconds: 0,
        })
    }

    /// A write is settled: the budget's object tells which grants, and which replacements, it holds.
    pub(super) fn forget_written(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        if let Some(BudgetEntry { object, unwritten, .. }) = self.budgets.get_mut(id) {
            let ledger = self.grants.ledger(id);
            let written = &object.status.pending_replacements;
            let is_written = |p: &PendingReplacement| written.iter().any(|w| is_same(w, p));
            unwritten.granted.retain(|p| !is_written(p) && ledger.is_recorded(&p.pod, &p.uid));
        }
        self.refresh_sizes(cx, id);
    }

    /// The budget's predecessor, which was deleted a short time ago, waited for these replacements.
    pub(super) fn adopt_replacements(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        adopted: Vec<PendingReplacement>,
    ) {
        if adopted.is_empty() {
            return;
        }
        if let Some(entry) = self.budgets.get_mut(id) {
            entry.unwritten.adopted = adopted;
            self.refresh_sizes(cx, id);
            self.touch_now(cx, id);
        }
    }

    /// Two minutes after the deletion a successor's object holds what it adopted.
    pub(super) fn forget_adopted(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        if let Some(entry) = self.budgets.get_mut(id) {
            entry.unwritten.adopted.clear();
            self.refresh_sizes(cx, id);
        }
    }

    /// The replacements that the budget waits for may be others now.
    pub(super) fn refresh_sizes(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(budget) = self.budgets.get_mut(id) else { return };
        let sizes = sizes(budget);
        if let Some(due) = budget.note_sizes(cx.now) {
            cx.timers.at(due.max(cx.now), &self.name, Due::SizeKept { budget: id.clone() });
        }
        if budget.tally.set_sizes(sizes, &budget.object.spec.basic_min_count) {
            // The write that ends a size was counted with it.
            self.touch(cx, id);
        }
    }

    /// Removes what has been replaced, or will not be, from a status that is about to be written. Only an instance
    /// that has seen all that the budget's status was computed from may say so.
    pub(super) fn trim_replacements(
        &self,
        cx: &Context<'_>,
        budget: &BudgetEntry,
        status: &mut BudgetStatus,
    ) {
        if status.pending_replacements.is_empty() || !self.has_seen_all(cx, budget) {
            return;
        }
        status.pending_replacements.retain_mut(|pending| {
            let granted = self.grants.ledger(&budget.id).names(&pending.pod);
            let is_old = budget.size_age(pending, cx.now) >= SIZE_KEPT;
            if pending.size > 0 && (is_old || self.is_refilled(pending, granted)) {
                pending.size = 0;
                pending.age_seconds = 0;
                pending.controller.clear();
                pending.replica.clear();
            }
            let is_selected = selects(budget, pending);
            pending.sources.retain(|text| {
                is_selected
                    && self.remembered(budget, text).is_some_and(|source| {
                        let is_back = || {
                            !granted
                                && !self.has_granted(budget, &source)
                                && self.is_back(budget, &source)
                        };
                        self.is_standing(budget, &source) && !is_back()
                    })
            });
            if pending.sources.is_empty() {
                pending.labels.clear();
            }
            pending.size > 0 || !pending.sources.is_empty()
        });
    }

    /// Returns whether a live grant may still take a pod with this source.
    fn has_granted(&self, budget: &BudgetEntry, source: &Source) -> bool {
        self.grants.ledger(&budget.id).live().any(|grant| {
            let pod = self.cache.pod(grant.pod.as_str()).filter(|pod| pod.pod.uid == *grant.uid);
            let Some(pod) = pod else { return true };
            let key = self.unit_of(budget, pod);
            let replica = key.and_then(|key| budget.tally.replica(&key));
            replica.is_some_and(|replica| replica.resolution().sources.contains(source))
        })
    }

    fn is_refilled(&self, pending: &PendingReplacement, granted: bool) -> bool {
        let Some(key) = ReplicaKey::decode(&pending.replica) else { return true };
        !granted && self.staying_pods(&key) >= self.full_size(&key, pending)
    }

    /// The recorded size, or what the group's controller wants if that is less by now.
    fn full_size(&self, key: &ReplicaKey, pending: &PendingReplacement) -> i64 {
        let mut controllers = self.members(key).filter_map(|member| member.controller.as_ref());
        let controller = controllers.find(|c| c.uid == pending.controller);
        let owner = controller.and_then(|c| self.cache.objects.controller(c));
        let wanted = owner.and_then(|owner| owner.pods.parallelism.or(owner.replicas));
        wanted.map_or(pending.size, |wanted| wanted.min(pending.size))
    }

    /// How many pods the group has that are neither finished nor terminating.
    fn live_pods(&self, key: &ReplicaKey) -> i64 {
        self.count_live(key, |_| true)
    }

    /// As [`Self::live_pods`], without pods that a grant may still take.
    fn staying_pods(&self, key: &ReplicaKey) -> i64 {
        self.count_live(key, |entry| entry.granted == 0)
    }

    fn count_live(&self, key: &ReplicaKey, counts: impl Fn(&PodEntry) -> bool) -> i64 {
        let replica = self.replicas.get(key);
        let names = replica.into_iter().flat_map(Replica::names);
        let pods = names.filter_map(|name| self.cache.pod(name));
        let live = pods.filter(|e| !e.pod.is_terminal() && !e.pod.terminating && counts(e));
        i64::try_from(live.count()).unwrap_or(i64::MAX)
    }

    /// Uid of the controller that all pods of the group have; empty if they have several.
    fn sole_controller(&self, key: &ReplicaKey) -> String {
        let mut uids = self.members(key).map(|m| m.controller.as_ref().map(|c| c.uid.as_str()));
        let first = uids.next().flatten().unwrap_or_default();
        if uids.all(|uid| uid == Some(first)) { first.to_owned() } else { String::new() }
    }

    fn members(&self, key: &ReplicaKey) -> impl Iterator<Item = &Arc<Member>> {
        self.replicas.get(key).into_iter().flat_map(|replica| replica.members().keys())
    }

    fn has_seen_all(&self, cx: &Context<'_>, budget: &BudgetEntry) -> bool {
        budget.object.status.watermarks.iter().all(|(name, version)| {
            cx.progress.kind(name).is_none_or(|kind| {
                self.catch_up.has_seen(cx.progress, &budget.object.uid, kind, version)
            })
        })
    }
}

fn is_same(a: &PendingReplacement, b: &PendingReplacement) -> bool {
    a.pod == b.pod && a.uid == b.uid && a.replica == b.replica
}

/// The sizes that the budget's groups keep.
pub(super) fn sizes(budget: &BudgetEntry) -> BTreeMap<Arc<ReplicaKey>, i64> {
    let mut sizes = BTreeMap::new();
    if planted!(ShrinkWhole) {
        return sizes;
    }
    for pending in budget.replacements().filter(|p| p.size > 0) {
        if let Some(key) = ReplicaKey::decode(&pending.replica) {
            let size = sizes.entry(Arc::new(key)).or_insert(0);
            *size = pending.size.max(*size);
        }
    }
    sizes
}
