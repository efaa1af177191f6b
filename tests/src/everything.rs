//! Lists all objects of the cluster, to compare the state before and after a test.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fixture::fixture;

/// Returns every object that the API server can list, as `group/version/[namespace/]plural/name`. It leaves
/// out objects that the control plane creates and deletes itself.
pub fn everything() -> BTreeSet<String> {
    const FLEETING: [&str; 2] = ["events", "leases"];
    let admin = &fixture().admin;
    let groups = admin.get("/apis").ok().body["groups"].as_array().cloned().unwrap_or_default();
    let preferred =
        groups.iter().filter_map(|group| group["preferredVersion"]["groupVersion"].as_str());
    let mut apis: Vec<String> = preferred.map(|version| format!("/apis/{version}")).collect();
    apis.push("/api/v1".to_owned());
    let mut all = BTreeSet::new();
    for api in apis {
        // A group may disappear between the two requests.
        let resources = admin.get(&api).body["resources"].as_array().cloned().unwrap_or_default();
        for resource in resources {
            let name = resource["name"].as_str().unwrap_or_default();
            let can_list = resource["verbs"].as_array().is_some_and(|v| v.contains(&"list".into()));
            if !can_list || name.contains('/') || FLEETING.contains(&name) {
                continue;
            }
            let items = admin.get(&format!("{api}/{name}")).body["items"].take();
            for item in items.as_array().into_iter().flatten() {
                all.insert(format!(
                    "{api}/{}{name}/{}",
                    namespace(item),
                    text(&item["metadata"]["name"])
                ));
            }
        }
    }
    all
}

fn namespace(object: &Value) -> String {
    match text(&object["metadata"]["namespace"]) {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
