//! Audits the history of a real cluster, write by write.
//!
//! On a real cluster the auditor does not see which evictions are allowed and not executed yet, and it does not know
//! which objects a process had seen when it decided. So it checks two kinds of writes:
//!
//! * An eviction removes its pod: every covering budget has a record (S3) and keeps its desired number (S1).
//! * A status write records new grants: at some time of the last `lag` the objects allowed them (S1, S7).
//!
//! A pod can also be lost without an eviction: a controller deletes it, or a node fails. No admission check can prevent
//! that. A process may learn of such a loss, or of a new scale, as late as `lag` after it, so the loss counts that much
//! later. The other pods of a broken replica, which its controller deletes, count at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::auditor::{Auditor, Finding};
use crate::count::{self, Count, count};
use crate::json;
use crate::memory::Memory;
use crate::objects::{
    Budget, BudgetKey, Millis, Name, Object, Owner, Pod, Scope, Selector, Status, Threshold,
};
use crate::replica::{Replica, named};
use crate::state::State;

const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// One write of one object.
#[derive(Clone, Debug)]
pub struct Write {
    /// The etcd revision of the write.
    pub version: u64,
    /// The time since the start of the history.
    pub at: Duration,
    pub gone: bool,
    /// The object, or its last state if it was deleted.
    pub object: Object,
}

impl Write {
    /// Returns None if the auditor does not use the kind.
    pub fn read(version: u64, at: Duration, gone: bool, object: &Value) -> Option<Self> {
        Some(Self { version, at, gone, object: read(object, version)? })
    }
}

/// A replica stopped being healthy. This is a figure for reports, not a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disruption {
    /// The version of the write that caused it.
    pub version: u64,
    pub budget: BudgetKey,
    pub replica: Replica,
    /// The index of a group of a `LeaderWorkerSet`.
    pub group_index: Option<i64>,
}

/// The time at which a budget had the fewest spare units.
#[derive(Clone, Copy, Debug)]
pub struct Fewest {
    pub healthy: i64,
    pub desired: i64,
    pub version: u64,
}

impl fmt::Display for Fewest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fewest healthy {}, needed {}", self.healthy, self.desired)
    }
}

#[derive(Debug)]
pub struct ClusterAudit {
    auditor: Auditor,
    lag: Duration,
    now: Duration,
    /// The times of recent losses of pods of healthy replicas, by version.
    lost: BTreeMap<u64, Duration>,
    /// The time of the last change of a workload's scale.
    scaled: Option<Duration>,
    /// The states of the last `lag`, each with the time of its end.
    past: VecDeque<(Duration, State)>,
    fewest: BTreeMap<BudgetKey, Fewest>,
    /// The healthy replicas of each budget, with their group indices.
    healthy: BTreeMap<BudgetKey, BTreeMap<Replica, Option<i64>>>,
    disruptions: Vec<Disruption>,
    leaders: BTreeMap<i64, usize>,
    findings: Vec<(u64, Finding)>,
}

impl ClusterAudit {
    /// Begins with the objects that existed before the history. A process learns of the changes of others within `lag`.
    pub fn new(lag: Duration, objects: impl IntoIterator<Item = Object>) -> Self {
        let mut audit = Self {
            auditor: Auditor::default(),
            lag,
            now: Duration::ZERO,
            lost: BTreeMap::new(),
            scaled: None,
            past: VecDeque::new(),
            fewest: BTreeMap::new(),
            healthy: BTreeMap::new(),
            disruptions: Vec::new(),
            leaders: BTreeMap::new(),
            findings: Vec::new(),
        };
        objects.into_iter().for_each(|object| audit.auditor.stored(object));
        audit.look(0, false);
        audit
    }

    /// Audits the next write. The order is that of the versions.
    pub fn take(&mut self, write: Write) {
        let Write { version, at, gone, object } = write;
        self.now = self.now.max(at);
        let (now, lag) = (self.now, self.lag);
        self.auditor.pass_time(Millis::try_from(now.as_millis()).unwrap_or(Millis::MAX));
        self.lost.retain(|_, lost| *lost + lag > now);
        self.past.retain(|(end, _)| *end + lag > now);
        let before = self.state().clone();
        let matters = gone || is_change(&before, &object);
        let mut evicts = false;
        match &object {
            Object::Pod(pod) => {
                evicts = is_eviction(&before, pod, gone);
                if self.was_healthy(pod) {
                    self.lost.insert(version, now);
                }
                if evicts && gone {
                    // A pod without a grace period may vanish in one write.
                    let pod = Pod { terminating: true, ..pod.clone() };
                    self.auditor.stored(Object::Pod(pod));
                }
                let is_new = before.pods.get(&pod.key).is_none_or(|known| known.uid != pod.uid);
                let is_leader = pod.labels.get(WORKER_INDEX).is_some_and(|index| index == "0");
                let group = pod.lws.as_ref().and_then(|lws| lws.group_index);
                if let Some(group) = group.filter(|_| is_new && is_leader && !gone) {
                    *self.leaders.entry(group).or_default() += 1;
                }
            }
            Object::Budget(budget) if !gone => {
                self.findings.extend(self.judge_grants(budget).map(|found| (version, found)));
            }
            Object::Owner(owner) if is_scaled(&before, owner) => self.scaled = Some(now),
            _ => {}
        }
        if gone {
            self.auditor.deleted(&object);
        } else {
            self.auditor.stored(object);
        }
        if matters {
            self.look(version, evicts);
            self.past.push_back((now, before));
        }
    }

    pub fn state(&self) -> &State {
        self.auditor.state()
    }

    /// Returns the violations, each with the version of the write that caused it.
    pub fn findings(&self) -> Vec<(u64, Finding)> {
        let unrecorded = self.auditor.unrecorded().into_iter().map(|finding| (0, finding));
        self.findings.iter().cloned().chain(unrecorded).collect()
    }

    /// Returns the fewest spare units of each budget. Pods with a grant count as unhealthy.
    pub fn fewest(&self) -> &BTreeMap<BudgetKey, Fewest> {
        &self.fewest
    }

    /// Returns the disruptions in order. Pods with a grant count as unhealthy.
    pub fn disruptions(&self) -> &[Disruption] {
        &self.disruptions
    }

    /// Returns the number of new leaders of each group of a `LeaderWorkerSet`, by the index of the group.
    pub fn leaders(&self) -> &BTreeMap<i64, usize> {
        &self.leaders
    }

    /// Returns how many pods evictions removed.
    pub fn evicted(&self) -> usize {
        self.auditor.losses().count()
    }

    /// Returns the budgets whose status differs from a recount (L1). Call it when nothing changes any more.
    pub fn wrong_statuses(&self) -> Vec<Finding> {
        let budgets = self.state().budgets.values();
        budgets.filter_map(|budget| self.auditor.judge_status(budget)).collect()
    }

    /// Returns the recorded grants, as names of budget and pod.
    pub fn grants(&self) -> Vec<String> {
        let budgets = self.state().budgets.values();
        let of = |budget: &Budget| {
            let grants = budget.status.grants.iter();
            grants.map(|g| format!("{}: {}", budget.key, g.pod)).collect::<Vec<_>>()
        };
        budgets.flat_map(|budget| of(budget)).collect()
    }

    /// Returns true if a budget that covers the pod counts its replica, or the pod itself, as healthy.
    fn was_healthy(&self, pod: &Pod) -> bool {
        let covering = self.auditor.covering(pod);
        let replica = named(pod);
        let mut counts = covering.map(|budget| (budget, self.auditor.count(budget, &|_| false)));
        counts.any(|(budget, count)| match &replica {
            Some(replica) => count.replicas.get(replica).is_none_or(|replica| replica.healthy),
            None => count::is_healthy(budget, pod),
        })
    }

    /// Checks the new grants of a budget that is about to be stored. They are a violation if every state of the last
    /// `lag` forbids them.
    fn judge_grants(&self, after: &Budget) -> Option<Finding> {
        let before = self.state().budgets.get(&after.key).map(|budget| (**budget).clone());
        let before = before.unwrap_or_else(|| {
            let mut before = after.clone();
            before.status.grants.clear();
            before
        });
        let new = self.auditor.new_grants(&before, after);
        if new.is_empty() {
            return None;
        }
        let old = after.status.grants.iter().filter(|grant| !new.contains(grant)).cloned();
        let old: Vec<_> = old.collect();
        let known = self.past.iter().map(|(_, state)| state).chain([self.state()]).rev();
        let mut judged = known.map(|known| self.auditor.judge_grants(after, (&old, &new), known));
        let last = judged.next().flatten()?;
        judged.all(|finding| finding.is_some()).then_some(last)
    }

    /// Counts every budget after a write. Only an eviction can violate S1 here: other changes may leave a budget below
    /// its desired number.
    fn look(&mut self, version: u64, evicts: bool) {
        let (lost, lag, now) = (&self.lost, self.lag, self.now);
        let told = |loss: u64| lost.get(&loss).is_none_or(|since| *since + lag <= now);
        let found = self.auditor.look(&told, &|_| true);
        if evicts && self.scaled.is_none_or(|scaled| scaled + lag <= now) {
            self.findings.extend(found.into_iter().map(|finding| (version, finding)));
        }
        let state = self.auditor.state();
        let grants = state.budgets.values().flat_map(|budget| &budget.status.grants);
        let granted: BTreeSet<&str> = grants.map(|grant| grant.uid.as_str()).collect();
        for (key, budget) in &state.budgets {
            let count = self.auditor.count(budget, &|pod| granted.contains(pod.uid.as_str()));
            let Count { healthy, desired, .. } = count;
            let now = Fewest { healthy, desired, version };
            let fewest = self.fewest.entry(key.clone()).or_insert(now);
            if healthy - desired < fewest.healthy - fewest.desired {
                *fewest = now;
            }
            let members = count::members(budget, state);
            let index_of = |replica: &Replica| {
                let mut pods = members.get(replica).into_iter().flatten();
                pods.find_map(|pod| pod.lws.as_ref()?.group_index)
            };
            let whole = count.replicas.iter().filter(|(_, replica)| replica.healthy);
            let whole = whole.map(|(replica, _)| (replica.clone(), index_of(replica))).collect();
            let before = self.healthy.insert(key.clone(), whole).unwrap_or_default();
            for (replica, group_index) in before {
                let counted = count.replicas.get(&replica);
                if counted.is_none_or(|counted| !counted.healthy && !counted.leaving) {
                    let budget = key.clone();
                    self.disruptions.push(Disruption { version, budget, replica, group_index });
                }
            }
        }
    }
}

/// Returns true if the write changes anything that a count depends on.
fn is_change(before: &State, object: &Object) -> bool {
    match object {
        Object::Pod(pod) => before.pods.get(&pod.key).is_none_or(|known| {
            let version = pod.version;
            Pod { version, ..(**known).clone() } != *pod
        }),
        Object::Budget(budget) => before.budgets.get(&budget.key).is_none_or(|known| {
            let mut known = (**known).clone();
            let grants = std::mem::take(&mut known.status.grants);
            known.version = budget.version;
            known.status = Status { grants, ..budget.status.clone() };
            known != *budget
        }),
        _ => true,
    }
}

/// Returns true if this write shows that an eviction removes the pod.
fn is_eviction(before: &State, pod: &Pod, gone: bool) -> bool {
    let stays = |known: &Pod| known.uid == pod.uid && !known.terminating;
    let known = before.pods.get(&pod.key);
    pod.evicted && (gone || pod.terminating) && known.is_some_and(|known| stays(known))
}

/// Returns true if this write changes the scale of a workload.
fn is_scaled(before: &State, owner: &Owner) -> bool {
    let known = before.owners.get(&(owner.kind.clone(), owner.key.clone()));
    known.is_some_and(|known| known.replicas != owner.replicas)
}

/// Returns how many healthy units a budget with this spec has in a namespace with these objects.
pub fn healthy<'a>(objects: impl IntoIterator<Item = &'a Value>, budget: &Budget) -> usize {
    let mut state = State::default();
    for object in objects.into_iter().filter_map(json::object) {
        state.store(object);
    }
    healthy_in(&state, budget)
}

pub fn healthy_in(state: &State, budget: &Budget) -> usize {
    let count = count(budget, state, &Memory::default(), &|_| false);
    usize::try_from(count.healthy).unwrap_or_default()
}

/// Returns true if the pod is Running, Ready and not terminating.
pub fn is_healthy(pod: &Value) -> bool {
    count::is_healthy(&every_replica(""), &json::pod(pod))
}

/// Returns a budget that counts the replicas of all pods of a namespace.
pub fn every_replica(namespace: &str) -> Budget {
    everything(namespace, Scope::Replica)
}

/// Returns a budget that counts all pods of a namespace.
pub fn every_pod(namespace: &str) -> Budget {
    everything(namespace, Scope::Pod)
}

fn everything(namespace: &str, scope: Scope) -> Budget {
    Budget {
        key: BudgetKey { unavailable: false, key: Name::new(namespace, "everything") },
        uid: String::new(),
        version: 0,
        unreadable: false,
        selector: Some(Selector::default()),
        min_available: Some(Threshold::Count(0)),
        max_unavailable: None,
        always_allow: false,
        scope,
        basic_min_count: None,
        unavailable: None,
        status: Status::default(),
    }
}

/// Returns the object with this version, because objects in etcd do not carry theirs. Returns None if the auditor does
/// not use the kind.
pub fn read(object: &Value, version: u64) -> Option<Object> {
    let mut object = json::object(object)?;
    match &mut object {
        Object::Pod(pod) => pod.version = version,
        Object::Budget(budget) => budget.version = version,
        Object::PodGroup(group) => group.version = version,
        Object::Workload(workload) => workload.version = version,
        Object::Owner(owner) => owner.version = version,
    }
    Some(object)
}
