//! Healthy groups and how many are needed, counted from stored objects alone (semantics 3, 4 and 5).
//!
//! Nothing here is Holdfast's: neither its code nor what it writes into a status. Only what the workload
//! of this suite has is understood: groups of `LeaderWorkerSet`s, selectors with `matchLabels`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::etcd::Change;

/// Below `/registry/`, where each kind is stored.
pub const PODS: &str = "pods";
pub const STATEFUL_SETS: &str = "statefulsets";
pub const SETS: &str = "leaderworkerset.x-k8s.io/leaderworkersets";
pub const BUDGETS: &str = "policy.holdfast.dev/poddisruptionbudgets";

const LWS: &str = "leaderworkerset.sigs.k8s.io";

/// The objects of a namespace at one revision, each kind by name.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub pods: BTreeMap<String, Value>,
    stateful_sets: BTreeMap<String, Value>,
    sets: BTreeMap<String, Value>,
    pub budgets: BTreeMap<String, Value>,
}

/// A `LeaderWorkerSet` and the index of one of its groups.
pub type Group = (String, usize);

/// What a budget has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub expected: usize,
    pub healthy: usize,
    pub needed: usize,
}

impl State {
    pub fn of(stored: &[Change]) -> Self {
        let mut state = Self::default();
        for change in stored {
            state.apply(change);
        }
        state
    }

    pub fn apply(&mut self, change: &Change) {
        let (kind, name) = place(&change.key);
        let objects = match kind {
            PODS => &mut self.pods,
            STATEFUL_SETS => &mut self.stateful_sets,
            SETS => &mut self.sets,
            BUDGETS => &mut self.budgets,
            other => panic!("nothing is known of {other}"),
        };
        match &change.object {
            Some(object) => drop(objects.insert(name.to_owned(), object.clone())),
            None => drop(objects.remove(name)),
        }
    }

    /// Groups within the scale of their set of which every pod is there and healthy. A worker counts for the
    /// leader whose `StatefulSet` made it: that of an earlier leader ends with its `StatefulSet`.
    pub fn healthy(&self) -> BTreeSet<Group> {
        let mut members: BTreeMap<Group, (Option<&str>, Vec<&Value>)> = BTreeMap::new();
        for pod in self.pods.values().filter(|pod| is_healthy(pod)) {
            let Some(group) = group_of(pod) else { continue };
            let (leader, workers) = members.entry(group).or_default();
            if label(pod, "worker-index") == Some("0") {
                *leader = pod["metadata"]["uid"].as_str();
            } else {
                workers.push(pod);
            }
        }
        let whole = members.into_iter().filter(|((set, index), (leader, workers))| {
            let Some((set, leader)) = self.sets.get(set).zip(*leader) else { return false };
            let own = workers.iter().filter(|worker| self.leader_of(worker) == Some(leader));
            let size = number(&set["spec"]["leaderWorkerTemplate"]["size"]);
            *index < number(&set["spec"]["replicas"]) && own.count() + 1 >= size
        });
        whole.map(|(group, _)| group).collect()
    }

    /// The uid of the leader whose `StatefulSet` made this worker, unless that is on its way out.
    fn leader_of(&self, worker: &Value) -> Option<&str> {
        let maker = owner(worker)?;
        let mut sets = self.stateful_sets.values();
        let set = sets.find(|set| set["metadata"]["uid"].as_str() == Some(maker))?;
        if is_leaving(set) { None } else { owner(set) }
    }

    /// The numbers of one budget.
    pub fn counts(&self, budget: &Value, healthy: &BTreeSet<Group>) -> Counts {
        let covered = self.covered(budget);
        let expected = covered.values().sum();
        let healthy = healthy.iter().filter(|(set, _)| covered.contains_key(set.as_str())).count();
        let spec = &budget["spec"];
        let needed = if spec["minAvailable"].is_null() {
            usize::saturating_sub(expected, number(&spec["maxUnavailable"]))
        } else {
            number(&spec["minAvailable"])
        };
        Counts { expected, healthy, needed }
    }

    /// The sets whose pods the budget selects, and the scale of each.
    pub fn covered(&self, budget: &Value) -> BTreeMap<&str, usize> {
        let selector = &budget["spec"]["selector"];
        let wanted = selector["matchLabels"].as_object().expect("the selector has matchLabels");
        let selects = |set: &&Value| {
            let template = &set["spec"]["leaderWorkerTemplate"]["workerTemplate"];
            let labels = &template["metadata"]["labels"];
            wanted.iter().all(|(key, value)| labels[key] == *value)
        };
        let covered = self.sets.iter().filter(|(_, set)| selects(set));
        covered.map(|(name, set)| (name.as_str(), number(&set["spec"]["replicas"]))).collect()
    }

    /// Budgets whose status differs from a recount, with both.
    pub fn wrong_statuses(&self) -> Vec<String> {
        let healthy = self.healthy();
        let mut wrong = Vec::new();
        for (name, budget) in &self.budgets {
            let counts = self.counts(budget, &healthy);
            let counted = json!({
                "expectedReplicas": counts.expected,
                "currentHealthyReplicas": counts.healthy,
                "desiredHealthyReplicas": counts.needed,
                "disruptionsAllowedReplicas": counts.healthy.saturating_sub(counts.needed),
                "observedGeneration": budget["metadata"]["generation"],
            });
            let fields = counted.as_object().expect("an object");
            if fields.iter().any(|(field, value)| budget["status"][field] != *value) {
                wrong.push(format!("{name}: counted {counted}, status {}", budget["status"]));
            }
        }
        wrong
    }

    /// The grants on record, as the budget's and the pod's name.
    pub fn grants(&self) -> Vec<String> {
        let of_one = |(name, budget): (&String, &Value)| -> Vec<String> {
            let grants = budget["status"]["grants"].as_array().into_iter().flatten();
            grants.map(|grant| format!("{name}: {grant}")).collect()
        };
        self.budgets.iter().flat_map(of_one).collect()
    }
}

/// The kind and the name that a key stands for: `/registry/KIND/NAMESPACE/NAME`.
pub fn place(key: &str) -> (&str, &str) {
    let mut parts = key.trim_start_matches("/registry/").rsplitn(3, '/');
    let (name, _namespace) = (parts.next().unwrap_or_default(), parts.next());
    (parts.next().unwrap_or_default(), name)
}

pub fn group_of(pod: &Value) -> Option<Group> {
    let index = label(pod, "group-index")?.parse().ok()?;
    Some((label(pod, "name")?.to_owned(), index))
}

pub fn is_healthy(pod: &Value) -> bool {
    !is_leaving(pod) && pod["status"]["phase"] == "Running" && condition(pod, "Ready").is_some()
}

pub fn is_leaving(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Whether the Eviction API has set out to delete this pod.
pub fn is_evicted(pod: &Value) -> bool {
    let condition = condition(pod, "DisruptionTarget");
    condition.is_some_and(|condition| condition["reason"] == "EvictionByEvictionAPI")
}

/// The condition of this type, if it is true.
fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn label<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod["metadata"]["labels"][format!("{LWS}/{key}")].as_str()
}

fn owner(object: &Value) -> Option<&str> {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.find(|owner| owner["controller"] == true)?["uid"].as_str()
}

fn number(value: &Value) -> usize {
    value.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or_else(|| panic!("{value}"))
}
