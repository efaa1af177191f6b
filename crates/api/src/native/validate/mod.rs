//! The rules for a `PodDisruptionBudget` of `policy/v1`, with the messages of an API server. The CRD's schema also
//! enforces most of them, but with other messages. Tools and people know the messages here.
//!
//! The rules ignore values of a wrong JSON type: an API server fails to decode them first. The rules for `metadata`
//! are the same for every kind, so the API server checks them.

mod error;
mod syntax;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use error::{FieldError, Reason, invalid};
pub(crate) use syntax::subdomain;

pub(crate) use error::{aggregate, as_json, quote};
pub(crate) use syntax::label_key;

use crate::budget::{LabelSelector, Requirement};

const NEGATIVE: &str = "must be greater than or equal to 0";
const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;

pub fn create(object: &Value) -> Vec<FieldError> {
    spec(&object["spec"], LabelValues::Check)
}

/// Validates an update. A selector that was invalid before may keep its invalid label values, otherwise the
/// budget could not be changed at all.
pub fn update(object: &Value, old: &Value) -> Vec<FieldError> {
    let was_invalid = read_selector(&old["spec"])
        .is_some_and(|old| !selector(&old, LabelValues::Check, "").is_empty());
    spec(&object["spec"], if was_invalid { LabelValues::Tolerate } else { LabelValues::Check })
}

/// Validates an update of `/status`, which ignores the spec.
pub fn status_update(object: &Value) -> Vec<FieldError> {
    let status = &object["status"];
    let mut errors = conditions(&status["conditions"], "status.conditions");
    for field in [
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
        "disruptionsAllowedReplicas",
        "currentHealthyReplicas",
        "desiredHealthyReplicas",
        "expectedReplicas",
    ] {
        if let Some(n) = status[field].as_i64().filter(|n| *n < 0) {
            errors.push(FieldError::invalid(format!("status.{field}"), &n.to_string(), NEGATIVE));
        }
    }
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelValues {
    Check,
    Tolerate,
}

fn spec(spec: &Value, values: LabelValues) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (min, max) = (&spec["minAvailable"], &spec["maxUnavailable"]);
    if !min.is_null() && !max.is_null() {
        errors.push(FieldError::invalid(
            "spec".to_owned(),
            &as_json(&InternalSpec::from(spec)),
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
    errors.extend(threshold(min, "spec.minAvailable"));
    errors.extend(threshold(max, "spec.maxUnavailable"));
    if let Some(read) = read_selector(spec) {
        errors.extend(selector(&read, values, "spec.selector"));
    }
    for (field, supported) in [
        ("unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"][..]),
        ("budgetScope", &["Pod", "PodGroup", "Workload"]),
    ] {
        if let Some(value) = spec[field].as_str().filter(|value| !supported.contains(value)) {
            errors.push(FieldError::not_supported(format!("spec.{field}"), value, supported));
        }
    }
    errors
}

/// The spec as Go prints it. Its internal type has no JSON names, so Go prints the names of its fields.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct InternalSpec<'a> {
    min_available: &'a Value,
    selector: Option<LabelSelector>,
    max_unavailable: &'a Value,
    unhealthy_pod_eviction_policy: &'a Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    budget_scope: &'a Value,
}

impl<'a> From<&'a Value> for InternalSpec<'a> {
    fn from(spec: &'a Value) -> Self {
        Self {
            min_available: &spec["minAvailable"],
            selector: read_selector(spec),
            max_unavailable: &spec["maxUnavailable"],
            unhealthy_pod_eviction_policy: &spec["unhealthyPodEvictionPolicy"],
            budget_scope: &spec["budgetScope"],
        }
    }
}

pub(crate) fn threshold(value: &Value, field: &str) -> Option<FieldError> {
    match value {
        Value::Number(n) => n
            .as_i64()
            .filter(|n| *n < 0)
            .map(|n| FieldError::invalid(field.to_owned(), &n.to_string(), NEGATIVE)),
        Value::String(text) => syntax::percent(text)
            .map(|message| FieldError::invalid(field.to_owned(), &as_json(text), &message)),
        _ => None,
    }
}

fn read_selector(spec: &Value) -> Option<LabelSelector> {
    LabelSelector::deserialize(&spec["selector"]).ok()
}

pub(crate) fn selector(
    selector: &LabelSelector,
    values: LabelValues,
    field: &str,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let labels = format!("{field}.matchLabels");
    for (key, value) in &selector.match_labels {
        errors.extend(all(&labels, key, syntax::label_key(key)));
        errors.extend(all(&labels, value, syntax::label_value(value)));
    }
    for (at, expression) in selector.match_expressions.iter().enumerate() {
        errors.extend(requirement(expression, values, &format!("{field}.matchExpressions[{at}]")));
    }
    errors
}

fn requirement(expression: &Requirement, values: LabelValues, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match expression.operator.as_str() {
        "In" | "NotIn" if expression.values.is_empty() => errors.push(FieldError::required(
            format!("{field}.values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !expression.values.is_empty() => {
            errors.push(FieldError::forbidden(
                format!("{field}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.push(FieldError::invalid(
            format!("{field}.operator"),
            &as_json(&other),
            "not a valid selector operator",
        )),
    }
    errors.extend(all(
        &format!("{field}.key"),
        &expression.key,
        syntax::label_key(&expression.key),
    ));
    if values == LabelValues::Check {
        for (at, value) in expression.values.iter().enumerate() {
            errors.extend(all(&format!("{field}.values[{at}]"), value, syntax::label_value(value)));
        }
    }
    errors
}

fn conditions(list: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut types = HashSet::new();
    for (at, value) in list.as_array().into_iter().flatten().enumerate() {
        let field = format!("{field}[{at}]");
        let kind = value["type"].as_str().unwrap_or_default();
        if !types.insert(kind) {
            errors.push(FieldError::duplicate(field.clone(), kind));
        }
        errors.extend(condition(value, &field));
    }
    errors
}

fn condition(condition: &Value, field: &str) -> Vec<FieldError> {
    let text = |name: &str| condition[name].as_str().unwrap_or_default();
    let at = |name: &str| format!("{field}.{name}");
    let mut errors = Vec::new();
    match text("type") {
        "" => errors.push(FieldError::required(at("type"), "is required")),
        kind => errors.extend(all(&at("type"), kind, syntax::label_key(kind))),
    }
    match text("status") {
        "" => errors.push(FieldError::required(at("status"), "")),
        "True" | "False" | "Unknown" => {}
        other => errors.push(FieldError::not_supported(
            at("status"),
            other,
            &["False", "True", "Unknown"],
        )),
    }
    if let Some(n) = condition["observedGeneration"].as_i64().filter(|n| *n < 0) {
        errors.push(FieldError::invalid(
            at("observedGeneration"),
            &n.to_string(),
            "must be greater than or equal to zero",
        ));
    }
    // Go's zero time counts as absent.
    if matches!(text("lastTransitionTime"), "" | "0001-01-01T00:00:00Z") {
        errors.push(FieldError::required(at("lastTransitionTime"), ""));
    }
    let reason = text("reason");
    if reason.is_empty() {
        errors.push(FieldError::required(at("reason"), ""));
    } else {
        errors.extend(all(&at("reason"), reason, syntax::condition_reason(reason)));
        errors.extend(too_long(at("reason"), reason, REASON_BYTES_MAX));
    }
    errors.extend(too_long(at("message"), text("message"), MESSAGE_BYTES_MAX));
    errors
}

fn too_long(field: String, text: &str, bytes_max: usize) -> Option<FieldError> {
    (text.len() > bytes_max).then(|| FieldError::too_long(field, bytes_max))
}

/// Returns one error for each problem of a text.
pub(crate) fn all(
    field: &str,
    text: &str,
    messages: impl IntoIterator<Item = String>,
) -> impl Iterator<Item = FieldError> {
    messages
        .into_iter()
        .map(move |message| FieldError::invalid(field.to_owned(), &quote(text), &message))
}

#[cfg(test)]
mod tests;
