//! Whole answers, as they are printed.

use holdfast_core::Config;
use holdfast_core::model::Timestamp;
use serde_json::{Value, json};

use super::report::Report;
use super::text;
use crate::ask::sample::{break_one, objects};
use crate::ask::{Builtins, Cluster, Selector, documents};

/// The sample with a broken replica, a grant in flight, and a built-in budget.
fn troubled() -> Vec<Value> {
    let mut objects = objects();
    break_one(&mut objects);
    objects[0]["metadata"]["labels"] = json!({"team": "a"});
    objects[0]["status"] = json!({"grants": [{"pod": "llama-1-0", "uid": "Pod/llama-1-0",
        "replica": "PodGroup llama-1", "cost": 1, "requester": "admin",
        "time": "1970-01-01T00:16:10Z", "eviction": "e-1"}]});
    objects.push(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "llama"},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app": "llama"}}},
    }));
    objects
}

fn report(objects: Vec<Value>, name: Option<&str>, selector: Option<&str>) -> Report {
    let lists = documents::lists(objects, "serving");
    let now = Timestamp::from_secs(1_000);
    let cluster = Cluster::new(Config::default(), lists, now, Builtins::Counted);
    let selector: Option<Selector> = selector.map(|selector| selector.parse().unwrap());
    Report::of(&cluster, name, selector.as_ref())
}

#[test]
fn all_budgets_are_a_table_and_grants_in_flight_another() {
    let report = report(troubled(), None, None);
    insta::assert_snapshot!(text::table(&report, true, true));
}

#[test]
fn one_budget_is_a_tree_down_to_nodes() {
    let report = report(troubled(), Some("llama"), None);
    assert_eq!(report.budgets.len(), 2);
    insta::assert_snapshot!(text::tree(&report, false));
    insta::assert_snapshot!(serde_json::to_string_pretty(&report.budgets[0]).unwrap());
}

#[test]
fn replicas_are_in_the_order_of_their_numbers_and_a_single_pod_is_no_pods() {
    let text = Value::from(objects()).to_string();
    let text = text.replace("llama-0", "llama-10").replace("Count\":2", "Count\":1");
    let objects = serde_json::from_str(&text).unwrap();
    let report = report(objects, Some("llama"), None);
    let names: Vec<&str> = report.budgets[0].replicas.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["PodGroup llama-1", "PodGroup llama-2", "PodGroup llama-10"]);
    let text = text::tree(&report, false);
    assert!(text.contains("  PodGroup llama-10: healthy, 2 of 1 pod\n"), "{text}");
}

#[test]
fn budgets_are_chosen_by_name_kind_and_label() {
    let count = |name, selector| report(troubled(), name, selector).budgets.len();
    assert_eq!(count(Some("pdb/llama"), None), 2);
    assert_eq!(count(Some("pub/llama"), None), 0);
    assert_eq!(count(None, Some("team=a")), 1);
    assert_eq!(count(None, Some("team!=a")), 1);
    assert_eq!(count(None, Some("team")), 1);
}

#[test]
fn only_what_has_changed_is_a_change() {
    let (before, mut after) = (report(troubled(), None, None), report(troubled(), None, None));
    after.now = Timestamp::from_secs(2_000);
    assert_eq!(before, after);
    assert_ne!(before, report(objects(), None, None));
}
