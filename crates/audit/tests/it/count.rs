//! Semantics 2, 5 and 9: health, thresholds, and what a budget covers.

use serde_json::json;

use crate::{History, gang, lws, lws_pod, member, pairs, pods, ready_pod, replicas, with};

#[test]
fn a_replica_is_healthy_while_enough_of_its_pods_are() {
    let mut history = pairs(&["a"]);
    history.store(replicas("b", &json!({"minAvailable": 1})));
    assert_eq!(history.numbers("b").0, 1);
    history.edit_pod("a-0", |pod| pod.terminating = true);
    assert_eq!(history.numbers("b").0, 0, "terminating");
    history.edit_pod("a-0", |pod| (pod.terminating, pod.ready) = (false, false));
    assert_eq!(history.numbers("b").0, 0, "not ready");
    history.edit_pod("a-0", |pod| {
        pod.ready = true;
        pod.phase = holdfast_audit::objects::Phase::Unknown;
    });
    assert_eq!(history.numbers("b").0, 0, "not running");
}

#[test]
fn only_selected_pods_count() {
    let mut history = pairs(&["a"]);
    let mut budget = replicas("b", &json!({"minAvailable": 1}));
    budget["spec"]["selector"] = json!({"matchExpressions": [
        {"key": "app", "operator": "In", "values": ["a", "z"]},
        {"key": "old", "operator": "DoesNotExist"}]});
    history.store(budget);
    assert_eq!(history.numbers("b").0, 1);
    history.edit_pod("a-0", |pod| {
        pod.labels.insert("old".to_owned(), String::new());
    });
    assert_eq!(history.numbers("b").0, 0);
}

#[test]
fn percentages_round_up() {
    let mut history = History::default();
    history.store(lws("x", 7));
    history.store(lws_pod("x", 0, "x-0", 1));
    history.store(replicas("b", &json!({"minAvailable": "30%"})));
    assert_eq!(history.numbers("b"), (1, 3, 7));
    history.store(replicas("c", &json!({"maxUnavailable": "30%"})));
    assert_eq!(history.numbers("c"), (1, 4, 7));
}

#[test]
fn pods_are_counted_by_the_scale_of_their_controllers() {
    let mut history = History::default();
    history.store(json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 3},
        "metadata": {"name": "rs"}}));
    let reference = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs",
        "uid": "uid-rs", "controller": true}]);
    history.store(with(ready_pod("p"), "/metadata/ownerReferences", reference));
    history.store(pods("b", &json!({"maxUnavailable": 1})));
    assert_eq!(history.numbers("b"), (1, 2, 3));
    history.store(ready_pod("q"));
    assert!(history.count("b").closed.is_some(), "q has no controller");
    history.store(pods("c", &json!({"minAvailable": 1})));
    assert_eq!(history.numbers("c"), (2, 1, 2));
}

#[test]
fn no_selector_selects_nothing_and_an_unreadable_one_everything() {
    let mut history = pairs(&["a"]);
    let mut budget = replicas("b", &json!({"minAvailable": 1}));
    budget["spec"]["selector"] = json!(null);
    history.store(budget.clone());
    assert!(!history.budget("b").covers(&history.pod("a-0")));
    budget["spec"]["selector"] = json!("all of them");
    history.store(budget);
    assert!(history.budget("b").covers(&history.pod("a-0")));
    assert!(history.count("b").closed.is_some());
    assert!(history.blocks("b", "a-0"));
}

#[test]
fn a_pod_that_cannot_be_decoded_is_present_and_unhealthy() {
    let mut history = pairs(&["a"]);
    history.store(replicas("b", &json!({"minAvailable": 1})));
    history.store(with(member("a-0", "a"), "/status", json!(["what is this"])));
    let count = history.count("b");
    assert_eq!((count.healthy, count.expected), (0, 1));
}

#[test]
fn a_threshold_that_cannot_be_read_closes_the_budget() {
    let mut history = pairs(&["a"]);
    history.store(replicas("b", &json!({"minAvailable": "many"})));
    assert!(history.count("b").closed.is_some());
    assert_eq!(history.count("b").allowed(&history.budget("b")), 0);
}

#[test]
fn an_unavailable_budget_expects_the_scale_even_if_its_threshold_does_not_need_it() {
    let mut history = History::default();
    history.store(json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 3},
        "metadata": {"name": "rs"}}));
    let reference = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs",
        "uid": "uid-rs", "controller": true}]);
    history.store(with(ready_pod("p"), "/metadata/ownerReferences", reference));
    history.store(json!({"apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
        "metadata": {"name": "b"}, "spec": {"selector": {}, "minAvailable": 1}}));
    assert_eq!(history.numbers("b"), (1, 1, 3));
}

#[test]
fn groups_by_label_of_a_leader_worker_set_count_only_whole() {
    let mut history = History::default();
    history.store(lws("x", 2));
    for (index, name) in [(0, "x-0"), (0, "x-0-1"), (1, "x-1"), (1, "x-1-1")] {
        let mut pod = lws_pod("x", index, name, 2);
        pod["metadata"]["labels"]["group"] = json!(format!("g{index}"));
        history.store(pod);
    }
    history.store(json!({
        "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {}, "maxUnavailable": 1,
            "podGroupPolicy": {"groupLabelKey": "group", "minReadyReplicas": 1}},
    }));
    assert_eq!(history.numbers("b"), (2, 1, 2));
    history.remove("x-0-1");
    assert_eq!(history.numbers("b"), (1, 1, 2), "the set deletes the rest");
    assert!(history.blocks("b", "x-1"));
    assert!(!history.blocks("b", "x-0"), "x-0 is of the group that is broken");
}

#[test]
fn a_status_that_differs_is_found() {
    let mut history = pairs(&["a", "b"]);
    history.store(replicas("b", &json!({"minAvailable": 1})));
    history.edit_budget("b", |budget| {
        let status = &mut budget.status;
        (status.allowed, status.healthy, status.desired, status.expected) = (1, 2, 1, 2);
    });
    assert_eq!(history.auditor.judge_status(&history.budget("b")), None);
    history.edit_budget("b", |budget| budget.status.expected = 1);
    assert!(history.auditor.judge_status(&history.budget("b")).is_some());
    history.store(gang("a", 0));
    history.edit_budget("b", |budget| budget.status.allowed = 0);
    assert_eq!(history.auditor.judge_status(&history.budget("b")), None, "closed: only allowed");
    history.edit_budget("b", |budget| budget.status.allowed = 1);
    assert!(history.auditor.judge_status(&history.budget("b")).is_some());
}
