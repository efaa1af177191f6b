//! Telling the API server where we are, beside other instances that do the same.
//!
//! The registration is made at start, and only then: deleting it is the kill switch, and must work
//! while instances run. As long as it is there, each keeps its CA in it.

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::bundle::{contains, merged};
use super::manifests::{self, Installed, Intercept, Manifest};
use super::{NAME, refused};
use crate::api_client::{Answer, ApiClient, NoAnswer};
use crate::error::Error;
use crate::watch::Backoff;

/// How often to see whether our CA is still there.
const CHECK: Duration = Duration::from_secs(10);

/// For API servers to take note of another CA, before we say that we are ready. They watch.
const NOTICE: Duration = Duration::from_secs(1);

/// Another instance may write between our read and our write; every conflict means that one got on.
const CONFLICTS_MAX: usize = 20;

#[derive(Clone)]
pub struct Registration {
    pub client: ApiClient,
    /// What the API server calls.
    pub url: String,
    /// PEM.
    pub ca: String,
    pub intercept: Intercept,
}

impl Registration {
    /// Whether the API server sends evictions to us, to others, or to an earlier process of ours.
    pub async fn exists(&self) -> Result<bool, Error> {
        super::exists(&self.client, Installed::Webhook).await
    }

    /// How many conditions an eviction has to meet to be sent to us; None if it is not registered.
    pub async fn conditions(&self) -> Result<Option<usize>, Error> {
        let object = self.read().await.map_err(|why| refused(Installed::Webhook, "read", why))?;
        let count =
            |object: Value| object["webhooks"][0]["matchConditions"].as_array().map_or(0, Vec::len);
        Ok(object.map(count))
    }

    /// From now on the API server asks us, or us too.
    pub async fn register(&self) -> Result<(), Error> {
        let failed = |reason| refused(Installed::Webhook, "register", reason);
        let mut backoff = Backoff::new();
        for _ in 0..CONFLICTS_MAX {
            let (answer, joined) = match self.read().await.map_err(failed)? {
                None => (self.create().await.map_err(failed)?, false),
                Some(object) => {
                    let joined = url(&object) == Some(&self.url);
                    (self.replace(object).await.map_err(failed)?, joined)
                }
            };
            if answer.code.is_success() {
                let (object, change) =
                    (Installed::Webhook.title(), if joined { "joined" } else { "ours" });
                tracing::info!(%object, change, url = %self.url, "registered");
                if joined {
                    tokio::time::sleep(NOTICE).await;
                }
                return Ok(());
            }
            // It changed, came or went meanwhile.
            if ![StatusCode::CONFLICT, StatusCode::NOT_FOUND].contains(&answer.code) {
                return Err(failed(answer.message()));
            }
            backoff.pause().await;
        }
        Err(failed("other instances write it all the time".to_owned()))
    }

    /// As it stands, for [`Self::withdraw`].
    pub async fn before(&self) -> Result<Option<Value>, Error> {
        self.read().await.map_err(|why| refused(Installed::Webhook, "read", why))
    }

    /// As if we had not registered: as it was before, or not at all.
    pub async fn withdraw(&self, before: Option<Value>) -> Result<(), Error> {
        let failed = |reason| refused(Installed::Webhook, "withdraw", reason);
        let answer = match before {
            None => self.client.delete(&Installed::Webhook.path()).await,
            Some(mut object) => {
                let now = self.read().await.map_err(failed)?;
                object["metadata"]["resourceVersion"] =
                    now.map(|now| now["metadata"]["resourceVersion"].clone()).into();
                self.client.put(&Installed::Webhook.path(), &object).await
            }
        };
        let answer = answer.map_err(|NoAnswer(reason)| failed(reason))?;
        if answer.code.is_success() || answer.code == StatusCode::NOT_FOUND {
            return Ok(());
        }
        Err(failed(answer.message()))
    }

    /// Looks after it for ever.
    pub async fn keep(&self) {
        let mut state = State::Kept;
        loop {
            tokio::time::sleep(CHECK).await;
            let new = match self.check().await {
                Ok(new) => new,
                Err(reason) => {
                    tracing::debug!(reason, "cannot look after the registration");
                    continue;
                }
            };
            if new != std::mem::replace(&mut state, new) {
                new.tell(&self.url);
            }
        }
    }

    async fn check(&self) -> Result<State, String> {
        let Some(mut object) = self.read().await? else { return Ok(State::Deleted) };
        if url(&object) != Some(&self.url) {
            // Two that differ about the address must not take it from each other for ever.
            return Ok(State::Elsewhere);
        }
        let held = bundle(&object)?;
        if contains(&held, &self.ca) {
            return Ok(State::Kept);
        }
        object["webhooks"][0]["clientConfig"]["caBundle"] =
            encoded(&merged(&held, &self.ca, Timestamp::now()));
        let answer = self.put(&object).await?;
        match answer.code {
            // After a conflict the next check looks again.
            code if code.is_success() || code == StatusCode::CONFLICT => Ok(State::Readded),
            StatusCode::NOT_FOUND => Ok(State::Deleted),
            _ => Err(answer.message()),
        }
    }

    /// None: there is no registration.
    async fn read(&self) -> Result<Option<Value>, String> {
        let path = Installed::Webhook.path();
        let answer = self.client.get(&path).await.map_err(|NoAnswer(reason)| reason)?;
        match answer.code {
            StatusCode::OK => answer.json().map(Some).map_err(|e| e.to_string()),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(answer.message()),
        }
    }

    async fn create(&self) -> Result<Answer, String> {
        let Manifest { kind, body } = self.manifest(&self.ca);
        let path = kind.path();
        let all = path.rsplit_once('/').map_or(path.as_str(), |(all, _)| all);
        let path = format!("{all}?fieldManager={NAME}");
        self.client.post(&path, &body).await.map_err(|NoAnswer(reason)| reason)
    }

    /// As this version wants it, with the certificates of the others.
    async fn replace(&self, mut object: Value) -> Result<Answer, String> {
        let body = self.manifest(&merged(&bundle(&object)?, &self.ca, Timestamp::now())).body;
        object["webhooks"] = body["webhooks"].clone();
        let labels = body["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        for (label, value) in labels {
            object["metadata"]["labels"][label] = value;
        }
        self.put(&object).await
    }

    /// Only if it is still as we read it: `object` carries its version.
    async fn put(&self, object: &Value) -> Result<Answer, String> {
        let path = format!("{}?fieldManager={NAME}", Installed::Webhook.path());
        self.client.put(&path, object).await.map_err(|NoAnswer(reason)| reason)
    }

    fn manifest(&self, bundle: &str) -> Manifest {
        manifests::webhook(&self.url, &encoded(bundle), self.intercept)
    }
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("url", &self.url).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Kept,
    Readded,
    Deleted,
    Elsewhere,
}

impl State {
    fn tell(self, url: &str) {
        let object = Installed::Webhook.title();
        match self {
            Self::Kept => tracing::info!(%object, "in place"),
            Self::Readded => tracing::warn!(%object, "our certificate was gone; it is back"),
            Self::Deleted => tracing::warn!(
                %object,
                "deleted: evictions pass without being asked about until Holdfast is started again"
            ),
            Self::Elsewhere => tracing::warn!(
                %object,
                ours = url,
                "registered at another address: this instance is not asked any more; all must \
                 have the same --advertise"
            ),
        }
    }
}

fn url(object: &Value) -> Option<&str> {
    object["webhooks"][0]["clientConfig"]["url"].as_str()
}

fn bundle(object: &Value) -> Result<String, String> {
    decoded(&object["webhooks"][0]["clientConfig"]["caBundle"])
}

/// Of a `caBundle`; null is none.
pub fn decoded(encoded: &Value) -> Result<String, String> {
    if encoded.is_null() {
        return Ok(String::new());
    }
    let bytes: k8s_openapi::ByteString = serde_json::from_value(encoded.clone())
        .map_err(|e| format!("cannot read caBundle: {e}"))?;
    Ok(String::from_utf8_lossy(&bytes.0).into_owned())
}

pub fn encoded(bundle: &str) -> Value {
    // Bytes always have a base64.
    serde_json::to_value(k8s_openapi::ByteString(bundle.as_bytes().to_vec()))
        .unwrap_or_else(|_| json!(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_is_read_as_it_was_written() {
        let object =
            manifests::webhook("https://h/evict", &encoded("one\ntwo\n"), Intercept::Outside).body;
        assert_eq!(bundle(&object).unwrap(), "one\ntwo\n");
        assert_eq!(url(&object), Some("https://h/evict"));
        assert_eq!(bundle(&json!({})).unwrap(), "");
        let garbled = json!({"webhooks": [{"clientConfig": {"caBundle": "%"}}]});
        assert!(bundle(&garbled).is_err());
    }
}
