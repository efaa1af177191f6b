//! What it takes to drain nodes: cordon, evict, and see what becomes of pods.

use holdfast_core::model::ObjectKey;
use holdfast_core::{Input, Kind};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::api_client::{Answer, ApiClient, NoAnswer, STRATEGIC_MERGE_PATCH};
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

/// What an eviction does to the objects that the pod owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The API server's own choice: the pod goes, and the garbage collector deletes the objects afterwards.
    Default,
    /// The pod's object stays until these objects are gone, so that its successor cannot meet them.
    Foreground,
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
    pub async fn evict(&self, pod: &ObjectKey, uid: &str, propagation: Propagation) -> Evicted {
        let ObjectKey { namespace, name } = pod;
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": delete_options(uid, self.grace_seconds, self.dry_run, propagation),
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        let answer = match self.client.post(&path, &eviction).await {
            Ok(answer) => answer,
            Err(NoAnswer(reason)) => return Evicted::Unknown(reason),
        };
        if answer.code == StatusCode::CONFLICT {
            return self.after_conflict(pod, uid, answer.message()).await;
        }
        read(&answer, name)
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

fn delete_options(
    uid: &str,
    grace_seconds: Option<i64>,
    dry_run: bool,
    propagation: Propagation,
) -> Value {
    let mut options = json!({"preconditions": {"uid": uid}});
    if let Some(seconds) = grace_seconds {
        options["gracePeriodSeconds"] = json!(seconds);
    }
    if dry_run {
        options["dryRun"] = json!(["All"]);
    }
    if propagation == Propagation::Foreground {
        options["propagationPolicy"] = json!("Foreground");
    }
    options
}

fn read(answer: &Answer, pod: &str) -> Evicted {
    match answer.code {
        code if code.is_success() => Evicted::Granted,
        StatusCode::TOO_MANY_REQUESTS => Evicted::Denied(message(answer)),
        StatusCode::NOT_FOUND if answer.is_object_not_found(pod) => Evicted::Gone,
        // Nothing is created in a namespace that is being deleted, evictions neither; the pod goes with it.
        StatusCode::FORBIDDEN if has_cause(answer, "NamespaceTerminating") => {
            Evicted::Unknown(message(answer))
        }
        // The API server says so of a pod under two budgets of its own.
        code if code.is_server_error() && !answer.message().contains("more than one") => {
            Evicted::Unknown(answer.message())
        }
        _ => Evicted::Refused(answer.message()),
    }
}

/// Without the code: it is what drains print again and again.
fn message(answer: &Answer) -> String {
    let status: Value = answer.json().unwrap_or_default();
    status["message"].as_str().unwrap_or("too many requests").to_owned()
}

fn has_cause(answer: &Answer, reason: &str) -> bool {
    let status: Value = answer.json().unwrap_or_default();
    let causes = status["details"]["causes"].as_array();
    causes.is_some_and(|causes| causes.iter().any(|cause| cause["reason"] == reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, status: &Value) -> Evicted {
        let code = StatusCode::from_u16(code).unwrap();
        read(&Answer { code, body: status.to_string().into_bytes() }, "web")
    }

    #[test]
    fn evictions_name_the_uid_and_ask_for_foreground_deletion_only_if_told_to() {
        let mut options = json!({"preconditions": {"uid": "u"}});
        assert_eq!(delete_options("u", None, false, Propagation::Default), options);
        options["propagationPolicy"] = json!("Foreground");
        assert_eq!(delete_options("u", None, false, Propagation::Foreground), options);
        (options["dryRun"], options["gracePeriodSeconds"]) = (json!(["All"]), json!(3));
        assert_eq!(delete_options("u", Some(3), true, Propagation::Foreground), options);
    }

    #[test]
    fn what_may_be_better_next_time_is_told_from_what_will_not() {
        assert_eq!(of(201, &json!({})), Evicted::Granted);
        assert_eq!(of(429, &json!({"message": "no room"})), Evicted::Denied("no room".to_owned()));
        let gone = json!({"reason": "NotFound", "details": {"name": "web"}});
        assert_eq!(of(404, &gone), Evicted::Gone);
        assert!(matches!(of(404, &json!({})), Evicted::Refused(_)), "no such path");
        assert!(matches!(of(403, &json!({"message": "no right"})), Evicted::Refused(_)));
        let going = json!({"details": {"causes": [{"reason": "NamespaceTerminating"}]}});
        assert!(matches!(of(403, &going), Evicted::Unknown(_)));
        assert!(matches!(of(503, &json!({"message": "starting"})), Evicted::Unknown(_)));
        let two = "This pod has more than one PodDisruptionBudget, which the eviction \
            subresource does not support.";
        assert!(matches!(of(500, &json!({"message": two})), Evicted::Refused(_)));
    }
}
