//! The files of the chart. The templates of the chart select from them and add nothing.

use holdfast_core::model::GroupApi;
use serde_json::{Map, Value, json};

use super::{Choice, Run, asking, evict, identity, manifests, rights};
use crate::install::entry::Entry;
use crate::install::manifests::{Installed, Intercept};
use crate::install::rights::{Right, Where, rules};

/// Returns the files of the chart, by their names under `files/`.
pub fn files() -> Vec<(&'static str, Value)> {
    vec![("rights.yaml", sets()), ("objects.yaml", named()), ("crds.yaml", definitions())]
}

/// Returns the rules that each choice adds, in the order of [`rights`].
fn sets() -> Value {
    let plain = Choice::default();
    let native = Choice { native: true, accept_bypass: true, ..plain };
    let sets = [
        ("native", native, plain),
        ("unavailable", Choice { unavailable: true, ..plain }, plain),
        ("podGroupsKubernetes", Choice { gangs: Some(GroupApi::Kubernetes), ..plain }, plain),
        ("podGroupsHoldfast", Choice { gangs: Some(GroupApi::Holdfast), ..plain }, plain),
        ("clearing", Choice { clearing: true, ..plain }, plain),
        ("page", Choice { page: true, ..plain }, plain),
        ("claiming", Choice { accept_bypass: false, ..native }, native),
    ];
    let both = |rights: &[Right]| json!({"cluster": rules(rights, Where::Cluster), "own": rules(rights, Where::System)});
    let mut all = Map::from_iter([("serving".to_owned(), both(&rights(plain)))]);
    for (name, with, without) in sets {
        let without = rights(without);
        let mut added = rights(with);
        added.retain(|right| !without.contains(right));
        all.insert(name.to_owned(), both(&added));
    }
    Value::Object(all)
}

/// Returns objects that an installation includes unchanged or not at all.
fn named() -> Value {
    let run = Run::Deployment { image: String::new(), replicas: 0 };
    let (identity, evict) = (identity(&run), evict(&run));
    let entry = |entry| asking(entry, &evict);
    let people = |kind, native| manifests::people(kind, native).body;
    json!({
        "clusterRoleBinding": manifests::binding("ClusterRole", &identity),
        "roleBinding": manifests::binding("Role", &identity),
        "viewRole": people(Installed::ViewRole, false),
        "editRole": people(Installed::EditRole, false),
        "nativeViewRole": people(Installed::ViewRole, true),
        "nativeEditRole": people(Installed::EditRole, true),
        "authenticationReader": manifests::native(&identity).body,
        "priorityLevel": manifests::priority_level(),
        "flowSchema": manifests::flow_schema(&identity),
        "webhook": entry(Entry::Evictions(Intercept::Outside)),
        "nativeWebhook": entry(Entry::Evictions(Intercept::All)),
        "guard": entry(Entry::Guard),
        "placingKubernetes": entry(Entry::Placing(GroupApi::Kubernetes)),
        "placingHoldfast": entry(Entry::Placing(GroupApi::Holdfast)),
        "asking": entry(Entry::Asking),
    })
}

fn definitions() -> Value {
    let run = Run::Deployment { image: String::new(), replicas: 0 };
    let choice = Choice { unavailable: true, gangs: Some(GroupApi::Holdfast), ..Choice::default() };
    let mut objects = super::objects(choice, &run);
    objects.retain(|object| object["kind"] == "CustomResourceDefinition");
    let of = |object: Value| {
        (object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), object)
    };
    Value::Object(objects.into_iter().map(of).collect())
}
