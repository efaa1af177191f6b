//! Semantics 6: which evictions a budget refuses.

use holdfast_audit::ORPHANS_KEPT_MS;
use holdfast_audit::objects::{Object, Phase};
use serde_json::json;

use crate::{History, gang, member, pairs, pods, ready_pod, replicas, with};

fn minimum(n: i64) -> serde_json::Value {
    replicas("b", &json!({"minAvailable": n}))
}

#[test]
fn rule_1_pods_that_do_not_run_go() {
    let mut history = pairs(&["a"]);
    history.store(minimum(1));
    assert!(history.blocks("b", "a-0"));
    for phase in [Phase::Pending, Phase::Succeeded, Phase::Failed] {
        history.edit_pod("a-0", |pod| pod.phase = phase);
        assert!(!history.blocks("b", "a-0"), "{phase:?}");
    }
    history.edit_pod("a-0", |pod| (pod.phase, pod.terminating) = (Phase::Running, true));
    assert!(!history.blocks("b", "a-0"));
}

#[test]
fn rule_3_always_allow_lets_unready_pods_go() {
    let mut history = pairs(&["a"]);
    history.store(minimum(1));
    history.edit_pod("a-0", |pod| pod.ready = false);
    assert!(history.blocks("b", "a-0"), "healthy 0 of 1");
    history.edit_budget("b", |budget| budget.always_allow = true);
    assert!(!history.blocks("b", "a-0"));
}

#[test]
fn rule_4_without_a_reference_or_with_an_unresolved_replica_nothing_goes() {
    let mut history = pairs(&["a", "b"]);
    history.store(minimum(1));
    assert!(!history.blocks("b", "a-0"));
    history.store(ready_pod("alone"));
    assert!(history.blocks("b", "alone"));
    assert!(!history.blocks("b", "a-0"), "a pod without a reference closes nothing");
    history.store(member("c-0", "missing"));
    assert!(history.blocks("b", "a-0"), "PodGroup missing does not exist");
}

#[test]
fn rule_5_a_surplus_pod_goes_at_no_cost() {
    let mut history = pairs(&["a"]);
    history.store(gang("a", 1));
    history.store(minimum(1));
    assert!(!history.blocks("b", "a-0"));
    history.edit_pod("a-1", |pod| pod.ready = false);
    assert!(history.blocks("b", "a-0"), "the last healthy one");
    assert!(!history.blocks("b", "a-1"), "5b: an unhealthy pod of a healthy replica");
    history.edit_budget("b", |budget| {
        budget.min_available = Some(holdfast_audit::objects::Threshold::Count(2));
    });
    assert!(history.blocks("b", "a-1"), "5b: only while enough are healthy");
}

#[test]
fn rule_6_a_broken_replica_goes_while_enough_are_healthy() {
    let mut history = pairs(&["a", "b"]);
    history.store(minimum(1));
    history.edit_pod("a-0", |pod| pod.ready = false);
    assert!(!history.blocks("b", "a-1"));
    history.edit_pod("b-0", |pod| pod.ready = false);
    assert!(history.blocks("b", "a-1"));
    history.edit_budget("b", |budget| budget.always_allow = true);
    assert!(!history.blocks("b", "a-1"), "broken without any grant");
}

#[test]
fn rule_6_always_allow_is_not_for_replicas_that_only_grants_break() {
    let mut history = pairs(&["a"]);
    history.store(minimum(1));
    history.edit_budget("b", |budget| budget.always_allow = true);
    history.grant("b", "a-0");
    assert!(history.blocks("b", "a-1"));
}

#[test]
fn rule_7_a_replica_is_broken_only_if_one_may_be() {
    let mut history = pairs(&["a", "b"]);
    history.store(minimum(1));
    assert!(!history.blocks("b", "a-0"));
    history.grant("b", "b-0");
    assert!(history.blocks("b", "a-0"), "b is disrupted");
    assert!(!history.blocks("b", "b-1"), "b is broken already");
}

#[test]
fn grants_of_other_and_of_lately_deleted_budgets_count() {
    let mut history = pairs(&["a", "b"]);
    history.store(minimum(1));
    history.store(replicas("other", &json!({"minAvailable": 0})));
    history.grant("other", "b-0");
    assert!(history.blocks("b", "a-0"));
    assert!(!history.blocks("b", "b-0"), "its own grant elsewhere stands for this disruption");
    let other = history.budget("other");
    history.auditor.deleted(&holdfast_audit::objects::Object::Budget(other));
    assert!(history.blocks("b", "a-0"));
    history.auditor.pass_time(holdfast_audit::ORPHANS_KEPT_MS);
    assert!(!history.blocks("b", "a-0"));
}

#[test]
fn single_pods_go_by_upstreams_rule() {
    let mut history = History::default();
    history.store(ready_pod("p"));
    history.store(ready_pod("q"));
    history.store(pods("b", &json!({"minAvailable": 1})));
    assert!(!history.blocks("b", "p"));
    history.grant("b", "q");
    assert!(history.blocks("b", "p"));
    history.edit_pod("p", |pod| pod.ready = false);
    history.drop_grants("b");
    assert!(!history.blocks("b", "p"), "unhealthy, and the budget is healthy");
    assert!(history.blocks("b", "q"));
    history.store(with(pods("b", &json!({"minAvailable": 0})), "/spec/selector", json!({})));
    history.edit_pod("q", |pod| pod.ready = false);
    assert!(history.blocks("b", "p"), "upstream asks for a desired count above 0");
}

/// A new process may list from an API server that is behind, and then learns of the deletion late.
#[test]
fn a_grant_of_a_deleted_budget_counts_until_every_instance_has_known_of_the_deletion_for_long() {
    let mut history = pairs(&["a", "b"]);
    history.store(minimum(1));
    history.store(replicas("gone", &json!({"minAvailable": 0})));
    history.grant("gone", "a-0");
    let gone = history.budget("gone");
    history.auditor.deleted(&Object::Budget(gone));
    assert!(history.blocks("b", "b-0"));
    history.auditor.pass_time(ORPHANS_KEPT_MS + 1);
    assert!(!history.blocks("b", "b-0"));
    history.auditor.tell_deletions(&|_, _| false);
    assert!(history.blocks("b", "b-0"));
    history.auditor.pass_time(2 * ORPHANS_KEPT_MS + 1);
    history.auditor.tell_deletions(&|_, _| true);
    assert!(!history.blocks("b", "b-0"));
}
