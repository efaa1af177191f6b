//! Keeps Holdfast's copies equal to the built-in budgets until `policy/v1` is Holdfast's, and shortly after
//! that.
//!
//! A watch that is open when the `APIService` changes still shows the old storage. So this watch sees the
//! writes that API servers accepted just before they noticed the change.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::AsyncBufReadExt;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::import::{self, Budgets, Changes, Key, Step, Storage};
use crate::api_client::{ApiClient, NoAnswer};
use crate::error::Error;

/// A watch is opened again after this time, while the storage is not Holdfast's.
const WATCH_SECONDS: u64 = 300;

/// Other clients write the status too.
const TRIES: usize = 10;

pub struct Follower {
    client: ApiClient,
    /// The copies as they were last written. If a copy differs, another client has changed it.
    copied: Budgets,
    version: String,
}

impl Follower {
    /// Copies everything.
    pub async fn start(client: ApiClient) -> Result<(Self, Changes), Error> {
        let mut follower = Self { client, copied: BTreeMap::new(), version: String::new() };
        let changes = follower.list().await?;
        Ok((follower, changes))
    }

    /// Runs until `stop`, or until its sender is dropped. It never stops in the middle of a copy.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        while !is_over(&stop) {
            if let Err(reason) = self.watch(&mut stop).await {
                if is_over(&stop) {
                    return;
                }
                tracing::warn!(reason, "cannot follow the built-in budgets; listing them again");
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(500)) => {}
                    _ = stop.wait_for(|stop| *stop) => return,
                }
                if let Err(error) = self.list().await {
                    tracing::warn!(%error, "cannot list the built-in budgets");
                }
            }
        }
    }

    async fn list(&mut self) -> Result<Changes, Error> {
        let (built_in, version) = Storage::BuiltIn.list(&self.client).await?;
        let (ours, _) = Storage::Ours.list(&self.client).await?;
        let mut steps = Vec::new();
        for (key, original) in &built_in {
            match ours.get(key) {
                None => steps.push(Step::Create(original.clone())),
                Some(own) if import::is_copy(own) && !import::is_same(own, original) => {
                    steps.push(Step::Update(original.clone(), own.clone()));
                }
                Some(_) => {}
            }
        }
        let gone =
            ours.iter().filter(|(key, own)| import::is_copy(own) && !built_in.contains_key(*key));
        steps.extend(gone.map(|(_, own)| Step::Delete(own.clone())));
        let changes = import::carry_out(&self.client, Storage::Ours, steps).await?;
        for (key, original) in &built_in {
            self.carry_disrupted(key, original).await;
        }
        self.copied = built_in;
        self.version = version;
        Ok(changes)
    }

    async fn watch(&mut self, stop: &mut watch::Receiver<bool>) -> Result<(), String> {
        let path = format!(
            "{}?watch=1&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}",
            Storage::BuiltIn.resource().path(),
            self.version
        );
        let mut lines = match self.client.stream(&path).await {
            Ok(Ok(lines)) => lines,
            Ok(Err(answer)) => return Err(answer.message()),
            Err(NoAnswer(why)) => return Err(why),
        };
        loop {
            let mut line = Vec::new();
            let read = tokio::select! {
                read = lines.read_until(b'\n', &mut line) => read,
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            };
            match read {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
            let Ok(event) = serde_json::from_slice::<Value>(&line) else { return Ok(()) };
            let original = &event["object"];
            match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => self.changed(original).await,
                Some("DELETED") => self.deleted(original).await,
                Some("ERROR") => return Err(original["message"].to_string()),
                _ => {}
            }
            if let Some(version) = original["metadata"]["resourceVersion"].as_str() {
                version.clone_into(&mut self.version);
            }
        }
    }

    async fn changed(&mut self, original: &Value) {
        let key = import::key(original);
        let current = self.current(&key).await;
        let same_as_copied =
            |own: &Value| self.copied.get(&key).is_some_and(|copied| import::is_same(own, copied));
        let step = match &current {
            None if !self.copied.contains_key(&key) => Some(Step::Create(original.clone())),
            // A client has deleted it through Holdfast already.
            None => None,
            Some(own) if import::is_same(own, original) => None,
            Some(own) if same_as_copied(own) => Some(Step::Update(original.clone(), own.clone())),
            Some(_) => {
                tracing::warn!(budget = ?key, "changed in both storages at once; ours stays");
                None
            }
        };
        if let Some(step) = step {
            self.carry_out(step).await;
        }
        self.carry_disrupted(&key, original).await;
        self.copied.insert(key, original.clone());
    }

    async fn deleted(&mut self, original: &Value) {
        let key = import::key(original);
        let Some(copied) = self.copied.remove(&key) else { return };
        if let Some(own) = self.current(&key).await
            && import::is_same(&own, &copied)
        {
            self.carry_out(Step::Delete(own)).await;
        }
    }

    async fn carry_out(&self, step: Step) {
        if let Err(error) = import::carry_out(&self.client, Storage::Ours, vec![step]).await {
            tracing::warn!(%error, "cannot follow a change of a built-in budget");
        }
    }

    /// Copies the evictions that the built-in budget has granted and whose pods are not gone yet.
    async fn carry_disrupted(&self, key: &Key, original: &Value) {
        let Some(granted) = original["status"]["disruptedPods"].as_object() else { return };
        let path = format!("{}/status", Storage::Ours.resource().object_path(&key.0, &key.1));
        for _ in 0..TRIES {
            let Some(mut own) = self.current(key).await else { return };
            let mut known = own["status"]["disruptedPods"].as_object().cloned().unwrap_or_default();
            let before = known.len();
            for (pod, time) in granted {
                known.entry(pod.clone()).or_insert_with(|| time.clone());
            }
            if known.len() == before {
                return;
            }
            if !own["status"].is_object() {
                own["status"] = json!({});
            }
            own["status"]["disruptedPods"] = Value::Object(known);
            match self.client.put(&path, &own).await {
                Ok(answer) if answer.code == StatusCode::CONFLICT => {}
                Ok(answer) if answer.code.is_success() => return,
                Ok(answer) => {
                    tracing::warn!(budget = ?key, reason = answer.message(), "cannot carry over its grants");
                    return;
                }
                Err(NoAnswer(_)) => {}
            }
        }
    }

    async fn current(&self, key: &Key) -> Option<Value> {
        let path = Storage::Ours.resource().object_path(&key.0, &key.1);
        for _ in 0..TRIES {
            match self.client.get(&path).await {
                Ok(answer) if answer.code == StatusCode::OK => return answer.json().ok(),
                Ok(answer) if answer.is_object_not_found(&key.1) => return None,
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
        None
    }
}

/// The sender is dropped together with the takeover that needs this task.
fn is_over(stop: &watch::Receiver<bool>) -> bool {
    *stop.borrow() || stop.has_changed().is_err()
}
