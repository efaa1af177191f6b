//! Compares the specs of a pod before and after an update. Any change may restart a container, except a
//! change of resources that the kubelet applies in place.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::quantity;

/// Two different specs.
pub(super) struct Change {
    old: Value,
    new: Value,
}

/// Returns None if the specs are equal. The API server writes both in the same way, so equal specs mostly
/// have equal texts.
pub(super) fn spec(old: Option<&RawValue>, new: Option<&RawValue>) -> Option<Change> {
    let (old, new) = (old.map_or("null", RawValue::get), new.map_or("null", RawValue::get));
    if old == new {
        return None;
    }
    let read = |text| serde_json::from_str::<Value>(text).unwrap_or_default();
    let change = Change { old: read(old), new: read(new) };
    (change.old != change.new).then_some(change)
}

impl Change {
    /// Returns true if only cpu and memory of containers have changed, no container restarts for it, and the
    /// pod keeps its class.
    pub(super) fn is_resize(&self) -> bool {
        without_resources(&self.old) == without_resources(&self.new)
            && Class::of(&self.old) == Class::of(&self.new)
            && containers(&self.old)
                .zip(containers(&self.new))
                .filter(|(old, new)| old["resources"] != new["resources"])
                .all(|(old, new)| {
                    !restarts(new) && is_compute(&old["resources"], &new["resources"])
                })
    }
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    spec["containers"].as_array().into_iter().flatten()
}

fn without_resources(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        if let Value::Object(fields) = container {
            fields.remove("resources");
        }
    }
    spec
}

fn restarts(container: &Value) -> bool {
    let policies = container["resizePolicy"].as_array().into_iter().flatten();
    policies.into_iter().any(|policy| policy["restartPolicy"] != "NotRequired")
}

/// Returns true if only cpu and memory differ.
fn is_compute(old: &Value, new: &Value) -> bool {
    let rest = |resources: &Value| {
        let mut rest = resources.as_object().cloned().unwrap_or_default();
        for part in ["requests", "limits"] {
            let mut amounts = match rest.remove(part) {
                Some(Value::Object(amounts)) => amounts,
                _ => Map::new(),
            };
            amounts.retain(|name, _| !COMPUTE.contains(&name.as_str()));
            rest.insert(part.to_owned(), Value::Object(amounts));
        }
        rest
    };
    rest(old) == rest(new)
}

const COMPUTE: &[&str] = &["cpu", "memory"];

/// The quality of service class of a pod.
#[derive(Debug, PartialEq, Eq)]
enum Class {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl Class {
    fn of(spec: &Value) -> Self {
        // If the pod as a whole has resources, they count instead of those of its containers.
        let whole = &spec["resources"];
        let init = spec["initContainers"].as_array().into_iter().flatten();
        let all: Vec<_> = if has_any(whole) {
            vec![whole]
        } else {
            containers(spec).chain(init).map(|container| &container["resources"]).collect()
        };
        if !all.iter().any(|resources| has_any(resources)) {
            Self::BestEffort
        } else if all.iter().all(|resources| is_guaranteed(resources)) {
            Self::Guaranteed
        } else {
            Self::Burstable
        }
    }
}

fn has_any(resources: &Value) -> bool {
    let parts = [&resources["requests"], &resources["limits"]];
    COMPUTE.iter().any(|name| parts.iter().any(|part| amount(part, name).is_some()))
}

/// Returns true if requests equal limits. A missing request equals the limit.
fn is_guaranteed(resources: &Value) -> bool {
    COMPUTE.iter().all(|name| {
        amount(&resources["limits"], name).is_some_and(|limit| {
            amount(&resources["requests"], name)
                .is_none_or(|request| quantity::same(&request, &limit))
        })
    })
}

/// Returns the amount, or None if it is zero.
fn amount(part: &Value, name: &str) -> Option<String> {
    let text = match &part[name] {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!quantity::same(&text, "0")).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Change, Class};

    fn one(resources: &Value) -> Value {
        json!({"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": resources}]})
    }

    #[test]
    fn classes() {
        for (resources, expected) in [
            (json!({}), Class::BestEffort),
            (Value::Null, Class::BestEffort),
            (json!({"requests": {"cpu": "0"}}), Class::BestEffort),
            (json!({"requests": {"example.com/gpu": "1"}}), Class::BestEffort),
            (json!({"requests": {"cpu": "1"}}), Class::Burstable),
            (json!({"limits": {"cpu": "1"}}), Class::Burstable),
            (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), Class::Guaranteed),
            (
                json!({"limits": {"cpu": "1", "memory": "1Gi"},
                    "requests": {"cpu": "1000m", "memory": "1024Mi"}}),
                Class::Guaranteed,
            ),
            (
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1m"}}),
                Class::Burstable,
            ),
        ] {
            assert_eq!(Class::of(&one(&resources)), expected, "{resources}");
        }
        let mut pod = one(&json!({"limits": {"cpu": "1", "memory": "1Gi"}}));
        pod["initContainers"] = json!([{"name": "i"}]);
        assert_eq!(Class::of(&pod), Class::Burstable);
        pod["resources"] = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
        assert_eq!(Class::of(&pod), Class::Guaranteed);
    }

    #[test]
    fn what_is_a_resize() {
        let cpu = |amount: &str| one(&json!({"requests": {"cpu": amount}}));
        let with_policy = |amount: &str, policy: &str| {
            let mut spec = cpu(amount);
            spec["containers"][0]["resizePolicy"] =
                json!([{"resourceName": "cpu", "restartPolicy": policy}]);
            spec
        };
        let with_image = |image: &str, amount: &str| {
            let mut spec = cpu(amount);
            spec["containers"][0]["image"] = json!(image);
            spec
        };
        for (old, new, expected, why) in [
            (cpu("1"), cpu("2"), true, "cpu only"),
            (cpu("1"), one(&json!({"requests": {"memory": "1Gi"}})), true, "cpu and memory"),
            (cpu("1"), one(&json!({})), false, "another class"),
            (with_policy("1", "NotRequired"), with_policy("2", "NotRequired"), true, "no restart"),
            (
                with_policy("1", "RestartContainer"),
                with_policy("2", "RestartContainer"),
                false,
                "it restarts",
            ),
            (with_image("a", "1"), with_image("b", "1"), false, "the image"),
            (with_image("a", "1"), with_image("b", "2"), false, "the image too"),
            (
                one(&json!({"requests": {"cpu": "1", "example.com/gpu": "1"}})),
                one(&json!({"requests": {"cpu": "1", "example.com/gpu": "2"}})),
                false,
                "a device",
            ),
            (
                one(&json!({"requests": {"cpu": "1"}, "claims": [{"name": "a"}]})),
                one(&json!({"requests": {"cpu": "1"}})),
                false,
                "a claim",
            ),
        ] {
            assert_eq!(Change { old, new }.is_resize(), expected, "{why}");
        }
        let mut more = cpu("1");
        more["containers"] = json!([more["containers"][0], {"name": "d"}]);
        assert!(!Change { old: cpu("1"), new: more }.is_resize(), "another container");
    }
}
