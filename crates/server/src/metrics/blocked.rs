//! How long somebody has been asking for an eviction in vain, as of when somebody looks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_core::Eviction;
use holdfast_core::model::{ObjectKey, Operation};
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use tokio::time::Instant;

/// A drain asks every five seconds, and of several instances now this and now that one. Who was not heard
/// of for this long has given up, or was let go by another instance.
const GIVEN_UP: Duration = Duration::from_mins(2);

/// Some 100 bytes each. Beyond it new ones are not followed: the longest wait is what matters.
const FOLLOWED: usize = 4096;

#[derive(Clone, Debug, Default)]
pub struct Blocked {
    pods: Arc<Mutex<HashMap<ObjectKey, Waiting>>>,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    last: Instant,
}

impl Waiting {
    fn is_on(&self, now: Instant) -> bool {
        now.duration_since(self.last) < GIVEN_UP
    }
}

impl Blocked {
    pub fn decided(&self, eviction: &Eviction, allowed: bool) {
        if eviction.operation != Operation::Evict || eviction.dry_run {
            return;
        }
        let now = Instant::now();
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        if allowed {
            pods.remove(&eviction.pod);
            return;
        }
        if let Some(waiting) = pods.get_mut(&eviction.pod)
            && waiting.is_on(now)
        {
            waiting.last = now;
            return;
        }
        if pods.len() >= FOLLOWED {
            pods.retain(|_, waiting| waiting.is_on(now));
        }
        if pods.len() < FOLLOWED {
            pods.insert(eviction.pod.clone(), Waiting { since: now, last: now });
        }
    }

    fn longest(&self) -> Duration {
        let now = Instant::now();
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let on = pods.values().filter(|waiting| waiting.is_on(now));
        on.map(|waiting| now.duration_since(waiting.since)).max().unwrap_or_default()
    }
}

impl EncodeMetric for Blocked {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.encode_gauge(&self.longest().as_secs_f64())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::sample::eviction;

    const FIVE: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_again_has_waited_since_the_first_time() {
        let blocked = Blocked::default();
        for _ in 0..13 {
            blocked.decided(&eviction(Operation::Evict, "a"), false);
            tokio::time::advance(FIVE).await;
        }
        blocked.decided(&eviction(Operation::Evict, "b"), false);
        blocked.decided(&eviction(Operation::Delete, "c"), false);
        assert_eq!(blocked.longest(), 13 * FIVE);
        blocked.decided(&eviction(Operation::Evict, "a"), true);
        assert_eq!(blocked.longest(), Duration::ZERO, "b has just begun");
        tokio::time::advance(FIVE).await;
        assert_eq!(blocked.longest(), FIVE);
        tokio::time::advance(GIVEN_UP).await;
        assert_eq!(blocked.longest(), Duration::ZERO, "nobody asks any more");
        blocked.decided(&eviction(Operation::Evict, "b"), false);
        tokio::time::advance(FIVE).await;
        assert_eq!(blocked.longest(), FIVE, "another drain");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_and_makes_room() {
        let blocked = Blocked::default();
        let ask = |name: &str| blocked.decided(&eviction(Operation::Evict, name), false);
        (0..=FOLLOWED).for_each(|n| ask(&n.to_string()));
        assert_eq!(blocked.pods.lock().unwrap().len(), FOLLOWED);
        tokio::time::advance(GIVEN_UP).await;
        ask("next");
        assert_eq!(blocked.pods.lock().unwrap().len(), 1);
    }
}
