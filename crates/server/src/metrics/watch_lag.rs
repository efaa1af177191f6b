//! How long each watch has been silent, as of when somebody looks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub struct WatchLag {
    started: Instant,
    kinds: Arc<Mutex<BTreeMap<String, Heard>>>,
}

/// When something last came on one watch.
#[derive(Clone, Debug)]
pub struct Heard {
    started: Instant,
    /// Since the start; `NEVER` until something has come.
    millis: Arc<AtomicU64>,
}

const NEVER: u64 = u64::MAX;

impl Default for WatchLag {
    fn default() -> Self {
        Self { started: Instant::now(), kinds: Arc::default() }
    }
}

impl WatchLag {
    pub fn listen(&self, kind: &str) -> Heard {
        let heard = Heard { started: self.started, millis: Arc::new(AtomicU64::new(NEVER)) };
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.insert(kind.to_owned(), heard.clone());
        heard
    }
}

impl Heard {
    /// Something came. When that was.
    pub fn now(&self) -> Instant {
        let now = Instant::now();
        self.millis.store(self.millis_until(now), Ordering::Relaxed);
        now
    }

    fn millis_until(&self, now: Instant) -> u64 {
        u64::try_from(now.duration_since(self.started).as_millis()).unwrap_or(NEVER - 1)
    }

    fn lag_seconds(&self) -> Option<f64> {
        let heard = self.millis.load(Ordering::Relaxed);
        let lag = std::time::Duration::from_millis(
            self.millis_until(Instant::now()).saturating_sub(heard),
        );
        (heard != NEVER).then_some(lag.as_secs_f64())
    }
}

impl EncodeMetric for WatchLag {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, heard) in kinds.iter() {
            // Of a kind that is not served nothing can be late.
            if let Some(lag) = heard.lag_seconds() {
                encoder.encode_family(&[("kind", kind.as_str())])?.encode_gauge(&lag)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}
