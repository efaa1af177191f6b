//! Has API servers ask about pods in some namespaces, and nowhere else, and finds out whether they do.
//!
//! ```text
//!   namespaces that are to be covered --> namespaceSelector of the webhook on pods
//!          probe: an eviction, as a dry run, of a pod that is not there
//!   pod not found: not called yet      refused by our webhook: covered, and announced
//! ```
//!
//! Every instance does all of this. A namespace is added by whoever sees first that it is needed, and
//! taken out some time after it was announced that it may be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api_client::ApiClient;
use crate::install::unavailable::is_guardable;
use crate::install::{Registration, State};
use crate::watch::Backoff;

/// How often to see whether the webhooks are still there, and our CA in them.
const CHECK: Duration = Duration::from_secs(10);

/// For how long a namespace that is no longer needed stays in the webhook. What is deleted is often
/// created again.
const LINGER: Duration = CHECK;

/// For the other API servers, when one is seen to call us. They watch.
pub const NOTICE: Duration = Duration::from_secs(1);

/// How soon to try again what has just been asked for: somebody waits for it.
const AGAIN: Duration = Duration::from_millis(200);

/// Probes under way at a time.
const PROBES_MAX: usize = 8;

/// What pods are asked about for.
pub trait Subject {
    /// What it means if API servers do not call us, for the log.
    const TROUBLE: &str;

    fn probe(&self) -> Probe;

    /// The webhooks that ask about pods in these namespaces. The bundle is in base64.
    fn webhooks(&self, evict: &str, bundle: &Value, namespaces: &BTreeSet<String>) -> Value;

    /// The namespaces in which the configuration has pods asked about.
    fn namespaces(&self, configuration: &Value) -> BTreeSet<String>;

    /// Whether the namespace, which is not wanted, is not needed by a live read either.
    async fn is_free(&self, client: &ApiClient, namespace: &str) -> Result<bool, String>;

    /// In these namespaces an API server was seen to call us.
    async fn announce(&self, seen: &BTreeSet<String>);
}

/// A pod that need not be there: its evictions show whether API servers call the webhook.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub pod: &'static str,
    /// How the webhook answers.
    pub answer: &'static str,
}

pub struct Interception<S> {
    registration: Registration,
    subject: S,
    state: State,
    /// Namespaces that the webhook names.
    in_force: BTreeSet<String>,
    /// Those of them that are not wanted, and since when.
    leaving: BTreeMap<String, Instant>,
    /// Those in which an API server was seen to call it, as announced.
    seen: Option<BTreeSet<String>>,
    /// Since when something is not as it should be, and whether that was said.
    trouble: Option<(Instant, bool)>,
}

impl<S: Subject> Interception<S> {
    pub fn new(registration: Registration, subject: S) -> Self {
        Self {
            registration,
            subject,
            state: State::Kept,
            in_force: BTreeSet::new(),
            leaving: BTreeMap::new(),
            seen: None,
            trouble: None,
        }
    }

    /// For ever.
    pub async fn keep(mut self, mut covered: watch::Receiver<BTreeSet<String>>) {
        let mut backoff = Backoff::new();
        let mut eager = Instant::now() + CHECK;
        loop {
            let mut wanted = covered.borrow_and_update().clone();
            wanted.retain(|namespace| is_guardable(namespace));
            let trouble = self.round(&wanted).await.err();
            self.tell(trouble.as_deref());
            let pause = async {
                if trouble.is_none() {
                    backoff.reset();
                    tokio::time::sleep(CHECK).await;
                } else if Instant::now() < eager {
                    tokio::time::sleep(AGAIN).await;
                } else {
                    backoff.pause().await;
                }
            };
            tokio::select! {
                changed = covered.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    eager = Instant::now() + CHECK;
                }
                () = pause => {}
            }
        }
    }

    /// Aloud when it has lasted for a while: API servers may take a moment.
    fn tell(&mut self, trouble: Option<&str>) {
        let Some(reason) = trouble else {
            self.trouble = None;
            return;
        };
        let (since, told) = self.trouble.get_or_insert_with(|| (Instant::now(), false));
        if since.elapsed() > CHECK && !std::mem::replace(told, true) {
            tracing::warn!(reason, "{}", S::TROUBLE);
        } else {
            tracing::debug!(reason, "{}", S::TROUBLE);
        }
    }

    /// An error is why it is not as it should be.
    async fn round(&mut self, wanted: &BTreeSet<String>) -> Result<(), String> {
        if let Some(seen) = &self.seen {
            let kept = seen.intersection(wanted).cloned().collect();
            self.announce(kept).await;
        }
        self.select(wanted).await?;
        let mut seen = self.seen.clone().unwrap_or_default();
        seen.retain(|namespace| self.in_force.contains(namespace));
        let unseen = wanted.difference(&seen).filter(|name| self.in_force.contains(*name));
        let unseen: Vec<String> = unseen.cloned().collect();
        let (client, probe) = (&self.registration.client, self.subject.probe());
        let probes = stream::iter(unseen)
            .map(
                |namespace| async move { probe.send(client, &namespace).await.map(|()| namespace) },
            )
            .buffer_unordered(PROBES_MAX);
        let outcomes: Vec<Result<String, String>> = probes.collect().await;
        let (mut new, mut trouble) = (Vec::new(), Ok(()));
        for outcome in outcomes {
            match outcome {
                Ok(namespace) => new.push(namespace),
                Err(reason) => trouble = Err(reason),
            }
        }
        if !new.is_empty() {
            tokio::time::sleep(NOTICE).await;
            seen.extend(new);
        }
        self.announce(seen).await;
        trouble
    }

    async fn announce(&mut self, seen: BTreeSet<String>) {
        if self.seen.as_ref() != Some(&seen) {
            self.subject.announce(&seen).await;
            self.seen = Some(seen);
        }
    }

    /// Has the webhook called in these namespaces, and in others that need it after all.
    async fn select(&mut self, wanted: &BTreeSet<String>) -> Result<(), String> {
        let unwanted: BTreeSet<String> = self.in_force.difference(wanted).cloned().collect();
        self.leaving.retain(|namespace, _| unwanted.contains(namespace));
        let mut gone = BTreeSet::new();
        for namespace in unwanted {
            let since = self.leaving.entry(namespace.clone()).or_insert_with(Instant::now);
            if since.elapsed() >= LINGER
                && self.subject.is_free(&self.registration.client, &namespace).await?
            {
                gone.insert(namespace);
            }
        }
        let mut in_force = BTreeSet::new();
        let url = &self.registration.url;
        let checking = self.registration.check(|object| {
            let held = self.subject.namespaces(object);
            in_force = held.union(wanted).filter(|name| !gone.contains(*name)).cloned().collect();
            if in_force != held {
                let bundle = object["webhooks"][0]["clientConfig"]["caBundle"].clone();
                object["webhooks"] = self.subject.webhooks(url, &bundle, &in_force);
            }
        });
        let state = checking.await?;
        self.registration.tell(&mut self.state, state);
        if matches!(state, State::Deleted | State::Elsewhere) {
            in_force.clear();
        }
        if in_force != self.in_force {
            let object = self.registration.entry.object().title();
            tracing::info!(%object, namespaces = in_force.len(), "pods are asked about");
        }
        self.in_force = in_force;
        Ok(())
    }
}

impl Probe {
    /// Of the webhook, in CEL.
    pub fn condition(self) -> String {
        format!("(request.name == '{}' && request.dryRun)", self.pod)
    }

    /// An error says what an API server did instead of calling us. Admission comes before the pod is looked
    /// up, so that there need not be one.
    async fn send(self, client: &ApiClient, namespace: &str) -> Result<(), String> {
        let Self { pod, answer: expected } = self;
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction?dryRun=All");
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
        });
        let answer = client.post(&path, &eviction).await;
        let message = answer.map_or_else(|error| error.to_string(), |answer| answer.message());
        if message.contains(expected) {
            return Ok(());
        }
        Err(format!("probe in namespace {namespace}: {message}"))
    }
}
