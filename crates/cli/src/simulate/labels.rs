//! Which pods a budget covers, counted here once more: the report checks the engine and does not ask it.

use std::collections::BTreeMap;

use holdfast_core::model::{Budget, BudgetSpec, LabelSelector, Operator, Pod, Requirement};

pub fn cover(budget: &Budget, pod: &Pod) -> bool {
    budget.key.object.namespace == pod.key.namespace && select(&budget.spec, &pod.labels)
}

pub fn select(spec: &BudgetSpec, labels: &BTreeMap<String, String>) -> bool {
    spec.selector.as_ref().is_some_and(|selector| meets(selector, labels))
}

pub fn meets(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().all(|requirement| holds(requirement, labels))
}

fn holds(requirement: &Requirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let is_listed = value.is_some_and(|value| requirement.values.contains(value));
    match requirement.operator {
        Operator::In => is_listed,
        Operator::NotIn => !is_listed,
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Other(_) => false,
    }
}
