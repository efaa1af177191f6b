use super::*;
use holdfast_core::verdict::{AllowReason, Allowed};

#[test]
fn the_page_names_every_metric() {
    let metrics = Metrics::new(1_700_000_000);
    let allowed = Allowed { reason: AllowReason::NotCovered, uid: None, grants: Vec::new() };
    let allow = Verdict::Allow(allowed);
    metrics.decided(Operation::Evict, &allow, Duration::from_millis(1));
    metrics.decided(Operation::Delete, &allow, Duration::from_millis(1));
    metrics.exempt("node-gone");
    let (one, other) = (ObjectKey::new("n", "web"), ObjectKey::new("n", "gone"));
    let groups = Groups { total: 3, available: 2 };
    metrics.publish_groups([(&one, groups), (&other, groups)].into_iter());
    metrics.publish_groups([(&one, groups)].into_iter());
    metrics.status_written("current", Duration::from_millis(3));
    metrics.undecodable_object("pods");
    metrics.watch_restarted("pods");
    metrics.listen("pods").now();
    metrics.committing(3);
    metrics.committing(0);
    metrics.conflict();
    metrics.leads(true);
    metrics.placed("into");
    metrics.publish_gangs(Counts { waiting: 3, let_go: 2, whole: 1 });
    metrics.acted("lift", "done");
    let mut stats = Stats { workload_budgets: 2, grants: 5, queued: 1, ..Default::default() };
    stats.counters.workload_reconciliations = 7;
    stats.counters.misconfigured = 4;
    stats.counters.queue_adds = 9;
    metrics.publish(&stats);
    metrics.publish(&stats);
    let page = metrics.render();
    for line in [
        "evictions_total{result=\"allowed\",reason=\"NotCovered\"} 1",
        "holdfast_operations_total{operation=\"EVICT\",result=\"allowed\",reason=\"NotCovered\"} 1",
        "holdfast_operations_total{operation=\"DELETE\",result=\"allowed\",reason=\"NotCovered\"} 1",
        "holdfast_pub_groups{namespace=\"n\",name=\"web\",state=\"available\"} 2",
        "holdfast_exemptions_total{reason=\"node-gone\"} 1",
        "holdfast_decision_seconds_count 2",
        "holdfast_commit_seconds_count 1",
        "holdfast_status_writes_total{outcome=\"current\"} 1",
        "holdfast_undecodable_objects_total{kind=\"pods\"} 1",
        "holdfast_watch_restarts_total{kind=\"pods\"} 1",
        "holdfast_watch_lag_seconds{kind=\"pods\"} 0.",
        "holdfast_commit_batch_size_sum 3",
        "holdfast_commit_batch_size_count 1",
        "holdfast_conflicts_total 1",
        "holdfast_leader 1",
        "holdfast_gangs{state=\"let-go\"} 2",
        "holdfast_placements_total{outcome=\"into\"} 1",
        "holdfast_gang_actions_total{action=\"lift\",outcome=\"done\"} 1",
        "holdfast_grants_in_flight 5",
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
