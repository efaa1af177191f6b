//! The auditor, fed with what a cluster has stored. It believes nothing that Holdfast says of itself.
//!
//! On a real cluster the auditor does not see which evictions are allowed and still under way. It judges each eviction
//! when it takes its pod: by then every covering budget has it on record (S3) and keeps what it desires (S1).
//!
//! A pod can also be lost without an eviction: a controller deletes it, a node fails. No admission check can hinder
//! that. Instances may not know of such a loss for as long as their API server is paused, so it counts [`LAG`] later.
//! The rest of a broken replica, which its controller cleans up, counts at once.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use holdfast_audit::objects::{Budget, Object, Pod};
use holdfast_audit::{Auditor, Count, Finding, Memory, State, json, named};
use serde_json::{Value, json};

/// Longer than the longest pause in the tests, with the time to catch up after it.
pub const LAG: Duration = Duration::from_secs(30);

/// One write of one object.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The etcd revision of the write.
    pub version: u64,
    /// The time since the start of the test.
    pub at: Duration,
    pub gone: bool,
    /// The object, or its last state if it was deleted.
    pub object: &'a Value,
}

#[derive(Debug, Default)]
pub struct Audit {
    auditor: Auditor,
    /// The times of recent losses of pods, by version.
    lost: BTreeMap<u64, Duration>,
    fewest: BTreeMap<String, Fewest>,
    findings: Vec<(u64, Finding)>,
}

/// The time at which a budget had the fewest spare units.
#[derive(Clone, Copy, Debug)]
pub struct Fewest {
    pub healthy: i64,
    pub desired: i64,
    pub version: u64,
}

impl Audit {
    /// Begins with the objects that existed before the history.
    pub fn of<'a>(objects: impl IntoIterator<Item = (u64, &'a Value)>) -> Self {
        let mut audit = Self::default();
        for (version, object) in objects {
            if let Some(object) = read(object, version) {
                audit.auditor.stored(object);
            }
        }
        audit.look(0, Duration::ZERO);
        audit
    }

    pub fn take(&mut self, write: &Write<'_>) {
        let Write { version, at, gone, object } = *write;
        let Some(object) = read(object, version) else { return };
        self.lost.retain(|_, lost| *lost + LAG > at);
        if let Object::Pod(pod) = &object
            && self.was_healthy(pod)
        {
            self.lost.insert(version, at);
        }
        self.auditor.pass_time(i64::try_from(at.as_millis()).unwrap_or(i64::MAX));
        if gone {
            self.auditor.deleted(&object);
        } else {
            self.auditor.stored(object);
        }
        self.look(version, at);
    }

    pub fn state(&self) -> &State {
        self.auditor.state()
    }

    /// Returns the violations of S1 and S3, each with the version of the write that caused it.
    pub fn findings(&self) -> Vec<(u64, Finding)> {
        let unrecorded = self.auditor.unrecorded().into_iter().map(|finding| (0, finding));
        self.findings.iter().cloned().chain(unrecorded).collect()
    }

    pub fn fewest(&self) -> &BTreeMap<String, Fewest> {
        &self.fewest
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
            None => holdfast_audit::is_healthy(budget, pod),
        })
    }

    fn look(&mut self, version: u64, at: Duration) {
        let lost = &self.lost;
        let told = |loss: u64| lost.get(&loss).is_none_or(|since| *since + LAG <= at);
        let found = self.auditor.look(&told, &|_| true);
        self.findings.extend(found.into_iter().map(|finding| (version, finding)));
        for budget in self.auditor.state().budgets.values() {
            let Count { healthy, desired, .. } = self.auditor.count(budget, &|_| false);
            let now = Fewest { healthy, desired, version };
            let fewest = self.fewest.entry(budget.key.to_string()).or_insert(now);
            if healthy - desired < fewest.healthy - fewest.desired {
                *fewest = now;
            }
        }
    }
}

impl fmt::Display for Fewest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fewest healthy {}, needed {}", self.healthy, self.desired)
    }
}

/// Returns how many healthy units a budget with this spec has in a namespace with these objects.
pub fn healthy<'a>(objects: impl IntoIterator<Item = &'a Value>, budget: &Budget) -> usize {
    let mut state = State::default();
    for object in objects.into_iter().filter_map(|object| read(object, 0)) {
        state.store(object);
    }
    healthy_in(&state, budget)
}

pub fn healthy_in(state: &State, budget: &Budget) -> usize {
    let count = holdfast_audit::count(budget, state, &Memory::default(), &|_| false);
    usize::try_from(count.healthy).unwrap_or_default()
}

/// Returns true if the pod is Running, Ready and not terminating.
pub fn is_healthy(pod: &Value) -> bool {
    holdfast_audit::is_healthy(&every_replica(""), &json::pod(pod))
}

/// Returns a budget that counts the replicas of all pods of a namespace.
pub fn every_replica(namespace: &str) -> Budget {
    everything(namespace, "Workload")
}

/// Returns a budget that counts all pods of a namespace.
pub fn every_pod(namespace: &str) -> Budget {
    everything(namespace, "Pod")
}

fn everything(namespace: &str, scope: &str) -> Budget {
    json::budget(&json!({
        "metadata": {"name": "everything", "namespace": namespace},
        "spec": {"budgetScope": scope, "minAvailable": 0, "selector": {}},
    }))
}

/// Returns None if the auditor does not use the kind.
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
