//! `POST /place` and `POST /workloads`: pods that are about to be created, and workloads that ask for groups.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Response};
use holdfast_api::admission::{PlaceReview, WorkloadReview};
use holdfast_core::gang::Placement;
use serde::Deserialize;
use tokio::time::Instant;

use super::pods::answer_probe;
use super::{denial, readable, refuse};
use crate::gang::Placer;
use crate::install::gang::PROBE;

pub async fn place(State(placer): State<Placer>, body: Result<Bytes, BytesRejection>) -> Response {
    let arrived = Instant::now();
    let body = match readable(body, &placer.metrics) {
        Ok(body) => body,
        Err(response) => return response,
    };
    let review = match PlaceReview::parse(&body, placer.api) {
        Ok(review) => review,
        Err(error) => {
            if let Some(answer) = answer_probe(PROBE, &body) {
                return answer;
            }
            tracing::warn!(%error, "cannot read an admission request");
            return refuse(&error);
        }
    };
    let placed = placer.place(review.pod.clone(), review.uid.clone(), review.dry_run, arrived);
    let pod = &review.pod.key;
    let answer = match placed.await {
        Ok(placement) => {
            match &placement {
                Placement::Alone(why) => tracing::debug!(%pod, why, "left alone"),
                Placement::Into { group, gate, .. } => tracing::debug!(%pod, group, gate, "placed"),
                Placement::Unseen(what) => tracing::info!(%pod, what, "refused: not seen"),
            }
            review.answer(&placement)
        }
        Err(why) => {
            tracing::warn!(%pod, why, "refused");
            review.refuse(why)
        }
    };
    Json(answer).into_response()
}

/// Is allowed when its pods will be asked about.
pub async fn workload(
    State(placer): State<Placer>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match readable(body, &placer.metrics) {
        Ok(body) => body,
        Err(response) => return response,
    };
    let review = match WorkloadReview::parse(&body) {
        Ok(review) => review,
        Err(error) => {
            tracing::warn!(%error, "cannot read an admission request");
            return refuse(&error);
        }
    };
    if review.begins && !review.dry_run && !review.is_wrong() {
        if is_new_namespace(&body) {
            placer.foresee(&review.namespace).await;
        } else if let Err(why) = placer.cover(&review.namespace).await {
            tracing::warn!(namespace = review.namespace, why, "refused a workload");
            let refusal = denial(&review.uid, 503, "ServiceUnavailable", &why);
            return Json(refusal).into_response();
        }
    }
    Json(review.answer(Vec::new())).into_response()
}

/// Whether it is about a namespace that is yet to be, in which nothing can be tried.
fn is_new_namespace(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Review {
        request: Request,
    }
    #[derive(Deserialize)]
    struct Request {
        operation: String,
        resource: Resource,
    }
    #[derive(Deserialize)]
    struct Resource {
        resource: String,
    }
    serde_json::from_slice::<Review>(body).is_ok_and(|Review { request }| {
        request.operation == "CREATE" && request.resource.resource == "namespaces"
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::Asked;
    use crate::metrics::Metrics;
    use axum::body::to_bytes;
    use holdfast_core::model::GroupApi;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;
    use tokio::sync::{mpsc, watch};

    fn placer() -> (Placer, mpsc::Receiver<Asked>, watch::Sender<BTreeSet<String>>) {
        let (asked, requests) = mpsc::channel(1);
        let (seen, in_force) = watch::channel(BTreeSet::new());
        let metrics = Metrics::new(0);
        (Placer { api: GroupApi::Holdfast, asked, in_force, metrics }, requests, seen)
    }

    async fn answer(response: Response) -> Value {
        let bytes = to_bytes(response.into_body(), 10_000).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn asks(resource: &str) -> Bytes {
        let annotations = json!({"holdfast.dev/pod-groups": "true"});
        let review = json!({"request": {
            "uid": "r1",
            "operation": "CREATE",
            "resource": {"resource": resource},
            "namespace": "n",
            "object": {"metadata": {"annotations": annotations}},
        }});
        Bytes::from(review.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn a_workload_waits_until_its_pods_are_asked_about() {
        let (placer, mut requests, seen) = placer();
        let review = tokio::spawn(workload(State(placer), Ok(asks("jobs"))));
        assert!(matches!(requests.recv().await, Some(Asked::Cover(name)) if name == "n"));
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert!(!review.is_finished());
        seen.send_replace(BTreeSet::from(["n".to_owned()]));
        assert_eq!(answer(review.await.unwrap()).await["response"]["allowed"], true);
    }

    #[tokio::test(start_paused = true)]
    async fn a_workload_is_refused_if_they_are_not() {
        let (placer, _requests, _seen) = placer();
        let asked = Instant::now();
        let answer = answer(workload(State(placer), Ok(asks("jobs"))).await).await;
        assert_eq!(answer["response"]["status"]["code"], 503);
        let message = answer["response"]["status"]["message"].as_str().unwrap();
        assert!(message.contains("namespace n"), "{message}");
        assert!(asked.elapsed().as_secs() < 10, "before the API server gives up");
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_not_there_yet_is_not_waited_for() {
        let (placer, mut requests, _seen) = placer();
        let answer = answer(workload(State(placer), Ok(asks("namespaces"))).await).await;
        assert_eq!(answer["response"]["allowed"], true);
        assert!(matches!(requests.recv().await, Some(Asked::Cover(name)) if name == "n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_refused_when_nobody_can_tell() {
        let (placer, requests, _seen) = placer();
        let review = json!({"request": {
            "uid": "r1",
            "operation": "CREATE",
            "resource": {"resource": "pods"},
            "namespace": "n",
            "object": {"metadata": {"generateName": "p-"}, "spec": {"containers": []}},
        }});
        let body = || Ok(Bytes::from(review.to_string()));
        let asked = Instant::now();
        let stuck = answer(place(State(placer.clone()), body()).await).await;
        assert_eq!(stuck["response"]["status"]["code"], 503);
        assert!(asked.elapsed().as_secs() < 10);
        drop(requests);
        let stopping = answer(place(State(placer), body()).await).await;
        let message = stopping["response"]["status"]["message"].as_str().unwrap();
        assert!(message.contains("stopping"), "{message}");
    }
}
