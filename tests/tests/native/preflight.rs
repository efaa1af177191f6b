//! `--install` lists all obstacles to native mode at once, and changes nothing.

use std::process::Output;

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::server;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

const WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/e2e-budgets";

pub fn what_would_be_lost_or_bypassed_is_named_before_anything_changes() {
    let world = World::new("preflight");
    let namespace = world.namespace.as_str();
    let budgets = world.path("apis/policy/v1", "poddisruptionbudgets", "");
    let budget = |name: &str| {
        let manifest = json!({"metadata": {"name": name}, "spec": {"selector": {}}});
        world.admin.post(&budgets, &manifest).ok().body
    };
    let _ = budget("Upper_Case");
    let owner = budget("owner");
    let mut pod = Pod::new("owned").manifest();
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }]);
    let _ = world.admin.post(&world.path("api/v1", "pods", ""), &pod).ok();
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"count/poddisruptionbudgets.policy": "9"}}});
    let _ = world.admin.post(&world.path("api/v1", "resourcequotas", ""), &quota).ok();
    let all = WEBHOOK.rsplit_once('/').map_or("", |(all, _)| all);
    let _ = world.admin.post(all, &webhook()).ok();

    let bypasses = ["validatingwebhookconfigurations e2e-budgets", "resourcequotas"];
    let losses = [
        format!("budget {namespace}/Upper_Case: a custom resource cannot have this name"),
        format!("pods {namespace}/owned: owned by budget owner"),
    ];
    let told = refused(&[]);
    for word in losses.iter().map(String::as_str).chain(bypasses) {
        assert!(told.contains(word), "{word} is missing:\n{told}");
    }
    let told = refused(&["--accept-bypass"]);
    assert!(losses.iter().all(|loss| told.contains(loss)), "{told}");
    assert!(!bypasses.iter().any(|bypass| told.contains(bypass)), "{told}");
    let service = world.admin.get("/apis/apiregistration.k8s.io/v1/apiservices/v1.policy").ok();
    assert_eq!(service.body["spec"]["service"], Value::Null);
    let _ = world.admin.delete(WEBHOOK).ok();
    // It would disturb the following tests.
    let (admin, path) = (world.admin.clone(), format!("/api/v1/namespaces/{namespace}"));
    let _ = admin.delete(&path).ok();
    until("the namespace is gone", || match admin.get(&path).code {
        404 => Ok(()),
        code => Err(code.to_string()),
    });
}

fn refused(more: &[&str]) -> String {
    let Output { status, stderr, .. } =
        server::serve(fixture()).arg("--install").args(more).output().expect("holdfast starts");
    let told = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(2), "{told}");
    told
}

/// It is never called, because it only matches dry runs of deletions.
fn webhook() -> Value {
    json!({
        "metadata": {"name": "e2e-budgets"},
        "webhooks": [{
            "name": "budgets.e2e.holdfast.dev",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{
                "apiGroups": ["policy"],
                "apiVersions": ["v1"],
                "resources": ["poddisruptionbudgets"],
                "operations": ["DELETE"],
            }],
            "matchConditions": [{"name": "dry-run", "expression": "request.dryRun"}],
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    })
}
