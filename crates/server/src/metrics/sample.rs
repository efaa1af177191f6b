//! A page on which every metric has a value: what the reference in docs/ is made from.

use std::time::Duration;

use holdfast_core::gang::Counts;
use holdfast_core::model::{ObjectKey, Operation, Timestamp};
use holdfast_core::verdict::{AllowReason, Allowed, Verdict};
use holdfast_core::{Eviction, Stats};

use super::Metrics;
use crate::covered::Groups;

pub fn page() -> String {
    let metrics = Metrics::new(1_700_000_000);
    let allowed = Allowed { reason: AllowReason::NotCovered, uid: None, grants: Vec::new() };
    let allow = Verdict::Allow(allowed);
    metrics.decided(&eviction(Operation::Evict, "p"), &allow, Duration::from_millis(1));
    metrics.decided(&eviction(Operation::Delete, "p"), &allow, Duration::from_millis(1));
    metrics.exempt("node-gone");
    let (one, other) = (ObjectKey::new("n", "web"), ObjectKey::new("n", "gone"));
    let groups = Groups { total: 3, available: 2 };
    metrics.publish_groups([(&one, groups), (&other, groups)].into_iter());
    metrics.publish_groups([(&one, groups)].into_iter());
    metrics.status_written("current", Duration::from_millis(3));
    metrics.undecodable_object("pods");
    metrics.watch_restarted("pods");
    metrics.etcd_restored("pods");
    metrics.listen("pods").now();
    metrics.committing(3);
    metrics.committing(0);
    metrics.conflict();
    metrics.leads(true);
    metrics.asked(true);
    metrics.placed("into");
    metrics.publish_gangs(Counts { waiting: 3, let_go: 2, whole: 1 });
    metrics.acted("lift", "done");
    let mut stats = Stats { workload_budgets: 2, grants: 5, queued: 1, ..Default::default() };
    stats.budgets.impossible = 3;
    stats.counters.workload_reconciliations = 7;
    stats.counters.misconfigured = 4;
    stats.unreadable_pods = 6;
    stats.counters.queue_adds = 9;
    metrics.publish(&stats);
    metrics.publish(&stats);
    metrics.render()
}

pub fn eviction(operation: Operation, pod: &str) -> Eviction {
    Eviction {
        id: "3f2a91c0-7a0e".to_owned(),
        pod: ObjectKey::new("n", pod),
        operation,
        object: None,
        generation: 0,
        exempt: false,
        uid: None,
        requester: "drainer".to_owned(),
        dry_run: false,
        by_name: false,
        deadline: Timestamp::default(),
    }
}
