//! Reads fields of objects.

use std::collections::BTreeMap;

use serde_json::Value;

pub fn name(object: &Value) -> String {
    text(&object["metadata"]["name"]).to_owned()
}

pub fn is_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == kind && c["status"] == "True")
}

/// Returns the `PodGroup` that a pod names, in any shape.
pub fn group_of(pod: &Value) -> Option<&str> {
    let named = pod["spec"]["schedulingGroup"]["podGroupName"].as_str();
    named.or_else(|| pod["metadata"]["annotations"]["holdfast.dev/pod-group"].as_str())
}

/// Returns the versions by name.
pub(crate) fn versions<'a>(
    objects: impl IntoIterator<Item = &'a Value>,
) -> BTreeMap<String, String> {
    let version = |object: &Value| text(&object["metadata"]["resourceVersion"]).to_owned();
    objects.into_iter().map(|object| (name(object), version(object))).collect()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
