//! The API of Kruise, as its users use it.

use holdfast_e2e::kubectl::kubectl;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

const ALPHA: &str = "apis/policy.kruise.io/v1alpha1";
const BETA: &str = "apis/policy.kruise.io/v1beta1";
const PLURAL: &str = "podunavailablebudgets";

/// A client that only knows Kruise's `v1alpha1` reads, changes and writes back.
pub fn both_versions_are_served_and_the_old_one_drops_nothing() {
    let world = World::new("versions");
    let spec = json!({
        "selector": {"matchLabels": {"app": "job"}},
        "maxUnavailable": 1,
        "protectOperations": ["DELETE", "EVICT"],
        "protectTotalReplicas": 5,
        "ignoredPodSelector": {"matchLabels": {"tier": "batch"}},
        "podGroupPolicy": {"groupLabelKey": "group", "minReadyReplicas": 2},
    });
    world.guard("job", spec.clone());
    let path = world.path(ALPHA, PLURAL, "job");
    let mut old = world.admin.get(&path).ok().body;
    assert_eq!(old["apiVersion"], "policy.kruise.io/v1alpha1");
    let annotations = &old["metadata"]["annotations"];
    assert_eq!(annotations["kruise.io/pub-protect-operations"], "DELETE,EVICT", "{old:#}");
    assert_eq!(annotations["pub.kruise.io/protect-total-replicas"], "5", "{old:#}");
    // All fields of its types.
    let known = ["selector", "targetRef", "maxUnavailable", "minAvailable"];
    let fields = old["spec"].as_object_mut().expect("it has a spec");
    fields.retain(|field, _| known.contains(&field.as_str()));
    old["spec"]["maxUnavailable"] = json!("30%");
    let _ = world.admin.put(&path, &old).ok();
    let mut expected = spec;
    expected["maxUnavailable"] = json!("30%");
    let now = world.admin.get(&world.path(BETA, PLURAL, "job")).ok().body;
    assert_eq!(now["spec"], expected, "{now:#}");

    // Manifests from Kruise, unchanged.
    let manifest = json!({
        "apiVersion": "policy.kruise.io/v1alpha1",
        "kind": "PodUnavailableBudget",
        "metadata": {"name": "kruise", "annotations": {"kruise.io/pub-protect-operations": "DELETE"}},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minAvailable": "80%"},
    });
    let _ = world.admin.post(&world.path(ALPHA, PLURAL, ""), &manifest).ok();
    let now = world.admin.get(&world.path(BETA, PLURAL, "kruise")).ok().body;
    assert_eq!(now["spec"]["protectOperations"], json!(["DELETE"]), "{now:#}");
    assert_eq!(now["spec"]["minAvailable"], "80%", "{now:#}");
    world.wait_guard("kruise", "is processed", |_| true);
}

pub fn what_is_refused_is_told_why() {
    let world = World::new("refused");
    let app = |value: &str| json!({"matchLabels": {"app": value}});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let _ = world.try_guard("first", json!({"maxUnavailable": 1, "selector": app("a")})).ok();
    let spec = json!({"maxUnavailable": 1, "targetRef": target});
    let _ = world.try_guard("target", spec).ok();
    let rules: [(Value, &str); 9] = [
        (
            json!({"selector": app("b")}),
            "no maxUnavailable or minAvailable defined in PodUnavailableBudget",
        ),
        (
            json!({"selector": app("b"), "targetRef": target, "maxUnavailable": 1}),
            "selector and targetRef are mutually exclusive",
        ),
        (
            json!({"selector": app("b"), "maxUnavailable": 1, "minAvailable": 1}),
            "maxUnavailable and minAvailable are mutually exclusive",
        ),
        (
            json!({"selector": {}, "maxUnavailable": 1}),
            "empty selector is not valid for PodUnavailableBudget.",
        ),
        (json!({"selector": app("b"), "maxUnavailable": "101%"}), "spec.maxUnavailable"),
        (json!({"selector": app("b"), "minAvailable": -1}), "spec.minAvailable"),
        (
            json!({"selector": app("b"), "minAvailable": 1, "podGroupPolicy": {"groupLabelKey": ""}}),
            "podGroupPolicy.groupLabelKey is required",
        ),
        (
            json!({"selector": app("a"), "maxUnavailable": 1}),
            "pub.spec.selector is in conflict with other PodUnavailableBudget first",
        ),
        (
            json!({"targetRef": target, "maxUnavailable": 1}),
            "pub.spec.targetReference is in conflict with other PodUnavailableBudget target",
        ),
    ];
    for (spec, told) in rules {
        let answer = world.try_guard("wrong", spec.clone());
        assert!((400..500).contains(&answer.code), "{spec}: {}", answer.code);
        assert!(answer.message().contains(told), "{spec}: {}", answer.message());
    }
    let both = world.try_guard("wrong", json!({"maxUnavailable": 1, "selector": null}));
    let told = "no selector or targetRef defined in PodUnavailableBudget";
    assert!(both.message().contains(told), "{}", both.message());
    // A narrower selector matches pods of the wider one.
    let narrower = json!({"matchLabels": {"app": "a", "tier": "b"}});
    let overlaps = world.try_guard("wrong", json!({"maxUnavailable": 1, "selector": narrower}));
    assert!(overlaps.message().contains("in conflict with other"), "{}", overlaps.message());
    // The keys differ, so an overlap is unknown.
    let other = json!({"matchLabels": {"tier": "b"}});
    let _ = world.try_guard("other", json!({"maxUnavailable": 1, "selector": other})).ok();
    let change = json!({"spec": {"selector": app("c")}});
    let changed = world.admin.patch(&world.guard_path("first"), &change);
    let told = "selector and targetRef cannot be modified";
    assert!(changed.message().contains(told), "{}", changed.message());
    let alpha = json!({
        "apiVersion": "policy.kruise.io/v1alpha1",
        "kind": "PodUnavailableBudget",
        "metadata": {"name": "alpha", "annotations": {"kruise.io/pub-protect-operations": "DELETE,DESTROY"}},
        "spec": {"selector": app("d"), "maxUnavailable": 1},
    });
    let answer = world.admin.post(&world.path(ALPHA, PLURAL, ""), &alpha);
    assert!(answer.message().contains("kruise.io/pub-protect-operations"), "{}", answer.message());
}

pub fn the_columns_are_those_of_kruise() {
    let world = World::new("columns");
    world.guard("job", json!({"minAvailable": 1, "protectTotalReplicas": 3}));
    for name in ["pub", "podunavailablebudget.v1alpha1.policy.kruise.io"] {
        let (code, output) = kubectl(&world.namespace, &["get", name]);
        assert_eq!(code, 0, "{output}");
        let rows: Vec<Vec<&str>> =
            output.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["NAME", "ALLOWED", "CURRENT", "DESIRED", "TOTAL"], "{output}");
        assert_eq!(rows[1], ["job", "0", "0", "1", "3"], "{output}");
    }
}
