//! Allowed evictions, and which grants of a write are new.

use holdfast_audit::Rule;
use holdfast_audit::objects::{Expression, Object, Selector, Threshold};
use serde_json::json;

use crate::{History, pairs, replicas};

fn two() -> History {
    let mut history = pairs(&["a", "b"]);
    history.store(replicas("one", &json!({"minAvailable": 1})));
    history
}

fn rule(history: &History, allow: &str) -> Option<Rule> {
    history.auditor.judge_allow(allow).map(|finding| finding.rule)
}

/// The budget is deleted and created again, without a status.
fn recreate(history: &mut History, name: &str) {
    let before = history.budget(name);
    history.auditor.deleted(&Object::Budget(before.clone()));
    let mut after = before;
    after.status.grants.clear();
    "another".clone_into(&mut after.uid);
    history.auditor.stored(Object::Budget(after));
}

#[test]
fn an_allow_needs_a_grant_in_every_covering_budget() {
    let mut history = two();
    history.grant("one", "a-0");
    let allow = history.allow("a-0");
    assert_eq!(rule(&history, &allow), None);
    history.store(replicas("two", &json!({"minAvailable": 1})));
    let again = history.allow("a-0");
    assert_eq!(rule(&history, &again), Some(Rule::S3));
}

#[test]
fn an_allow_of_a_pod_that_is_gone_takes_nothing() {
    let mut history = two();
    let allow = history.allow("a-0");
    assert_eq!(rule(&history, &allow), Some(Rule::S3));
    history.remove("a-0");
    assert_eq!(rule(&history, &allow), None);
}

/// An eviction is allowed because no budget is known to cover the pod.
fn pass(history: &mut History, pod: &str) -> String {
    let id = history.allow(pod);
    let mut allow = history.auditor.end(&id).expect("in flight");
    allow.recorded = false;
    history.auditor.allow(allow);
    id
}

#[test]
fn that_no_budget_covers_a_pod_may_be_known_as_of_five_seconds_ago() {
    let mut history = two();
    let id = pass(&mut history, "a-0");
    history.auditor.pass_time(5000);
    assert_eq!(rule(&history, &id), None);
    history.auditor.pass_time(5001);
    assert_eq!(rule(&history, &id), Some(Rule::S3));
}

#[test]
fn a_budget_that_is_created_again_with_the_same_selector_is_known() {
    let mut history = two();
    history.auditor.pass_time(9000);
    recreate(&mut history, "one");
    let id = pass(&mut history, "a-0");
    assert_eq!(rule(&history, &id), Some(Rule::S3));
    let key = history.budget("one").key;
    let auditor = &history.auditor;
    assert_eq!((auditor.covers_since(&key), auditor.created_at(&key)), (Some(0), Some(9000)));
}

#[test]
fn an_edited_threshold_leaves_a_budget_known_and_an_edited_selector_does_not() {
    let mut history = two();
    history.auditor.pass_time(9000);
    let id = pass(&mut history, "a-0");
    history.edit_budget("one", |budget| budget.min_available = Some(Threshold::Count(2)));
    assert_eq!(rule(&history, &id), Some(Rule::S3));
    let expressions = vec![Expression {
        key: "none".to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: Vec::new(),
    }];
    let selector = Selector { expressions, ..Selector::default() };
    history.edit_budget("one", |budget| budget.selector = Some(selector));
    assert_eq!(rule(&history, &id), None);
}

#[test]
fn an_allow_rests_on_the_grants_of_a_budget_that_was_created_again() {
    let mut history = two();
    history.grant("one", "a-0");
    recreate(&mut history, "one");
    let allow = history.allow("a-0");
    assert_eq!(rule(&history, &allow), None);
    let before = history.budget("one");
    history.grant("one", "a-0");
    history.grant("one", "b-0");
    let after = history.budget("one");
    let new = history.auditor.new_grants(&before, &after);
    assert_eq!(new.iter().map(|grant| grant.pod.as_str()).collect::<Vec<_>>(), ["b-0"]);
    let (old, known) = (&after.status.grants[..1], history.auditor.state());
    let finding = history.auditor.judge_grants(&after, (old, &new), known);
    assert_eq!(finding.map(|finding| finding.rule), Some(Rule::S1));
}
