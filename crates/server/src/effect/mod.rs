//! What the engine's commands do to the API server. Each is a future that ends in the answer that the
//! engine waits for, if it waits for one.

pub mod event;
pub mod lease;
pub mod list;
pub mod pod;
pub mod scale;
pub mod status;

use crate::api_client::{Answer, ApiClient, NoAnswer};
use crate::watch::Backoff;

/// Tries of a request that the engine waits for, beyond which it is told of the failure and decides.
const TRIES: usize = 3;

/// GET, again after transient failures.
async fn get(client: &ApiClient, path: &str) -> Result<Answer, NoAnswer> {
    let mut backoff = Backoff::new();
    for _ in 1..TRIES {
        match client.get(path).await {
            Ok(answer) if !answer.is_transient() => return Ok(answer),
            Ok(_) | Err(_) => backoff.pause().await,
        }
    }
    client.get(path).await
}
