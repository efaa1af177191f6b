//! `PodUnavailableBudget`s of Kruise, as far as the engine can stand in for them today.

use holdfast_api::budget::LabelSelector as WireSelector;
use holdfast_api::decode;
use holdfast_core::model::{
    Budget, BudgetKey, BudgetSpec, BudgetStatus, LabelSelector, Operation, ResourceVersion, Scope,
};
use serde_json::Value;

use super::check::{self, Mistakes};
use super::input::Document;
use super::objects::{GivenBudget, Objects, in_words};

const LWS_NAME: &str = "leaderworkerset.sigs.k8s.io/name";
const LWS_GROUP_LABELS: [&str; 2] =
    ["leaderworkerset.sigs.k8s.io/group-index", "leaderworkerset.sigs.k8s.io/group-key"];

/// Turns every one that can be counted into a budget, and reports the others.
pub fn translate(objects: &mut Objects) {
    for document in std::mem::take(&mut objects.kruise) {
        let selector = match selector(objects, &document) {
            Ok(selector) => selector,
            Err((field, message)) => {
                objects.problem(&document.place, &field, message);
                continue;
            }
        };
        let Document { place, value } = &document;
        let spec = &value["spec"];
        for (field, message) in mistakes(value) {
            objects.problem(place, &field, message);
        }
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        let unavailable = match decode::unavailable_budget(value.to_string().as_bytes()) {
            Ok(budget) => budget.spec.unavailable.unwrap_or_default(),
            Err(error) => {
                let (field, message) = in_words(error);
                objects.problem(place, &field, message);
                continue;
            }
        };
        if !unavailable.operations.contains(&Operation::Evict) {
            objects.left_out.push(format!(
                "{place}: PodUnavailableBudget {name} does not protect from EVICT and is left out"
            ));
            continue;
        }
        if unavailable.total.is_some() {
            objects.left_out.push(format!(
                "{place}: the total replicas that PodUnavailableBudget {name} sets are not modelled: \
                 it counts by its workload"
            ));
        }
        let scope = match scope(objects, spec) {
            Ok(scope) => scope,
            Err(why) => {
                objects.left_out.push(format!(
                    "{place}: PodUnavailableBudget {name} is not simulated yet, because {why}; the \
                     drain is simulated as if it did not exist"
                ));
                continue;
            }
        };
        let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
        let budget = Budget {
            key: BudgetKey::pdb(text("namespace"), text("name")),
            uid: String::new(),
            version: ResourceVersion::default(),
            generation: 1,
            spec: BudgetSpec {
                min_available: check::threshold(&spec["minAvailable"]),
                max_unavailable: check::threshold(&spec["maxUnavailable"]),
                selector: Some(selector),
                scope,
                ..BudgetSpec::default()
            },
            status: BudgetStatus::default(),
        };
        let (api, place) = ("policy.kruise.io PodUnavailableBudget", place.clone());
        objects.budgets.push(GivenBudget { api, budget, place });
    }
}

/// No decoder looks at these, so that a threshold of another type is found here.
fn mistakes(value: &Value) -> Mistakes {
    let mut mistakes = check::budget(value);
    for field in ["minAvailable", "maxUnavailable"] {
        let found = &value["spec"][field];
        if !found.is_null() && check::threshold(found).is_none() {
            let why = format!("{found} is neither a number >= 0 nor a percentage");
            mistakes.push((format!("spec.{field}"), why));
        }
    }
    mistakes
}

/// By `selector`, or by the selector of the workload that `targetRef` names.
fn selector(objects: &Objects, document: &Document) -> Result<LabelSelector, (String, String)> {
    let spec = &document.value["spec"];
    let read = |value: &Value, field: &str| {
        serde_json::from_value::<WireSelector>(value.clone())
            .map(Into::into)
            .map_err(|error| (field.to_owned(), error.to_string()))
    };
    if spec["selector"].is_object() {
        return read(&spec["selector"], "spec.selector");
    }
    let target = &spec["targetRef"];
    let (Some(kind), Some(name)) = (target["kind"].as_str(), target["name"].as_str()) else {
        let why = "neither selector nor targetRef says which pods it covers";
        return Err(("spec".to_owned(), why.to_owned()));
    };
    if kind == "LeaderWorkerSet" {
        let match_labels = [(LWS_NAME.to_owned(), name.to_owned())].into();
        return Ok(LabelSelector { match_labels, match_expressions: Vec::new() });
    }
    let found = objects.owners.iter().find(|given| {
        given.owner.group_kind.kind == kind
            && given.owner.key.name == name
            && document.value["metadata"]["namespace"] == given.owner.key.namespace.as_str()
    });
    match found.map(|given| &given.document.value["spec"]["selector"]) {
        Some(selector) if selector.is_object() => read(selector, "spec.selector"),
        _ => {
            let why = format!("{kind} {name} is not in the input, or has no selector");
            Err(("spec.targetRef".to_owned(), why))
        }
    }
}

/// Groups by label are replicas to the engine only where they are those of a `LeaderWorkerSet`, whose
/// size is what they need.
fn scope(objects: &Objects, spec: &Value) -> Result<Scope, String> {
    let policy = &spec["podGroupPolicy"];
    if !policy.is_object() {
        return Ok(Scope::Pod);
    }
    let key = policy["groupLabelKey"].as_str().unwrap_or_default();
    if !LWS_GROUP_LABELS.contains(&key) {
        return Err(format!("it counts groups by label {key:?}"));
    }
    let needed = policy["minReadyReplicas"].as_i64().unwrap_or(1);
    let sizes = objects.owners.iter().filter_map(|given| {
        let template = &given.document.value["spec"]["leaderWorkerTemplate"];
        template.is_object().then(|| template["size"].as_i64().unwrap_or(1))
    });
    match sizes.max() {
        Some(size) if size != needed => {
            Err(format!("its groups of {size} are content with minReadyReplicas {needed}"))
        }
        _ => Ok(Scope::Workload),
    }
}
