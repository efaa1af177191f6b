//! `holdfast why`, `status` and `lint`, compared with the answers of the Eviction API.

use std::process::Command;

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

/// Runs a command and returns exit code and JSON.
#[track_caller]
fn ask(world: &World, args: &[&str]) -> (Option<i32>, Value) {
    let output = Command::new(&fixture().holdfast)
        .args(args)
        .args(["-n", &world.namespace, "-o", "json", "--kubeconfig"])
        .arg(&fixture().admin_kubeconfig)
        .output()
        .expect("holdfast starts");
    let told = String::from_utf8_lossy(&output.stderr);
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {told}"));
    (output.status.code(), answer)
}

/// Two replicas of two, one of them broken. One healthy replica is needed.
pub fn a_blocked_pod_is_told_which_replica_must_recover_and_goes_when_it_has() {
    let world = World::new("why");
    let node = world.node("n");
    world.replica("a", 2, 2, &[&node]);
    world.group("b", 2);
    world.pod(&Pod::new("b-0").of("b").on(&node).not_ready());
    world.pod(&Pod::new("b-1").of("b").on(&node));
    world.wait_ready("b-1");
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    let healthy = |n: i64| move |status: &Value| status["currentHealthyReplicas"] == n;
    world.wait_status("job", "sees one replica healthy", healthy(1));

    let (code, why) = ask(&world, &["why", "a-0"]);
    assert_eq!(code, Some(1), "{why:#}");
    assert_eq!(why["blocking"], json!(["job"]), "{why:#}");
    let recover = &why["unblock"][0];
    assert_eq!((&recover["way"], &recover["missing"]), (&json!("recover"), &json!(1)), "{why:#}");
    assert_eq!(recover["units"][0]["name"], "PodGroup b", "{why:#}");
    assert_eq!(recover["units"][0]["pods"][0]["name"], "b-0", "{why:#}");
    // The Eviction API gives the same message.
    let outcome = world.evict("a-0");
    outcome.assert_denied(&["job needs 1 healthy replica and has 1"]);
    let message = why["message"].as_str().expect("a message");
    assert!(outcome.message.contains(message), "{outcome:#?} {message}");
    // A pod of the broken replica may be evicted.
    let (code, why) = ask(&world, &["why", "pod/b-1"]);
    assert_eq!((code, &why["budgets"][0]["cost"]), (Some(0), &json!(0)), "{why:#}");

    let node_answer = ask(&world, &["why", &format!("node/{node}")]);
    assert_eq!(node_answer.0, Some(1));
    let pods = node_answer.1["pods"].as_array().expect("a list").iter();
    let blocked = pods.filter(|pod| pod["allowed"] == false).map(|pod| &pod["name"]);
    assert_eq!(blocked.collect::<Vec<_>>(), ["a-0", "a-1"]);

    world.delete_pod("b-0");
    world.wait_gone("b-0");
    // It needs another name: kwok deletes pods by name, sometimes twice, and would delete its successor too.
    world.pod(&Pod::new("b-2").of("b").on(&node));
    world.wait_ready("b-2");
    world.wait_status("job", "sees both replicas healthy", healthy(2));
    let (code, why) = ask(&world, &["why", "a-0"]);
    assert_eq!((code, &why["budgets"][0]["cost"]), (Some(0), &json!(1)), "{why:#}");
    let (code, status) = ask(&world, &["status", "job"]);
    let budget = &status["budgets"][0];
    assert_eq!(
        (code, &budget["healthy"], &budget["disruptionsAllowed"]),
        (Some(0), &json!(2), &json!(1)),
        "{status:#}"
    );
    world.evict("a-0").assert_evicted();
}

pub fn lint_finds_a_budget_that_selects_nothing() {
    let world = World::new("lint");
    let node = world.node("n");
    world.replica("a", 2, 2, &[&node]);
    world.replica("b", 2, 2, &[&node]);
    world.budget("good", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    let (code, lint) = ask(&world, &["lint"]);
    assert_eq!((code, &lint["findings"]), (Some(0), &json!([])), "{lint:#}");
    world.budget(
        "none",
        json!({"minAvailable": 1, "budgetScope": "Workload", "selector":
        {"matchLabels": {"no": "such"}}}),
    );
    let (code, lint) = ask(&world, &["lint"]);
    assert_eq!((code, &lint["findings"][0]["code"]), (Some(1), &json!("HF001")), "{lint:#}");
}
