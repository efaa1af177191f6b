//! Known defects of Kruise that Holdfast does not have.

use holdfast_e2e::evict::Eviction;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::unavailable::counts;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::{World, grants};
use serde_json::json;

use super::workload;

const ALL: &str = "?dryRun=All";

/// In Kruise, a budget without a computed status allows everything.
pub fn what_says_that_it_is_enforced_guards_at_once() {
    for round in 0..4 {
        let world = World::new("fresh");
        pods(&world, &["a", "b"]);
        world.guard("job", json!({"minAvailable": 2, "protectTotalReplicas": 2}));
        let refused = world.delete("a");
        refused.assert_refused(&["job needs 2 available pods and has 2"]);
        world
            .update_image("b", "example.com/main:second")
            .assert_refused(&["job needs 2 available pods"]);
        assert_eq!(world.pods().len(), 2, "round {round}");
    }
}

/// In Kruise, the old spec counts until the controller has processed the new one.
pub fn a_tightened_budget_is_enforced_at_once() {
    let world = World::new("tight");
    pods(&world, &["a", "b", "c"]);
    world.guard("job", json!({"minAvailable": 1, "protectTotalReplicas": 3}));
    for _ in 0..10 {
        world.edit_guard("job", &json!({"minAvailable": 3}));
        world.delete("a").assert_refused(&[]);
        world.edit_guard("job", &json!({"minAvailable": 1}));
        world.wait_counts("job", [2, 3, 1, 3]);
    }
    world.delete("a").assert_passed();
}

/// In Kruise, pods have the name of their budget, which is never corrected.
pub fn pods_that_name_another_budget_are_guarded_by_the_one_that_selects_them() {
    const NAMES: [&str; 2] = ["kruise.io/related-pub", "pub.kruise.io/related-pub"];
    let world = World::new("stale");
    let node = world.node("n");
    let stale = Pod::new("a").annotation(NAMES[0], "stale").annotation(NAMES[1], "stale");
    world.pod(&stale.on(&node));
    world.pod(&Pod::new("b").on(&node));
    for pod in ["a", "b"] {
        world.wait_ready(pod);
    }
    let spec = json!({"minAvailable": 2, "protectTotalReplicas": 2});
    world.guard("first", spec.clone());
    world.delete("a").assert_refused(&["first needs 2 available pods and has 2"]);
    // Pods without a name get it, for programs that read it.
    world.wait_pod("b", "names its budget", |pod| {
        NAMES.iter().all(|name| pod["metadata"]["annotations"][name] == "first")
    });
    world.delete_guard("first");
    world.guard("second", spec);
    for pod in ["a", "b"] {
        world.delete(pod).assert_refused(&["second needs 2 available pods and has 2"]);
        world.evict(pod).assert_denied(&["second needs 2 available pods and has 2"]);
        world.update_image(pod, "example.com/main:second").assert_refused(&["second needs 2"]);
    }
    // Removing the name has no effect either.
    world.annotate("a", NAMES[0], "");
    world.delete("a").assert_refused(&["second needs 2 available pods and has 2"]);
}

/// In Kruise, the dry run of an eviction uses up the budget.
pub fn a_dry_run_is_answered_and_spends_nothing() {
    let world = World::new("dry");
    pods(&world, &["a", "b"]);
    world.guard("job", json!({"maxUnavailable": 1, "protectTotalReplicas": 2}));
    let ask = |pod: &str| {
        [
            world.delete_with(pod, ALL),
            world.update_image_with(pod, "example.com/main:second", ALL),
            world.send(&Eviction::of(pod).dry_run_in_query()),
            world.send(&Eviction::of(pod).dry_run_in_body()),
        ]
    };
    for outcome in ask("a").iter().chain(&ask("b")) {
        outcome.assert_passed();
    }
    // Any of them would have used up the last unit.
    let status = world.wait_guard("job", "is the same", |_| true);
    assert_eq!((counts(&status), grants(&status).len()), ([1, 2, 1, 2], 0), "{status:#}");
    world.evict_in_vain("a");
    for outcome in ask("b") {
        outcome.assert_refused(&["job needs 1 available pods and has 1"]);
    }
    for outcome in ask("a") {
        outcome.assert_passed();
    }
}

/// In Kruise, a recorded name may be deleted at no cost, even if another pod has the name by then.
pub fn a_pod_of_a_stateful_set_that_came_back_needs_a_grant_of_its_own() {
    let world = World::new("recreated");
    let nodes = workload::nodes(&world, 1);
    workload::create(&world, "StatefulSet", 2);
    let status = world.guard("job", json!({"maxUnavailable": 1}));
    assert_eq!(counts(&status), [1, 2, 1, 2], "{status:#}");
    let old = workload::uid_if_ready(&world, "web-0");
    world.delete("web-0").assert_passed();
    until("its successor is Ready", || {
        let new = workload::uid_if_ready(&world, "web-0");
        if new.is_some() && new != old { Ok(()) } else { Err(format!("{new:?}")) }
    });
    world.wait_counts("job", [1, 2, 1, 2]);
    // The other pod is evicted, and its successor has no node to run on.
    let cordon = json!({"spec": {"unschedulable": true}});
    let _ = world.admin.patch(&format!("/api/v1/nodes/{}", nodes[0]), &cordon).ok();
    world.delete("web-1").assert_passed();
    world.delete("web-0").assert_refused(&["job needs 1 available pods and has 1"]);
}

/// In Kruise, the status of such a container never agrees with its spec. So the pod counts as broken and may
/// be deleted.
pub fn images_by_digest_are_guarded() {
    let world = World::new("digest");
    pods(&world, &["a", "b"]);
    let image = format!("example.com/main@sha256:{}", "a".repeat(64));
    for pod in ["a", "b"] {
        world.update_image(pod, &image).assert_passed();
        // As containerd reports it: the image by its tag, and another digest as its id.
        let id = format!("sha256:{}", "c".repeat(64));
        world.play_container(pod, &json!({"image": "example.com/main:1", "imageID": id}));
    }
    world.guard("job", json!({"maxUnavailable": 1, "protectTotalReplicas": 2}));
    world.wait_counts("job", [1, 2, 1, 2]);
    world.delete("a").assert_passed();
    world.delete("b").assert_refused(&["job needs 1 available pod"]);
    world.update_image("b", &image.replace("aaaa", "bbbb")).assert_refused(&["job"]);
}

/// In Kruise, a drain gets 403 and gives up.
pub fn a_drain_waits_and_finishes() {
    let world = World::new("drain");
    let nodes = workload::nodes(&world, 1);
    workload::create(&world, "Deployment", 3);
    world.guard("job", json!({"maxUnavailable": 1}));
    let drain = world.drain(&nodes[0]);
    drain.wait_for("will retry after 5s");
    // Only now is there another node.
    world.node("elsewhere");
    let (code, output) = drain.finish();
    assert_eq!(code, Some(0), "{output}");
    assert!(
        output.contains("PodUnavailableBudget job needs 2 available pods and has 2"),
        "{output}"
    );
    workload::wait_ready(&world, 3);
}

/// Creates pods without a controller, all Ready.
fn pods(world: &World, names: &[&str]) {
    let node = world.node("n");
    for pod in names {
        world.pod(&Pod::new(*pod).on(&node));
        world.wait_ready(pod);
    }
}
