//! What one instance has been told: the objects that went over its wire, in the auditor's types.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use holdfast_audit::objects::{Name, Object};
use holdfast_audit::{State, json};
use serde_json::Value;

use crate::resources::Kind;
use crate::store::Verb;

/// How long earlier states are kept: longer than a request may wait between its decision and its write.
const KEPT_MS: u64 = 15_000;

#[derive(Debug, Default)]
pub struct View {
    state: State,
    /// The states before, and from when on each of them held.
    earlier: VecDeque<(u64, State)>,
    /// How far lists and watches have come.
    reached: BTreeMap<Kind, u64>,
}

impl View {
    pub fn has_reached(&self, kind: Kind, version: u64) -> bool {
        self.reached.get(&kind).is_some_and(|reached| *reached >= version)
    }

    /// The states that held at some time since then, the newest first.
    pub fn since(&self, ms: u64) -> Vec<&State> {
        let mut states = Vec::new();
        for (from, state) in self.earlier.iter().rev() {
            states.push(state);
            if *from < ms {
                break;
            }
        }
        states
    }

    /// A watch event.
    pub fn changed(&mut self, now: u64, kind: Kind, verb: Verb, object: &Value) {
        self.reach(kind, version(object));
        self.apply(object, verb == Verb::Deleted);
        self.keep(now);
    }

    pub fn bookmarked(&mut self, kind: Kind, version: u64) {
        self.reach(kind, version);
    }

    /// One page of a list of the whole kind.
    pub fn page(&mut self, now: u64, page: &[Arc<Value>]) {
        for object in page {
            self.apply(object, false);
        }
        self.keep(now);
    }

    /// The last page of a list of the whole kind has come.
    pub fn listed(&mut self, now: u64, kind: Kind, version: u64, items: &[Arc<Value>]) {
        self.retain(kind, version, items);
        self.reach(kind, version);
        self.keep(now);
    }

    /// A list of one namespace. It says nothing new if the watch has come further.
    pub fn snapshot(&mut self, now: u64, kind: Kind, version: u64, items: &[Arc<Value>]) {
        if self.reached.get(&kind).is_some_and(|reached| version < *reached) {
            return;
        }
        for object in items {
            self.apply(object, false);
        }
        self.retain(kind, version, items);
        self.keep(now);
    }

    fn reach(&mut self, kind: Kind, version: u64) {
        let reached = self.reached.entry(kind).or_default();
        *reached = version.max(*reached);
    }

    fn apply(&mut self, object: &Value, gone: bool) {
        let Some(object) = json::object(object) else { return };
        if self.state.version_of(&object).is_some_and(|stored| object.version() < stored) {
            return;
        }
        if gone {
            self.state.delete(&object);
        } else {
            self.state.store(object);
        }
    }

    fn retain(&mut self, kind: Kind, listed: u64, items: &[Arc<Value>]) {
        let names: BTreeSet<Name> = items
            .iter()
            .filter_map(|object| json::object(object))
            .map(|object| object.name().clone())
            .collect();
        for gone in self.objects_of(kind) {
            if !names.contains(gone.name()) && gone.version() <= listed {
                self.state.delete(&gone);
            }
        }
    }

    fn objects_of(&self, kind: Kind) -> Vec<Object> {
        let State { pods, budgets, groups, owners, .. } = &self.state;
        match kind.kind {
            "Pod" => pods.values().map(|pod| Object::Pod(Clone::clone(pod))).collect(),
            "PodDisruptionBudget" if kind.group == "policy.holdfast.dev" => {
                budgets.values().map(|budget| Object::Budget(Clone::clone(budget))).collect()
            }
            "PodGroup" => groups.values().map(|g| Object::PodGroup(Clone::clone(g))).collect(),
            name => owners
                .values()
                .filter(|owner| owner.kind.is(kind.group, name))
                .map(|owner| Object::Owner(Clone::clone(owner)))
                .collect(),
        }
    }

    fn keep(&mut self, now: u64) {
        self.earlier.push_back((now, self.state.clone()));
        while self.earlier.get(1).is_some_and(|(from, _)| from + KEPT_MS < now) {
            self.earlier.pop_front();
        }
    }
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok()).unwrap_or(0)
}
