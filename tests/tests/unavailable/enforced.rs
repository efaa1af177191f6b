//! Where the API server asks Holdfast about pods, and what the status of a budget says about it.

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::{World, condition, is_condition};
use serde_json::{Value, json};

pub const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/holdfast";

pub fn namespaces_are_asked_about_while_they_have_budgets() {
    let (world, other) = (World::new("asked"), World::new("not-asked"));
    let node = world.node("n");
    for world in [&world, &other] {
        world.pod(&Pod::new("a").on(&node));
        world.wait_ready("a");
    }
    assert!(!is_asked_about(&world) && !is_asked_about(&other));
    world.guard("job", json!({"minAvailable": 1, "protectTotalReplicas": 1}));
    world.delete("a").assert_refused(&["job needs 1 available pod"]);
    assert!(is_asked_about(&world) && !is_asked_about(&other));
    other.delete("a").assert_passed();
    world.delete_guard("job");
    until("the namespace is no longer asked about", || {
        if is_asked_about(&world) { Err(world.namespace.clone()) } else { Ok(()) }
    });
    world.delete("a").assert_passed();
}

pub fn an_excluded_namespace_is_told_so() {
    let admin = &fixture().admin;
    let path = "/apis/policy.kruise.io/v1beta1/namespaces/kube-system/podunavailablebudgets";
    let budget = json!({
        "apiVersion": "policy.kruise.io/v1beta1",
        "kind": "PodUnavailableBudget",
        "metadata": {"name": "e2e-excluded"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "e2e-none"}}},
    });
    let _ = admin.post(path, &budget).ok();
    let seen = until("it says so", || {
        let status = admin.get(&format!("{path}/e2e-excluded")).ok().body["status"].take();
        let told = condition(&status, "Enforced").is_some();
        if told { Ok(status) } else { Err(status.to_string()) }
    });
    let _ = admin.delete(&format!("{path}/e2e-excluded")).ok();
    assert!(is_condition(&seen, "Enforced", "False", "NamespaceExcluded"), "{seen:#}");
}

fn is_asked_about(world: &World) -> bool {
    let configuration = world.admin.get(CONFIGURATION).ok().body;
    guarded(&configuration).contains(&world.namespace)
}

/// Returns the namespaces of the webhook on pods.
fn guarded(configuration: &Value) -> Vec<String> {
    let webhooks = configuration["webhooks"].as_array();
    let pods = webhooks.into_iter().flatten().find(|hook| hook["name"] == "pods.holdfast.dev");
    let names = pods.map(|hook| &hook["namespaceSelector"]["matchExpressions"][0]["values"]);
    let names = names.and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}
