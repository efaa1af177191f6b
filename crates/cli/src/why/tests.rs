//! Whole answers, as they are printed.

use holdfast_core::Config;
use holdfast_core::model::{ObjectKey, Timestamp};
use serde_json::{Value, json};

use super::answer::{Answer, of_node, of_pod};
use super::text;
use crate::ask::sample::{break_one, objects};
use crate::ask::{Builtins, Cluster, documents};

fn cluster(objects: Vec<Value>) -> Cluster {
    let lists = documents::lists(objects, "serving");
    Cluster::new(Config::default(), lists, Timestamp::from_secs(1_000), Builtins::Gate)
}

fn why(objects: Vec<Value>, pod: &str) -> Answer {
    Answer::Pod(of_pod(&mut cluster(objects), &ObjectKey::new("serving", pod)))
}

#[test]
fn with_room_it_is_allowed_at_a_cost() {
    let answer = why(objects(), "llama-0-0");
    assert!(answer.is_allowed());
    insta::assert_snapshot!(text::render(&answer, false, false));
}

#[test]
fn a_blocked_pod_names_the_replica_that_must_recover_and_why_it_is_down() {
    let mut objects = objects();
    break_one(&mut objects);
    let answer = why(objects, "llama-0-0");
    assert!(!answer.is_allowed());
    assert_eq!(answer.blocking(), ["poddisruptionbudget/llama"]);
    insta::assert_snapshot!(text::render(&answer, false, false));
    insta::assert_snapshot!(serde_json::to_string_pretty(&answer).unwrap());
}

#[test]
fn a_grant_in_flight_is_told_with_its_end() {
    let mut objects = objects();
    // The budget is the first.
    objects[0]["status"] = json!({"grants": [{"pod": "llama-1-0", "uid": "Pod/llama-1-0",
        "replica": "PodGroup llama-1", "cost": 1, "requester": "admin",
        "time": "1970-01-01T00:16:10Z", "eviction": "e-1"}]});
    let answer = why(objects, "llama-0-0");
    assert!(!answer.is_allowed());
    insta::assert_snapshot!(text::render(&answer, false, false));
}

#[test]
fn a_budget_that_can_never_allow_says_which_threshold_would() {
    let mut objects = objects();
    objects[0]["spec"]["maxUnavailable"] = json!(0);
    let answer = why(objects, "llama-0-0");
    insta::assert_snapshot!(text::render(&answer, false, false));
}

#[test]
fn a_missing_pod_group_is_what_to_mend() {
    let mut objects = objects();
    objects.retain(|o| !(o["kind"] == "PodGroup" && o["metadata"]["name"] == "llama-1"));
    let answer = why(objects, "llama-0-0");
    insta::assert_snapshot!(text::render(&answer, false, false));
}

#[test]
fn a_built_in_budget_behind_blocks_too() {
    let mut objects = objects();
    break_one(&mut objects);
    objects.push(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "old"},
        "spec": {"minAvailable": 6, "selector": {"matchLabels": {"app": "llama"}}},
        "status": {"observedGeneration": 1, "currentHealthy": 5, "desiredHealthy": 6,
            "disruptionsAllowed": 0, "expectedPods": 6},
    }));
    insta::assert_snapshot!(text::render(&why(objects, "llama-0-0"), false, false));
}

#[test]
fn a_pod_that_has_not_begun_passes_every_budget() {
    let mut objects = objects();
    break_one(&mut objects);
    objects[0]["spec"]["selector"] = json!({"matchLabels": {"no": "such"}});
    objects.push(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "old"},
        "spec": {"minAvailable": 6, "selector": {"matchLabels": {"app": "llama"}}},
        "status": {"observedGeneration": 1, "currentHealthy": 5, "desiredHealthy": 6,
            "disruptionsAllowed": 0, "expectedPods": 6},
    }));
    insta::assert_snapshot!(text::render(&why(objects, "llama-2-1"), false, false));
}

#[test]
fn two_built_in_budgets_on_a_pod_block_it_whatever_their_numbers() {
    let mut objects = objects();
    for name in ["one", "two"] {
        objects.push(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "llama"}}},
            "status": {"observedGeneration": 1, "currentHealthy": 6, "desiredHealthy": 1,
                "disruptionsAllowed": 5, "expectedPods": 6},
        }));
    }
    let answer = why(objects, "llama-0-0");
    assert_eq!(answer.blocking(), ["poddisruptionbudget/one", "poddisruptionbudget/two"]);
    insta::assert_snapshot!(text::render(&answer, false, false));
}

#[test]
fn a_node_lists_its_pods_by_verdict() {
    let mut objects = objects();
    break_one(&mut objects);
    for (name, owner) in [("web", "ReplicaSet"), ("agent", "DaemonSet")] {
        objects.push(json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "node-0"},
            "metadata": {"name": name, "ownerReferences": [{"apiVersion": "apps/v1",
                "kind": owner, "name": name, "controller": true, "uid": ""}]}}));
    }
    let answer = Answer::Node(of_node(&mut cluster(objects), "node-0"));
    assert!(!answer.is_allowed());
    insta::assert_snapshot!(text::render(&answer, false, false));
}

#[test]
fn the_threshold_that_is_offered_is_tried_and_nothing_stays_of_it() {
    let mut objects = objects();
    break_one(&mut objects);
    let mut cluster = cluster(objects);
    let pod = ObjectKey::new("serving", "llama-0-0");
    let first = serde_json::to_value(of_pod(&mut cluster, &pod)).unwrap();
    let second = serde_json::to_value(of_pod(&mut cluster, &pod)).unwrap();
    assert_eq!(first, second);
    let ways = first["unblock"].as_array().unwrap();
    assert!(ways.iter().any(|way| way["instead"] == "maxUnavailable 2"), "{first}");
}
