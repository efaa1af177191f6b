//! Creates, updates and patches.

use serde_json::{Value, json};

use super::{Answer, Call};
use crate::fault::Fault;
use crate::resources::{BUDGETS, Target};
use crate::world::{Process, World};

pub fn create(world: &mut World, call: &Call, target: &Target) -> Answer {
    let mut object = call.body.clone();
    let namespace = target.namespace.clone().unwrap_or_default();
    object["metadata"]["namespace"] = json!(namespace);
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if world.store.get(target.kind, &namespace, &name).is_some() {
        return Answer::status(409, "AlreadyExists", "already exists", &name);
    }
    let object = world.create(target.kind, object);
    Answer { code: 201, ..Answer::ok(Value::clone(&object)) }
}

/// An update of the whole object, or of its status.
pub fn replace(
    world: &mut World,
    process: Process,
    call: &Call,
    target: &Target,
    name: &str,
) -> Answer {
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let is_status = target.part.as_deref() == Some("status");
    if is_status && world.hits(Fault::Conflict, process.instance, Some(target.kind)) {
        let number = world.number();
        world.modify(target.kind, namespace, name, |object| {
            object["metadata"]["annotations"]["example.com/touched"] = json!(number.to_string());
        });
    }
    let Some(stored) = world.store.get(target.kind, namespace, name).cloned() else {
        return Answer::not_found(target.kind, name);
    };
    let meta = &call.body["metadata"];
    for field in ["resourceVersion", "uid"] {
        if !meta[field].is_null() && meta[field] != stored["metadata"][field] {
            let message = "the object has been modified; please apply your changes";
            return Answer::status(409, "Conflict", message, name);
        }
    }
    let mut object = Value::clone(&stored);
    if is_status {
        object["status"] = call.body["status"].clone();
    } else {
        for part in ["spec", "webhooks", "status"] {
            if !call.body[part].is_null() {
                object[part] = call.body[part].clone();
            }
        }
        for part in ["labels", "annotations"] {
            object["metadata"][part] = meta[part].clone();
        }
    }
    // An update that changes nothing has no version of its own.
    if object == *stored {
        return Answer::ok(object);
    }
    if is_status && target.kind == &BUDGETS {
        world.judge_write(process, call, &object);
    }
    let object = world.replace(target.kind, object);
    Answer::ok(Value::clone(&object))
}

/// Only Events are patched: a count, and a time.
pub fn patch(world: &mut World, call: &Call, target: &Target, name: &str) -> Answer {
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let Some(stored) = world.store.get(target.kind, namespace, name) else {
        return Answer::not_found(target.kind, name);
    };
    let mut object = Value::clone(stored);
    for (field, value) in call.body.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    let object = world.replace(target.kind, object);
    Answer::ok(Value::clone(&object))
}
