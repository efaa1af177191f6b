//! Follows a history and says where a rule of docs/semantics.md was broken.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::memory::{Memory, Moment};
use crate::objects::{
    Budget, BudgetKey, BudgetKeys, Grant, Millis, Name, Object, Operation, Pod, Scope, Selector,
};
use crate::scales::Scales;
use crate::state::State;

/// How long the grants of a deleted budget count, on the slowest clock (semantics 5).
pub const ORPHANS_KEPT_MS: Millis = 200_000;

/// The grant of a change in place that does not come into effect ends two minutes after it was recorded (semantics 9), on
/// the fastest clock after 92 s. The change may be stored 44 s after the record.
const CHANGE_SURE_MS: Millis = 48_000;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub rule: Rule,
    pub budget: BudgetKey,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// No grant takes a budget below its desired healthy count.
    S1,
    /// An allowed eviction is recorded in every covering budget.
    S3,
    /// A budget that cannot be computed allows nothing.
    S7,
    /// A denial names a budget that blocks.
    S9,
    /// The status shows the counts.
    L1,
    /// What stays on a drained node is held by a budget.
    L3,
    /// A budget that blocks for good says so.
    L4,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}: {}", self.rule, self.budget, self.message)
    }
}

/// An allowed operation that may still be executed.
#[derive(Clone, Debug)]
pub struct Allow {
    pub id: String,
    pub pod: Name,
    /// The pod that was decided about; empty for none.
    pub uid: String,
    /// The eviction takes the pod that has the name by then. Otherwise it is pinned to the uid.
    pub by_name: bool,
    pub operation: Operation,
    /// Deletes and changes hit the pod only at this version.
    pub version: u64,
    /// The answer rests on grants, not on "no budget covers this pod".
    pub recorded: bool,
    /// The budgets that had a grant for this pod when it was allowed. [`Auditor::allow`] fills it in.
    pub budgets: BudgetKeys,
}

impl Allow {
    /// Whether the operation, executed now, hits this pod.
    pub fn hits(&self, pod: &Pod) -> bool {
        let exact = self.operation == Operation::Evict || self.version == pod.version;
        self.pod == pod.key && (self.by_name || self.uid == pod.uid) && exact
    }
}

/// A pod that an allowed operation took.
#[derive(Clone, Debug)]
pub struct Loss {
    pub pod: Name,
    pub budgets: BudgetKeys,
    /// The pod was changed in place and is whole again when this generation is in effect.
    pub generation: Option<i64>,
    pub(crate) since: Moment,
}

impl Loss {
    /// Whether a pod that looks like this counts as lost.
    pub fn is_lost(&self, pod: &Pod) -> bool {
        let in_effect = |g: i64| pod.generation >= g && pod.applied && pod.ready;
        !self.generation.is_some_and(in_effect)
    }
}

/// A loss that some process may not know of yet.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    pub version: u64,
    /// As it was before.
    pub pod: Arc<Pod>,
}

/// Since when a budget has had its selector.
#[derive(Clone, Debug)]
struct Covers {
    selector: Option<Selector>,
    /// A budget that is deleted and created again with the same selector is the same.
    since: Moment,
    created: Moment,
}

/// A budget that was deleted.
#[derive(Clone, Debug)]
struct Deletion {
    budget: BudgetKey,
    version: u64,
    grants: Vec<Grant>,
}

/// How a budget stood at the last look.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub spec: Arc<Budget>,
    pub kept: bool,
    pub healthy: i64,
    /// Losses without a record in this budget that were not counted against it.
    pub unknown: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Auditor {
    pub(crate) state: State,
    pub(crate) scales: Scales,
    pub(crate) memory: Memory,
    pub(crate) now: Millis,
    pub(crate) in_flight: Vec<Allow>,
    pub(crate) losses: BTreeMap<String, Loss>,
    pub(crate) recent: Vec<Recent>,
    /// By the pod's uid: the version at which it was created.
    pub(crate) created: BTreeMap<String, u64>,
    /// Pods that are gone, by uid, as they were last.
    pub(crate) gone: BTreeMap<String, Arc<Pod>>,
    /// Every grant that ever was, by the pod's uid.
    recorded: BTreeMap<String, BudgetKeys>,
    pub(crate) orphans: BTreeMap<BudgetKey, (Moment, Vec<Grant>)>,
    deletions: Vec<Deletion>,
    pub(crate) standings: BTreeMap<BudgetKey, Standing>,
    pub(crate) unrecorded: Vec<Finding>,
    /// By the pod's uid: the highest generation that a status has shown.
    in_effect: BTreeMap<String, i64>,
    /// Since when each budget has had its selector. Of deleted budgets too.
    covers: BTreeMap<BudgetKey, Covers>,
    /// By budget: the grants that were on record when the budget's spec was written. Their requests were decided by an
    /// earlier spec, and may be answered later.
    decided_before: BTreeMap<BudgetKey, Vec<Grant>>,
}

impl Auditor {
    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Everything that later findings depend on besides the stored objects, the time, and what
    /// [`Auditor::look`] keeps. Exploration compares it as text.
    pub fn remembered(&self) -> impl fmt::Debug + '_ {
        let Self { memory, in_flight, losses, recorded, orphans, covers, .. } = self;
        (memory, in_flight, losses, recorded, orphans, covers, &self.decided_before)
    }

    pub fn in_flight(&self) -> &[Allow] {
        &self.in_flight
    }

    /// The loss of the pod with this uid, if an allowed operation took it.
    pub fn loss(&self, uid: &str) -> Option<&Loss> {
        self.losses.get(uid)
    }

    pub fn losses(&self) -> impl Iterator<Item = (&String, &Loss)> {
        self.losses.iter()
    }

    /// Whether the pod's status has ever shown this generation.
    pub fn was_in_effect(&self, uid: &str, generation: i64) -> bool {
        self.in_effect.get(uid).is_some_and(|shown| *shown >= generation)
    }

    /// When the budget got its selector. A budget that was deleted and created again with the same selector counts from
    /// its predecessor's: every process either knows the predecessor, or has learned of its deletion and lists the
    /// budgets anew (semantics 6). Only a list that was sent in between shows neither.
    pub fn covers_since(&self, budget: &BudgetKey) -> Option<Millis> {
        self.covers.get(budget).map(|covers| covers.since.0)
    }

    /// When the budget was created last, or got its selector if that was later.
    pub fn created_at(&self, budget: &BudgetKey) -> Option<Millis> {
        self.covers.get(budget).map(|covers| covers.created.max(covers.since).0)
    }

    pub fn pass_time(&mut self, now: Millis) {
        self.now = now;
        let is_sure =
            |loss: &Loss| loss.generation.is_none() || now < loss.since.0 + CHANGE_SURE_MS;
        self.losses.retain(|_, loss| is_sure(loss));
        self.memory.expire(now);
        let over = |since: &Moment| since.0 + ORPHANS_KEPT_MS <= now;
        let (state, memory) = (&self.state, &mut self.memory);
        self.orphans.retain(|key, (since, _)| {
            if over(since) && !state.budgets.contains_key(key) {
                memory.forget(key);
            }
            !over(since)
        });
    }

    /// The grants of a deleted budget count for two minutes from when an instance learns of the deletion (semantics 5).
    /// `told` says whether every instance that runs has learned of the deletion that has this version.
    pub fn tell_deletions(&mut self, told: &dyn Fn(&BudgetKey, u64) -> bool) {
        for Deletion { budget, version, grants } in &self.deletions {
            if told(budget, *version) {
                continue;
            }
            let (since, kept) =
                self.orphans.entry(budget.clone()).or_insert((Moment(self.now), Vec::new()));
            *since = Moment(self.now);
            kept.extend(
                grants.iter().filter(|grant| !kept.contains(grant)).cloned().collect::<Vec<_>>(),
            );
        }
    }

    /// An object was created or changed.
    pub fn stored(&mut self, object: Object) {
        match &object {
            Object::Pod(pod) => self.pod_stored(pod),
            Object::Budget(budget) => self.budget_stored(budget),
            Object::Owner(owner) => self.scales.stored(owner),
            Object::PodGroup(_) | Object::Workload(_) => {}
        }
        self.state.store(object);
        self.review_memory();
    }

    pub fn deleted(&mut self, object: &Object) {
        match object {
            Object::Pod(pod) => {
                if let Some(before) = self.state.pods.get(&pod.key).cloned() {
                    self.gone.insert(before.uid.clone(), before.clone());
                    if !before.terminating {
                        self.recent.push(Recent { version: pod.version, pod: before });
                    }
                }
            }
            Object::Budget(budget) => {
                let grants = budget.status.grants.clone();
                self.orphans.insert(budget.key.clone(), (Moment(self.now), grants.clone()));
                let (budget, version) = (budget.key.clone(), budget.version);
                self.deletions.push(Deletion { budget, version, grants });
            }
            _ => {}
        }
        self.state.delete(object);
        self.review_memory();
    }

    fn pod_stored(&mut self, pod: &Pod) {
        if pod.applied {
            self.in_effect.insert(pod.uid.clone(), pod.generation);
        }
        let before = self.state.pods.get(&pod.key).filter(|before| before.uid == pod.uid).cloned();
        let Some(before) = before else {
            self.created.insert(pod.uid.clone(), pod.version);
            return;
        };
        let ends = pod.terminating && !before.terminating;
        if ends && pod.evicted && !self.losses.contains_key(&pod.uid) {
            let mut budgets = self.recorded.get(&pod.uid).cloned().unwrap_or_default();
            // A grant that is not pinned passes to the next pod of the name. The pod may go before that is recorded.
            let passes = |g: &Grant| g.pod == pod.key.name && !g.pinned;
            let covering = self.covering(&before);
            let passed = covering.filter(|budget| budget.status.grants.iter().any(passes));
            budgets.extend(passed.map(|budget| budget.key.clone()));
            self.note_unrecorded(&before, &budgets);
            self.lose(&before, budgets, None);
        }
        // A pod that was changed in place is whole again. If it goes down later, that is another loss.
        if self.losses.get(&pod.uid).is_some_and(|loss| !loss.is_lost(pod)) {
            self.losses.remove(&pod.uid);
        }
        // A pod that is changed in place goes down some time after the change was stored.
        let is_lost = self.losses.get(&pod.uid).is_some_and(|loss| loss.generation.is_some());
        let changes = is_lost || !before.applied;
        if ends || (changes && before.ready && !pod.ready) {
            self.recent.push(Recent { version: pod.version, pod: before });
        }
    }

    fn note_unrecorded(&mut self, pod: &Pod, budgets: &BudgetKeys) {
        let missing =
            self.covering(pod).filter(|b| !pod.is_finished() && !budgets.contains(&b.key));
        let finding = |budget: &Budget| Finding {
            rule: Rule::S3,
            budget: budget.key.clone(),
            message: format!("{} ({}) was evicted without a record", pod.key, pod.uid),
        };
        let findings: Vec<Finding> = missing.map(finding).collect();
        self.unrecorded.extend(findings);
    }

    fn budget_stored(&mut self, budget: &Budget) {
        let before = self.state.budgets.get(&budget.key).cloned();
        self.note_selector(budget, before.as_deref());
        if before.as_ref().is_none_or(|before| !same_spec(before, budget)) {
            self.decided_before.insert(budget.key.clone(), budget.status.grants.clone());
            self.memory.drop_deselected(budget);
        }
        let earlier = |grant: &Grant| {
            before.as_ref().is_some_and(|b| {
                let same = |g: &Grant| g.uid == grant.uid && g.eviction == grant.eviction;
                b.status.grants.iter().any(same)
            })
        };
        // A budget that counts pods records nothing with a grant. After an edit of the scope the next write does.
        let recounts = before.as_ref().is_some_and(|before| before.scope != budget.scope);
        for grant in budget.status.grants.iter().filter(|grant| !grant.uid.is_empty()) {
            let is_new = !earlier(grant);
            if is_new {
                self.recorded.entry(grant.uid.clone()).or_default().insert(budget.key.clone());
            }
            if budget.scope == Scope::Replica && (is_new || recounts) {
                self.keep(budget, grant, is_new);
            }
        }
    }

    fn note_selector(&mut self, budget: &Budget, before: Option<&Budget>) {
        let now = Moment(self.now);
        let selector = budget.selector.clone();
        let new = Covers { selector, since: now, created: now };
        let covers = self.covers.entry(budget.key.clone()).or_insert_with(|| new.clone());
        if covers.selector != new.selector {
            *covers = new;
        } else if before.is_none_or(|before| before.uid != budget.uid) {
            covers.created = now;
        }
    }

    /// An operation was allowed and may be executed from now on.
    pub fn allow(&mut self, mut allow: Allow) {
        if allow.recorded {
            let of = |g: &Grant| g.pod == allow.pod.name && (allow.by_name || g.uid == allow.uid);
            let stored = self.state.budgets.values().map(|b| (&b.key, &b.status.grants));
            // A budget that was created again takes the grants of its predecessor along.
            let orphans = self.orphans.iter().map(|(key, (_, grants))| (key, grants));
            let recorded = stored.chain(orphans).filter(|(_, grants)| grants.iter().any(of));
            allow.budgets = recorded.map(|(key, _)| key.clone()).collect();
        }
        self.in_flight.push(allow);
    }

    /// The operation can no longer be executed.
    pub fn end(&mut self, id: &str) -> Option<Allow> {
        let n = self.in_flight.iter().position(|allow| allow.id == id)?;
        Some(self.in_flight.remove(n))
    }

    /// The operation was executed on this pod. To be called before the pod's object changes.
    pub fn take(&mut self, allow: &Allow, pod: &Name) {
        let Some(pod) = self.state.pods.get(pod).cloned() else { return };
        let changes = allow.operation == Operation::Change;
        let generation = changes.then_some(pod.generation + 1);
        self.lose(&pod, allow.budgets.clone(), generation);
    }

    fn lose(&mut self, pod: &Pod, budgets: BudgetKeys, generation: Option<i64>) {
        if generation.is_none() {
            for budget in &budgets {
                self.memory.lose(budget, &pod.uid);
            }
        }
        let loss = Loss { pod: pod.key.clone(), budgets, generation, since: Moment(self.now) };
        self.losses.insert(pod.uid.clone(), loss);
    }

    pub fn covering<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a Budget> + 'a {
        self.state.budgets.values().map(|b| &**b).filter(|budget| budget.covers(pod))
    }

    /// Whether a grant that counts names this pod, in a stored or a lately deleted budget.
    pub(crate) fn is_granted(&self, pod: &Pod, counts: &dyn Fn(&Grant) -> bool) -> bool {
        let stored = self.state.budgets.values().flat_map(|b| &b.status.grants);
        let mut stored = stored.filter(|g| counts(g));
        stored.any(|g| g.pod == pod.key.name && g.uid == pod.uid)
    }

    /// Whether a grant of this budget has taken the pod.
    pub(crate) fn is_taken_by(&self, key: &BudgetKey, pod: &Pod) -> bool {
        let loss = self.losses.get(&pod.uid);
        loss.is_some_and(|loss| loss.budgets.contains(key) && loss.is_lost(pod))
    }

    /// Whether a grant of this budget has taken the pod, or may still take it.
    pub(crate) fn is_lost_to(&self, key: &BudgetKey, pod: &Pod) -> bool {
        self.may_be_taken_by(key, pod) || self.was_granted_before(key, pod)
    }

    /// Whether an eviction that this budget granted has taken the pod, or is under way.
    pub(crate) fn may_be_taken_by(&self, key: &BudgetKey, pod: &Pod) -> bool {
        let is_under_way = |a: &Allow| a.budgets.contains(key) && a.hits(pod);
        self.is_taken_by(key, pod) || self.in_flight.iter().any(is_under_way)
    }

    /// Whether the pod's recorded grant is older than the spec of its budget. Such a pod counts as lost from the start.
    fn was_granted_before(&self, key: &BudgetKey, pod: &Pod) -> bool {
        let Some(before) = self.decided_before.get(key) else { return false };
        let grants = self.state.budgets.get(key).into_iter().flat_map(|b| &b.status.grants);
        grants.filter(|g| g.uid == pod.uid).any(|g| before.contains(g))
    }
}

/// Whether nothing but the status differs.
pub(crate) fn same_spec(a: &Budget, b: &Budget) -> bool {
    a.selector == b.selector
        && a.min_available == b.min_available
        && a.max_unavailable == b.max_unavailable
        && a.always_allow == b.always_allow
        && a.scope == b.scope
        && a.basic_min_count == b.basic_min_count
        && a.unavailable == b.unavailable
}
