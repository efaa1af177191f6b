//! Has API servers ask about pods where `PodUnavailableBudgets` are, and tells the engine where they do.
//!
//! A namespace is taken out only after a live read has shown no budgets: an instance that lags behind takes
//! nothing away. And that is some time after the engine was told that it may be: a budget that comes
//! meanwhile does not call itself enforced by what is about to end.

use std::collections::BTreeSet;

use holdfast_core::Input;
use holdfast_core::model::BudgetKind;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::api_client::ApiClient;
use crate::effect::status::resource;
use crate::error::Error;
use crate::install::unavailable::{PROBE, guard, guarded};
use crate::install::{Entry, Registration};
use crate::interception::{Interception, Probe, Subject};

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
            self.registration.join().await?;
        }
        Ok(exists)
    }

    /// When we can decide, on a cluster that is new to us.
    pub async fn begin(&self) -> Result<(), Error> {
        self.registration.enter(true).await
    }

    /// For ever.
    pub async fn keep(self) {
        let Self { registration, conversion, covered, feed } = self;
        let interception = Interception::new(registration, Budgets { feed });
        tokio::join!(conversion.keep(|_| {}), interception.keep(covered));
    }
}

struct Budgets {
    feed: mpsc::Sender<Input>,
}

impl Subject for Budgets {
    const TROUBLE: &str = "PodUnavailableBudgets are not enforced everywhere";

    fn probe(&self) -> Probe {
        PROBE
    }

    fn webhooks(&self, evict: &str, bundle: &Value, namespaces: &BTreeSet<String>) -> Value {
        guard(evict, bundle, namespaces)["webhooks"].take()
    }

    fn namespaces(&self, configuration: &Value) -> BTreeSet<String> {
        guarded(configuration)
    }

    async fn is_free(&self, client: &ApiClient, namespace: &str) -> Result<bool, String> {
        has_budgets(client, namespace).await.map(|has| !has)
    }

    async fn announce(&self, seen: &BTreeSet<String>) {
        // The runtime is gone only when the process is stopping.
        let _ = self.feed.send(Input::Intercepted(seen.clone())).await;
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
