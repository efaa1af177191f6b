//! Where the API server asks Holdfast about pods, and what a budget says of that.

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

/// By its own word or the budget's, and what does not disrupt anything.
pub fn what_is_not_protected_passes() {
    let world = World::new("passes");
    let node = world.node("n");
    world.pod(&Pod::new("guarded").on(&node));
    world.pod(&Pod::new("unprotected").annotation("pub.kruise.io/no-protect", "true").on(&node));
    world.pod(&Pod::new("ignored").label("tier", "batch").on(&node));
    world.pod(&Pod::new("labelled").label("unavailable-pod.kruise.io/maintenance", "").on(&node));
    for pod in ["guarded", "unprotected", "ignored", "labelled"] {
        world.wait_ready(pod);
    }
    world.pod(&Pod::new("not-ready").not_ready().on(&node));
    world.wait_pod("not-ready", "runs", |pod| pod["status"]["phase"] == "Running");
    world.guard(
        "job",
        json!({
            "minAvailable": "100%",
            "protectTotalReplicas": 9,
            "ignoredPodSelector": {"matchLabels": {"tier": "batch"}},
        }),
    );
    for pod in ["unprotected", "ignored", "labelled", "not-ready"] {
        world.delete(pod).assert_passed();
    }
    world.delete("guarded").assert_refused(&["job needs 9 available pods and has 1"]);
    // Neither the spec changes nor does it say that it is unavailable.
    world.annotate("guarded", "note", "passes");
    let label = |key: &str| {
        let patch = json!({"metadata": {"labels": {key: "x"}}});
        world.admin.patch(&world.path("api/v1", "pods", "guarded"), &patch)
    };
    assert_eq!(label("note").code, 200);
    let refused = label("unavailable-pod.kruise.io/maintenance");
    assert_eq!(refused.code, 429, "{}", refused.message());
    // What a budget does not protect from is not its business.
    world.edit_guard("job", &json!({"protectOperations": ["EVICT", "UPDATE"]}));
    world.wait_guard("job", "is processed", |_| true);
    world.evict("guarded").assert_denied(&["job needs 9 available pods"]);
    world.delete("guarded").assert_passed();
}

fn is_asked_about(world: &World) -> bool {
    let configuration = world.admin.get(CONFIGURATION).ok().body;
    guarded(&configuration).contains(&world.namespace)
}

/// The namespaces of the webhook on pods.
fn guarded(configuration: &Value) -> Vec<String> {
    let webhooks = configuration["webhooks"].as_array();
    let pods = webhooks.into_iter().flatten().find(|hook| hook["name"] == "pods.holdfast.dev");
    let names = pods.map(|hook| &hook["namespaceSelector"]["matchExpressions"][0]["values"]);
    let names = names.and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}
