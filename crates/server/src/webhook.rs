//! `POST /evict`: the API server asks, the engine decides.

use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use holdfast_api::admission::{EvictionReview, ReviewAnswer, ReviewError};
use holdfast_core::Eviction;
use holdfast_core::model::BudgetKey;
use holdfast_core::verdict::{CANNOT_EVICT, Cause, Denial, DenyReason, Verdict};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::runtime::Asked;

/// As registered with the API server. A webhook that does not answer in time is a 500 for the client,
/// and kubectl drain gives up on those, so we always answer before.
pub const TIMEOUT_SECONDS: u32 = 10;

/// Until here the engine may wait for a commit.
const DEADLINE: Duration = Duration::from_secs(9);

/// Until here it has answered. Only a runtime that is stuck is later than that.
const FALLBACK: Duration = Duration::from_millis(9200);

/// An Eviction is a name and a few options. This leaves room for any number of annotations (256 KiB)
/// and groups of the requester, and is less than the 3 MiB that the API server itself takes.
const BODY_MAX: usize = 1024 * 1024;

#[derive(Clone, Debug)]
pub struct Webhook {
    pub asked: mpsc::Sender<Asked>,
    pub clock: Clock,
    pub metrics: Metrics,
}

impl Webhook {
    pub fn router(self) -> Router {
        Router::new()
            .route("/evict", post(evict))
            .layer(DefaultBodyLimit::max(BODY_MAX))
            .with_state(self)
    }

    async fn decide(&self, eviction: Eviction, arrived: Instant) -> Verdict {
        let (reply, verdict) = oneshot::channel();
        let ask = async {
            self.asked.send(Asked { eviction, reply }).await.ok()?;
            verdict.await.ok()
        };
        match tokio::time::timeout_at(arrived + FALLBACK, ask).await {
            Ok(Some(verdict)) => verdict,
            Ok(None) => not_recorded("Holdfast is stopping."),
            Err(_) => not_recorded("Holdfast could not decide in time."),
        }
    }
}

async fn evict(State(webhook): State<Webhook>, body: Result<Bytes, BytesRejection>) -> Response {
    let arrived = Instant::now();
    let body = match body {
        Ok(body) => body,
        Err(rejection) => {
            webhook.metrics.unreadable_request();
            tracing::warn!(reason = %rejection.body_text(), "cannot read an admission request");
            return rejection.into_response();
        }
    };
    let review = match EvictionReview::parse(&body) {
        Ok(review) => review,
        Err(error) => {
            webhook.metrics.unreadable_request();
            tracing::warn!(%error, "cannot read an admission request");
            return refuse(&error);
        }
    };
    let deadline = webhook.clock.at(arrived) + DEADLINE;
    let pin = review.pin;
    let eviction = review.into_eviction(deadline);
    let verdict = webhook.decide(eviction.clone(), arrived).await;
    let took = arrived.elapsed();
    webhook.metrics.decided(&verdict, took);
    log(&eviction, &verdict, took);
    Json(ReviewAnswer::new(eviction.id, &verdict, pin)).into_response()
}

/// A request that is no eviction is never allowed. With its uid we can say why to whoever sent it;
/// without, HTTP 400 makes the API server apply the webhook's failure policy.
fn refuse(error: &ReviewError) -> Response {
    match &error.uid {
        Some(uid) => Json(refusal(uid, error)).into_response(),
        None => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

fn refusal(uid: &str, error: &ReviewError) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": uid,
            "allowed": false,
            "status": {
                "status": "Failure",
                "code": 400,
                "reason": "BadRequest",
                "message": error.to_string(),
                "details": {"causes": [{
                    "reason": "FieldValueInvalid",
                    "field": error.field,
                    "message": error.message,
                }]},
            },
        },
    })
}

fn not_recorded(why: &str) -> Verdict {
    Verdict::Deny(Denial {
        reason: DenyReason::NotRecorded,
        message: format!("{CANNOT_EVICT} {why}"),
        causes: vec![Cause { budget: None, message: why.to_owned() }],
    })
}

/// Every decision, once.
fn log(eviction: &Eviction, verdict: &Verdict, took: Duration) {
    let (answer, reason, budgets, cost) = match verdict {
        Verdict::Allow(allowed) => (
            "allow",
            format!("{:?}", allowed.reason),
            join(allowed.grants.iter().map(|(budget, _)| budget)),
            allowed.grants.iter().map(|(_, cost)| cost).sum::<i64>(),
        ),
        Verdict::Deny(denial) => (
            "deny",
            format!("{:?}", denial.reason),
            join(denial.causes.iter().filter_map(|cause| cause.budget.as_ref())),
            0,
        ),
    };
    tracing::info!(
        eviction = %eviction.id,
        pod = %eviction.pod,
        requester = %eviction.requester,
        dry_run = eviction.dry_run,
        verdict = answer,
        reason,
        budgets,
        cost,
        ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "decided"
    );
}

fn join<'a>(budgets: impl Iterator<Item = &'a BudgetKey>) -> String {
    budgets.map(BudgetKey::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use holdfast_core::verdict::{AllowReason, Allowed};

    const REVIEW: &str = r#"{"request":{"uid":"e1","resource":{"resource":"pods"},
        "subResource":"eviction","namespace":"n","name":"p","userInfo":{"username":"drainer"},
        "object":{"kind":"Eviction","metadata":{"name":"p","namespace":"n"}}}}"#;

    fn webhook() -> (Webhook, mpsc::Receiver<Asked>) {
        let (asked, evictions) = mpsc::channel(1);
        (Webhook { asked, clock: Clock::start(), metrics: Metrics::new(0) }, evictions)
    }

    async fn post(webhook: Webhook, body: &str) -> (u16, Value) {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let response = evict(State(webhook), Ok(body)).await;
        let code = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), BODY_MAX).await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    #[tokio::test]
    async fn passes_the_eviction_on_and_the_verdict_back() {
        let (webhook, mut evictions) = webhook();
        let answered = tokio::spawn(async move {
            let Asked { eviction, reply } = evictions.recv().await.unwrap();
            let allowed =
                Allowed { reason: AllowReason::NotCovered, uid: None, grants: Vec::new() };
            reply.send(Verdict::Allow(allowed)).unwrap();
            eviction
        });
        let (code, answer) = post(webhook, REVIEW).await;
        assert_eq!(code, 200);
        assert_eq!(answer["response"]["uid"], "e1");
        assert_eq!(answer["response"]["allowed"], true);
        let eviction = answered.await.unwrap();
        assert_eq!(eviction.pod.to_string(), "n/p");
        assert_eq!(eviction.requester, "drainer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_engine_is_a_denial_before_the_registered_timeout() {
        let (webhook, _evictions) = webhook();
        let asked = Instant::now();
        let (code, answer) = post(webhook, REVIEW).await;
        assert!(asked.elapsed() < Duration::from_secs(TIMEOUT_SECONDS.into()));
        assert_eq!(code, 200);
        assert_eq!(answer["response"]["allowed"], false);
        assert_eq!(answer["response"]["status"]["code"], 429);
    }

    #[tokio::test]
    async fn a_stopping_engine_is_a_denial() {
        let (webhook, evictions) = webhook();
        drop(evictions);
        let (_, answer) = post(webhook, REVIEW).await;
        assert_eq!(answer["response"]["status"]["code"], 429);
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_refused_and_named() {
        let (hook, _evictions) = webhook();
        let other = REVIEW.replace("\"eviction\"", "\"exec\"");
        let (code, answer) = post(hook, &other).await;
        assert_eq!(code, 200);
        assert_eq!(answer["response"]["allowed"], false);
        let status = &answer["response"]["status"];
        assert_eq!(status["code"], 400);
        assert_eq!(status["details"]["causes"][0]["field"], "request.subResource");
        for body in ["", "{}", "[]", r#"{"request":{}}"#] {
            let (hook, _evictions) = webhook();
            assert_eq!(post(hook, body).await.0, 400, "{body}");
        }
    }
}
