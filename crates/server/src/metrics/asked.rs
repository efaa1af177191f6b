//! Whether evictions are asked about, once that is known: until then there is nothing to alert on.

use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, Default)]
pub struct Asked(Arc<OnceLock<Gauge>>);

impl Asked {
    pub fn set(&self, asked: bool) {
        self.0.get_or_init(Gauge::default).set(asked.into());
    }
}

impl EncodeMetric for Asked {
    fn encode(&self, encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.get().map_or(Ok(()), |gauge| gauge.encode(encoder))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }

    fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }
}
