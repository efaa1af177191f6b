//! Strategic merge patch. `kubectl apply`, `edit`, `patch` and `label` send it for built-in kinds. An API server
//! refuses it for custom resources.
//!
//! Objects merge field by field, and `null` deletes. The kind defines how a list merges, and whether an object is
//! replaced instead: [`Node`] has the rules of a `PodDisruptionBudget`. Directives in the patch can change them.
//! The results are those of apimachinery's `strategicpatch`, with two exceptions. This code drops a `null` that
//! apimachinery leaves to its Go types. And a list in which one patch both deletes and orders elements keeps the
//! live order, which Go overwrites on the way.

mod list;

use serde_json::{Map, Value};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    #[error("{field}: expected {expected}, found {found}")]
    Type { field: String, expected: &'static str, found: &'static str },
    #[error("{field}: unknown patch type {value}")]
    Directive { field: String, value: String },
    #[error("{field}: the directive {directive} names no field")]
    Unnamed { field: String, directive: String },
    #[error("{field}: an element does not contain the merge key {key}")]
    MergeKey { field: String, key: &'static str },
    #[error("{field}: the elements of the list are not of one type, or are lists themselves")]
    Elements { field: String },
    #[error("{field}: objects cannot be merged into a list without a merge key")]
    NoMergeKey { field: String },
    #[error("{field}: set by the patch but not in its $retainKeys")]
    RetainKeys { field: String },
    #[error("{field}: the order in the patch does not match its $setElementOrder")]
    Order { field: String },
}

/// Returns `current` with `patch` applied.
pub fn merge(current: &Value, patch: &Value) -> Result<Value, StrategicError> {
    let mut current = object(current.clone(), "")?;
    let added: Vec<_> = ["metadata", "spec", "status"]
        .into_iter()
        .filter(|part| !current.contains_key(*part))
        .collect();
    // Go's types always have these fields. Without them, directives inside would have no object to change.
    for part in &added {
        current.insert((*part).to_owned(), Value::Object(Map::new()));
    }
    let mut merged = merge_map(current, object(patch.clone(), "")?, Node::Root, "")?;
    for part in added {
        if merged.get(part).and_then(Value::as_object).is_some_and(Map::is_empty) {
            merged.remove(part);
        }
    }
    Ok(Value::Object(merged))
}

/// A place in the object with its patch strategy.
#[derive(Clone, Copy)]
enum Node {
    Root,
    Metadata,
    Spec,
    Status,
    Other,
}

enum ListStrategy {
    Replace,
    MergeScalars,
    MergeBy(&'static str),
}

impl Node {
    fn child(self, key: &str) -> Self {
        match (self, key) {
            (Self::Root, "metadata") => Self::Metadata,
            (Self::Root, "spec") => Self::Spec,
            (Self::Root, "status") => Self::Status,
            _ => Self::Other,
        }
    }

    fn replaces_object(self, key: &str) -> bool {
        matches!((self, key), (Self::Spec, "selector"))
    }

    fn list_strategy(self, key: &str) -> ListStrategy {
        match (self, key) {
            (Self::Metadata, "ownerReferences") => ListStrategy::MergeBy("uid"),
            (Self::Metadata, "finalizers") => ListStrategy::MergeScalars,
            (Self::Status, "conditions") => ListStrategy::MergeBy("type"),
            _ => ListStrategy::Replace,
        }
    }
}

fn merge_map(
    mut current: Map<String, Value>,
    mut patch: Map<String, Value>,
    node: Node,
    path: &str,
) -> Result<Map<String, Value>, StrategicError> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(without_nulls(patch)),
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(path, &directive)),
        };
    }
    if let Some(retain) = patch.remove(RETAIN_KEYS) {
        retain_keys(&mut current, &patch, retain, path)?;
    }
    set_order(&mut current, &mut patch, node, path)?;
    for (key, value) in patch {
        match field_of(&key, DELETE_FROM_LIST, path)? {
            Some(field) => delete_from_list(&mut current, field, value, node, path)?,
            None => merge_field(&mut current, key, value, node, path)?,
        }
    }
    Ok(current)
}

fn merge_field(
    current: &mut Map<String, Value>,
    key: String,
    patch: Value,
    node: Node,
    path: &str,
) -> Result<(), StrategicError> {
    let at = join(path, &key);
    let merged = match (current.remove(&key), patch) {
        (_, Value::Null) => None,
        (Some(Value::Object(_)), Value::Object(patch)) if node.replaces_object(&key) => {
            Some(Value::Object(without_nulls(patch)))
        }
        (Some(Value::Object(old)), Value::Object(patch)) => {
            Some(Value::Object(merge_map(old, patch, node.child(&key), &at)?))
        }
        (Some(Value::Array(old)), Value::Array(patch)) => {
            Some(Value::Array(list::merge(old, patch, &node.list_strategy(&key), &at)?))
        }
        (_, patch) => without_directives(drop_nulls(patch)),
    };
    if let Some(merged) = merged {
        current.insert(key, merged);
    }
    Ok(())
}

fn delete_from_list(
    current: &mut Map<String, Value>,
    field: &str,
    patch: Value,
    node: Node,
    path: &str,
) -> Result<(), StrategicError> {
    match (current.get_mut(field), patch) {
        // Probably nobody intended this, but Kubernetes does it.
        (_, Value::Null) => {
            current.remove(field);
        }
        (Some(Value::Array(list)), Value::Array(patch)) => {
            let strategy = node.list_strategy(field);
            *list = list::delete(std::mem::take(list), patch, &strategy, &join(path, field))?;
        }
        _ => {}
    }
    Ok(())
}

/// Drops the fields that the list does not name. The patch may not set other fields either.
fn retain_keys(
    current: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    retain: Value,
    path: &str,
) -> Result<(), StrategicError> {
    let retain = array(retain, &join(path, RETAIN_KEYS))?;
    let retained = |key: &String| retain.iter().any(|name| name.as_str() == Some(key));
    let stray = patch.iter().find(|(key, value)| {
        let directive = key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
        !value.is_null() && !directive && !retained(key)
    });
    if let Some((key, _)) = stray {
        return Err(StrategicError::RetainKeys { field: join(path, key) });
    }
    current.retain(|key, _| retained(key));
    Ok(())
}

/// Merges the lists for which the patch has a `$setElementOrder`, and removes them from the patch.
fn set_order(
    current: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    node: Node,
    path: &str,
) -> Result<(), StrategicError> {
    let directives: Vec<_> = patch.keys().filter(|k| k.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = array(patch.remove(&directive).unwrap_or_default(), &join(path, &directive))?;
        let Some(field) = field_of(&directive, SET_ORDER, path)? else { continue };
        let at = join(path, field);
        let old = current.remove(field).map(|list| array(list, &at)).transpose()?;
        let new = patch.remove(field).map(|list| array(list, &at)).transpose()?;
        if old.is_none() && new.is_none() {
            continue;
        }
        let ordered = list::merge_ordered(old, new, &order, &node.list_strategy(field), &at)?;
        current.insert(field.to_owned(), Value::Array(ordered));
    }
    Ok(())
}

/// Returns the field of a key such as `$setElementOrder/finalizers`, or None for another key.
fn field_of<'a>(
    key: &'a str,
    directive: &str,
    path: &str,
) -> Result<Option<&'a str>, StrategicError> {
    match key.strip_prefix(directive).map(|rest| rest.strip_prefix('/')) {
        None => Ok(None),
        Some(Some(field)) => Ok(Some(field)),
        Some(None) => {
            Err(StrategicError::Unnamed { field: display(path), directive: key.to_owned() })
        }
    }
}

/// Prepares a new value: an object with a directive is dropped, because there is nothing to change.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter()
                .filter_map(|(key, value)| Some((key, without_directives(value)?)))
                .collect(),
        )),
        Value::Array(list) => {
            Some(Value::Array(list.into_iter().filter_map(without_directives).collect()))
        }
        other => Some(other),
    }
}

fn without_nulls(map: Map<String, Value>) -> Map<String, Value> {
    map.into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key, drop_nulls(value)))
        .collect()
}

fn drop_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(without_nulls(map)),
        Value::Array(list) => Value::Array(list.into_iter().map(drop_nulls).collect()),
        other => other,
    }
}

fn object(value: Value, field: &str) -> Result<Map<String, Value>, StrategicError> {
    match value {
        Value::Object(map) => Ok(map),
        other => Err(wrong_type(field, "an object", &other)),
    }
}

fn array(value: Value, field: &str) -> Result<Vec<Value>, StrategicError> {
    match value {
        Value::Array(list) => Ok(list),
        other => Err(wrong_type(field, "a list", &other)),
    }
}

fn wrong_type(field: &str, expected: &'static str, found: &Value) -> StrategicError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    StrategicError::Type { field: display(field), expected, found }
}

fn unknown_directive(field: &str, value: &Value) -> StrategicError {
    StrategicError::Directive { field: display(field), value: value.to_string() }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn display(path: &str) -> String {
    if path.is_empty() { "patch".to_owned() } else { path.to_owned() }
}

#[cfg(test)]
mod tests;
