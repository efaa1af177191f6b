//! The words that differ between `policy/v1` and the CRD that stores it.

use serde_json::Value;

use holdfast_api::budget::{API_VERSION as STORED, GROUP as STORED_GROUP};

use crate::install::IMPORTED;

pub const SERVED: &str = "policy/v1";
pub const SERVED_GROUP: &str = "policy";

/// An object, a list or a Status of the CRD, as its reader knows it.
pub fn served(value: &mut Value) {
    if value["kind"] == "Status" {
        serve_status(value);
        return;
    }
    serve_object(value);
    if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(serve_object);
    }
}

fn serve_object(object: &mut Value) {
    hide_mark(object);
    rename_if_there(object, STORED, SERVED);
    rename_managed(object, STORED, SERVED);
}

/// An object that a client wrote, as the CRD takes it.
pub fn stored(object: &mut Value) {
    if !object.is_object() {
        return;
    }
    rename_if_there(object, SERVED, STORED);
    rename_managed(object, SERVED, STORED);
}

/// A sentence of the API server's: a message, a warning.
pub fn served_text(text: &str) -> String {
    text.replace(STORED_GROUP, SERVED_GROUP)
}

/// Ours alone, for an hour, and nothing that a reader could use.
fn hide_mark(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return;
    };
    if annotations.remove(IMPORTED).is_some() && annotations.is_empty() {
        metadata.remove("annotations");
    }
}

fn serve_status(status: &mut Value) {
    reword(status, "message");
    let Some(details) = status.get_mut("details") else { return };
    if let Some(group) = details.get_mut("group") {
        rename(group, STORED_GROUP, SERVED_GROUP);
    }
    if let Some(causes) = details.get_mut("causes").and_then(Value::as_array_mut) {
        for cause in causes {
            reword(cause, "message");
        }
    }
}

fn reword(object: &mut Value, key: &str) {
    if let Some(Value::String(text)) = object.get_mut(key) {
        *text = served_text(text);
    }
}

fn rename_managed(object: &mut Value, from: &str, to: &str) {
    let Some(metadata) = object.get_mut("metadata") else { return };
    let Some(managed) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) else {
        return;
    };
    for entry in managed {
        rename_if_there(entry, from, to);
    }
}

fn rename_if_there(object: &mut Value, from: &str, to: &str) {
    if let Some(version) = object.get_mut("apiVersion") {
        rename(version, from, to);
    }
}

fn rename(text: &mut Value, from: &str, to: &str) {
    if text == from {
        *text = Value::from(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_and_lists_change_their_version() {
        let object = |version: &str| {
            json!({"apiVersion": version, "kind": "PodDisruptionBudget",
                "metadata": {"name": "b", "managedFields": [{"apiVersion": version}, {"apiVersion": "v1"}]}})
        };
        let mut list = json!({"apiVersion": STORED, "kind": "PodDisruptionBudgetList",
            "items": [object(STORED)]});
        served(&mut list);
        let expected = json!({"apiVersion": SERVED, "kind": "PodDisruptionBudgetList",
            "items": [object(SERVED)]});
        assert_eq!(list, expected);
        let mut back = object(SERVED);
        stored(&mut back);
        assert_eq!(back, object(STORED));
    }

    #[test]
    fn sentences_name_the_group_that_was_asked() {
        let mut status = json!({"kind": "Status", "code": 404,
            "message": "poddisruptionbudgets.policy.holdfast.dev \"b\" not found",
            "details": {"name": "b", "group": "policy.holdfast.dev"}});
        served(&mut status);
        assert_eq!(status["message"], "poddisruptionbudgets.policy \"b\" not found");
        assert_eq!(status["details"], json!({"name": "b", "group": "policy"}));
        let mut plain = json!({"kind": "Status", "status": "Success"});
        served(&mut plain);
        assert_eq!(plain, json!({"kind": "Status", "status": "Success"}));
    }
}
