//! Reads parts of a pod or a budget that cannot be decoded as a whole.

use holdfast_core::io::{Kind, Salvaged};
use holdfast_core::model;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::budget::{
    LabelSelector, PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus,
};
use crate::meta::Meta;
use crate::pod::{Pod, PodSpec, PodStatus};
use crate::unavailable::{
    PodUnavailableBudget, PodUnavailableBudgetSpec, PodUnavailableBudgetStatus,
};

/// Returns None for other kinds, and for an object without a readable name.
pub fn salvage(kind: &Kind, json: &[u8]) -> Option<Salvaged> {
    let value: Value = serde_json::from_slice(json).ok()?;
    let metadata = meta(&value)?;
    let spec = value.get("spec");
    Some(match kind {
        Kind::Pod => Salvaged::Pod(pod(metadata, spec)),
        Kind::Budget => {
            let read = part::<PodDisruptionBudgetSpec>(spec);
            let is_whole = read.is_some();
            let (spec_read, status) =
                (read.unwrap_or_default(), PodDisruptionBudgetStatus::default());
            let budget = PodDisruptionBudget { metadata, spec: spec_read, status };
            Salvaged::Budget(with_selector(budget.into(), spec, is_whole))
        }
        Kind::UnavailableBudget => {
            let read = part::<PodUnavailableBudgetSpec>(spec);
            let is_whole = read.is_some();
            let (spec_read, status) =
                (read.unwrap_or_default(), PodUnavailableBudgetStatus::default());
            let budget = PodUnavailableBudget { metadata, spec: spec_read, status };
            Salvaged::Budget(with_selector(budget.into(), spec, is_whole))
        }
        _ => return None,
    })
}

/// Reads the selector if the spec as a whole cannot be read. Without a readable selector the budget selects
/// every pod.
fn with_selector(mut budget: model::Budget, spec: Option<&Value>, is_whole: bool) -> model::Budget {
    if !is_whole {
        let selector = spec.and_then(|spec| spec.get("selector")).filter(|s| s.is_object());
        let selector = part::<LabelSelector>(selector);
        budget.spec.selector = Some(selector.map(Into::into).unwrap_or_default());
    }
    budget
}

/// Reads the group that the spec names, if possible.
fn pod(metadata: Meta, spec: Option<&Value>) -> model::Pod {
    let text = json!(spec).to_string();
    let spec = serde_json::from_str::<Option<PodSpec<'_>>>(&text).ok().flatten();
    let spec = spec.unwrap_or_default();
    Pod { metadata, spec, status: PodStatus::default() }.into()
}

/// Reads name, namespace, uid, version and labels.
fn meta(value: &Value) -> Option<Meta> {
    let metadata = value.get("metadata")?;
    if let Some(meta) = part::<Meta>(Some(metadata)) {
        return Some(meta);
    }
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).map(str::to_owned);
    let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    Some(Meta {
        name: text("name")?,
        namespace: text("namespace").unwrap_or_default(),
        uid: text("uid").unwrap_or_default(),
        resource_version: text("resourceVersion").unwrap_or_default(),
        labels: labels.collect(),
        terminating: metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null()),
        ..Meta::default()
    })
}

/// Returns None if the part is absent or cannot be read.
fn part<T: DeserializeOwned>(value: Option<&Value>) -> Option<T> {
    value.and_then(|value| T::deserialize(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector_of(kind: &Kind, json: &str) -> Option<model::LabelSelector> {
        match salvage(kind, json.as_bytes()) {
            Some(Salvaged::Budget(budget)) => budget.spec.selector,
            other => panic!("{json}: {other:?}"),
        }
    }

    #[test]
    fn a_selector_is_read_although_the_rest_of_the_budget_cannot_be() {
        let of_app = Some(model::LabelSelector {
            match_labels: [("app".to_owned(), "x".to_owned())].into(),
            ..model::LabelSelector::default()
        });
        let everything = Some(model::LabelSelector::default());
        for kind in [Kind::Budget, Kind::UnavailableBudget] {
            for (spec, expected) in [
                (r#"{"selector":{"matchLabels":{"app":"x"}}}"#, &of_app),
                (
                    r#"{"unhealthyPodEvictionPolicy":7,"protectOperations":7,"selector":{"matchLabels":{"app":"x"}}}"#,
                    &of_app,
                ),
                (r#"{"unhealthyPodEvictionPolicy":7,"protectOperations":7}"#, &everything),
                (r#"{"selector":{"matchLabels":{"app":7}}}"#, &everything),
                (r#"{"selector":"app=x"}"#, &everything),
                (r#""garbled""#, &everything),
            ] {
                let json = format!(
                    r#"{{"metadata":{{"name":"b","namespace":"n","uid":"u","resourceVersion":"5"}},
                        "spec":{spec},"status":7}}"#
                );
                assert_eq!(selector_of(&kind, &json), *expected, "{json}");
            }
            let json = r#"{"metadata":{"name":"b","namespace":"n"}}"#;
            assert_eq!(selector_of(&kind, json), everything, "a spec that is not there");
        }
    }

    #[test]
    fn a_pod_keeps_its_labels_and_its_group_and_is_not_ready() {
        let json = r#"{"metadata":{"name":"p","namespace":"n","uid":"u","labels":{"app":"x"},"finalizers":7},
            "spec":{"schedulingGroup":{"podGroupName":"g"}},
            "status":{"phase":"Running","conditions":7}}"#;
        let Some(Salvaged::Pod(pod)) = salvage(&Kind::Pod, json.as_bytes()) else {
            panic!("{json}")
        };
        assert_eq!((pod.key.to_string().as_str(), pod.uid.as_str()), ("n/p", "u"));
        assert_eq!(pod.labels["app"], "x");
        assert_eq!(pod.reference, Some(model::GroupReference::PodGroup { name: "g".to_owned() }));
        assert!(!pod.ready);
        assert!(salvage(&Kind::Pod, b"{}").is_none());
    }
}
