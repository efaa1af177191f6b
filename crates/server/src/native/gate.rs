//! What kube-apiserver's eviction handler is shown, and where it asks.
//!
//! For every eviction of a running pod the handler LISTs the budgets of the namespace and, if exactly
//! one selects the pod, PUTs that one's status with the pod in `disruptedPods`. We show it one that
//! selects everything: it has room, so that the handler goes on to the PUT, and too few healthy pods,
//! so that it does so for pods that are not Ready too. The PUT is the question. 200 means granted, and
//! recorded; 429 reaches whoever asked for the eviction word by word.
//!
//! It says neither who that is nor which pod of that name is meant, and a dry run never gets here. So the webhook decides
//! first, and records the grant that the gate then finds. Without the webhook the gate decides, by name.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::Json;
use axum::response::{IntoResponse, Response};
use holdfast_api::admission::Status;
use holdfast_api::native::protobuf::{self, GatePut};
use holdfast_core::Eviction;
use holdfast_core::model::{ObjectKey, Operation};
use holdfast_core::verdict::Verdict;
use http::{Method, StatusCode, header};
use serde_json::Value;

use super::document::content_type;
use super::trust::User;
use super::{Call, status};
use crate::decide::{Arrived, Decider};
use crate::error::Error;
use crate::random;

/// kube-apiserver, talking to itself.
const APISERVER: &str = "system:apiserver";
const MASTERS: &str = "system:masters";

/// No budget can have this name: those of custom resources are in lower case.
const NAME: &str = "HoldfastGate";
const UID: &str = "holdfast-gate";

#[derive(Debug)]
pub struct Gate {
    decider: Decider,
    /// With a number, unique among all requests of all instances.
    prefix: String,
    next: AtomicU64,
}

/// What the handler wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knock {
    List,
    Get,
    Put,
}

impl Knock {
    /// None: it is not the handler who asks.
    pub fn of(call: &Call) -> Option<Self> {
        if !is_apiserver(&call.user) || call.target.namespace.is_none() {
            return None;
        }
        let is_gate = call.target.name.as_deref() == Some(NAME);
        match (&call.method, call.target.name.is_some(), call.target.status) {
            (&Method::GET, false, _) if call.query.is_empty() => Some(Self::List),
            (&Method::GET, true, false) if is_gate => Some(Self::Get),
            (&Method::PUT, true, true) if is_gate => Some(Self::Put),
            _ => None,
        }
    }
}

/// It asks in nobody else's name.
pub fn is_apiserver(user: &User) -> bool {
    user.name == APISERVER && user.groups.iter().any(|group| group == MASTERS)
}

impl Gate {
    pub fn new(decider: Decider) -> Result<Self, Error> {
        Ok(Self { decider, prefix: random::hex()?, next: AtomicU64::new(0) })
    }

    pub async fn answer(&self, knock: Knock, call: &Call) -> Response {
        let namespace = call.target.namespace.as_deref().unwrap_or_default();
        match knock {
            Knock::List => json(list(namespace)),
            Knock::Get => json(budget(namespace)),
            Knock::Put => self.put(namespace, call).await,
        }
    }

    async fn put(&self, namespace: &str, call: &Call) -> Response {
        let arrived = Arrived::now(&call.headers);
        let pod = match asked_about(call) {
            Ok(pod) => pod,
            Err(why) => {
                self.decider.metrics.unreadable_request();
                tracing::warn!(namespace, why, "cannot read what the eviction handler asks");
                return status::bad_request(&why);
            }
        };
        let eviction = Eviction {
            id: self.next_id(),
            pod: ObjectKey::new(namespace, pod),
            uid: None,
            requester: APISERVER.to_owned(),
            dry_run: false,
            operation: Operation::Evict,
            object: None,
            generation: 0,
            exempt: false,
            by_name: true,
            deadline: self.decider.deadline(&arrived),
        };
        match self.decider.confirm(eviction, arrived).await {
            Verdict::Allow(_) => json(budget(namespace)),
            Verdict::Deny(denial) => {
                (StatusCode::TOO_MANY_REQUESTS, Json(Status::from(&denial))).into_response()
            }
        }
    }

    /// With what tells it from others in front, which is all that people are shown of it.
    fn next_id(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let instance: String = self.prefix.chars().take(4).collect();
        format!("{instance}{number:04x}-{}", self.prefix)
    }
}

/// The name of the one pod that is to be evicted.
pub fn asked_about(call: &Call) -> Result<String, String> {
    let GatePut { uid, mut pods } = match content_type(&call.headers) {
        "application/vnd.kubernetes.protobuf" => {
            protobuf::gate_put(&call.body).map_err(|e| e.to_string())?
        }
        "application/json" => json_put(&call.body)?,
        other => return Err(format!("content type {other:?}")),
    };
    if uid != UID {
        return Err(format!("uid {uid:?} is not that of the gate"));
    }
    match (pods.pop(), pods.is_empty()) {
        (Some(pod), true) => Ok(pod),
        _ => Err("status.disruptedPods has to name one pod".to_owned()),
    }
}

fn json_put(body: &[u8]) -> Result<GatePut, String> {
    let object: Value = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let pods = object["status"]["disruptedPods"].as_object();
    Ok(GatePut { uid, pods: pods.map(|pods| pods.keys().cloned().collect()).unwrap_or_default() })
}

/// Text and not made of values: every eviction asks for it twice.
fn list(namespace: &str) -> String {
    let budget = budget(namespace);
    format!(
        r#"{{"kind":"PodDisruptionBudgetList","apiVersion":"policy/v1","metadata":{{"resourceVersion":"1"}},"items":[{budget}]}}"#
    )
}

fn budget(namespace: &str) -> String {
    // With its quotes. Strings always have a JSON.
    let namespace = serde_json::to_string(namespace).unwrap_or_default();
    format!(
        r#"{{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","metadata":{{"name":"{NAME}","namespace":{namespace},"uid":"{UID}","resourceVersion":"1","generation":1}},"spec":{{"minAvailable":1,"selector":{{}}}},"status":{{"observedGeneration":1,"disruptionsAllowed":1,"currentHealthy":0,"desiredHealthy":1,"expectedPods":1}}}}"#
    )
}

fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::path::Target;
    use crate::runtime::Asked;
    use axum::body::Bytes;
    use holdfast_core::verdict::{AllowReason, Allowed};
    use http::{HeaderMap, HeaderValue};
    use serde_json::json;
    use tokio::sync::mpsc;

    fn put(user: &str, groups: &[&str], body: &Value) -> Call {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        Call {
            user: User { name: user.to_owned(), groups },
            method: Method::PUT,
            target: Target {
                namespace: Some("n".to_owned()),
                name: Some(NAME.to_owned()),
                status: true,
            },
            query: String::new(),
            headers,
            body: Bytes::from(body.to_string()),
        }
    }

    fn question(pods: &Value) -> Value {
        let mut body: Value = serde_json::from_str(&budget("n")).unwrap();
        body["status"]["disruptedPods"] = pods.clone();
        body
    }

    #[test]
    fn the_gate_lets_the_handler_go_on_to_its_put() {
        let list: Value = serde_json::from_str(&list("a\"b")).unwrap();
        let budget = &list["items"][0];
        assert_eq!(budget["metadata"]["namespace"], "a\"b");
        assert_eq!(budget["spec"]["selector"], json!({}), "it selects every pod");
        let status = &budget["status"];
        assert_eq!(status["observedGeneration"], budget["metadata"]["generation"]);
        assert_eq!(status["disruptionsAllowed"], 1, "it has room");
        assert!(status["currentHealthy"].as_i64() < status["desiredHealthy"].as_i64());
    }

    #[test]
    fn the_gate_is_for_the_api_server_alone() {
        let body = question(&json!({}));
        assert_eq!(Knock::of(&put(APISERVER, &[MASTERS], &body)), Some(Knock::Put));
        assert_eq!(Knock::of(&put(APISERVER, &[], &body)), None);
        assert_eq!(Knock::of(&put("admin", &[MASTERS], &body)), None);
        let list = |query: &str, namespace: Option<&str>| {
            let mut call = put(APISERVER, &[MASTERS], &body);
            call.method = Method::GET;
            call.target = Target { namespace: namespace.map(str::to_owned), ..Target::default() };
            query.clone_into(&mut call.query);
            Knock::of(&call)
        };
        assert_eq!(list("", Some("n")), Some(Knock::List));
        assert_eq!(list("watch=1", Some("n")), None);
        assert_eq!(list("", None), None);
    }

    async fn answer(body: &Value, verdict: Verdict) -> (StatusCode, Option<Eviction>) {
        let (asked, mut evictions) = mpsc::channel(1);
        let gate = Gate::new(Decider::asking(asked)).unwrap();
        let engine = tokio::spawn(async move {
            let Asked { eviction, reply } = evictions.recv().await?;
            reply.send(verdict).ok()?;
            Some(eviction)
        });
        let response = gate.answer(Knock::Put, &put(APISERVER, &[MASTERS], body)).await;
        drop(gate);
        (response.status(), engine.await.unwrap())
    }

    fn allow() -> Verdict {
        let reason = AllowReason::NotCovered;
        Verdict::Allow(Allowed { reason, uid: None, grants: Vec::new() })
    }

    #[tokio::test]
    async fn the_put_is_the_question() {
        let body = question(&json!({"p": "2026-01-01T00:00:00Z"}));
        let (code, eviction) = answer(&body, allow()).await;
        assert_eq!(code, StatusCode::OK);
        let eviction = eviction.unwrap();
        assert_eq!(eviction.pod.to_string(), "n/p");
        assert!(eviction.by_name && !eviction.dry_run);
    }

    #[tokio::test]
    async fn what_asks_about_no_pod_or_several_is_not_decided() {
        let two = json!({"p": "2026-01-01T00:00:00Z", "q": "2026-01-01T00:00:00Z"});
        for pods in [json!({}), two] {
            let (code, eviction) = answer(&question(&pods), allow()).await;
            assert_eq!((code, eviction), (StatusCode::BAD_REQUEST, None));
        }
        let mut other = question(&json!({"p": "2026-01-01T00:00:00Z"}));
        other["metadata"]["uid"] = json!("another");
        assert_eq!(answer(&other, allow()).await.0, StatusCode::BAD_REQUEST);
    }
}
