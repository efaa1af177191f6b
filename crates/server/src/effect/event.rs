//! Kubernetes Events: said once, then counted.

use std::collections::HashMap;
use std::time::Duration;

use holdfast_api::{budget, time::Time, unavailable};
use holdfast_core::io::{Event, Regarding};
use holdfast_core::model::{BudgetKind, Timestamp};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::api_client::{ApiClient, MERGE_PATCH, NoAnswer};
use crate::clock::Clock;
use crate::metrics::Metrics;

/// Events wait here while earlier ones are being published. They are advice, not record: a burst
/// beyond this is dropped and counted rather than kept.
const QUEUE: usize = 256;

/// Same object, reason and message within this time is one Event with a count.
const WINDOW: Duration = Duration::from_mins(10);

/// Remembered Events. About 200 bytes each, and more than a person could read in ten minutes.
const REMEMBERED: usize = 2048;

const COMPONENT: &str = "holdfast";

/// The engine's side: never waits.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<Event>,
    metrics: Metrics,
}

impl Events {
    pub fn start(client: ApiClient, clock: Clock, metrics: Metrics) -> Self {
        let (queue, events) = mpsc::channel(QUEUE);
        tokio::spawn(publish(client, clock, metrics.clone(), events));
        Self { queue, metrics }
    }

    pub fn send(&self, event: Event) {
        if self.queue.try_send(event).is_err() {
            self.metrics.event_dropped();
        }
    }
}

async fn publish(
    client: ApiClient,
    clock: Clock,
    metrics: Metrics,
    mut events: mpsc::Receiver<Event>,
) {
    let mut correlator = Correlator::default();
    while let Some(event) = events.recv().await {
        let now = clock.now();
        let namespace = target(&event.regarding).namespace;
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let result = match correlator.take(&event, now) {
            Some(Step::Create { name }) => client.post(&path, &manifest(&event, &name, now)).await,
            Some(Step::Count { name, count }) => {
                let patch = json!({"count": count, "lastTimestamp": Time(now)});
                client.patch(&format!("{path}/{name}"), MERGE_PATCH, &patch).await
            }
            None => {
                metrics.event_dropped();
                continue;
            }
        };
        match result {
            Ok(answer) if answer.code.is_success() => {}
            Ok(answer) => {
                tracing::debug!(reason = %answer.message(), "cannot publish an Event");
                // An Event that was collected meanwhile is created anew next time.
                correlator.forget(&event);
            }
            Err(NoAnswer(reason)) => tracing::debug!(%reason, "cannot publish an Event"),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Create { name: String },
    Count { name: String, count: u32 },
}

#[derive(Debug, Default)]
struct Correlator {
    seen: HashMap<Key, Seen>,
}

/// Uid, reason and message.
type Key = (String, &'static str, String);

#[derive(Debug)]
struct Seen {
    name: String,
    count: u32,
    first: Timestamp,
}

impl Correlator {
    /// None: too many different Events within the window; this one is dropped.
    fn take(&mut self, event: &Event, now: Timestamp) -> Option<Step> {
        let key = key(event);
        if let Some(seen) = self.seen.get_mut(&key)
            && now < seen.first + WINDOW
        {
            seen.count = seen.count.saturating_add(1);
            return Some(Step::Count { name: seen.name.clone(), count: seen.count });
        }
        if self.seen.len() >= REMEMBERED {
            self.seen.retain(|_, seen| now < seen.first + WINDOW);
            if self.seen.len() >= REMEMBERED {
                return None;
            }
        }
        // As client-go names them: unique, and sorted by time within one object. The size of the
        // table tells apart those of one millisecond.
        let object = target(&event.regarding).name;
        let name = format!("{object}.{:x}{:03x}", now.0, self.seen.len());
        self.seen.insert(key, Seen { name: name.clone(), count: 1, first: now });
        Some(Step::Create { name })
    }

    fn forget(&mut self, event: &Event) {
        self.seen.remove(&key(event));
    }
}

fn key(event: &Event) -> Key {
    (target(&event.regarding).uid.to_owned(), event.reason, event.message.clone())
}

struct Target<'a> {
    api_version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

fn target(regarding: &Regarding) -> Target<'_> {
    let (api_version, kind, key, uid) = match regarding {
        Regarding::Budget { key, uid } => {
            let (api_version, kind) = match key.kind {
                BudgetKind::PodDisruptionBudget => (budget::API_VERSION, budget::KIND),
                BudgetKind::PodUnavailableBudget => (unavailable::API_VERSION, unavailable::KIND),
            };
            (api_version, kind, &key.object, uid)
        }
        Regarding::Pod { key, uid } => ("v1", "Pod", key, uid),
        Regarding::Object { api_version, kind, key, uid } => {
            (api_version.as_str(), kind.as_str(), key, uid)
        }
    };
    Target { api_version, kind, namespace: &key.namespace, name: &key.name, uid }
}

fn manifest(event: &Event, name: &str, now: Timestamp) -> Value {
    let target = target(&event.regarding);
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": target.namespace, "name": name},
        "involvedObject": {
            "apiVersion": target.api_version,
            "kind": target.kind,
            "namespace": target.namespace,
            "name": target.name,
            "uid": target.uid,
        },
        "reason": event.reason,
        "message": event.message,
        "type": if event.warning { "Warning" } else { "Normal" },
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "firstTimestamp": Time(now),
        "lastTimestamp": Time(now),
        "count": 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_core::model::BudgetKey;

    fn event(uid: &str, message: &str) -> Event {
        Event {
            regarding: Regarding::Budget { key: BudgetKey::pdb("n", "b"), uid: uid.to_owned() },
            warning: false,
            reason: "SyncFailed",
            message: message.to_owned(),
        }
    }

    #[test]
    fn repetitions_are_counted_for_ten_minutes() {
        let mut correlator = Correlator::default();
        let start = Timestamp::from_secs(1000);
        let Some(Step::Create { name }) = correlator.take(&event("u", "m"), start) else {
            panic!("the first is created");
        };
        assert!(name.starts_with("b."), "{name}");
        let again = correlator.take(&event("u", "m"), start + Duration::from_secs(599));
        assert_eq!(again, Some(Step::Count { name: name.clone(), count: 2 }));
        for other in [event("u", "other"), event("recreated", "m")] {
            assert!(matches!(correlator.take(&other, start), Some(Step::Create { .. })));
        }
        let later = correlator.take(&event("u", "m"), start + WINDOW);
        assert!(matches!(later, Some(Step::Create { name: new }) if new != name));
    }

    #[test]
    fn it_is_about_the_budget_and_not_about_another_of_that_name() {
        let about = |key: BudgetKey| {
            let regarding = Regarding::Budget { key, uid: "u".to_owned() };
            let event = Event { regarding, ..event("u", "m") };
            manifest(&event, "b.1", Timestamp::from_secs(1000))["involvedObject"]["kind"].clone()
        };
        assert_eq!(about(BudgetKey::pdb("n", "b")), "PodDisruptionBudget");
        assert_eq!(about(BudgetKey::unavailable("n", "b")), "PodUnavailableBudget");
    }

    #[test]
    fn memory_is_bounded() {
        let mut correlator = Correlator::default();
        let start = Timestamp::from_secs(1000);
        let names: std::collections::HashSet<String> = (0..REMEMBERED)
            .filter_map(|n| match correlator.take(&event("u", &n.to_string()), start) {
                Some(Step::Create { name }) => Some(name),
                _ => None,
            })
            .collect();
        assert_eq!(names.len(), REMEMBERED);
        assert_eq!(correlator.take(&event("u", "one more"), start), None);
        assert!(correlator.take(&event("u", "one more"), start + WINDOW).is_some());
    }
}
