//! Room for the bodies of requests that are being read or worked on: each may be long, and there may be many.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Free again when it is dropped.
pub use tokio::sync::OwnedSemaphorePermit as Taken;

/// Whoever waits longer had better hear it than run into a timeout of their own.
const PATIENCE: Duration = Duration::from_secs(1);

/// It is counted in these.
const KIB: usize = 1024;

#[derive(Clone, Debug)]
pub struct Room {
    /// Bytes of the longest body that is kept.
    max: usize,
    free: Arc<Semaphore>,
}

impl Room {
    /// For `at_once` of the longest bodies, or for more that are shorter.
    pub fn new(max: usize, at_once: usize) -> Self {
        Self { max, free: Arc::new(Semaphore::new(at_once * max.div_ceil(KIB))) }
    }

    /// For a body of this length. None: there is none, and has not been for a while.
    pub async fn take(&self, length: Option<usize>) -> Option<Taken> {
        // Without a length it may be any.
        let length = length.map_or(self.max, |length| length.min(self.max));
        let wanted = u32::try_from(length.div_ceil(KIB)).unwrap_or(u32::MAX);
        timeout(PATIENCE, self.free.clone().acquire_many_owned(wanted)).await.ok()?.ok()
    }
}

/// As the request says.
pub fn length(body: &Body) -> Option<usize> {
    body.size_hint().upper().map(|length| length.try_into().unwrap_or(usize::MAX))
}
