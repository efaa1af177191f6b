//! The forms of eviction requests.

use std::time::Duration;

use holdfast_e2e::evict::Eviction;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::{World, grants};
use serde_json::{Value, json};

use holdfast_e2e::shared::server;

fn workload(min_available: usize) -> Value {
    json!({"minAvailable": min_available, "budgetScope": "Workload"})
}

pub fn evictions_of_both_versions_are_decided() {
    let world = World::new("versions");
    let node = world.node("n");
    world.replica("a", 2, 1, &[&node]);
    world.replica("b", 1, 1, &[&node]);
    world.budget("job", workload(2));
    for version in ["policy/v1", "policy/v1beta1"] {
        let denied = world.send(&Eviction::of("b-0").in_version(version));
        denied.assert_denied(&["job needs 2 healthy replicas and has 2", "PodGroup b"]);
    }
    world.send(&Eviction::of("a-0").in_version("policy/v1beta1")).assert_evicted();
    world.send(&Eviction::of("a-1").in_version("policy/v1")).assert_denied(&["PodGroup a"]);
    world.edit_budget("job", &json!({"minAvailable": 0}));
    world.wait_status("job", "has room", |s| s["disruptionsAllowedReplicas"] == 2);
    world.send(&Eviction::of("a-1").in_version("policy/v1")).assert_evicted();
    world.send(&Eviction::of("b-0").in_version("policy/v1beta1")).assert_evicted();
}

pub fn a_dry_run_is_answered_and_not_recorded() {
    let world = World::new("dry-run");
    let node = world.node("n");
    world.replica("a", 2, 2, &[&node]);
    world.replica("b", 2, 2, &[&node]);
    world.budget("job", workload(1));
    let before =
        world.wait_status("job", "has room", |status| status["disruptionsAllowedReplicas"] == 1);
    for pod in ["a-0", "b-0"] {
        world.send(&Eviction::of(pod).dry_run_in_query()).assert_evicted();
        world.send(&Eviction::of(pod).dry_run_in_body()).assert_evicted();
    }
    let decisions = server().decisions(&world.namespace);
    assert!(decisions.len() == 4 && decisions.iter().all(|d| d.dry_run), "{decisions:#?}");
    assert_eq!(world.status("job"), before);
    assert_eq!(world.healthy_replicas(), 2);

    // A denial is the same as without a dry run.
    world.evict("a-0").assert_evicted();
    world.send(&Eviction::of("b-0").dry_run_in_query()).assert_denied(&["PodGroup b"]);
    world.send(&Eviction::of("b-0").dry_run_in_body()).assert_denied(&["PodGroup b"]);
}

/// A policy of the API server, which is checked after Holdfast, sees the pinned uid.
pub fn an_allowed_eviction_is_pinned_to_the_pod_that_was_decided_about() {
    let world = World::new("pinned");
    let node = world.node("n");
    world.replica("a", 2, 1, &[&node]);
    world.budget("job", workload(1));
    let pod = world.admin.get(&world.path("api/v1", "pods", "a-0")).ok();
    let uid = pod.body["metadata"]["uid"].as_str().expect("a pod has a uid");
    let name = world.namespace.as_str();
    let pinned = format!("object.?deleteOptions.?preconditions.?uid.orValue('') == '{uid}'");
    let evictions = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"],
        "operations": ["CREATE"]});
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    let policy = json!({"metadata": {"name": name}, "spec": {
        "matchConstraints": {"resourceRules": [evictions]},
        "validations": [{"expression": pinned, "message": "pinned to another pod"}],
    }});
    let binding = json!({"metadata": {"name": name}, "spec": {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}},
    }});
    let _ = world.admin.post(policies, &policy).ok();
    let _ = world.admin.post(bindings, &binding).ok();

    until("the policy is in force", || {
        let outcome = world.send(&Eviction::of("a-1").dry_run_in_query());
        let refused = outcome.message.contains("pinned to another pod");
        if refused { Ok(()) } else { Err(outcome.message) }
    });
    world.evict("a-0").assert_evicted();
    world.admin.delete(&format!("{bindings}/{name}"));
    world.admin.delete(&format!("{policies}/{name}"));
}

pub fn pending_and_ended_pods_pass() {
    let world = World::new("phases");
    let node = world.node("n");
    world.replica("a", 2, 2, &[&node]);
    world.pod(&Pod::new("pending").of("a"));
    let ended =
        |name: &str, phase| Pod::new(name).of("a").on(&node).annotation("localkube/phase", phase);
    world.pod(&ended("succeeded", "Succeeded"));
    world.pod(&ended("failed", "Failed"));
    world.pod(&Pod::new("terminating").of("a").on(&node).held_when_deleted());
    for (pod, phase) in [
        ("pending", "Pending"),
        ("succeeded", "Succeeded"),
        ("failed", "Failed"),
        ("terminating", "Running"),
    ] {
        world.wait_pod(pod, phase, |pod| pod["status"]["phase"] == phase);
    }
    world.delete_pod("terminating");
    // No running pod may be evicted.
    world.budget("job", workload(5));
    world.evict("a-0").assert_denied(&["job needs 5 healthy replicas and has 1"]);

    for pod in ["pending", "succeeded", "failed", "terminating"] {
        world.evict(pod).assert_evicted();
    }
    world.release("terminating");
    for pod in ["pending", "succeeded", "failed", "terminating"] {
        world.wait_gone(pod);
    }
    assert_eq!(world.healthy_replicas(), 1);
    // The pod is already gone: the API server answers 404, and a drain counts it as evicted.
    assert_eq!(world.evict("pending").code, 404);
}

pub fn a_repeated_eviction_costs_nothing_more() {
    let world = World::new("repeated");
    let node = world.node("n");
    for name in ["a", "b", "c"] {
        world.replica(name, 1, 1, &[&node]);
    }
    world.budget("job", workload(1));
    for _ in 0..3 {
        world.evict_in_vain("a-0");
        let status = world.status("job");
        assert_eq!(grants(&status), [("a-0".into(), 1)], "{status:#}");
        assert_eq!(status["disruptionsAllowedReplicas"], 1, "{status:#}");
    }
    world.evict("b-0").assert_evicted();
    world.evict("c-0").assert_denied(&["job needs 1 healthy replica and has 1"]);
}

pub fn a_built_in_budget_without_room_refuses_first() {
    let world = World::new("built-in");
    let node = world.node("n");
    world.replica("a", 1, 1, &[&node]);
    world.replica("b", 1, 1, &[&node]);
    world.budget("job", workload(0));
    let manifest = json!({
        "metadata": {"name": "strict"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "job"}}},
    });
    let all = world.path("apis/policy/v1", "poddisruptionbudgets", "");
    let _ = world.admin.post(&all, &manifest).ok();
    let one = world.path("apis/policy/v1", "poddisruptionbudgets", "strict");
    let wait_for = |what: &str, current: i64, allowed: i64| {
        until(what, || {
            let status = world.admin.get(&one).ok().body["status"].take();
            let there =
                status["currentHealthy"] == current && status["disruptionsAllowed"] == allowed;
            if there { Ok(()) } else { Err(status.to_string()) }
        });
    };
    wait_for("the built-in budget is processed", 2, 0);

    let denied = until("Holdfast has seen it too", || {
        let dry = world.send(&Eviction::of("a-0").dry_run_in_query());
        let denied = world.send(&Eviction::of("a-0").that_comes_to_nothing());
        if denied.code == 429 { Ok(denied) } else { Err(format!("{dry:#?}\n{denied:#?}")) }
    });
    denied.assert_denied(&["built-in policy/v1 budget strict needs 2 healthy pods and has 2"]);
    let refused = world.evict("b-0");
    refused.assert_denied(&["built-in policy/v1 budget strict"]);
    assert!(refused.message.contains("admission webhook"), "before the API server: {refused:#?}");
    let status = world.status("job");
    assert!(!grants(&status).iter().any(|(pod, _)| pod == "b-0"), "{status:#}");

    let _ = world.admin.patch(&one, &json!({"spec": {"minAvailable": 1}})).ok();
    wait_for("the built-in budget has room", 2, 1);
    world.evict_soon("b-0");
}

pub fn an_eviction_of_an_earlier_pod_of_that_name_is_not_charged() {
    let world = World::new("earlier");
    let node = world.node("n");
    world.replica("a", 1, 1, &[&node]);
    let before = world.budget("job", workload(0));
    let outcome = world.send(&Eviction::of("a-0").for_uid("11111111-2222-3333-4444-555555555555"));
    assert_eq!(outcome.code, 409, "the API server's own answer: {outcome:#?}");
    assert_eq!(world.status("job"), before);
    assert_eq!(world.healthy_replicas(), 1);
}

/// Two minutes after the grant (semantics 5).
pub fn a_grant_that_came_to_nothing_expires() {
    let world = World::new("expires");
    let node = world.node("n");
    world.replica("a", 1, 1, &[&node]);
    world.replica("b", 1, 1, &[&node]);
    world.budget("job", workload(1));
    world.evict_in_vain("a-0");
    world.evict("b-0").assert_denied(&["job needs 1 healthy replica and has 1"]);
    std::thread::sleep(Duration::from_secs(115));
    world.evict("b-0").assert_denied(&["job needs 1 healthy replica and has 1"]);
    let status = world.wait_status("job", "has no grants left", |s| grants(s).is_empty());
    assert_eq!(status["disruptionsAllowedReplicas"], 1, "{status:#}");
    until("an Event says so", || {
        let events = world.admin.list(&world.path("api/v1", "events", ""));
        let told = events.iter().any(|event| {
            event["reason"] == "NotDeleted" && event["involvedObject"]["name"] == "a-0"
        });
        if told { Ok(()) } else { Err(format!("{} events", events.len())) }
    });
    world.evict("b-0").assert_evicted();
}
