//! Lists in a strategic merge patch: which elements are the same, and the order of the result.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    ListStrategy, Node, PATCH, StrategicError, drop_nulls, merge_map, unknown_directive,
    without_directives,
};

pub(super) fn merge(
    current: Vec<Value>,
    patch: Vec<Value>,
    strategy: &ListStrategy,
    path: &str,
) -> Result<Vec<Value>, StrategicError> {
    match strategy {
        ListStrategy::Replace => Ok(patch.into_iter().map(drop_nulls).collect()),
        _ => merge_elements(current, patch, strategy, path),
    }
}

/// Applies `$deleteFromPrimitiveList`, which compares values whatever the strategy of the list is.
pub(super) fn delete(
    current: Vec<Value>,
    patch: Vec<Value>,
    strategy: &ListStrategy,
    path: &str,
) -> Result<Vec<Value>, StrategicError> {
    if elements([&current, &patch], path)? == Elements::Objects {
        return merge_elements(current, patch, strategy, path);
    }
    let gone: HashSet<_> = patch.iter().map(Value::to_string).collect();
    Ok(current.into_iter().filter(|element| !gone.contains(&element.to_string())).collect())
}

/// Merges with `$setElementOrder`: its elements come in its order, among elements that only the live object
/// has.
pub(super) fn merge_ordered(
    current: Option<Vec<Value>>,
    patch: Option<Vec<Value>>,
    order: &[Value],
    strategy: &ListStrategy,
    path: &str,
) -> Result<Vec<Value>, StrategicError> {
    let identity = Identity::of(strategy);
    let live = current.clone().unwrap_or_default();
    if let Some(patch) = &patch {
        check_order(patch, order, identity, path)?;
    }
    let merged = match (current, patch) {
        (Some(current), Some(patch)) => merge(current, patch, strategy, path)?,
        (Some(current), None) => current,
        (None, patch) => {
            let added = patch.unwrap_or_default().into_iter().map(drop_nulls);
            added.filter_map(without_directives).collect()
        }
    };
    arrange(merged, order, &live, identity, path)
}

#[derive(PartialEq, Eq)]
enum Elements {
    Scalars,
    Objects,
}

/// How elements are compared: by their whole value, or by one field.
#[derive(Clone, Copy)]
struct Identity(Option<&'static str>);

impl Identity {
    fn of(strategy: &ListStrategy) -> Self {
        match strategy {
            ListStrategy::MergeBy(key) => Self(Some(key)),
            ListStrategy::MergeScalars | ListStrategy::Replace => Self(None),
        }
    }

    fn get(self, element: &Value, path: &str) -> Result<String, StrategicError> {
        match self.0 {
            None => Ok(element.to_string()),
            Some(key) => element
                .get(key)
                .map(Value::to_string)
                .ok_or_else(|| StrategicError::MergeKey { field: path.to_owned(), key }),
        }
    }

    /// Returns the first position of each element.
    fn positions(
        self,
        list: &[Value],
        path: &str,
    ) -> Result<HashMap<String, usize>, StrategicError> {
        let mut positions = HashMap::new();
        for (at, element) in list.iter().enumerate() {
            positions.entry(self.get(element, path)?).or_insert(at);
        }
        Ok(positions)
    }
}

fn merge_elements(
    current: Vec<Value>,
    patch: Vec<Value>,
    strategy: &ListStrategy,
    path: &str,
) -> Result<Vec<Value>, StrategicError> {
    let identity = Identity::of(strategy);
    let (live, order, merged) = match (elements([&current, &patch], path)?, identity.0) {
        (Elements::Objects, None) => {
            return Err(StrategicError::NoMergeKey { field: path.to_owned() });
        }
        (Elements::Objects, Some(key)) => {
            let (live, patch) = direct(current, patch, key, path)?;
            let merged = merge_objects(live.clone(), patch.clone(), identity, path)?;
            (live, patch, merged)
        }
        (Elements::Scalars, _) => {
            let mut seen = HashSet::new();
            let both = current.iter().chain(&patch).cloned();
            let merged = both.filter(|element| seen.insert(element.to_string())).collect();
            (current, patch, merged)
        }
    };
    arrange(merged, &order, &live, identity, path)
}

fn elements(lists: [&[Value]; 2], path: &str) -> Result<Elements, StrategicError> {
    let mut all = lists.into_iter().flatten();
    let Some(first) = all.next() else { return Ok(Elements::Scalars) };
    let kind = std::mem::discriminant(first);
    if first.is_array() || all.any(|element| std::mem::discriminant(element) != kind) {
        return Err(StrategicError::Elements { field: path.to_owned() });
    }
    Ok(if first.is_object() { Elements::Objects } else { Elements::Scalars })
}

/// Applies the `$patch` directives among the elements. Returns the list to merge into and the elements to
/// merge.
fn direct(
    mut current: Vec<Value>,
    patch: Vec<Value>,
    key: &'static str,
    path: &str,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    let mut replace = false;
    let mut gone = HashSet::new();
    let mut plain = Vec::new();
    for element in patch {
        match element.get(PATCH).map(|directive| directive.as_str().ok_or(directive)) {
            None => plain.push(element),
            Some(Ok("replace")) => replace = true,
            Some(Ok("delete")) => {
                gone.insert(Identity(Some(key)).get(&element, path)?);
            }
            Some(_) => return Err(unknown_directive(path, &element[PATCH])),
        }
    }
    if replace {
        return Ok((plain.into_iter().map(drop_nulls).collect(), Vec::new()));
    }
    current.retain(|element| element.get(key).is_none_or(|id| !gone.contains(&id.to_string())));
    Ok((current, plain))
}

fn merge_objects(
    mut merged: Vec<Value>,
    patch: Vec<Value>,
    identity: Identity,
    path: &str,
) -> Result<Vec<Value>, StrategicError> {
    let mut positions = identity.positions(&merged, path)?;
    for element in patch {
        let id = identity.get(&element, path)?;
        if let Some(slot) = positions.get(&id).and_then(|at| merged.get_mut(*at)) {
            if let (Value::Object(old), Value::Object(new)) = (slot.take(), element) {
                *slot = Value::Object(merge_map(old, new, Node::Other, path)?);
            }
        } else {
            positions.insert(id, merged.len());
            merged.push(drop_nulls(element));
        }
    }
    Ok(merged)
}

/// Puts the elements of `order` into that order. Each other element keeps its place before the first such
/// element that followed it in the live list.
fn arrange(
    merged: Vec<Value>,
    order: &[Value],
    live: &[Value],
    identity: Identity,
    path: &str,
) -> Result<Vec<Value>, StrategicError> {
    let order = identity.positions(order, path)?;
    let live = identity.positions(live, path)?;
    let mut named = Vec::new();
    let mut others = Vec::new();
    for element in merged {
        let id = identity.get(&element, path)?;
        let live_at = live.get(&id).copied();
        match order.get(&id) {
            Some(at) => named.push((*at, live_at, element)),
            None => others.push((live_at, element)),
        }
    }
    named.sort_by_key(|(at, ..)| *at);
    others.sort_by_key(|(live_at, _)| *live_at);

    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, live_at, element) in named {
        let before = |(other_at, _): &(Option<usize>, Value)| {
            other_at.zip(live_at).is_some_and(|(other, this)| other < this)
        };
        while let Some((_, other)) = others.next_if(before) {
            arranged.push(other);
        }
        arranged.push(element);
    }
    arranged.extend(others.map(|(_, element)| element));
    Ok(arranged)
}

/// Checks that every element of the patch is in `order`, in the same order.
fn check_order(
    patch: &[Value],
    order: &[Value],
    identity: Identity,
    path: &str,
) -> Result<(), StrategicError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for element in patch.iter().filter(|element| element.get(PATCH).is_none()) {
        let id = identity.get(element, path)?;
        loop {
            let Some(next) = rest.next() else {
                return Err(StrategicError::Order { field: path.to_owned() });
            };
            if identity.get(next, path)? == id {
                break;
            }
        }
    }
    Ok(())
}
