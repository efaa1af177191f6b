//! What an operator is told adds up.

use holdfast_core::Stats;
use holdfast_core::model::{LabelSelector, Operator, Requirement, Scope, Threshold};

use super::lone::{Lone, max_unavailable, min_available, owned, pod, replica_set};

#[test]
fn stats_count_budgets_grants_and_work() {
    let mut lone = Lone::new();
    assert_eq!(lone.engine.stats(), Stats::default());
    lone.pod(pod("a"));
    lone.pod(pod("b"));
    lone.budget(min_available("pods", Threshold::Count(1)));
    let mut replicas = min_available("replicas", Threshold::Count(1));
    replicas.spec.scope = Scope::Workload;
    lone.budget(replicas);
    let mut wrong = min_available("wrong", Threshold::Count(1));
    let operator = Operator::Other("Near".to_owned());
    let near = Requirement { key: "a".to_owned(), operator, values: Vec::new() };
    wrong.spec.selector =
        Some(LabelSelector { match_expressions: vec![near], ..Default::default() });
    lone.budget(wrong);
    lone.settle();
    let stats = lone.engine.stats();
    assert_eq!((stats.workload_budgets, stats.grants, stats.queued), (1, 0, 0));
    assert_eq!((stats.budgets.all, stats.budgets.misconfigured), (3, 1));
    assert_eq!((stats.budgets.impossible, stats.budgets.uncountable), (0, 1));
    assert!(stats.counters.pod_reconciliations > 0);
    assert!(stats.counters.queue_adds >= 2);
    assert_eq!(stats.counters.queue_retries, 0);
    // Neither pod names a replica.
    assert!(stats.counters.misconfigured > 0);
    assert!(stats.counters.misconfigured <= stats.counters.workload_reconciliations);
}

#[test]
fn a_budget_that_can_never_allow_is_counted_as_such() {
    let mut lone = Lone::new();
    let set = replica_set("web", 2);
    lone.owner(set.clone());
    lone.pod(owned("a", &set));
    lone.pod(owned("b", &set));
    lone.budget(max_unavailable("never", Threshold::Count(0)));
    lone.budget(max_unavailable("some", Threshold::Count(1)));
    let budgets = lone.engine.stats().budgets;
    assert_eq!((budgets.all, budgets.impossible, budgets.uncountable), (2, 1, 0));
}
