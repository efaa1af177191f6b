//! Clients with types from before `budgetScope`.

use holdfast_e2e::holdfast;
use holdfast_e2e::server::{self, Server};
use holdfast_e2e::world::{World, grants};
use serde_json::{Value, json};

use super::remove;

pub fn what_an_older_client_does_not_know_it_does_not_erase() {
    let server = Server::start("older").expect("it starts");
    let world = World::new("older");
    let node = world.node("n");
    world.replica("a", 2, 2, &[&node]);
    world.replica("b", 2, 2, &[&node]);
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    world.evict_in_vain("a-0");
    let path = world.budget_path("job");
    let known = |budget: &Value| {
        let status = &budget["status"];
        (
            budget["spec"]["budgetScope"].clone(),
            status["currentHealthyReplicas"].clone(),
            status["expectedReplicas"].clone(),
            grants(status),
        )
    };
    let before = known(&world.admin.get(&path).ok().body);
    assert_eq!(before.0, "Workload");
    assert_eq!(before.3, [("a-0".to_owned(), 1)]);

    // Read and write with the older types.
    let mut budget = world.admin.get(&path).ok().body;
    forget(&mut budget["spec"], &["budgetScope"]);
    budget["metadata"]["labels"] = json!({"changed": "yes"});
    let answer = world.admin.put(&path, &budget).ok();
    let warning = answer.headers.get("warning").and_then(|w| w.to_str().ok()).unwrap_or_default();
    assert!(warning.contains("spec.budgetScope is missing and was kept as Workload"), "{warning}");
    assert_eq!(answer.body["metadata"]["labels"], json!({"changed": "yes"}));
    assert_eq!(known(&world.admin.get(&path).ok().body), before);

    // As the controller of Kubernetes and other clients write a status.
    let status = format!("{path}/status");
    let mut budget = world.admin.get(&path).ok().body;
    let newer = ["currentHealthyReplicas", "expectedReplicas", "grants", "watermarks"];
    forget(&mut budget["status"], &newer);
    let _ = world.admin.put(&status, &budget).ok();
    assert_eq!(known(&world.admin.get(&path).ok().body), before);
    let erase = json!({"status": {"grants": null, "watermarks": null}});
    let _ = world.admin.patch(&status, &erase).ok();
    let erase = json!([{"op": "remove", "path": "/status/grants"}]);
    let _ = world.admin.json_patch(&status, &erase).ok();
    assert_eq!(known(&world.admin.get(&path).ok().body), before);
    world.evict("b-0").assert_denied(&["job needs 1 healthy replica and has 1"]);

    // kube-apiserver does not know the field, so the check before giving back `policy/v1` reports it.
    let lost = format!("poddisruptionbudget {}/job (counts replicas)", world.namespace);
    let (code, told) = holdfast(&["uninstall", "--delete-budgets", "--dry-run"]);
    assert!(code == Some(1) && told.contains(&lost), "{told}");
    let told = server::uninstall_with(&["--delete-budgets"]).expect_err("it counts replicas");
    assert!(told.contains(&lost) && told.contains("will count pods"), "{told}");

    // If the client sets the field explicitly, it changes.
    let _ = world.admin.patch(&path, &json!({"spec": {"budgetScope": "Pod"}})).ok();
    assert_eq!(world.admin.get(&path).ok().body["spec"]["budgetScope"], "Pod");
    let (_, told) = holdfast(&["uninstall", "--dry-run"]);
    assert!(!told.contains(&lost), "{told}");
    remove(server);
}

fn forget(object: &mut Value, fields: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        object.retain(|field, _| !fields.contains(&field.as_str()));
    }
}
