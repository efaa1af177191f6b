//! The rules for `PodUnavailableBudget`s, with the messages of Kruise.
//!
//! The objects are those of `v1beta1`. The rules ignore values of a wrong JSON type, because the schema
//! refuses them first.

use holdfast_core::model::{self, Operation, Target};
use serde::Deserialize;
use serde_json::Value;

use super::overlap::overlap as selectors_overlap;
use super::{PodGroupPolicy, TargetReference, annotation};
use crate::budget::LabelSelector;
use crate::native::validate::{
    FieldError, LabelValues, all, as_json, label_key, quote, selector as selector_rules, threshold,
};

const PODS: &str = "spec.selector, targetRef";
const THRESHOLDS: &str = "spec.maxUnavailable, minAvailable";
const INT32: &str = "must be a valid int32";
const AT_LEAST_ONE: &str = "must be greater than or equal to 1";

pub fn create(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = pods(spec);
    errors.extend(thresholds(spec));
    errors.extend(operations(object));
    errors.extend(total(object));
    if let Some(ignored) = read::<LabelSelector>(&spec["ignoredPodSelector"]) {
        let empty = "empty ignoredPodSelector is not valid for PodUnavailableBudget";
        errors.extend(selector(&ignored, "spec.ignoredPodSelector", empty));
    }
    if let Some(groups) = read(&spec["podGroupPolicy"]) {
        errors.extend(group_policy(&groups));
    }
    errors
}

/// Validates an update. Selector and target cannot change while pods are counted.
pub fn update(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = create(object);
    let pods = |object: &Value| {
        let spec = &object["spec"];
        (read::<LabelSelector>(&spec["selector"]), read::<TargetReference>(&spec["targetRef"]))
    };
    if pods(object) != pods(old) {
        let message = "selector and targetRef cannot be modified";
        errors.push(FieldError::required(PODS.to_owned(), message));
    }
    errors
}

/// Returns the first other budget of the namespace that would protect the same pods. It does not compare a
/// selector with a target, because the pods of the target are unknown.
pub fn overlap<'a>(
    object: &Value,
    others: impl IntoIterator<Item = &'a model::Budget>,
) -> Option<FieldError> {
    let (spec, metadata) = (&object["spec"], &object["metadata"]);
    let target = read::<TargetReference>(&spec["targetRef"]);
    let selector = read::<LabelSelector>(&spec["selector"]);
    let conflict = |field: &str, value: &str, other: &model::Budget| {
        let message = format!(
            "pub.spec.{field} is in conflict with other PodUnavailableBudget {}",
            other.key.object.name
        );
        FieldError::invalid(format!("spec.{field}"), value, &message)
    };
    others
        .into_iter()
        .filter(|other| {
            metadata["namespace"] == other.key.object.namespace.as_str()
                && metadata["name"] != other.key.object.name.as_str()
        })
        .find_map(|other| {
            let theirs = other.spec.unavailable.as_ref()?;
            match (&target, &theirs.target) {
                (Some(ours), Some(theirs)) => (Target::from(ours) == *theirs)
                    .then(|| conflict("targetReference", &as_json(ours), other)),
                (None, None) => {
                    let (ours, theirs) = (selector.as_ref()?, other.spec.selector.as_ref()?);
                    selectors_overlap(&ours.clone().into(), theirs)
                        .then(|| conflict("selector", &as_json(ours), other))
                }
                _ => None,
            }
        })
}

fn read<T: for<'de> Deserialize<'de>>(value: &Value) -> Option<T> {
    Option::deserialize(value).ok().flatten()
}

fn pods(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let target = read::<TargetReference>(&spec["targetRef"]);
    let selected = read::<LabelSelector>(&spec["selector"]);
    let problem = match (&selected, &target) {
        (None, None) => Some("no selector or targetRef defined in PodUnavailableBudget"),
        (Some(_), Some(_)) => Some("selector and targetRef are mutually exclusive"),
        _ => None,
    };
    errors.extend(problem.map(|message| FieldError::required(PODS.to_owned(), message)));
    if let Some(target) = target {
        errors.extend(target_reference(&target));
    }
    if let Some(selected) = selected {
        let empty = "empty selector is not valid for PodUnavailableBudget.";
        errors.extend(selector(&selected, "spec.selector", empty));
    }
    errors
}

fn target_reference(target: &TargetReference) -> Option<FieldError> {
    let wrong =
        |message: &str| FieldError::invalid("spec.targetRef".to_owned(), &as_json(target), message);
    if target.api_version.is_empty() || target.kind.is_empty() || target.name.is_empty() {
        return Some(wrong("empty targetRef is not valid for PodUnavailableBudget"));
    }
    (target.api_version.matches('/').count() > 1)
        .then(|| wrong(&format!("unexpected GroupVersion string: {}", target.api_version)))
}

fn selector(selector: &LabelSelector, field: &str, empty: &str) -> Vec<FieldError> {
    if *selector == LabelSelector::default() {
        return vec![FieldError::invalid(field.to_owned(), &as_json(selector), empty)];
    }
    selector_rules(selector, LabelValues::Check, field)
}

/// Validates the thresholds. With groups both may be set, and both apply.
fn thresholds(spec: &Value) -> Vec<FieldError> {
    let (max, min) = (&spec["maxUnavailable"], &spec["minAvailable"]);
    let problem = match (max.is_null(), min.is_null()) {
        (true, true) => Some("no maxUnavailable or minAvailable defined in PodUnavailableBudget"),
        (false, false) if spec["podGroupPolicy"].is_null() => {
            Some("maxUnavailable and minAvailable are mutually exclusive")
        }
        _ => None,
    };
    let problem = problem.map(|message| FieldError::required(THRESHOLDS.to_owned(), message));
    let each = [(max, "spec.maxUnavailable"), (min, "spec.minAvailable")];
    let each = each.into_iter().flat_map(|(value, field)| {
        threshold(value, field).into_iter().chain(out_of_range(value, field))
    });
    problem.into_iter().chain(each).collect()
}

/// Refuses numbers that the schema allows but Go clients cannot read.
fn out_of_range(value: &Value, field: &str) -> Option<FieldError> {
    let Value::Number(n) = value else { return None };
    let is_large = n.as_i64().is_none_or(|n| n > i64::from(i32::MAX));
    is_large.then(|| FieldError::invalid(field.to_owned(), &n.to_string(), INT32))
}

/// Validates the annotation, which counts if the field is empty. Kruise accepts any text in it, and then
/// ignores unknown operations.
fn operations(object: &Value) -> Vec<FieldError> {
    let listed = object["spec"]["protectOperations"].as_array().map_or(&[][..], Vec::as_slice);
    if let ([], Some(text)) = (listed, annotated(object, annotation::PROTECT_OPERATIONS)) {
        let message = format!("annotation[{}] is invalid", annotation::PROTECT_OPERATIONS);
        return (annotation::operations(text).err().into_iter())
            .map(|_| wrong_annotation(annotation::PROTECT_OPERATIONS, text, &message))
            .collect();
    }
    let mut supported: Vec<_> = Operation::ALL.iter().map(|operation| operation.name()).collect();
    supported.sort_unstable();
    (listed.iter().enumerate())
        .filter_map(|(at, name)| Some((at, name.as_str()?)))
        .filter(|(_, name)| Operation::from_name(name).is_none())
        .map(|(at, name)| {
            FieldError::not_supported(format!("spec.protectOperations[{at}]"), name, &supported)
        })
        .collect()
}

/// Validates the total in the annotation. It must be at least 1, as the field: with a total of 0, nothing
/// would be protected.
fn total(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let total = object["spec"]["protectTotalReplicas"].as_i64();
    if let Some(n) = total.filter(|n| *n < 1) {
        let field = "spec.protectTotalReplicas".to_owned();
        errors.push(FieldError::invalid(field, &n.to_string(), AT_LEAST_ONE));
    }
    if let Some(text) = annotated(object, annotation::PROTECT_TOTAL_REPLICAS) {
        let problem = match (annotation::total_replicas(text), total) {
            (Err(_), _) => Some(INT32),
            (Ok(n), Some(total)) if n != total => {
                Some("must match spec.protectTotalReplicas when both are set")
            }
            (Ok(n), None) if n < 1 => Some(AT_LEAST_ONE),
            _ => None,
        };
        errors.extend(
            problem.map(|why| wrong_annotation(annotation::PROTECT_TOTAL_REPLICAS, text, why)),
        );
    }
    errors
}

fn group_policy(groups: &PodGroupPolicy) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let key = "spec.podGroupPolicy.groupLabelKey";
    if groups.group_label_key.is_empty() {
        let message = "podGroupPolicy.groupLabelKey is required";
        errors.push(FieldError::required(key.to_owned(), message));
    } else {
        errors.extend(all(key, &groups.group_label_key, label_key(&groups.group_label_key)));
    }
    if let Some(n) = groups.min_ready_replicas.filter(|n| *n < 1) {
        let field = "spec.podGroupPolicy.minReadyReplicas".to_owned();
        errors.push(FieldError::invalid(field, &n.to_string(), AT_LEAST_ONE));
    }
    errors
}

fn annotated<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

fn wrong_annotation(key: &str, text: &str, message: &str) -> FieldError {
    FieldError::invalid(format!("metadata.annotations[{key}]"), &quote(text), message)
}
