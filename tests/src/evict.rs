//! One eviction and its answer.

use std::time::Duration;

use http::{Method, header};
use serde_json::{Value, json};

use crate::client::{Answer, Client};

/// The sentence of Kubernetes that clients search for.
pub const CANNOT_EVICT: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

#[derive(Clone, Debug)]
pub struct Eviction {
    body: Value,
    query: &'static str,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub code: u16,
    pub reason: String,
    pub message: String,
    /// Type and message of each cause.
    pub causes: Vec<(String, String)>,
    retry_after: bool,
}

impl Eviction {
    pub fn of(pod: &str) -> Self {
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod},
            "deleteOptions": {},
        });
        Self { body, query: "" }
    }

    #[must_use]
    pub fn in_version(mut self, version: &str) -> Self {
        self.body["apiVersion"] = json!(version);
        self
    }

    /// Sets dry run as `?dryRun=All`.
    #[must_use]
    pub fn dry_run_in_query(mut self) -> Self {
        self.query = "?dryRun=All";
        self
    }

    /// Sets dry run in the body, as kubectl does.
    #[must_use]
    pub fn dry_run_in_body(mut self) -> Self {
        self.body["deleteOptions"]["dryRun"] = json!(["All"]);
        self
    }

    /// Adds a precondition that does not hold. Holdfast decides before the API server checks it, so the grant
    /// is recorded and the pod stays. For Holdfast this is an eviction in flight.
    #[must_use]
    pub fn that_comes_to_nothing(mut self) -> Self {
        self.body["deleteOptions"]["preconditions"] = json!({"resourceVersion": "1"});
        self
    }

    #[must_use]
    pub fn for_uid(mut self, uid: &str) -> Self {
        self.body["deleteOptions"]["preconditions"] = json!({"uid": uid});
        self
    }

    #[track_caller]
    pub fn send(&self, client: &Client, namespace: &str) -> Outcome {
        Outcome::from(client.post(&self.path(namespace), &self.body))
    }

    /// Sends it to an API server that may be down. Fails without an answer within this time.
    pub fn attempt(
        &self,
        client: &Client,
        namespace: &str,
        limit: Duration,
    ) -> Result<Outcome, String> {
        let path = self.path(namespace);
        client.attempt(Method::POST, &path, Some(&self.body), limit).map(Outcome::from)
    }

    fn path(&self, namespace: &str) -> String {
        let pod = self.body["metadata"]["name"].as_str().unwrap_or_default();
        format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction{}", self.query)
    }
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let causes = answer.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        Self {
            code: answer.code,
            reason: text(&answer.body["reason"]),
            message: text(&answer.body["message"]),
            causes: causes.iter().map(|c| (text(&c["reason"]), text(&c["message"]))).collect(),
            retry_after: answer.headers.contains_key(header::RETRY_AFTER)
                || !answer.body["details"]["retryAfterSeconds"].is_null(),
        }
    }
}

impl Outcome {
    pub fn is_evicted(&self) -> bool {
        self.code == 201
    }

    #[track_caller]
    pub fn assert_evicted(&self) {
        assert!(self.is_evicted(), "not evicted: {self:#?}");
    }

    /// Checks that Holdfast granted it and the API server refused it.
    #[track_caller]
    pub fn assert_came_to_nothing(&self) {
        assert_eq!(self.code, 409, "{self:#?}");
        assert!(self.message.contains("precondition"), "{self:#?}");
    }

    /// Checks for a 429 in the form that clients understand (semantics 7), with all of these words in one
    /// cause. They must be in the message too, because kubectl drain prints nothing else.
    #[track_caller]
    pub fn assert_denied(&self, words: &[&str]) {
        assert!(self.message.contains(CANNOT_EVICT), "{self:#?}");
        self.assert_refused(words);
    }

    /// Like [`Self::assert_denied`], for any operation.
    #[track_caller]
    pub fn assert_refused(&self, words: &[&str]) {
        assert_eq!((self.code, self.reason.as_str()), (429, "TooManyRequests"), "{self:#?}");
        assert!(!self.retry_after, "client-go would retry silently: {self:#?}");
        assert!(!self.causes.is_empty(), "no cause: {self:#?}");
        for (kind, message) in &self.causes {
            assert_eq!(kind, "DisruptionBudget", "{self:#?}");
            assert!(!message.is_empty(), "{self:#?}");
        }
        let all_in = |text: &str| words.iter().all(|word| text.contains(word));
        let some_cause = self.causes.iter().any(|(_, message)| all_in(message));
        assert!(some_cause, "no cause with {words:?}: {self:#?}");
        assert!(all_in(&self.message), "not all of {words:?} in the message: {self:#?}");
    }
}
