//! Reads of `/scale`, for any kind that has it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_api::decode;
use holdfast_core::Input;
use holdfast_core::io::ScaleOutcome;
use holdfast_core::model::{ControllerRef, GroupKind};
use http::StatusCode;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::get;
use crate::api_client::{ApiClient, NoAnswer};
use crate::discovery::{self, Resource};

/// A custom kind can be redefined under us, with or without a scale subresource.
const REMEMBERED: Duration = Duration::from_mins(1);

/// Reads under way at a time. Whoever makes pods says who owns them, and may name a thousand owners of kinds that
/// do not exist.
const READS_MAX: usize = 16;

#[derive(Clone, Debug)]
pub struct ScaleReader {
    client: ApiClient,
    room: Arc<Semaphore>,
    /// One entry per kind of owner that a covered pod has: a handful.
    known: Arc<Mutex<HashMap<GroupKind, (Instant, Resource)>>>,
}

impl ScaleReader {
    pub fn new(client: ApiClient) -> Self {
        Self { client, room: Arc::new(Semaphore::new(READS_MAX)), known: Arc::default() }
    }

    /// [`holdfast_core::Command::ReadScale`].
    pub async fn read(self, namespace: String, owner: ControllerRef) -> Input {
        // It is never closed.
        let _room = self.room.acquire().await;
        let outcome = match self.outcome(&namespace, &owner).await {
            Ok(outcome) => outcome,
            Err(NoAnswer(reason)) => ScaleOutcome::Failed(reason),
        };
        Input::ScaleRead { namespace, owner, outcome }
    }

    async fn outcome(
        &self,
        namespace: &str,
        owner: &ControllerRef,
    ) -> Result<ScaleOutcome, NoAnswer> {
        let Some(resource) = self.resource(owner).await? else {
            let kind = &owner.group_kind;
            return Ok(ScaleOutcome::Failed(format!("the API server does not serve {kind}")));
        };
        if !resource.has_scale {
            return Ok(ScaleOutcome::NotImplemented(resource.qualified()));
        }
        let path = format!("{}/scale", resource.object_path(namespace, &owner.name));
        let answer = get(&self.client, &path).await?;
        if answer.code == StatusCode::OK {
            return decode::scale(&answer.body).map_err(|error| NoAnswer(error.to_string()));
        }
        if answer.is_object_not_found(&owner.name) {
            return Ok(ScaleOutcome::NotFound);
        }
        Err(NoAnswer(answer.message()))
    }

    /// None: its kind is not served.
    pub async fn resource(&self, owner: &ControllerRef) -> Result<Option<Resource>, NoAnswer> {
        let kind = &owner.group_kind;
        if let Some((at, resource)) = self.lock().get(kind)
            && at.elapsed() < REMEMBERED
        {
            return Ok(Some(resource.clone()));
        }
        // The reference's own version, if it is still served: the server's preference may lack scale.
        let named = [owner.version.as_str()];
        let mut found = discovery::find(&self.client, &kind.group, &named, &kind.kind).await?;
        if found.is_none() {
            found = discovery::find(&self.client, &kind.group, &[], &kind.kind).await?;
        }
        if let Some(resource) = &found {
            self.lock().insert(kind.clone(), (Instant::now(), resource.clone()));
        }
        Ok(found)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<GroupKind, (Instant, Resource)>> {
        // Nothing panics while holding it, and a cache is never half valid.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
