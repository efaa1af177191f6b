//! Documents into the objects that a simulation is made of.

use std::collections::BTreeMap;

use holdfast_api::decode::{DecodeError, Decoded, decode};
use holdfast_core::Kind;
use holdfast_core::model::{
    Budget, BudgetStatus, ControllerRef, GroupApi, GroupKind, Owner, Pod, PodGroup, Workload,
};
use holdfast_sim::{NodeBuilder, Shape};
use serde_json::{Value, json};

use super::check::{self, Mistakes};
use super::input::{Document, Input, Place, Problem, printable};
use super::{beyond, kruise, placement, strict};

/// Everything that was read, each kind in the order of the input.
#[derive(Debug, Default)]
pub struct Objects {
    pub nodes: Vec<(String, NodeBuilder)>,
    pub pods: Vec<PlacedPod>,
    pub budgets: Vec<GivenBudget>,
    pub groups: Vec<PodGroup>,
    pub workloads: Vec<Workload>,
    pub owners: Vec<GivenOwner>,
    pub kruise: Vec<Document>,
    /// Kinds that are of no use here, and how many objects of each there were.
    ignored: BTreeMap<String, usize>,
    pub problems: Vec<Problem>,
    /// What is in the input and not in the simulation.
    pub left_out: Vec<String>,
    /// What is in the simulation and not in the input.
    pub notes: Vec<String>,
    /// By kind, namespace and name: where it was first.
    seen: BTreeMap<(String, String, String), Place>,
}

#[derive(Clone, Debug)]
pub struct PlacedPod {
    pub pod: Pod,
    pub node: Option<String>,
    pub shape: Shape,
    /// The manifest says how the pod is doing; else it is taken to be well.
    pub has_status: bool,
    /// What it asks of the scheduler and does not get here.
    pub constraints: Vec<&'static str>,
}

/// A budget, and what its author would call it.
#[derive(Clone, Debug)]
pub struct GivenBudget {
    pub api: &'static str,
    pub budget: Budget,
    pub place: Place,
}

#[derive(Clone, Debug)]
pub struct GivenOwner {
    pub owner: Owner,
    pub document: Document,
}

impl Objects {
    /// `namespace` is that of objects that do not name theirs.
    pub fn read(input: Input, namespace: &str) -> Self {
        let mut objects = Self { problems: input.problems, ..Self::default() };
        for document in input.documents {
            objects.take_in(document, namespace);
        }
        kruise::translate(&mut objects);
        let kinds: Vec<String> =
            objects.ignored.iter().map(|(kind, n)| format!("{} ({n})", printable(kind))).collect();
        if !kinds.is_empty() {
            objects.left_out.push(format!("ignored objects of other kinds: {}", kinds.join(", ")));
        }
        objects
    }

    pub fn problem(&mut self, place: &Place, field: &str, message: impl Into<String>) {
        self.problems.push(Problem::new(place, field, message));
    }

    fn mistakes(&mut self, place: &Place, mistakes: Mistakes) {
        for (field, message) in mistakes {
            self.problem(place, &field, message);
        }
    }

    fn take_in(&mut self, mut document: Document, namespace: &str) {
        let Some((group, kind)) = self.identify(&document) else { return };
        let placed = self.problems.len();
        let unsaid = document.value["metadata"]["namespace"].as_str().is_none_or(str::is_empty);
        if unsaid && kind != "Node" {
            document.value["metadata"]["namespace"] = json!(namespace);
        }
        let Document { place, value } = &document;
        let owner_kind = GroupKind::new(group.as_str(), kind.as_str());
        match (group.as_str(), kind.as_str()) {
            ("", "Pod") => self.add_pod(place, value),
            ("", "Node") => {
                let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                self.mistakes(place, strict::node(value));
                let node = placement::node_of(value, place, &mut self.problems);
                self.nodes.extend(node.map(|node| (name, node)));
            }
            ("policy", "PodDisruptionBudget") => self.add_budget(place, value, "policy/v1"),
            ("policy.holdfast.dev", "PodDisruptionBudget") => {
                self.add_budget(place, value, "policy.holdfast.dev/v1");
            }
            ("policy.kruise.io", "PodUnavailableBudget") => self.kruise.push(document.clone()),
            ("scheduling.k8s.io", "PodGroup" | "Workload") => {
                self.add_grouping(place, value, &kind, GroupApi::Kubernetes);
            }
            ("scheduling.holdfast.dev", "PodGroup" | "Workload") => {
                self.add_grouping(place, value, &kind, GroupApi::Holdfast);
            }
            _ if Owner::is_watched(&owner_kind) => {
                let found =
                    self.decode(place, value, &Kind::Owner(owner_kind), check::owner(value));
                if let Some(Decoded::Owner(mut owner)) = found {
                    // The workers' set of a LeaderWorkerSet group. The copy's leaders are other pods, and it
                    // stays when they come back.
                    owner.controller.take_if(|c| c.group_kind.is("", "Pod"));
                    forget_uid(&mut owner.controller);
                    self.owners.push(GivenOwner { owner, document: document.clone() });
                }
            }
            _ => {
                *self.ignored.entry(kind).or_default() += 1;
                return;
            }
        }
        self.mistakes(&document.place, strict::object(&document.value, &group, &kind));
        if self.problems.len() == placed {
            self.note_once(&document, &kind, &group);
        }
    }

    /// API group and kind.
    fn identify(&mut self, document: &Document) -> Option<(String, String)> {
        let Document { place, value } = document;
        if !value.is_object() {
            self.problem(place, "", "is not an object");
            return None;
        }
        let (api_version, kind, meta) = (&value["apiVersion"], &value["kind"], &value["metadata"]);
        let before = self.problems.len();
        for (field, found) in
            [("apiVersion", api_version), ("kind", kind), ("metadata.name", &meta["name"])]
        {
            match found {
                Value::Null => self.problem(place, field, "is missing"),
                Value::String(text) if text.is_empty() => self.problem(place, field, "is missing"),
                Value::String(_) => {}
                _ => self.problem(place, field, "must be a string"),
            }
        }
        if !matches!(meta["namespace"], Value::Null | Value::String(_)) {
            self.problem(place, "metadata.namespace", "must be a string");
        }
        if self.problems.len() > before {
            return None;
        }
        let group = api_version.as_str()?.split_once('/').map_or("", |(group, _)| group);
        Some((group.to_owned(), kind.as_str()?.to_owned()))
    }

    fn note_once(&mut self, document: &Document, kind: &str, group: &str) {
        let text =
            |field: &str| document.value["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let key = (format!("{kind}.{group}"), namespace, name.clone());
        if let Some(first) = self.seen.get(&key) {
            let message = format!("{kind} {name} is defined twice, first in {first}");
            self.problem(&document.place, "metadata.name", message);
        } else {
            self.seen.insert(key, document.place.clone());
        }
    }

    fn add_pod(&mut self, place: &Place, value: &Value) {
        let mut mistakes = Mistakes::new();
        strict::pod(value, "", &mut mistakes);
        let found = self.decode(place, value, &Kind::Pod, mistakes);
        let shape = placement::shape(&value["spec"], place, "spec", &mut self.problems);
        if let Some(Decoded::Pod(mut pod)) = found {
            forget_uid(&mut pod.controller);
            let node = value["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
            let has_status = value["status"]["phase"].is_string();
            let (node, constraints) =
                (node.map(str::to_owned), beyond::constraints(&value["spec"]));
            self.pods.push(PlacedPod { pod, node, shape, has_status, constraints });
        }
    }

    fn add_budget(&mut self, place: &Place, value: &Value, api: &'static str) {
        let found = self.decode(place, value, &Kind::Budget, check::budget(value));
        if let Some(Decoded::Budget(budget)) = found {
            let budget = Budget { generation: 1, status: BudgetStatus::default(), ..budget };
            self.budgets.push(GivenBudget { api, budget, place: place.clone() });
        }
    }

    fn add_grouping(&mut self, place: &Place, value: &Value, kind: &str, api: GroupApi) {
        let (kind, mistakes) = if kind == "PodGroup" {
            (Kind::PodGroup(api), check::pod_group(value))
        } else {
            (Kind::Workload(api), check::workload(value))
        };
        match self.decode(place, value, &kind, mistakes) {
            Some(Decoded::PodGroup(mut group)) => {
                forget_uid(&mut group.controller);
                self.groups.push(group);
            }
            Some(Decoded::Workload(workload)) => self.workloads.push(workload),
            _ => {}
        }
    }

    fn decode(
        &mut self,
        place: &Place,
        value: &Value,
        kind: &Kind,
        mistakes: Mistakes,
    ) -> Option<Decoded> {
        let told: Vec<String> = mistakes.iter().map(|(field, _)| field.clone()).collect();
        self.mistakes(place, mistakes);
        match decode(kind, value.to_string().as_bytes()) {
            Ok(decoded) => Some(decoded),
            Err(error) => {
                let (field, message) = in_words(error);
                if !told.contains(&field) {
                    self.problem(place, &field, message);
                }
                None
            }
        }
    }
}

/// The decoder reads text that we made, so where in it the mistake was tells nobody anything.
pub fn in_words(error: DecodeError) -> (String, String) {
    let message = error.message;
    let message = message.find(" at line ").map_or(message.as_str(), |at| &message[..at]);
    (error.field.unwrap_or_default(), message.to_owned())
}

/// The simulated API server gives out its own uids; references are found by name.
pub fn forget_uid(controller: &mut Option<ControllerRef>) {
    if let Some(controller) = controller {
        controller.uid.clear();
    }
}
