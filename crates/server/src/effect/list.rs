//! One namespace of one kind, read afresh.

use holdfast_api::decode::decode;
use holdfast_api::salvage::salvage;
use holdfast_core::io::SnapshotOutcome;
use holdfast_core::model::{ObjectKey, ResourceVersion};
use holdfast_core::{Input, Kind};
use http::StatusCode;

use super::get;
use crate::api_client::{ApiClient, NoAnswer};
use crate::watch::{Page, Source};

/// [`holdfast_core::Command::ListNamespace`]. One page: another instance waits behind the answer, and a
/// namespace is small enough.
pub async fn namespace(client: ApiClient, kind: Kind, namespace: String) -> Input {
    let outcome = match list(&client, &kind, &namespace).await {
        Ok(outcome) => outcome,
        Err(NoAnswer(reason)) => SnapshotOutcome::Failed(reason),
    };
    if let SnapshotOutcome::Failed(reason) = &outcome {
        tracing::warn!(%kind, namespace, reason, "cannot catch up with another instance");
    }
    Input::Snapshot { kind, namespace, outcome }
}

async fn list(
    client: &ApiClient,
    kind: &Kind,
    namespace: &str,
) -> Result<SnapshotOutcome, NoAnswer> {
    let Some(resource) = Source::of(kind).find(client).await? else {
        return Ok(SnapshotOutcome::Failed(format!("{kind} are not served")));
    };
    // No resourceVersion: a consistent read.
    let answer = get(client, &resource.namespace_path(namespace)).await?;
    if answer.code != StatusCode::OK {
        return Ok(SnapshotOutcome::Failed(answer.message()));
    }
    let page = match Page::of(&answer) {
        Ok(page) => page,
        Err(reason) => return Ok(SnapshotOutcome::Failed(reason)),
    };
    let mut objects = Vec::new();
    for item in page.items.unwrap_or_default() {
        match decode(kind, item.get().as_bytes()) {
            Ok(decoded) => objects.push(decoded.applied()),
            Err(error) => {
                let (Some(namespace), Some(name)) = (&error.namespace, &error.name) else {
                    // It would look as if it were gone.
                    return Ok(SnapshotOutcome::Failed(error.to_string()));
                };
                objects.push(Input::Unreadable {
                    kind: kind.clone(),
                    key: ObjectKey::new(namespace, name),
                    why: error.to_string(),
                    salvaged: salvage(kind, item.get().as_bytes()).map(Box::new),
                });
            }
        }
    }
    let version = ResourceVersion::from(page.metadata.resource_version.as_str());
    Ok(SnapshotOutcome::Listed { version, objects })
}
