//! What an operator can watch.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::verdict::Verdict;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    evictions: Family<ResultLabels, Counter>,
    decision_seconds: Histogram,
    commit_seconds: Histogram,
    status_writes: Family<OutcomeLabels, Counter>,
    undecodable: Family<KindLabels, Counter>,
    watch_restarts: Family<KindLabels, Counter>,
    events_dropped: Counter,
}

impl Metrics {
    pub fn new(started_secs: i64) -> Self {
        // 0.25 ms to 8 s: a cached answer takes less than a millisecond, a deadline nine seconds.
        let seconds = || Histogram::new(exponential_buckets(0.000_25, 2.0, 16));
        let mut metrics = Self {
            registry: Arc::default(),
            evictions: Family::default(),
            decision_seconds: seconds(),
            commit_seconds: seconds(),
            status_writes: Family::default(),
            undecodable: Family::default(),
            watch_restarts: Family::default(),
            events_dropped: Counter::default(),
        };
        metrics.registry = Arc::new(metrics.register(started_secs));
        metrics
    }

    /// The text that Prometheus reads.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a String does not fail; an empty page would show up as a failed scrape.
        let _ = encode(&mut text, &self.registry);
        text
    }

    pub fn decided(&self, verdict: &Verdict, took: Duration) {
        let (result, reason) = match verdict {
            Verdict::Allow(allowed) => ("allowed", format!("{:?}", allowed.reason)),
            Verdict::Deny(denial) => ("denied", format!("{:?}", denial.reason)),
        };
        self.evictions.get_or_create(&ResultLabels { result, reason }).inc();
        self.decision_seconds.observe(took.as_secs_f64());
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

    pub fn event_dropped(&self) {
        self.events_dropped.inc();
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
            "holdfast_decision_seconds",
            "Time from the arrival of an eviction to its answer",
            self.decision_seconds.clone(),
        );
        registry.register(
            "holdfast_commit_seconds",
            "Time that a status write took, retries included",
            self.commit_seconds.clone(),
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
            "holdfast_events_dropped",
            "Kubernetes Events that were not published because too many came at once",
            self.events_dropped.clone(),
        );
        registry
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_core::verdict::{AllowReason, Allowed};

    #[test]
    fn the_page_names_every_metric() {
        let metrics = Metrics::new(1_700_000_000);
        let allowed = Allowed { reason: AllowReason::NotCovered, grants: Vec::new() };
        metrics.decided(&Verdict::Allow(allowed), Duration::from_millis(1));
        metrics.status_written("current", Duration::from_millis(3));
        metrics.undecodable_object("pods");
        metrics.watch_restarted("pods");
        let page = metrics.render();
        for line in [
            "evictions_total{result=\"allowed\",reason=\"NotCovered\"} 1",
            "holdfast_decision_seconds_count 1",
            "holdfast_commit_seconds_count 1",
            "holdfast_status_writes_total{outcome=\"current\"} 1",
            "holdfast_undecodable_objects_total{kind=\"pods\"} 1",
            "holdfast_watch_restarts_total{kind=\"pods\"} 1",
            "holdfast_build_info{version=",
            "process_start_time_seconds 1700000000",
        ] {
            assert!(page.contains(line), "{line} is missing in\n{page}");
        }
    }
}
