//! Registers this instance at the API server, beside other instances.
//!
//! Only --install creates the registration, because its deletion is the kill switch and must work while
//! instances run. While the registration exists, each instance keeps its CA in it.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::base::Base;
use super::bundle::{Trusted, contains, merged};
use super::entry::{Entry, address, client};
use super::manifests::Intercept;
use super::native::give_back;
use super::{MANAGED_BY, NAME, PART_OF, Turn, installing, refused};
use crate::api_client::{Answer, ApiClient, NoAnswer};
use crate::error::Error;
use crate::watch::Backoff;

/// How often to check that this instance's CA is still there.
const CHECK: Duration = Duration::from_secs(10);

/// The time for API servers to read another CA, before the instance reports ready. They watch.
const NOTICE: Duration = Duration::from_secs(1);

/// Another instance may write between the read and the write. Every conflict means that another one
/// succeeded.
const CONFLICTS_MAX: usize = 20;

#[derive(Clone)]
pub struct Registration {
    pub client: ApiClient,
    /// The URL for evictions. Other requests use other paths.
    pub url: String,
    pub trusted: watch::Receiver<Trusted>,
    /// The objects that must exist before API servers send requests.
    pub base: Arc<Base>,
    pub entry: Entry,
}

impl Registration {
    /// Returns true if the registration exists, with any address.
    pub async fn exists(&self) -> Result<bool, Error> {
        super::exists(&self.client, self.entry.object()).await
    }

    /// Returns the number of match conditions for evictions. None if it is not registered.
    pub async fn conditions(&self) -> Result<Option<usize>, Error> {
        let object = self.before().await?;
        let count =
            |object: Value| object["webhooks"][0]["matchConditions"].as_array().map_or(0, Vec::len);
        Ok(object.map(count))
    }

    /// Joins the registration. With `install`, creates it if it does not exist.
    pub async fn enter(&self, install: bool) -> Result<(), Error> {
        if !install || self.exists().await? {
            return self.join().await;
        }
        self.install().await
    }

    /// Does the same for entries that must not be created during an uninstallation. An installing instance
    /// waits for the Lease.
    pub async fn enter_in_turn(&self, install: bool) -> Result<(), Error> {
        if install { self.install().await } else { self.join().await }
    }

    /// Registers or joins, with the Lease.
    pub async fn install(&self) -> Result<(), Error> {
        installing(&self.client, &self.base, async |turn| self.register(turn).await).await
    }

    /// Creates the registration, or joins it.
    pub async fn register(&self, _: &Turn) -> Result<(), Error> {
        self.write(true).await
    }

    /// Joins the registration if it exists.
    pub async fn join(&self) -> Result<(), Error> {
        self.write(false).await
    }

    async fn write(&self, create: bool) -> Result<(), Error> {
        let failed = |reason| refused(self.entry.object(), "register", reason);
        let mut backoff = Backoff::new();
        for _ in 0..CONFLICTS_MAX {
            let (answer, joined) = match self.read().await.map_err(failed)? {
                None if !create => return Err(failed("it is not there any more".to_owned())),
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
                // API servers repeat conversions until they get an answer.
                if joined && self.entry != Entry::Conversion {
                    tokio::time::sleep(NOTICE).await;
                }
                return Ok(());
            }
            // The object changed, was created or was deleted in between.
            if ![StatusCode::CONFLICT, StatusCode::NOT_FOUND].contains(&answer.code) {
                return Err(failed(answer.message()));
            }
            backoff.pause().await;
        }
        Err(failed("other instances write it all the time".to_owned()))
    }

    /// Returns the present object, for [`Self::withdraw`].
    pub async fn before(&self) -> Result<Option<Value>, Error> {
        self.read().await.map_err(|why| refused(self.entry.object(), "read", why))
    }

    /// Undoes the registration: restores the previous object, or deletes it. Changes of other clients stay.
    pub async fn withdraw(&self, before: Option<Value>) -> Result<(), Error> {
        let failed = |reason| refused(self.entry.object(), "withdraw", reason);
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        let now = self.read().await.map_err(failed)?;
        let Some(now) = now.filter(|now| self.is_here(now)) else { return Ok(()) };
        let path = self.entry.object().path();
        let answer = match before {
            Some(before) if version(&before) == version(&now) => return Ok(()),
            None => self.client.delete_only(&path, json!({"resourceVersion": version(&now)})).await,
            Some(mut before) => {
                before["metadata"]["resourceVersion"] = version(&now);
                self.client.put(&path, &before).await
            }
        };
        let answer = answer.map_err(|NoAnswer(reason)| failed(reason))?;
        if answer.code.is_success() || answer.code == StatusCode::NOT_FOUND {
            return Ok(());
        }
        Err(failed(answer.message()))
    }

    /// Checks the registration regularly, and reports its state. Runs until the task is aborted.
    pub async fn keep(&self, found: impl Fn(State)) {
        let mut state = State::Kept;
        loop {
            tokio::time::sleep(CHECK).await;
            match self.look_after().await {
                Ok(new) => {
                    found(new);
                    self.tell(&mut state, new);
                }
                Err(reason) => tracing::debug!(reason, "cannot look after the registration"),
            }
        }
    }

    /// Returns the state without changing anything.
    pub async fn state(&self) -> Result<State, String> {
        let (state, _) = self.look().await?;
        Ok(state)
    }

    /// Adds this instance's certificate if it is missing, and the changes of `amend`.
    pub async fn check(&self, amend: impl FnOnce(&mut Value)) -> Result<State, String> {
        match self.read().await? {
            Some(found) => self.tend(found, amend).await,
            None => Ok(State::Deleted),
        }
    }

    async fn look_after(&self) -> Result<State, String> {
        let (state, found) = self.look().await?;
        let Some(found) = found else { return Ok(state) };
        let tended = self.tend(found, |_| {}).await?;
        // Do not repair it: this may be a kill switch.
        Ok(if state == State::Weakened { state } else { tended })
    }

    async fn look(&self) -> Result<(State, Option<Value>), String> {
        let answer = self.get().await?;
        if answer.code == StatusCode::FORBIDDEN {
            return Ok((State::Forbidden, None));
        }
        let Some(found) = object(&answer)? else { return Ok((State::Deleted, None)) };
        let state = match (self.entry.is_whole(&found), self.is_here(&found)) {
            (false, _) => State::Weakened,
            (true, false) => State::Elsewhere,
            (true, true) => State::Kept,
        };
        Ok((state, Some(found)))
    }

    async fn tend(&self, found: Value, amend: impl FnOnce(&mut Value)) -> Result<State, String> {
        if !self.is_here(&found) {
            // Two instances with different addresses must not replace each other's address for ever.
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
            // After a conflict, the next check reads again.
            code if code.is_success() || code == StatusCode::CONFLICT => Ok(state),
            StatusCode::NOT_FOUND => Ok(State::Deleted),
            _ => Err(answer.message()),
        }
    }

    /// Logs a change of the state.
    pub fn tell(&self, state: &mut State, new: State) {
        if new == std::mem::replace(state, new) {
            return;
        }
        let object = self.entry.object().title();
        match new {
            State::Kept => tracing::info!(%object, "in place"),
            State::Readded => tracing::warn!(%object, "our certificate was not in it; it is now"),
            State::Deleted => tracing::warn!(%object, "{}", self.entry.loss()),
            State::Weakened => tracing::warn!(
                %object,
                "changed by somebody (failurePolicy, rules, selectors or matchConditions): evictions that it is \
                 for pass without being asked about; starting an instance anew sets it right"
            ),
            State::Forbidden => tracing::warn!(
                %object,
                "the right to read it was taken away, as an uninstallation does: to all appearances nobody is \
                 asked any more; install Holdfast again, or end this instance"
            ),
            State::Elsewhere => tracing::warn!(
                %object,
                ours = %self.url(),
                "registered at another address: this instance is not asked any more; all must \
                 have the same --advertise"
            ),
        }
    }

    /// Returns None if there is no registration.
    async fn read(&self) -> Result<Option<Value>, String> {
        object(&self.get().await?)
    }

    async fn get(&self) -> Result<Answer, String> {
        let path = self.entry.object().path();
        self.client.get(&path).await.map_err(|NoAnswer(reason)| reason)
    }

    async fn create(&self) -> Result<Answer, String> {
        let bundle = encoded(&self.trusted.borrow().cas);
        let body = self.entry.body(&self.url, &bundle, &Value::Null);
        let path = self.entry.object().path();
        let all = path.rsplit_once('/').map_or(path.as_str(), |(all, _)| all);
        let path = format!("{all}?fieldManager={NAME}");
        self.client.post(&path, &body).await.map_err(|NoAnswer(reason)| reason)
    }

    /// Writes the object as this version needs it, with the certificates of the other instances.
    async fn replace(&self, mut object: Value) -> Result<Answer, String> {
        // The certificates of another program's object are not from instances of Holdfast.
        let held = if is_ours(&object) { bundle(&object)? } else { String::new() };
        let merged = merged(&held, &self.trusted.borrow().clone(), Timestamp::now());
        let entry = match self.entry {
            // Until an uninstallation is complete, nothing else enforces the budgets.
            Entry::Evictions(_) if give_back::is_noted(&object) => Entry::Evictions(Intercept::All),
            entry => entry,
        };
        let mut body = entry.body(&self.url, &encoded(&merged), &object);
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

    /// Writes the object if it has not changed since it was read: `object` has its version.
    async fn put(&self, object: &Value) -> Result<Answer, String> {
        let path = format!("{}?fieldManager={NAME}", self.entry.object().path());
        self.client.put(&path, object).await.map_err(|NoAnswer(reason)| reason)
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
    /// The webhook on evictions is weakened, so some pass without a check.
    Weakened,
    /// This instance has no right to read it any more.
    Forbidden,
}

impl State {
    /// Returns true if nothing passes without a check. An instance at another address decides, or does not
    /// answer, which refuses the request.
    pub fn is_asked(self) -> bool {
        match self {
            Self::Kept | Self::Readded | Self::Elsewhere => true,
            Self::Deleted | Self::Weakened | Self::Forbidden => false,
        }
    }
}

/// Returns None if there is no such object.
fn object(answer: &Answer) -> Result<Option<Value>, String> {
    match answer.code {
        StatusCode::OK => answer.json().map(Some).map_err(|e| e.to_string()),
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(answer.message()),
    }
}

/// Returns true if Holdfast created the object or took it over, or if it was installed from Holdfast's
/// manifests.
pub fn is_ours(object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    labels[MANAGED_BY] == NAME || labels[PART_OF] == NAME
}

/// Compares URLs in the same form, because a port may be left out.
fn is_at(object: &Value, url: &str) -> bool {
    address(Entry::client_config(object)) == address(&client(url, &Value::Null))
}

fn bundle(object: &Value) -> Result<String, String> {
    decoded(&Entry::client_config(object)["caBundle"])
}

/// Decodes a `caBundle`. Null is empty.
pub fn decoded(encoded: &Value) -> Result<String, String> {
    if encoded.is_null() {
        return Ok(String::new());
    }
    let bytes: k8s_openapi::ByteString = serde_json::from_value(encoded.clone())
        .map_err(|e| format!("cannot read caBundle: {e}"))?;
    Ok(String::from_utf8_lossy(&bytes.0).into_owned())
}

pub fn encoded(bundle: &str) -> Value {
    // Encoding bytes in base64 cannot fail.
    serde_json::to_value(k8s_openapi::ByteString(bundle.as_bytes().to_vec()))
        .unwrap_or_else(|_| json!(""))
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Fake, Who, registration};
    use super::super::manifests::Installed;
    use super::super::{Intercept, manifests};
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

    #[tokio::test(start_paused = true)]
    async fn it_is_known_whether_evictions_pass_unasked() {
        let fake = Fake::new();
        let path = Installed::Webhook.path();
        fake.lock().put(&Installed::ClusterRole.path(), json!({}));
        let ours = registration(fake.client(Who::Server), Intercept::Outside);
        let state = async || ours.look_after().await.unwrap();
        assert_eq!(state().await, State::Deleted);

        fake.lock().put(&path, ours.entry.body(&ours.url, &Value::Null, &Value::Null));
        assert_eq!(state().await, State::Kept);
        fake.lock().get(&path)["webhooks"][0]["failurePolicy"] = json!("Ignore");
        assert_eq!(state().await, State::Weakened);
        let elsewhere = manifests::webhook("https://other/evict", &Value::Null, Intercept::Outside);
        fake.lock().put(&path, elsewhere.body);
        assert_eq!(state().await, State::Elsewhere);
        fake.lock().get(&path)["webhooks"][0]["failurePolicy"] = json!("Ignore");
        assert_eq!(state().await, State::Weakened);

        fake.lock().remove(Installed::ClusterRole);
        assert_eq!(state().await, State::Forbidden);
        let asked = [State::Kept, State::Readded, State::Elsewhere];
        let not = [State::Deleted, State::Weakened, State::Forbidden];
        assert!(asked.into_iter().all(State::is_asked) && !not.into_iter().any(State::is_asked));
    }

    #[tokio::test(start_paused = true)]
    async fn who_withdraws_takes_back_nothing_but_its_own() {
        let fake = Fake::new();
        let path = Installed::Webhook.path();
        let ours = registration(fake.client(Who::Admin), Intercept::All);
        let own = || ours.entry.body(&ours.url, &Value::Null, &Value::Null);
        fake.lock().put(&path, own());
        ours.withdraw(None).await.unwrap();
        assert!(!fake.lock().has(Installed::Webhook), "there was none");

        let before = fake.lock().put(&path, json!({"metadata": {"labels": {"of": "another"}}}));
        fake.lock().put(&path, own());
        ours.withdraw(Some(before.clone())).await.unwrap();
        let now = fake.lock().get(&path).clone();
        assert_eq!(now["metadata"]["labels"], before["metadata"]["labels"]);

        let theirs = manifests::webhook("https://other/evict", &Value::Null, Intercept::All).body;
        let theirs = fake.lock().put(&path, theirs);
        ours.withdraw(Some(before)).await.unwrap();
        ours.withdraw(None).await.unwrap();
        assert_eq!(*fake.lock().get(&path), theirs);
    }
}
