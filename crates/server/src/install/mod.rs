//! Installs the objects that Holdfast needs on a cluster, and checks whether they exist.
//!
//! Everything is applied with server-side apply, so installing again changes only differences. The order
//! matters: budgets can exist and be read before API servers send evictions, and API servers send evictions
//! only when Holdfast can decide them.

mod asked;
mod base;
mod bundle;
pub mod certificate;
mod entry;
#[cfg(test)]
mod fake;
pub mod gang;
pub mod loss;
mod manifests;
pub mod native;
pub mod package;
mod registration;
mod release;
pub mod rights;
mod turn;
pub mod unavailable;
pub mod uninstall;

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tokio::time::Instant;

use crate::api_client::{APPLY_PATCH, ApiClient, NoAnswer};
use crate::discovery;
use crate::error::Error;
use crate::watch::Backoff;
pub use base::Base;
pub use entry::Entry;
use holdfast_api::unavailable as kruise;
use manifests::Manifest;
pub use manifests::{Installed, Intercept};
pub use native::import::IMPORTED;
pub use registration::{Registration, State};
use turn::{TURN, Turn, in_turn, installing};

/// The name of most of Holdfast's objects, and of the field manager.
pub const NAME: &str = "holdfast";
/// The name of the webhook configurations of pod groups.
pub const POD_GROUPS: &str = "holdfast-pod-groups";
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// This label is also on objects that Helm installs. Their label `managed-by` names Helm.
pub const PART_OF: &str = "app.kubernetes.io/part-of";

/// The aggregator verifies Holdfast's certificate for this name.
pub const SERVICE_HOST: &str = "holdfast.holdfast-system.svc";

/// The namespace of the Lease, and of Holdfast if it runs in the cluster.
pub const SYSTEM_NAMESPACE: &str = "holdfast-system";

/// API servers never ask about evictions there: Holdfast and the control plane must not depend on Holdfast.
pub const EXCLUDED_NAMESPACES: [&str; 2] = ["kube-system", SYSTEM_NAMESPACE];

/// The time until a new CRD is served and new rights are in force.
const EFFECT: Duration = Duration::from_secs(15);

/// The time until definitions are gone that an uninstallation is deleting. Budgets with finalizers, and many
/// budgets, take some time.
const BEING_DELETED: Duration = Duration::from_mins(2);

/// The time until a deleted namespace is gone. Its controller begins after five seconds. After a failure,
/// such as failed discovery while `policy/v1` changes its server, it waits for up to a minute.
const NAMESPACE_GONE: Duration = Duration::from_mins(2);

/// Waits until `PodUnavailableBudgets` are served in the version that Holdfast reads, after their definition
/// was created or changed.
pub async fn await_unavailable(client: &ApiClient) -> Result<(), Error> {
    let failed = |reason| refused(Installed::UnavailableCrd, "find", reason);
    let deadline = Instant::now() + EFFECT;
    let mut backoff = Backoff::new();
    loop {
        let versions = &[kruise::VERSION];
        match discovery::find(client, kruise::GROUP, versions, kruise::KIND).await {
            Ok(Some(_)) => return Ok(()),
            Ok(None) if Instant::now() < deadline => backoff.pause().await,
            Ok(None) => {
                return Err(failed(format!("not served after {} s", EFFECT.as_secs())));
            }
            Err(NoAnswer(reason)) => return Err(failed(reason)),
        }
    }
}

async fn exists(client: &ApiClient, kind: Installed) -> Result<bool, Error> {
    let failed = |reason| Error::Refused { action: format!("read {}", kind.title()), reason };
    let answer = client.get(&kind.path()).await.map_err(|NoAnswer(reason)| failed(reason))?;
    match answer.code {
        StatusCode::OK => Ok(true),
        // The check of rights reports missing rights.
        StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => Ok(false),
        _ => Err(failed(answer.message())),
    }
}

/// Returns None if there is no such object.
async fn read(client: &ApiClient, kind: Installed) -> Result<Option<Value>, Error> {
    let failed = |reason| refused(kind, "read", reason);
    let answer = client.get(&kind.path()).await.map_err(|NoAnswer(reason)| failed(reason))?;
    match answer.code {
        StatusCode::OK => answer.json().map(Some).map_err(|error| failed(error.to_string())),
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(failed(answer.message())),
    }
}

/// Creates the namespace if it does not exist. It does not apply it: a namespace of another program keeps its
/// owner and stays after an uninstallation.
async fn ensure_namespace(client: &ApiClient) -> Result<(), Error> {
    let failed = |reason| refused(Installed::Namespace, "create", reason);
    let deadline = Instant::now() + NAMESPACE_GONE;
    let mut backoff = Backoff::new();
    let mut told = false;
    loop {
        let answer = client.post("/api/v1/namespaces", &manifests::namespace()).await;
        let answer = answer.map_err(|NoAnswer(reason)| failed(reason))?;
        match answer.code {
            code if code.is_success() => return Ok(()),
            StatusCode::CONFLICT if !is_terminating(client).await? => return Ok(()),
            // The namespace belongs to an installation that was just removed.
            StatusCode::CONFLICT if Instant::now() < deadline => {
                if !std::mem::replace(&mut told, true) {
                    let object = Installed::Namespace.title();
                    tracing::info!(%object, "waiting: an uninstallation has deleted it, and it goes slowly");
                }
                backoff.pause().await;
            }
            _ => return Err(failed(answer.message())),
        }
    }
}

async fn is_terminating(client: &ApiClient) -> Result<bool, Error> {
    let namespace = read(client, Installed::Namespace).await?;
    // The namespace was just deleted, so the next try creates it.
    Ok(namespace.is_none_or(|object| !object["metadata"]["deletionTimestamp"].is_null()))
}

/// Returns true if the namespace is known to be terminating. It checks the right first, because an instance
/// without --install has no right to read it.
async fn is_namespace_going(client: &ApiClient) -> bool {
    let may_look = rights::may_get(client, "namespaces", SYSTEM_NAMESPACE).await;
    may_look.unwrap_or(false) && is_terminating(client).await.unwrap_or(false)
}

fn refused(kind: Installed, action: &str, reason: String) -> Error {
    Error::Refused { action: format!("{action} {}", kind.title()), reason }
}

fn still_there(kind: Installed, action: &str) -> Error {
    let secs = BEING_DELETED.as_secs();
    refused(
        kind,
        action,
        format!("still being deleted after {secs} s; do its objects carry finalizers?"),
    )
}

async fn apply_one(client: &ApiClient, manifest: &Manifest) -> Result<(), Error> {
    let title = manifest.kind.title();
    let failed = |reason| Error::Refused { action: format!("apply {title}"), reason };
    let path = format!("{}?fieldManager={NAME}&force=true", manifest.kind.path());
    let deadline = Instant::now() + BEING_DELETED;
    let mut backoff = Backoff::new();
    loop {
        let answer = client
            .patch(&path, APPLY_PATCH, &manifest.body)
            .await
            .map_err(|NoAnswer(reason)| failed(reason))?;
        if !answer.code.is_success() {
            return Err(failed(answer.message()));
        }
        let object: Value = answer.json().map_err(|error| failed(error.to_string()))?;
        if object["metadata"]["deletionTimestamp"].is_null() {
            let change = if answer.code == StatusCode::CREATED { "created" } else { "in place" };
            tracing::info!(object = %title, change, "installed");
            return Ok(());
        }
        // The definition belongs to an installation that was just removed. Its objects will be deleted with
        // it.
        if Instant::now() > deadline {
            return Err(still_there(manifest.kind, "apply"));
        }
        backoff.pause().await;
    }
}
