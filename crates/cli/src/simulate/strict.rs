//! What an API server refuses because of its form: unknown fields, wrong types, names and labels.
//!
//! Strict for budgets, where a field that nobody reads means no protection, and for the fields that a
//! simulation reads; the rest of a manifest is none of our business.

use serde_json::{Map, Value};

use super::check::Mistakes;

const PDB_FIELDS: [&str; 5] =
    ["minAvailable", "maxUnavailable", "selector", "unhealthyPodEvictionPolicy", "budgetScope"];
const PUB_FIELDS: [&str; 7] = [
    "minAvailable",
    "maxUnavailable",
    "selector",
    "targetRef",
    "podGroupPolicy",
    "protectOperations",
    "protectTotalReplicas",
];

/// The API versions of a kind, if it is one that simulations depend on.
fn versions(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    match (group, kind) {
        ("", "Pod" | "Node" | "ReplicationController")
        | ("apps" | "batch", _)
        | ("policy" | "policy.holdfast.dev", "PodDisruptionBudget") => Some(&["v1"]),
        ("policy.kruise.io", _) => Some(&["v1alpha1", "v1beta1"]),
        _ => None,
    }
}

/// Version, name, namespace and labels of an object of a known kind.
pub fn object(value: &Value, group: &str, kind: &str) -> Mistakes {
    let mut mistakes = Mistakes::new();
    let api_version = value["apiVersion"].as_str().unwrap_or_default();
    let version = api_version.rsplit('/').next().unwrap_or_default();
    if let Some(known) = versions(group, kind).filter(|known| !known.contains(&version)) {
        let known = known.join(" or ");
        let why = format!("{version:?} is no version of {kind} that can be simulated: use {known}");
        mistakes.push(("apiVersion".to_owned(), why));
    }
    let meta = &value["metadata"];
    name(&meta["name"], "metadata.name", &mut mistakes);
    let namespace = meta["namespace"].as_str().unwrap_or_default();
    if !namespace.is_empty() && !is_namespace(namespace) {
        let why = format!("{namespace:?} is not the name of a namespace");
        mistakes.push(("metadata.namespace".to_owned(), why));
    }
    labels(&meta["labels"], "metadata.labels", &mut mistakes);
    mistakes
}

/// Unknown fields of a budget. Selectors are looked at on their own.
pub fn budget(value: &Value) -> Mistakes {
    let mut mistakes = Mistakes::new();
    let is_kruise = value["kind"] == "PodUnavailableBudget";
    let known = if is_kruise { &PUB_FIELDS[..] } else { &PDB_FIELDS[..] };
    fields(value, "", &["apiVersion", "kind", "metadata", "spec", "status"], &mut mistakes);
    fields(&value["spec"], "spec.", known, &mut mistakes);
    mistakes
}

pub fn selector(value: &Value, at: &str, mistakes: &mut Mistakes) {
    fields(value, &format!("{at}."), &["matchLabels", "matchExpressions"], mistakes);
    labels(&value["matchLabels"], &format!("{at}.matchLabels"), mistakes);
    for (index, expression) in elements(&value["matchExpressions"]) {
        let at = format!("{at}.matchExpressions[{index}]");
        fields(expression, &format!("{at}."), &["key", "operator", "values"], mistakes);
        if let Some(key) = expression["key"].as_str().filter(|key| !key.is_empty()) {
            label_key(key, &format!("{at}.key"), mistakes);
        }
        for (index, value) in elements(&expression["values"]) {
            label_value(value, &format!("{at}.values[{index}]"), mistakes);
        }
    }
}

/// A pod, or a template of pods, which stands at `at`: `spec.template.` or nothing.
pub fn pod(value: &Value, at: &str, mistakes: &mut Mistakes) {
    let (meta, spec) = (&value["metadata"], &value["spec"]);
    let group = &meta["annotations"]["holdfast.dev/pod-group"];
    name(group, &format!("{at}metadata.annotations.holdfast.dev/pod-group"), mistakes);
    let at = format!("{at}spec");
    expect(spec, &at, Form::Object, mistakes);
    expect(&spec["nodeName"], &format!("{at}.nodeName"), Form::Text, mistakes);
    name(&spec["nodeName"], &format!("{at}.nodeName"), mistakes);
    expect(&spec["nodeSelector"], &format!("{at}.nodeSelector"), Form::Texts, mistakes);
    expect(&spec["tolerations"], &format!("{at}.tolerations"), Form::Objects, mistakes);
    for field in ["containers", "initContainers"] {
        expect(&spec[field], &format!("{at}.{field}"), Form::Objects, mistakes);
        for (index, container) in elements(&spec[field]) {
            let at = format!("{at}.{field}[{index}].resources");
            let resources = &container["resources"];
            expect(resources, &at, Form::Object, mistakes);
            for amounts in ["requests", "limits"] {
                expect(&resources[amounts], &format!("{at}.{amounts}"), Form::Object, mistakes);
            }
        }
    }
    for (field, names) in [
        ("schedulingGroup", &["podGroupName"][..]),
        ("workloadRef", &["name", "podGroup", "podGroupName", "podGroupReplicaKey"][..]),
        ("workload", &["name", "podGroup"][..]),
    ] {
        for part in names {
            name(&spec[field][part], &format!("{at}.{field}.{part}"), mistakes);
        }
    }
}

/// All templates of a workload.
pub fn templates(owner: &Value) -> Mistakes {
    let mut mistakes = Mistakes::new();
    let spec = &owner["spec"];
    let mut look = |template: &Value, at: &str| {
        labels(&template["metadata"]["labels"], &format!("{at}.metadata.labels"), &mut mistakes);
        pod(template, &format!("{at}."), &mut mistakes);
    };
    look(&spec["template"], "spec.template");
    for field in ["leaderTemplate", "workerTemplate"] {
        let at = format!("spec.leaderWorkerTemplate.{field}");
        look(&spec["leaderWorkerTemplate"][field], &at);
    }
    for (index, job) in elements(&spec["replicatedJobs"]) {
        let at = format!("spec.replicatedJobs[{index}].template.spec.template");
        look(&job["template"]["spec"]["template"], &at);
    }
    for (index, job) in elements(&spec["replicatedJobs"]) {
        name(&job["name"], &format!("spec.replicatedJobs[{index}].name"), &mut mistakes);
    }
    mistakes
}

pub fn node(value: &Value) -> Mistakes {
    let mut mistakes = Mistakes::new();
    for (at, found, form) in [
        ("metadata.labels", &value["metadata"]["labels"], Form::Texts),
        ("spec", &value["spec"], Form::Object),
        ("spec.unschedulable", &value["spec"]["unschedulable"], Form::Bool),
        ("spec.taints", &value["spec"]["taints"], Form::Objects),
        ("status.allocatable", &value["status"]["allocatable"], Form::Object),
        ("status.capacity", &value["status"]["capacity"], Form::Object),
    ] {
        expect(found, at, form, &mut mistakes);
    }
    for (index, taint) in elements(&value["spec"]["taints"]) {
        for field in ["key", "value", "effect"] {
            let at = format!("spec.taints[{index}].{field}");
            expect(&taint[field], &at, Form::Text, &mut mistakes);
        }
    }
    mistakes
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Bool,
    Object,
    /// A list of them.
    Objects,
    /// An object of them.
    Texts,
}

fn expect(value: &Value, at: &str, form: Form, mistakes: &mut Mistakes) {
    let (is_fine, what) = match form {
        Form::Text => (value.is_string(), "must be a string"),
        Form::Bool => (value.is_boolean(), "must be true or false"),
        Form::Object => (value.is_object(), "must be an object"),
        Form::Objects => {
            let all = value.as_array().is_some_and(|list| list.iter().all(Value::is_object));
            (all, "must be a list of objects")
        }
        Form::Texts => {
            let all = value.as_object().is_some_and(|map| map.values().all(Value::is_string));
            (all, "must be an object of strings")
        }
    };
    if !value.is_null() && !is_fine {
        mistakes.push((at.to_owned(), what.to_owned()));
    }
}

fn fields(value: &Value, at: &str, known: &[&str], mistakes: &mut Mistakes) {
    let none = Map::new();
    for field in value.as_object().unwrap_or(&none).keys() {
        if !known.contains(&field.as_str()) {
            let meant = known.iter().find(|known| known.eq_ignore_ascii_case(field));
            let meant = meant.map(|known| format!(": {known} is meant")).unwrap_or_default();
            mistakes.push((format!("{at}{field}"), format!("unknown field{meant}")));
        }
    }
}

/// If it is there.
fn name(value: &Value, at: &str, mistakes: &mut Mistakes) {
    if let Some(name) = value.as_str().filter(|name| !name.is_empty() && !is_subdomain(name)) {
        let why = format!("{name:?} is not a name: small letters, digits, - and . make one");
        mistakes.push((at.to_owned(), why));
    }
}

fn labels(value: &Value, at: &str, mistakes: &mut Mistakes) {
    let none = Map::new();
    for (key, value) in value.as_object().unwrap_or(&none) {
        let at = format!("{at}.{key}");
        label_key(key, &at, mistakes);
        label_value(value, &at, mistakes);
    }
}

fn label_key(key: &str, at: &str, mistakes: &mut Mistakes) {
    let (prefix, name) = key.split_once('/').unwrap_or(("none", key));
    if name.is_empty() || !is_label_value(name) || !is_subdomain(prefix) {
        mistakes.push((at.to_owned(), format!("{key:?} is not the key of a label")));
    }
}

fn label_value(value: &Value, at: &str, mistakes: &mut Mistakes) {
    if let Some(value) = value.as_str().filter(|value| !is_label_value(value)) {
        mistakes.push((at.to_owned(), format!("{value:?} is not the value of a label")));
    }
}

fn is_label_value(text: &str) -> bool {
    let ends_well = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && ends_well(text.chars().next())
        && ends_well(text.chars().last())
}

fn is_subdomain(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_namespace(text: &str) -> bool {
    text.len() <= 63 && !text.contains('.') && is_subdomain(text)
}

fn elements(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}
