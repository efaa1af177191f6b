//! What an operator can watch.

mod asked;
mod blocked;
pub mod sample;
#[cfg(test)]
mod tests;
mod watch_lag;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_core::gang::Counts;
use holdfast_core::invariant::Invariant;
use holdfast_core::model::{ObjectKey, Operation};
use holdfast_core::verdict::{Verdict, decision};
use holdfast_core::{Eviction, Stats};
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::covered::Groups;
use asked::Asked;
use blocked::Blocked;
pub use watch_lag::Heard;
use watch_lag::WatchLag;

#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    evictions: Family<ResultLabels, Counter>,
    operations: Family<OperationLabels, Counter>,
    exemptions: Family<ReasonLabels, Counter>,
    groups: Family<GroupLabels, Gauge>,
    decision_seconds: HistogramWithExemplars<DecisionLabels>,
    commit_seconds: Histogram,
    commit_batch_size: Histogram,
    conflicts: Counter,
    status_writes: Family<OutcomeLabels, Counter>,
    undecodable: Family<KindLabels, Counter>,
    watch_restarts: Family<KindLabels, Counter>,
    etcd_restores: Family<KindLabels, Counter>,
    watch_lag: WatchLag,
    events_dropped: Counter,
    spans_dropped: Counter,
    blocked: Blocked,
    leader: Gauge,
    certificate_until: Gauge,
    asked: Asked,
    budgets: Family<StateLabels, Gauge>,
    grants_in_flight: Gauge,
    unreadable_pods: Gauge,
    using_pod_grouping: Gauge,
    reconciliations: Family<ModeLabels, Counter>,
    misconfigurations: Counter,
    violations: Family<InvariantLabels, Counter>,
    queue_depth: Family<QueueLabels, Gauge>,
    queue_adds: Family<QueueLabels, Counter>,
    queue_retries: Family<QueueLabels, Counter>,
    placements: Family<OutcomeLabels, Counter>,
    gang_actions: Family<ActionLabels, Counter>,
    gangs: Family<StateLabels, Gauge>,
}

impl Metrics {
    pub fn new(started_secs: i64) -> Self {
        // 0.25 ms to 8 s: a cached answer takes less than a millisecond, a deadline nine seconds.
        let seconds = || exponential_buckets(0.000_25, 2.0, 16);
        let mut metrics = Self {
            registry: Arc::default(),
            evictions: Family::default(),
            operations: Family::default(),
            exemptions: Family::default(),
            groups: Family::default(),
            decision_seconds: HistogramWithExemplars::new(seconds()),
            commit_seconds: Histogram::new(seconds()),
            // Up to 512: the API server lets through some hundreds of requests at a time.
            commit_batch_size: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            conflicts: Counter::default(),
            status_writes: Family::default(),
            undecodable: Family::default(),
            watch_restarts: Family::default(),
            etcd_restores: Family::default(),
            watch_lag: WatchLag::default(),
            events_dropped: Counter::default(),
            spans_dropped: Counter::default(),
            blocked: Blocked::default(),
            leader: Gauge::default(),
            certificate_until: Gauge::default(),
            asked: Asked::default(),
            budgets: Family::default(),
            grants_in_flight: Gauge::default(),
            unreadable_pods: Gauge::default(),
            using_pod_grouping: Gauge::default(),
            reconciliations: Family::default(),
            misconfigurations: Counter::default(),
            violations: Family::default(),
            queue_depth: Family::default(),
            queue_adds: Family::default(),
            queue_retries: Family::default(),
            placements: Family::default(),
            gang_actions: Family::default(),
            gangs: Family::default(),
        };
        metrics.registry = Arc::new(metrics.register(started_secs));
        metrics
    }

    /// The engine's numbers, for the next page.
    pub fn publish(&self, stats: &Stats) {
        let counters = &stats.counters;
        self.using_pod_grouping.set(signed(stats.workload_budgets));
        self.grants_in_flight.set(signed(stats.grants));
        self.unreadable_pods.set(signed(stats.unreadable_pods));
        let budgets = stats.budgets;
        for (state, count) in [
            ("all", budgets.all),
            ("impossible", budgets.impossible),
            ("misconfigured", budgets.misconfigured),
            ("uncountable", budgets.uncountable),
            ("unreadable", budgets.unreadable),
        ] {
            self.budgets.get_or_create(&StateLabels { state }).set(signed(count));
        }
        for (mode, count) in
            [("pod", counters.pod_reconciliations), ("workload", counters.workload_reconciliations)]
        {
            raise(&self.reconciliations.get_or_create(&ModeLabels { mode }), count);
        }
        raise(&self.misconfigurations, counters.misconfigured);
        for invariant in Invariant::LOOKED_AT {
            let labels = InvariantLabels { id: invariant.to_string() };
            raise(&self.violations.get_or_create(&labels), counters.violations.of(*invariant));
        }
        self.queue_depth.get_or_create(&QUEUE).set(signed(stats.queued));
        raise(&self.queue_adds.get_or_create(&QUEUE), counters.queue_adds);
        raise(&self.queue_retries.get_or_create(&QUEUE), counters.queue_retries);
    }

    /// Of all budgets that count groups, for the next page. Those that are gone leave nothing behind.
    pub fn publish_groups<'a>(&self, budgets: impl Iterator<Item = (&'a ObjectKey, Groups)>) {
        self.groups.clear();
        for (ObjectKey { namespace, name }, groups) in budgets {
            for (state, count) in [("total", groups.total), ("available", groups.available)] {
                let (namespace, name) = (namespace.clone(), name.clone());
                self.groups.get_or_create(&GroupLabels { namespace, name, state }).set(count);
            }
        }
    }

    pub fn leads(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// Whether no eviction passes unasked.
    pub fn asked(&self, asked: bool) {
        self.asked.set(asked);
    }

    /// When the certificate that is served ends, in Unix time.
    pub fn certificate_until(&self, secs: i64) {
        self.certificate_until.set(secs);
    }

    /// The clock of one kind's watch.
    pub fn listen(&self, kind: &str) -> Heard {
        self.watch_lag.listen(kind)
    }

    /// A status write with grants that somebody waits for. Others are none of an eviction's.
    pub fn committing(&self, grants: usize) {
        if grants > 0 {
            self.commit_batch_size.observe(f64::from(u32::try_from(grants).unwrap_or(u32::MAX)));
        }
    }

    pub fn conflict(&self) {
        self.conflicts.inc();
    }

    /// The text that Prometheus reads.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a String does not fail; an empty page would show up as a failed scrape.
        let _ = encode(&mut text, &self.registry);
        text
    }

    pub fn decided(&self, eviction: &Eviction, verdict: &Verdict, took: Duration) {
        let operation = eviction.operation;
        let (result, reason) = match verdict {
            Verdict::Allow(allowed) => ("allowed", format!("{:?}", allowed.reason)),
            Verdict::Deny(denial) => ("denied", format!("{:?}", denial.reason)),
        };
        self.blocked.decided(eviction, verdict.is_allow());
        if operation == Operation::Evict {
            let reason = reason.clone();
            self.evictions.get_or_create(&ResultLabels { result, reason }).inc();
        }
        let operation = operation.name();
        self.operations.get_or_create(&OperationLabels { operation, result, reason }).inc();
        // Any of them is as good an example; a scrape shows the last of each bucket.
        let decision = DecisionLabels { decision: decision(&eviction.id).to_owned() };
        self.decision_seconds.observe(took.as_secs_f64(), Some(decision), None);
    }

    /// What would have been denied, and is the system at work.
    pub fn exempt(&self, reason: &'static str) {
        self.exemptions.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// An admission request that is no eviction that we can read.
    pub fn unreadable_request(&self) {
        let labels = ResultLabels { result: "denied", reason: "Unreadable".to_owned() };
        self.evictions.get_or_create(&labels).inc();
    }

    pub fn status_written(&self, outcome: &'static str, took: Duration) {
        self.status_writes.get_or_create(&OutcomeLabels { outcome }).inc();
        self.commit_seconds.observe(took.as_secs_f64());
    }

    pub fn undecodable_object(&self, kind: &str) {
        self.undecodable.get_or_create(&KindLabels { kind: kind.to_owned() }).inc();
    }

    pub fn watch_restarted(&self, kind: &str) {
        self.watch_restarts.get_or_create(&KindLabels { kind: kind.to_owned() }).inc();
    }

    /// A list of this kind was older than what had been seen before.
    pub fn etcd_restored(&self, kind: &str) {
        self.etcd_restores.get_or_create(&KindLabels { kind: kind.to_owned() }).inc();
    }

    /// A pod that was asked about.
    pub fn placed(&self, outcome: &'static str) {
        self.placements.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Something was done for a gang, or was not.
    pub fn acted(&self, action: &'static str, outcome: &'static str) {
        self.gang_actions.get_or_create(&ActionLabels { action, outcome }).inc();
    }

    /// How gangs stand that we start.
    pub fn publish_gangs(&self, counts: Counts) {
        for (state, count) in
            [("waiting", counts.waiting), ("let-go", counts.let_go), ("whole", counts.whole)]
        {
            self.gangs.get_or_create(&StateLabels { state }).set(signed(count));
        }
    }

    pub fn event_dropped(&self) {
        self.events_dropped.inc();
    }

    pub fn spans_dropped(&self, count: usize) {
        self.spans_dropped.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    fn register(&self, started_secs: i64) -> Registry {
        let mut registry = Registry::default();
        let info = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register(
            "process_start_time_seconds",
            "Unix time of start",
            ConstGauge::new(started_secs),
        );
        // The library appends `_info` and `_total`.
        registry.register("holdfast_build", "The running version", info);
        registry.register(
            "evictions",
            "Evictions answered, by result and reason",
            self.evictions.clone(),
        );
        registry.register(
            "holdfast_operations",
            "Evictions, deletes, updates and resizes of pods answered, by result and reason",
            self.operations.clone(),
        );
        registry.register(
            "holdfast_exemptions",
            "Deletes, updates and resizes that a PodUnavailableBudget had no room for and that are the \
             system at work, by what shows it",
            self.exemptions.clone(),
        );
        registry.register(
            "holdfast_pub_groups",
            "Groups of a PodUnavailableBudget with podGroupPolicy, by its status",
            self.groups.clone(),
        );
        registry.register(
            "holdfast_decision_seconds",
            "Time from the arrival of a request to its answer",
            self.decision_seconds.clone(),
        );
        registry.register(
            "holdfast_commit_seconds",
            "Time that a status write took, retries included",
            self.commit_seconds.clone(),
        );
        registry.register(
            "holdfast_commit_batch_size",
            "Evictions that one status write recorded; writes without any are not counted",
            self.commit_batch_size.clone(),
        );
        registry.register(
            "holdfast_conflicts",
            "Status writes that lost to another writer, so that everything in them was decided again",
            self.conflicts.clone(),
        );
        registry.register(
            "holdfast_status_writes",
            "Status writes, by outcome",
            self.status_writes.clone(),
        );
        registry.register(
            "holdfast_undecodable_objects",
            "Versions of objects that could not be read",
            self.undecodable.clone(),
        );
        registry.register(
            "holdfast_watch_restarts",
            "Watches that broke off or had to list again",
            self.watch_restarts.clone(),
        );
        registry.register(
            "holdfast_etcd_restores",
            "Caches that were rebuilt because etcd was restored to an older state",
            self.etcd_restores.clone(),
        );
        registry.register(
            "holdfast_events_dropped",
            "Kubernetes Events that were not published because too many came at once",
            self.events_dropped.clone(),
        );
        registry.register(
            "holdfast_spans_dropped",
            "Decisions that are missing in the traces, because too many came at once or the collector did not take them",
            self.spans_dropped.clone(),
        );
        registry.register(
            "holdfast_watch_lag_seconds",
            "Time since anything, be it a change or the bookmark of every minute, came on the watch of \
             this kind: an upper bound for the age of the cache",
            self.watch_lag.clone(),
        );
        registry.register(
            "holdfast_certificate_expiry_timestamp_seconds",
            "Unix time at which the certificate that is served ends",
            self.certificate_until.clone(),
        );
        registry.register(
            "holdfast_asked",
            "Whether API servers ask about every eviction (1), or evictions pass unasked (0) because the webhook \
             was deleted or weakened and policy/v1 is not Holdfast's, and budgets protect nothing",
            self.asked.clone(),
        );
        self.register_engine(&mut registry);
        registry.register(
            "holdfast_placements",
            "Pods that were asked about at their creation: put into a group, left alone, or refused because \
             something was not seen in time or a group could not be made",
            self.placements.clone(),
        );
        registry.register(
            "holdfast_gang_actions",
            "What was done to pods and PodGroups for gangs, by outcome",
            self.gang_actions.clone(),
        );
        registry.register(
            "holdfast_gangs",
            "Gangs that Holdfast starts, as the leader sees them: waiting for pods or room, let go and on \
             their way to nodes, or whole",
            self.gangs.clone(),
        );
        registry
    }

    fn register_engine(&self, registry: &mut Registry) {
        registry.register(
            "holdfast_leader",
            "Whether this instance keeps the statuses up to date (1) or another does (0)",
            self.leader.clone(),
        );
        registry.register(
            "holdfast_blocked_seconds",
            "How long the longest waiting pod, of those whose eviction is asked for again and again, has been refused",
            self.blocked.clone(),
        );
        registry.register(
            "holdfast_budgets",
            "Budgets: all; impossible ones, which can never allow a disruption; misconfigured ones, by their \
             condition BudgetConfigured; uncountable ones, which allow nothing until something is mended; unreadable \
             ones, which cannot be decoded and are among the uncountable",
            self.budgets.clone(),
        );
        registry.register(
            "holdfast_unreadable_pods",
            "Pods that cannot be decoded, and so count as present and unhealthy",
            self.unreadable_pods.clone(),
        );
        registry.register(
            "holdfast_grants_in_flight",
            "Grants that count against a budget: evictions allowed and not seen to be done",
            self.grants_in_flight.clone(),
        );
        registry.register(
            "disruption_controller_pdbs_using_pod_grouping",
            "Budgets that are counted in replicas",
            self.using_pod_grouping.clone(),
        );
        registry.register(
            "disruption_controller_reconciliations",
            "Statuses computed, written or not, by what the budget counts",
            self.reconciliations.clone(),
        );
        registry.register(
            "disruption_controller_pdb_grouping_misconfig",
            "Statuses computed of budgets whose pods are not all replicas of one workload",
            self.misconfigurations.clone(),
        );
        registry.register(
            "holdfast_invariant_violations",
            "Checks of Holdfast's own that failed, by the id in docs/simulator.md; each denied what it was \
             about, and each is a bug: please report it",
            self.violations.clone(),
        );
        registry.register(
            "workqueue_depth",
            "Budgets to be looked at, and evictions that wait for a budget's writer",
            self.queue_depth.clone(),
        );
        registry.register(
            "workqueue_adds",
            "Looks at budgets and evictions that were put into a queue",
            self.queue_adds.clone(),
        );
        registry.register(
            "workqueue_retries",
            "Of those, how many because a write was refused or lost to another writer",
            self.queue_retries.clone(),
        );
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
    reason: String,
}

/// Of an exemplar: no time series of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    decision: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
    result: &'static str,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabels {
    namespace: String,
    name: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabels {
    action: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModeLabels {
    mode: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InvariantLabels {
    id: String,
}

/// Upstream's name of its queue.
const QUEUE: QueueLabels = QueueLabels { name: "disruption" };

/// The engine counts by itself, and only up.
fn raise(counter: &Counter, to: u64) {
    counter.inner().fetch_max(to, Ordering::Relaxed);
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
