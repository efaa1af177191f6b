use super::{Metrics, sample};

#[test]
fn the_page_names_every_metric() {
    let page = sample::page();
    for line in [
        "evictions_total{result=\"allowed\",reason=\"NotCovered\"} 1",
        "holdfast_operations_total{operation=\"EVICT\",result=\"allowed\",reason=\"NotCovered\"} 1",
        "holdfast_operations_total{operation=\"DELETE\",result=\"allowed\",reason=\"NotCovered\"} 1",
        "holdfast_pub_groups{namespace=\"n\",name=\"web\",state=\"available\"} 2",
        "holdfast_exemptions_total{reason=\"node-gone\"} 1",
        "holdfast_decision_seconds_count 2",
        "holdfast_decision_seconds_bucket{le=\"0.001\"} 2 # {decision=\"3f2a91c0\"} 0.001",
        "holdfast_blocked_seconds 0.0",
        "holdfast_budgets{state=\"impossible\"} 3",
        "holdfast_commit_seconds_count 1",
        "holdfast_status_writes_total{outcome=\"current\"} 1",
        "holdfast_undecodable_objects_total{kind=\"pods\"} 1",
        "holdfast_watch_restarts_total{kind=\"pods\"} 1",
        "holdfast_watch_lag_seconds{kind=\"pods\"} 0.",
        "holdfast_commit_batch_size_sum 3",
        "holdfast_commit_batch_size_count 1",
        "holdfast_conflicts_total 1",
        "holdfast_leader 1",
        "holdfast_asked 1\n",
        "holdfast_gangs{state=\"let-go\"} 2",
        "holdfast_placements_total{outcome=\"into\"} 1",
        "holdfast_gang_actions_total{action=\"lift\",outcome=\"done\"} 1",
        "holdfast_grants_in_flight 5",
        "holdfast_unreadable_pods 6",
        "holdfast_budgets{state=\"unreadable\"} 0",
        "disruption_controller_pdbs_using_pod_grouping 2",
        "disruption_controller_reconciliations_total{mode=\"workload\"} 7",
        "disruption_controller_reconciliations_total{mode=\"pod\"} 0",
        "disruption_controller_pdb_grouping_misconfig_total 4",
        "holdfast_invariant_violations_total{id=\"S1\"} 0",
        "workqueue_depth{name=\"disruption\"} 1",
        "workqueue_adds_total{name=\"disruption\"} 9",
        "workqueue_retries_total{name=\"disruption\"} 0",
        "holdfast_build_info{version=",
        "process_start_time_seconds 1700000000",
    ] {
        assert!(page.contains(line), "{line} is missing in\n{page}");
    }
    assert!(!page.contains("gone\",state"), "{page}");
}

/// So that none is missing in the reference.
#[test]
fn the_sample_has_every_metric() {
    let registered = include_str!("../metrics.rs").matches("registry.register(").count();
    let page = sample::page();
    assert_eq!(
        page.lines().filter(|line| line.starts_with("# HELP ")).count(),
        registered,
        "{page}"
    );
}

#[test]
fn nobody_is_alarmed_before_it_is_known_whether_evictions_are_asked_about() {
    let metrics = Metrics::new(0);
    assert!(!metrics.render().contains("holdfast_asked"));
    metrics.asked(false);
    assert!(metrics.render().contains("holdfast_asked 0\n"));
}
