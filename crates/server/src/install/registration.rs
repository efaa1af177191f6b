//! Telling the API server where we are, beside other instances that do the same.
//!
//! The registration is made at start, and only then: deleting it is the kill switch, and must work
//! while instances run. As long as it is there, each keeps its CA in it.

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::bundle::{Trusted, contains, merged};
use super::entry::{Entry, address, client};
use super::{MANAGED_BY, NAME, PART_OF, refused};
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
    /// What the API server calls about evictions; other matters have other paths.
    pub url: String,
    pub trusted: watch::Receiver<Trusted>,
    pub entry: Entry,
}

impl Registration {
    /// Whether the API server calls us, others, or an earlier process of ours.
    pub async fn exists(&self) -> Result<bool, Error> {
        super::exists(&self.client, self.entry.object()).await
    }

    /// How many conditions an eviction has to meet to be sent to us; None if it is not registered.
    pub async fn conditions(&self) -> Result<Option<usize>, Error> {
        let object = self.before().await?;
        let count =
            |object: Value| object["webhooks"][0]["matchConditions"].as_array().map_or(0, Vec::len);
        Ok(object.map(count))
    }

    /// From now on the API server asks us, or us too.
    pub async fn register(&self) -> Result<(), Error> {
        let failed = |reason| refused(self.entry.object(), "register", reason);
        let mut backoff = Backoff::new();
        for _ in 0..CONFLICTS_MAX {
            let (answer, joined) = match self.read().await.map_err(failed)? {
                None => (self.create().await.map_err(failed)?, false),
                Some(object) => {
                    let joined = self.is_here(&object);
                    (self.replace(object).await.map_err(failed)?, joined)
                }
            };
            if answer.code.is_success() {
                let object = self.entry.object().title();
                let change = if joined { "joined" } else { "ours" };
                tracing::info!(%object, change, url = %self.url(), "registered");
                // Conversion is asked for again until it is answered.
                if joined && self.entry != Entry::Conversion {
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
        self.read().await.map_err(|why| refused(self.entry.object(), "read", why))
    }

    /// As if we had not registered: as it was before, or not at all.
    pub async fn withdraw(&self, before: Option<Value>) -> Result<(), Error> {
        let failed = |reason| refused(self.entry.object(), "withdraw", reason);
        let path = self.entry.object().path();
        let answer = match before {
            None => self.client.delete(&path).await,
            Some(mut object) => {
                let now = self.read().await.map_err(failed)?;
                object["metadata"]["resourceVersion"] =
                    now.map(|now| now["metadata"]["resourceVersion"].clone()).into();
                self.client.put(&path, &object).await
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
            match self.check(|_| {}).await {
                Ok(new) => self.tell(&mut state, new),
                Err(reason) => tracing::debug!(reason, "cannot look after the registration"),
            }
        }
    }

    /// Sees to it that our certificate is there, and to what `amend` changes.
    pub async fn check(&self, amend: impl FnOnce(&mut Value)) -> Result<State, String> {
        let Some(found) = self.read().await? else { return Ok(State::Deleted) };
        if !self.is_here(&found) {
            // Two that differ about the address must not take it from each other for ever.
            return Ok(State::Elsewhere);
        }
        let mut object = found.clone();
        let (held, trusted) = (bundle(&object)?, self.trusted.borrow().clone());
        let kept = contains(&held, &trusted.cas);
        let merged = merged(&held, &trusted, Timestamp::now());
        if merged != held {
            for config in Entry::client_configs(&mut object) {
                config["caBundle"] = encoded(&merged);
            }
        }
        let state = if kept { State::Kept } else { State::Readded };
        amend(&mut object);
        if object == found {
            return Ok(state);
        }
        let answer = self.put(&object).await?;
        match answer.code {
            // After a conflict the next check looks again.
            code if code.is_success() || code == StatusCode::CONFLICT => Ok(state),
            StatusCode::NOT_FOUND => Ok(State::Deleted),
            _ => Err(answer.message()),
        }
    }

    /// Says what has changed.
    pub fn tell(&self, state: &mut State, new: State) {
        if new == std::mem::replace(state, new) {
            return;
        }
        let object = self.entry.object().title();
        match new {
            State::Kept => tracing::info!(%object, "in place"),
            State::Readded => tracing::warn!(%object, "our certificate was not in it; it is now"),
            State::Deleted => tracing::warn!(%object, "{}", self.entry.loss()),
            State::Elsewhere => tracing::warn!(
                %object,
                ours = %self.url(),
                "registered at another address: this instance is not asked any more; all must \
                 have the same --advertise"
            ),
        }
    }

    /// None: there is no registration.
    async fn read(&self) -> Result<Option<Value>, String> {
        let path = self.entry.object().path();
        let answer = self.client.get(&path).await.map_err(|NoAnswer(reason)| reason)?;
        match answer.code {
            StatusCode::OK => answer.json().map(Some).map_err(|e| e.to_string()),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(answer.message()),
        }
    }

    async fn create(&self) -> Result<Answer, String> {
        let body = self.body(&self.trusted.borrow().cas, &Value::Null);
        let path = self.entry.object().path();
        let all = path.rsplit_once('/').map_or(path.as_str(), |(all, _)| all);
        let path = format!("{all}?fieldManager={NAME}");
        self.client.post(&path, &body).await.map_err(|NoAnswer(reason)| reason)
    }

    /// As this version wants it, with the certificates of the others.
    async fn replace(&self, mut object: Value) -> Result<Answer, String> {
        // Of one that was a stranger's until now, those are none of ours.
        let held = if is_ours(&object) { bundle(&object)? } else { String::new() };
        let merged = merged(&held, &self.trusted.borrow().clone(), Timestamp::now());
        let mut body = self.body(&merged, &object);
        for part in ["webhooks", "spec"] {
            if !body[part].is_null() {
                object[part] = body[part].take();
            }
        }
        for part in ["labels", "annotations"] {
            let wanted = body["metadata"][part].as_object().cloned().unwrap_or_default();
            for (key, value) in wanted {
                object["metadata"][part][key] = value;
            }
        }
        self.put(&object).await
    }

    /// Only if it is still as we read it: `object` carries its version.
    async fn put(&self, object: &Value) -> Result<Answer, String> {
        let path = format!("{}?fieldManager={NAME}", self.entry.object().path());
        self.client.put(&path, object).await.map_err(|NoAnswer(reason)| reason)
    }

    fn body(&self, bundle: &str, now: &Value) -> Value {
        self.entry.body(&self.url, &encoded(bundle), now)
    }

    fn url(&self) -> String {
        self.entry.url(&self.url)
    }

    fn is_here(&self, object: &Value) -> bool {
        is_at(object, &self.url())
    }
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("url", &self.url()).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Kept,
    Readded,
    Deleted,
    Elsewhere,
}

/// Whether we made it or took it over, or somebody made it for us.
pub fn is_ours(object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    labels[MANAGED_BY] == NAME || labels[PART_OF] == NAME
}

/// The URL by way of the same functions: a port may be left out.
fn is_at(object: &Value, url: &str) -> bool {
    address(Entry::client_config(object)) == address(&client(url, &Value::Null))
}

fn bundle(object: &Value) -> Result<String, String> {
    decoded(&Entry::client_config(object)["caBundle"])
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
    use super::super::Intercept;
    use super::*;
    use holdfast_core::model::GroupApi;

    #[test]
    fn the_bundle_is_read_as_it_was_written() {
        let entries = [
            (Entry::Evictions(Intercept::Outside), "https://h/evict"),
            (Entry::Guard, "https://h/podunavailablebudgets"),
            (Entry::Conversion, "https://h/convert"),
            (Entry::Placing(GroupApi::Kubernetes), "https://h/place"),
            (Entry::Asking, "https://h/workloads"),
        ];
        for (entry, address) in entries {
            let object = entry.body("https://h/evict", &encoded("one\ntwo\n"), &Value::Null);
            assert_eq!(bundle(&object).unwrap(), "one\ntwo\n");
            assert!(is_at(&object, address) && !is_at(&object, "https://other/evict"));
            assert!(is_ours(&object));
        }
        assert_eq!(bundle(&json!({})).unwrap(), "");
        let garbled = json!({"webhooks": [{"clientConfig": {"caBundle": "%"}}]});
        assert!(bundle(&garbled).is_err());
    }

    #[test]
    fn our_service_is_registered_as_such() {
        let evict = |port: &str| format!("https://holdfast.holdfast-system.svc{port}/evict");
        let object = Entry::Asking.body(&evict(":8443"), &encoded("one"), &Value::Null);
        let mut config = Entry::client_config(&object).clone();
        config["caBundle"].take();
        let service = json!({
            "namespace": "holdfast-system", "name": "holdfast", "port": 8443, "path": "/workloads",
        });
        assert_eq!(config, json!({"service": service, "caBundle": null}));

        let object =
            Entry::Placing(GroupApi::Holdfast).body(&evict(""), &json!("Q0E="), &Value::Null);
        for port in ["", ":443"] {
            assert!(is_at(&object, &evict(port).replace("evict", "place")), "{port}");
        }
        assert!(!is_at(&object, &evict(":8443").replace("evict", "place")));
    }
}
