//! One namespace of one kind, read afresh.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_api::decode::decode;
use holdfast_core::io::SnapshotOutcome;
use holdfast_core::model::{ObjectKey, ResourceVersion};
use holdfast_core::{Input, Kind};
use http::StatusCode;
use serde_json::value::RawValue;

use super::TRIES;
use crate::api_client::{Answer, ApiClient, NoAnswer};
use crate::discovery::Resource;
use crate::watch::{Backoff, Page, Source, Watched, is_skipped, page_path};

/// A list of budgets that takes longer is too old to decide by when it comes. The requests that wait for it are told
/// in time. Lists of other kinds have a limit for each page, so the time that they may take grows with the namespace.
const BUDGETS_WITHIN: Duration = Duration::from_secs(4);

/// Carries out [`holdfast_core::Command::ListNamespace`].
#[derive(Clone, Debug)]
pub struct Lister {
    client: ApiClient,
    /// Where kinds were found last: budgets are listed every few seconds, and discovery is two requests more.
    found: Arc<Mutex<BTreeMap<Kind, Resource>>>,
}

impl Lister {
    pub fn new(client: ApiClient) -> Self {
        Self { client, found: Arc::default() }
    }

    pub async fn list(self, kind: Kind, namespace: String) -> Input {
        let listing = self.list_found(&kind, &namespace);
        let outcome = if is_budget(&kind) {
            let late = |_| Err(format!("no answer within {} s", BUDGETS_WITHIN.as_secs()));
            tokio::time::timeout(BUDGETS_WITHIN, listing).await.unwrap_or_else(late)
        } else {
            listing.await
        };
        let outcome = outcome.unwrap_or_else(SnapshotOutcome::Failed);
        if let SnapshotOutcome::Failed(reason) = &outcome {
            tracing::warn!(%kind, namespace, reason, "cannot list a namespace");
        }
        Input::Snapshot { kind, namespace, outcome }
    }

    async fn list_found(&self, kind: &Kind, namespace: &str) -> Result<SnapshotOutcome, String> {
        if let Some(resource) = self.remembered(kind) {
            if let Some(listed) = self.list_at(&resource, kind, namespace).await? {
                return Ok(listed);
            }
            self.remember(kind, None);
        }
        let found = Source::of(kind).find(&self.client).await;
        let Some(resource) = found.map_err(|NoAnswer(reason)| reason)? else {
            // Without our own kind nothing is decided; the others may be missing.
            let needed = kind.is_needed();
            let missing = || format!("{kind} are not served");
            return if needed { Err(missing()) } else { Ok(SnapshotOutcome::NotServed) };
        };
        let listed = self.list_at(&resource, kind, namespace).await?;
        let listed = listed.ok_or_else(|| format!("{kind} ceased to be served"))?;
        self.remember(kind, Some(resource));
        Ok(listed)
    }

    /// None: the resource is not served there.
    async fn list_at(
        &self,
        resource: &Resource,
        kind: &Kind,
        namespace: &str,
    ) -> Result<Option<SnapshotOutcome>, String> {
        let path = resource.namespace_path(namespace);
        let (mut objects, mut from) = (Vec::new(), String::new());
        loop {
            let answer = self.page(&page_path(&path, &from)).await?;
            match answer.code {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND => return Ok(None),
                _ => return Err(answer.message()),
            }
            let page = Page::of(&answer)?;
            for item in page.items.unwrap_or_default() {
                if is_skipped(kind) && decode(kind, item.get().as_bytes()).is_err() {
                    continue;
                }
                objects.push(read(kind, item)?);
            }
            if page.metadata.r#continue.is_empty() {
                let version = ResourceVersion::from(page.metadata.resource_version.as_str());
                return Ok(Some(SnapshotOutcome::Listed { version, objects }));
            }
            from = page.metadata.r#continue;
        }
    }

    /// One page, again after transient failures.
    async fn page(&self, path: &str) -> Result<Answer, String> {
        let mut backoff = Backoff::new();
        for _ in 1..TRIES {
            match self.client.list(path).await {
                Ok(answer) if !answer.is_transient() => return Ok(answer),
                Ok(_) | Err(_) => backoff.pause().await,
            }
        }
        self.client.list(path).await.map_err(|NoAnswer(reason)| reason)
    }

    fn remembered(&self, kind: &Kind) -> Option<Resource> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).get(kind).cloned()
    }

    fn remember(&self, kind: &Kind, resource: Option<Resource>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        match resource {
            Some(resource) => found.insert(kind.clone(), resource),
            None => found.remove(kind),
        };
    }
}

/// An object that cannot be decoded must not look as if it were gone.
fn read(kind: &Kind, item: &RawValue) -> Result<Input, String> {
    let json = item.get().as_bytes();
    let error = match decode(kind, json) {
        Ok(decoded) => return Ok(decoded.applied()),
        Err(error) => error,
    };
    let (Some(namespace), Some(name)) = (&error.namespace, &error.name) else {
        return Err(error.to_string());
    };
    let key = ObjectKey::new(namespace, name);
    kind.unreadable(json, key, error.to_string()).ok_or_else(|| error.to_string())
}

fn is_budget(kind: &Kind) -> bool {
    matches!(kind, Kind::Budget | Kind::UnavailableBudget)
}
