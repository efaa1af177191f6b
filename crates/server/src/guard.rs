//! Has API servers ask about pods where `PodUnavailableBudgets` are, and nowhere else, and finds out
//! whether they do.
//!
//! ```text
//!   namespaces with budgets --> namespaceSelector of the webhook on pods
//!          probe: an eviction, as a dry run, of a pod that is not there
//!   pod not found: not called yet      refused by our webhook: Input::Intercepted
//! ```
//!
//! Every instance does all of this. A namespace is added by whoever sees a budget in it first, and
//! taken out only after a live read has shown none: one that lags behind takes nothing away. And it is
//! taken out some time after the engine was told that it may be: a budget that comes meanwhile does not
//! call itself enforced by what is about to end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use holdfast_core::Input;
use holdfast_core::model::BudgetKind;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::api_client::ApiClient;
use crate::effect::status::resource;
use crate::error::Error;
use crate::install::unavailable::{PROBE, PROBED, guard, guarded, is_guardable};
use crate::install::{Entry, Registration, State};
use crate::watch::Backoff;

/// How often to see whether the webhooks are still there, and our CA in them.
const CHECK: Duration = Duration::from_secs(10);

/// For how long a namespace without budgets stays in the webhook. Budgets that are deleted are often
/// created again.
const LINGER: Duration = CHECK;

/// For the other API servers, when one is seen to call us. They watch.
const NOTICE: Duration = Duration::from_secs(1);

/// Probes under way at a time.
const PROBES_MAX: usize = 8;

#[derive(Debug)]
pub struct Guard {
    registration: Registration,
    /// So that conversion goes on.
    conversion: Registration,
    covered: watch::Receiver<BTreeSet<String>>,
    feed: mpsc::Sender<Input>,
}

impl Guard {
    /// `registration`: any of ours.
    pub fn new(
        registration: &Registration,
        covered: watch::Receiver<BTreeSet<String>>,
        feed: mpsc::Sender<Input>,
    ) -> Self {
        let of = |entry| Registration { entry, ..registration.clone() };
        Self { registration: of(Entry::Guard), conversion: of(Entry::Conversion), covered, feed }
    }

    /// Where API servers called the instances before us. That they still do is found out later, and until
    /// then no budget says that it is not enforced.
    pub async fn before(registration: &Registration) -> Result<BTreeSet<String>, Error> {
        let registration = Registration { entry: Entry::Guard, ..registration.clone() };
        Ok(registration.before().await?.map(|object| guarded(&object)).unwrap_or_default())
    }

    /// Whether requests come here already, or to a process that is gone. Any answer is better than none.
    pub async fn join(&self) -> Result<bool, Error> {
        let exists = self.registration.exists().await?;
        if exists {
            self.registration.register().await?;
        }
        Ok(exists)
    }

    /// When we can decide, on a cluster that is new to us.
    pub async fn begin(&self) -> Result<(), Error> {
        self.registration.register().await
    }

    /// For ever.
    pub async fn keep(self) {
        let Self { registration, conversion, covered, feed } = self;
        let interception = Interception {
            registration,
            feed,
            state: State::Kept,
            in_force: BTreeSet::new(),
            leaving: BTreeMap::new(),
            seen: None,
            trouble: None,
        };
        tokio::join!(conversion.keep(), interception.keep(covered));
    }
}

struct Interception {
    registration: Registration,
    feed: mpsc::Sender<Input>,
    state: State,
    /// Namespaces that the webhook names.
    in_force: BTreeSet<String>,
    /// Those of them that have no budgets, and since when.
    leaving: BTreeMap<String, Instant>,
    /// Those in which an API server was seen to call it, as the engine knows them.
    seen: Option<BTreeSet<String>>,
    /// Since when something is not as it should be, and whether that was said.
    trouble: Option<(Instant, bool)>,
}

impl Interception {
    async fn keep(mut self, mut covered: watch::Receiver<BTreeSet<String>>) {
        let mut backoff = Backoff::new();
        loop {
            let mut wanted = covered.borrow_and_update().clone();
            wanted.retain(|namespace| is_guardable(namespace));
            let trouble = self.round(&wanted).await.err();
            self.tell(trouble.as_deref());
            let pause = async {
                if trouble.is_none() {
                    backoff.reset();
                    tokio::time::sleep(CHECK).await;
                } else {
                    backoff.pause().await;
                }
            };
            tokio::select! {
                changed = covered.changed() => if changed.is_err() { return },
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
            tracing::warn!(reason, "PodUnavailableBudgets are not enforced everywhere");
        } else {
            tracing::debug!(reason, "PodUnavailableBudgets are not enforced everywhere");
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
        let client = &self.registration.client;
        let probes = stream::iter(unseen)
            .map(|namespace| async move { probe(client, &namespace).await.map(|()| namespace) })
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
            self.seen = Some(seen.clone());
            // The runtime is gone only when the process is stopping.
            let _ = self.feed.send(Input::Intercepted(seen)).await;
        }
    }

    /// Has the webhook called in these namespaces, and in others that have budgets after all.
    async fn select(&mut self, wanted: &BTreeSet<String>) -> Result<(), String> {
        let unwanted: BTreeSet<String> = self.in_force.difference(wanted).cloned().collect();
        self.leaving.retain(|namespace, _| unwanted.contains(namespace));
        let mut gone = BTreeSet::new();
        for namespace in unwanted {
            let since = self.leaving.entry(namespace.clone()).or_insert_with(Instant::now);
            if since.elapsed() >= LINGER
                && !has_budgets(&self.registration.client, &namespace).await?
            {
                gone.insert(namespace);
            }
        }
        let mut in_force = BTreeSet::new();
        let url = &self.registration.url;
        let checking = self.registration.check(|object| {
            let held = guarded(object);
            in_force = held.union(wanted).filter(|name| !gone.contains(*name)).cloned().collect();
            if in_force != held {
                let bundle = object["webhooks"][0]["clientConfig"]["caBundle"].clone();
                object["webhooks"] = guard(url, &bundle, &in_force)["webhooks"].take();
            }
        });
        let state = checking.await?;
        self.registration.tell(&mut self.state, state);
        if matches!(state, State::Deleted | State::Elsewhere) {
            in_force.clear();
        }
        if in_force != self.in_force {
            tracing::info!(namespaces = in_force.len(), "pods are guarded");
        }
        self.in_force = in_force;
        Ok(())
    }
}

async fn has_budgets(client: &ApiClient, namespace: &str) -> Result<bool, String> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<serde::de::IgnoredAny>,
    }
    let resource = resource(BudgetKind::PodUnavailableBudget);
    let path = format!("{}?limit=1", resource.namespace_path(namespace));
    let answer = client.list(&path).await.map_err(|error| error.to_string())?;
    match answer.code {
        StatusCode::OK => {
            let list: List = answer.json().map_err(|error| error.to_string())?;
            Ok(!list.items.is_empty())
        }
        // The definition is gone, and all budgets with it.
        StatusCode::NOT_FOUND => Ok(false),
        _ => Err(answer.message()),
    }
}

/// An error says what an API server did instead of calling us. Admission comes before the pod is looked up,
/// so that there need not be one.
async fn probe(client: &ApiClient, namespace: &str) -> Result<(), String> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{PROBE}/eviction?dryRun=All");
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": PROBE, "namespace": namespace},
    });
    let answer = client.post(&path, &eviction).await;
    let message = answer.map_or_else(|error| error.to_string(), |answer| answer.message());
    if message.contains(PROBED) {
        return Ok(());
    }
    Err(format!("probe in namespace {namespace}: {message}"))
}
