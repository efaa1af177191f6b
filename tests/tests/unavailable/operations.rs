//! The operations from which a budget protects pods.

use holdfast_e2e::evict::Outcome;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::world::{World, grants};
use serde_json::json;

/// Operations that the pod or the budget exempts, and operations that disrupt nothing.
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
    // Neither the spec nor an unavailable label changes.
    world.annotate("guarded", "note", "passes");
    let label = |key: &str| {
        let patch = json!({"metadata": {"labels": {key: "x"}}});
        world.admin.patch(&world.path("api/v1", "pods", "guarded"), &patch)
    };
    assert_eq!(label("note").code, 200);
    let refused = label("unavailable-pod.kruise.io/maintenance");
    assert_eq!(refused.code, 429, "{}", refused.message());
    // The budget does not check operations from which it does not protect.
    world.edit_guard("job", &json!({"protectOperations": ["EVICT", "UPDATE"]}));
    world.wait_guard("job", "is processed", |_| true);
    world.evict("guarded").assert_denied(&["job needs 9 available pods"]);
    world.delete("guarded").assert_passed();
}

/// More CPU, which needs no restart. It uses the subresource, which Kruise does not check.
pub fn a_resize_is_guarded() {
    let world = World::new("resize");
    let node = world.node("n");
    let cpus = |n: usize| json!({"requests": {"cpu": n.to_string()}});
    for pod in ["a", "b"] {
        let mut manifest = Pod::new(pod).on(&node).manifest();
        manifest["spec"]["containers"][0]["resources"] = cpus(1);
        let _ = world.admin.post(&world.path("api/v1", "pods", ""), &manifest).ok();
        world.wait_ready(pod);
        // This shows the API server that the node can resize.
        world.play_container(pod, &json!({"resources": cpus(1)}));
    }
    world.guard("job", json!({"maxUnavailable": 1, "protectTotalReplicas": 2}));
    let resize = |pod: &str, n: usize| -> Outcome {
        let path = format!("{}/resize", world.path("api/v1", "pods", pod));
        let at = "/spec/containers/0/resources";
        let change = json!([{"op": "replace", "path": at, "value": cpus(n)}]);
        world.admin.json_patch(&path, &change).into()
    };
    world.evict_in_vain("a");
    resize("b", 2).assert_refused(&["job needs 1 available pods and has 1"]);
    resize("a", 2).assert_passed();
    // For this budget a resize is no disruption.
    world.edit_guard("job", &json!({"protectOperations": ["DELETE", "EVICT"]}));
    world.wait_guard("job", "is processed", |_| true);
    resize("b", 2).assert_passed();
    world.update_image("b", "example.com/main:second").assert_passed();
    world.delete("b").assert_refused(&["job needs 1 available pods and has 1"]);
}

/// Of several requests for the same pod, one is charged.
pub fn evictions_of_one_pod_at_once_are_charged_once() {
    let world = World::new("at-once");
    let node = world.node("n");
    for pod in ["a", "b", "c"] {
        world.pod(&Pod::new(pod).on(&node));
        world.wait_ready(pod);
    }
    world.guard("job", json!({"maxUnavailable": 2, "protectTotalReplicas": 3}));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| world.evict_in_vain("a"));
        }
    });
    let status = world.wait_guard("job", "was charged", |status| !grants(status).is_empty());
    assert_eq!(grants(&status), [("a".to_owned(), 1)], "{status:#}");
    world.delete("b").assert_passed();
    world.delete("c").assert_refused(&["job needs 1 available pods and has 1"]);
}
