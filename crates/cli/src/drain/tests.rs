//! Whole plans, as they are printed.

use holdfast_core::Config;
use holdfast_core::model::Timestamp;
use serde_json::{Value, json};

use super::{Choice, DrainPlan, render};
use crate::ask::sample::{break_one, objects};
use crate::ask::{Builtins, Cluster, documents};

/// The sample with each replica on all three nodes but the last, with its pods Ready 40 s after their creation.
fn spread() -> Vec<Value> {
    let mut objects = objects();
    for object in objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let second = name.ends_with('1');
        object["spec"]["nodeName"] = json!(if second { "node-0" } else { "node-1" });
        object["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:00Z");
        object["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready",
            "status": "True", "lastTransitionTime": "1970-01-01T00:00:40Z"}]});
    }
    for node in ["node-0", "node-1", "node-2"] {
        objects.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node},
            "status": {"allocatable": {"cpu": "4", "pods": "10"}}}));
    }
    objects
}

fn plan(objects: Vec<Value>, nodes: &[&str]) -> DrainPlan {
    plan_with(objects, nodes, &Choice::default())
}

fn plan_with(objects: Vec<Value>, nodes: &[&str], choice: &Choice) -> DrainPlan {
    let lists = documents::lists(objects, "serving");
    let cluster =
        Cluster::new(Config::default(), lists, Timestamp::from_secs(1_000), Builtins::Counted);
    let nodes: Vec<String> = nodes.iter().map(|&node| node.to_owned()).collect();
    DrainPlan::make(&cluster, &nodes, choice).0
}

fn pod(name: &str, node: &str, more: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node}});
    pod["metadata"]["ownerReferences"] = more.clone();
    pod
}

#[test]
fn replicas_go_whole_and_one_after_the_other() {
    let plan = plan(spread(), &["node-0", "node-1"]);
    assert!(plan.is_complete());
    assert_eq!((plan.waves.len(), plan.broken(), plan.estimated_seconds), (3, 3, Some(120)));
    insta::assert_snapshot!(render(&plan, false));
    let json = serde_json::to_string_pretty(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["schemaVersion"], 1);
    insta::assert_snapshot!(json);
}

#[test]
fn what_never_goes_is_told_with_its_reason_and_holds_up_its_nodes_alone() {
    let mut objects = spread();
    objects[0]["spec"]["maxUnavailable"] = json!(0);
    objects.push(pod(
        "web",
        "node-2",
        &json!([{"kind": "ReplicaSet", "name": "web",
        "apiVersion": "apps/v1", "controller": true}]),
    ));
    let plan = plan(objects, &["node-0", "node-1", "node-2"]);
    assert!(!plan.is_complete());
    assert_eq!((plan.blocked.len(), plan.pods()), (3, 1));
    insta::assert_snapshot!(render(&plan, false));
}

#[test]
fn pods_without_a_controller_that_a_budget_cannot_count_never_go() {
    let mut bare = pod("bare", "node-2", &json!([]));
    bare["metadata"]["labels"] = json!({"app": "bare"});
    let mut objects = spread();
    objects.extend([
        bare,
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "bare"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "bare"}}}}),
    ]);
    let plan = plan_with(objects, &["node-2"], &Choice::forced());
    assert_eq!((plan.blocked.len(), plan.waiting.len(), plan.is_complete()), (1, 0, false));
}

#[test]
fn a_replica_with_pods_to_spare_goes_in_parts_and_never_breaks() {
    let mut objects = spread();
    for object in objects.iter_mut().filter(|object| object["kind"] == "PodGroup") {
        object["spec"]["schedulingPolicy"]["gang"]["minCount"] = json!(1);
    }
    let plan = plan(objects, &["node-0", "node-1"]);
    assert_eq!((plan.broken(), plan.waves.len(), plan.estimated_seconds), (0, 1, Some(80)));
    insta::assert_snapshot!(render(&plan, false));
}

#[test]
fn a_broken_replica_is_what_everything_waits_for_and_may_itself_move() {
    let mut objects = spread();
    break_one(&mut objects);
    let plan = plan(objects, &["node-0", "node-1"]);
    insta::assert_snapshot!(render(&plan, false));
}

#[test]
fn nodes_that_kubectl_refuses_and_pods_without_room_are_told() {
    let mut objects = spread();
    objects.push(pod("bare", "node-1", &json!([])));
    for object in objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        object["spec"]["containers"] = json!([{"resources": {"requests": {"cpu": "2"}}}]);
    }
    let plan = plan(objects, &["node-0", "node-1"]);
    assert_eq!((plan.refused.len(), plan.pods_without_room), (1, 1));
    insta::assert_snapshot!(render(&plan, false));
}

#[test]
fn a_drain_that_has_nowhere_to_go_does_not_say_that_it_can() {
    let headline = |cpu: &str| {
        let mut objects = spread();
        for object in objects.iter_mut().filter(|object| object["kind"] == "Pod") {
            object["spec"]["containers"] = json!([{"resources": {"requests": {"cpu": cpu}}}]);
        }
        let plan = plan(objects, &["node-0", "node-1"]);
        assert!(plan.is_complete());
        (render(&plan, false).lines().next().unwrap().to_owned(), plan.has_room_for_some())
    };
    let stops = "node-0 node-1 will stop for lack of room elsewhere";
    assert_eq!(headline("100m"), ("node-0 node-1 can be drained, in about 2m".to_owned(), true));
    assert_eq!(headline("2"), (stops.to_owned(), true));
    assert_eq!(headline("5"), (stops.to_owned(), false));
}

#[test]
fn two_built_in_budgets_on_a_pod_are_for_ever() {
    let mut objects = spread();
    for name in ["one", "two"] {
        objects.push(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"maxUnavailable": 2, "selector": {"matchLabels": {"app": "llama"}}}}));
    }
    let plan = plan(objects, &["node-0"]);
    assert_eq!(plan.blocked.len(), 3);
    assert!(plan.blocked[0].reason.starts_with("serving/one and serving/two cover it"), "{plan:?}");
}
