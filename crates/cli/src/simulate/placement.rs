//! What the scheduler looks at: a pod's requests and constraints, a node's room.

use std::collections::BTreeMap;

use holdfast_sim::{NodeBuilder, Shape, Taint, Toleration, node};
use serde_json::{Map, Value};

use super::input::{Place, Problem};
use super::quantity;

/// What a pod spec asks for. `at` is its path, such as `spec` or `spec.template.spec`.
pub fn shape(spec: &Value, place: &Place, at: &str, problems: &mut Vec<Problem>) -> Shape {
    let mut of = |field| each(spec, field, place, at, problems);
    let of_containers = together(of("containers"), i64::saturating_add);
    // Init containers run one after the other, before the others.
    let of_init = together(of("initContainers"), Ord::max);
    let requests = together(vec![of_containers, of_init], Ord::max);
    let tolerations = spec["tolerations"].as_array().into_iter().flatten();
    Shape {
        requests,
        node_selector: strings(&spec["nodeSelector"]),
        tolerations: tolerations.map(toleration).collect(),
    }
}

/// A Node object.
pub fn node_of(value: &Value, place: &Place, problems: &mut Vec<Problem>) -> Option<NodeBuilder> {
    let name = value["metadata"]["name"].as_str()?;
    let mut made = node(name).cordoned(value["spec"]["unschedulable"] == Value::Bool(true));
    for (key, value) in strings(&value["metadata"]["labels"]) {
        made = made.label(&key, &value);
    }
    for taint in value["spec"]["taints"].as_array().into_iter().flatten() {
        let effect = text(taint, "effect");
        // kubectl cordon adds this one beside the field; uncordon takes both away.
        let keeps_away = matches!(effect.as_str(), "NoSchedule" | "NoExecute");
        if keeps_away && taint["key"] != "node.kubernetes.io/unschedulable" {
            made =
                made.taint(Taint { key: text(taint, "key"), value: text(taint, "value"), effect });
        }
    }
    let status = &value["status"];
    let field = if status["allocatable"].is_object() { "allocatable" } else { "capacity" };
    let room = amounts(&status[field], place, &format!("status.{field}"), problems);
    for (resource, amount) in room {
        // Pods are counted and not requested.
        let amount = if resource == "pods" { amount / 1000 } else { amount };
        made = made.room(&resource, amount);
    }
    Some(made)
}

/// Requests, for each resource put together like this.
fn together(
    requests: Vec<BTreeMap<String, i64>>,
    put: fn(i64, i64) -> i64,
) -> BTreeMap<String, i64> {
    let mut together = BTreeMap::new();
    for (resource, amount) in requests.into_iter().flatten() {
        let all: &mut i64 = together.entry(resource).or_default();
        *all = put(*all, amount);
    }
    together
}

/// The requests of each container; a limit without a request is one, as the API server has it.
fn each(
    spec: &Value,
    field: &str,
    place: &Place,
    at: &str,
    problems: &mut Vec<Problem>,
) -> Vec<BTreeMap<String, i64>> {
    let containers = spec[field].as_array().into_iter().flatten().enumerate();
    let requests = containers.map(|(index, container)| {
        let at = format!("{at}.{field}[{index}].resources");
        let resources = &container["resources"];
        let mut all = amounts(&resources["limits"], place, &format!("{at}.limits"), problems);
        all.extend(amounts(&resources["requests"], place, &format!("{at}.requests"), problems));
        all
    });
    requests.collect()
}

fn amounts(
    value: &Value,
    place: &Place,
    at: &str,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, i64> {
    let mut amounts = BTreeMap::new();
    let none = Map::new();
    for (resource, amount) in value.as_object().unwrap_or(&none) {
        let written = match amount {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match quantity::parse(&written) {
            Ok(amount) => drop(amounts.insert(resource.clone(), amount)),
            Err(why) => problems.push(Problem::new(place, format!("{at}.{resource}"), why)),
        }
    }
    amounts
}

fn toleration(value: &Value) -> Toleration {
    let exists = value["operator"] == "Exists";
    Toleration {
        key: text(value, "key"),
        value: if exists { None } else { Some(text(value, "value")) },
        effect: text(value, "effect"),
    }
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    let none = Map::new();
    let pairs = value.as_object().unwrap_or(&none).iter();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
