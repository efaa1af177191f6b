//! Which groups, versions and resources are served.

use serde_json::{Value, json};

use super::{Answer, is_unserved};
use crate::resources::all;
use crate::world::{Process, World};

pub fn group(world: &World, process: Process, group: &str) -> Answer {
    let mut versions: Vec<&str> =
        all().filter(|kind| kind.group == group).map(|kind| kind.version).collect();
    versions.dedup();
    if versions.is_empty() || is_unserved(world, process, group) {
        return Answer::no_such_page();
    }
    let version =
        |version: &str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let versions: Vec<Value> = versions.into_iter().map(version).collect();
    Answer::ok(json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": group,
        "preferredVersion": versions[0], "versions": versions,
    }))
}

pub fn group_version(world: &World, process: Process, group: &str, version: &str) -> Answer {
    let mut resources = Vec::new();
    for kind in all().filter(|kind| (kind.group, kind.version) == (group, version)) {
        resources.push(json!({"name": kind.plural, "kind": kind.kind, "namespaced": true}));
        if matches!(kind.kind, "StatefulSet" | "LeaderWorkerSet" | "ReplicaSet" | "Deployment") {
            let name = format!("{}/scale", kind.plural);
            resources.push(json!({"name": name, "kind": "Scale", "namespaced": true}));
        }
    }
    if resources.is_empty() || is_unserved(world, process, group) {
        return Answer::no_such_page();
    }
    Answer::ok(json!({"kind": "APIResourceList", "apiVersion": "v1", "resources": resources}))
}
