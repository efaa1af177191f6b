//! What it takes to drain nodes: cordon, evict, and see what becomes of pods.

use holdfast_core::model::ObjectKey;
use holdfast_core::{Input, Kind};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::api_client::{ApiClient, NoAnswer, STRATEGIC_MERGE_PATCH};
use crate::metrics::Metrics;
use crate::snapshot::Reader;
use crate::watch::Watcher;

/// Changes that are on their way to whoever drains, who does little more than look at them.
const FEED_SIZE: usize = 1024;

/// Cordons nodes and evicts pods, as the user of the kubeconfig.
#[derive(Clone, Debug)]
pub struct Drainer {
    client: ApiClient,
    /// Nothing is changed, and the API server answers as if it were.
    dry_run: bool,
    /// Instead of the pod's own.
    grace_seconds: Option<i64>,
}

/// What the Eviction API answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    Granted,
    /// 429: a budget, or an API server that has too much to do. Worth asking again.
    Denied(String),
    /// The pod is gone, or is another one by now.
    Gone,
    /// Nobody can say whether it was carried out. Worth asking again.
    Unknown(String),
    /// It will not be better next time.
    Refused(String),
}

impl Drainer {
    pub fn new(reader: &Reader, dry_run: bool, grace_seconds: Option<i64>) -> Self {
        Self { client: reader.client().clone(), dry_run, grace_seconds }
    }

    /// What is wrong, if anything.
    pub async fn cordon(&self, node: &str) -> Result<(), String> {
        let path = format!("/api/v1/nodes/{node}{}", if self.dry_run { "?dryRun=All" } else { "" });
        let patch = json!({"spec": {"unschedulable": true}});
        match self.client.patch(&path, STRATEGIC_MERGE_PATCH, &patch).await {
            Ok(answer) if answer.code.is_success() => Ok(()),
            Ok(answer) => Err(answer.message()),
            Err(NoAnswer(reason)) => Err(reason),
        }
    }

    /// This very pod, and no successor of its name.
    pub async fn evict(&self, pod: &ObjectKey, uid: &str) -> Evicted {
        let ObjectKey { namespace, name } = pod;
        let mut options = json!({"preconditions": {"uid": uid}});
        if let Some(seconds) = self.grace_seconds {
            options["gracePeriodSeconds"] = json!(seconds);
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": options,
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        let answer = match self.client.post(&path, &eviction).await {
            Ok(answer) => answer,
            Err(NoAnswer(reason)) => return Evicted::Unknown(reason),
        };
        match answer.code {
            code if code.is_success() => Evicted::Granted,
            StatusCode::TOO_MANY_REQUESTS => Evicted::Denied(message(&answer.json())),
            StatusCode::NOT_FOUND if answer.is_object_not_found(name) => Evicted::Gone,
            StatusCode::CONFLICT => self.after_conflict(pod, uid, answer.message()).await,
            // The API server says so of a pod under two budgets of its own.
            code if code.is_server_error() && !answer.message().contains("more than one") => {
                Evicted::Unknown(answer.message())
            }
            _ => Evicted::Refused(answer.message()),
        }
    }

    /// Another pod by that name, or a budget that somebody else has just written.
    async fn after_conflict(&self, pod: &ObjectKey, uid: &str, message: String) -> Evicted {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        match self.client.get(&path).await {
            Ok(answer) if answer.is_object_not_found(&pod.name) => Evicted::Gone,
            Ok(answer) if answer.code.is_success() => match answer.json::<Value>() {
                Ok(now) if now["metadata"]["uid"] != uid => Evicted::Gone,
                _ => Evicted::Unknown(message),
            },
            _ => Evicted::Unknown(message),
        }
    }

    /// Of each kind a list of all objects, then every change, for as long as the receiver is there.
    pub fn watch(&self, kinds: impl IntoIterator<Item = Kind>) -> mpsc::Receiver<Input> {
        let (feed, news) = mpsc::channel(FEED_SIZE);
        for kind in kinds {
            let watcher = Watcher::new(self.client.clone(), kind, feed.clone(), Metrics::new(0));
            tokio::spawn(watcher.run());
        }
        news
    }
}

/// Without the code: it is what drains print again and again.
fn message(status: &Result<Value, serde_json::Error>) -> String {
    let text = status.as_ref().ok().and_then(|status| status["message"].as_str());
    text.unwrap_or("too many requests").to_owned()
}
