//! `POST /evict`: the API server asks, the engine decides. And what `PodUnavailableBudgets` need besides.

mod body;
mod budgets;
mod place;
mod pods;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use holdfast_api::admission::{EvictionReview, ReviewAnswer, ReviewError};
use serde_json::{Value, json};

use crate::api_client::ApiClient;
use crate::decide::{Arrived, Decider};
use crate::exempt::Exemptions;
use crate::gang::Placer;
use crate::install::gang::{self, PLACE_PATH, WORKLOADS_PATH};
use crate::install::unavailable::{BUDGETS_PATH, CONVERT_PATH, PODS_PATH, PROBE};
use crate::metrics::Metrics;
use body::bounded;
use pods::Pods;

/// As registered with the API server. We always answer before (see `decide`).
pub const TIMEOUT_SECONDS: u32 = 10;

/// An Eviction is a name and a few options. This leaves room for any number of annotations (256 KiB)
/// and groups of the requester, and is less than the 3 MiB that the API server itself takes.
const BODY_MAX: usize = 1024 * 1024;

/// A pod twice, before and after: each is less than the 3 MiB that the API server takes.
const PODS_MAX: usize = 8 * 1024 * 1024;

/// A page of 500 budgets to convert, or a list of ten thousand: most are a few KiB.
const BUDGETS_MAX: usize = 64 * 1024 * 1024;

pub fn router(decider: Decider) -> Router {
    bounded(Router::new().route("/evict", post(evict)), BODY_MAX, 32).with_state(decider)
}

/// Everything about `PodUnavailableBudgets`.
pub fn unavailable(client: ApiClient, decider: Decider) -> Router {
    let exemptions = Exemptions::new(client.clone());
    let pods = Router::new().route(PODS_PATH, post(pods::review));
    let pods = bounded(pods, PODS_MAX, 8).with_state(Pods { decider, exemptions });
    let budgets = Router::new()
        .route(BUDGETS_PATH, post(budgets::validate))
        .route(CONVERT_PATH, post(budgets::convert));
    pods.merge(bounded(budgets, BUDGETS_MAX, 2).with_state(client))
}

/// Everything about pod groups.
pub fn gang(placer: Placer) -> Router {
    let router = Router::new()
        .route(PLACE_PATH, post(place::place))
        .route(WORKLOADS_PATH, post(place::workload));
    bounded(router, PODS_MAX, 8).with_state(placer)
}

async fn evict(
    State(decider): State<Decider>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let arrived = Arrived::now(&headers);
    let body = match readable(body, &decider.metrics) {
        Ok(body) => body,
        Err(response) => return response,
    };
    let review = match EvictionReview::parse(&body) {
        Ok(review) => review,
        Err(error) => {
            decider.metrics.unreadable_request();
            tracing::warn!(%error, "cannot read an admission request");
            return refuse(&error);
        }
    };
    if review.dry_run && [PROBE.pod, gang::PROBE.pod].contains(&review.pod.name.as_str()) {
        // It is another webhook that it looks for.
        return Json(ReviewAnswer::allow(review.uid)).into_response();
    }
    let pin = review.pin;
    let eviction = review.into_eviction(decider.deadline(&arrived));
    let id = eviction.id.clone();
    let verdict = decider.decide(eviction, arrived).await;
    Json(ReviewAnswer::new(id, &verdict, pin)).into_response()
}

/// The body, or what to answer instead.
#[expect(clippy::result_large_err, reason = "both are answers")]
fn readable(body: Result<Bytes, BytesRejection>, metrics: &Metrics) -> Result<Bytes, Response> {
    body.map_err(|rejection| {
        metrics.unreadable_request();
        tracing::warn!(reason = %rejection.body_text(), "cannot read an admission request");
        rejection.into_response()
    })
}

/// A request that is no eviction is never allowed. With its uid we can say why to whoever sent it;
/// without, HTTP 400 makes the API server apply the webhook's failure policy.
fn refuse(error: &ReviewError) -> Response {
    match &error.uid {
        Some(uid) => Json(refusal(uid, error)).into_response(),
        None => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

pub fn refusal(uid: &str, error: &ReviewError) -> Value {
    let mut refusal = denial(uid, 400, "BadRequest", &error.to_string());
    refusal["response"]["status"]["details"] = json!({"causes": [{
        "reason": "FieldValueInvalid",
        "field": error.field,
        "message": error.message,
    }]});
    refusal
}

fn denial(uid: &str, code: u16, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": uid,
            "allowed": false,
            "status": {"status": "Failure", "code": code, "reason": reason, "message": message},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Asked;
    use axum::body::to_bytes;
    use holdfast_core::verdict::{AllowReason, Allowed, Verdict};
    use std::time::Duration;
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    const REVIEW: &str = r#"{"request":{"uid":"e1","resource":{"resource":"pods"},
        "subResource":"eviction","namespace":"n","name":"p","userInfo":{"username":"drainer"},
        "object":{"kind":"Eviction","metadata":{"name":"p","namespace":"n"}}}}"#;

    fn webhook() -> (Decider, mpsc::Receiver<Asked>) {
        let (asked, evictions) = mpsc::channel(1);
        (Decider::asking(asked), evictions)
    }

    async fn post(webhook: Decider, body: &str) -> (u16, Value) {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let response = evict(State(webhook), HeaderMap::new(), Ok(body)).await;
        let code = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), BODY_MAX).await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    #[tokio::test]
    async fn passes_the_eviction_on_and_the_verdict_back() {
        let (webhook, mut evictions) = webhook();
        let answered = tokio::spawn(async move {
            let Asked { eviction, reply } = evictions.recv().await.unwrap();
            let uid = Some("u1".to_owned());
            let allowed = Allowed { reason: AllowReason::NotCovered, uid, grants: Vec::new() };
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
