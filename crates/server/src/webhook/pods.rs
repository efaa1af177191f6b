//! `POST /pods`: deletes, updates and resizes of pods where `PodUnavailableBudgets` are.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use holdfast_api::admission::{Pin, PodReview, ReviewAnswer};
use serde::Deserialize;

use super::{denial, readable, refuse};
use crate::decide::{Arrived, Decider};
use crate::exempt::Exemptions;
use crate::install::unavailable::PROBE;
use crate::interception::Probe;

#[derive(Clone, Debug)]
pub struct Pods {
    pub decider: Decider,
    pub exemptions: Exemptions,
}

pub async fn review(
    State(pods): State<Pods>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let arrived = Arrived::now(&headers);
    let Pods { decider, exemptions } = pods;
    let body = match readable(body, &decider.metrics) {
        Ok(body) => body,
        Err(response) => return response,
    };
    let disruption = match PodReview::parse(&body) {
        Ok(PodReview::Passes { uid }) => return Json(ReviewAnswer::allow(uid)).into_response(),
        Ok(PodReview::Disrupts(disruption)) => *disruption,
        Err(error) => {
            if let Some(answer) = answer_probe(PROBE, &body) {
                return answer;
            }
            decider.metrics.unreadable_request();
            tracing::warn!(%error, "cannot read an admission request");
            return refuse(&error);
        }
    };
    let circumstances = disruption.circumstances.clone();
    let uid = disruption.uid.clone();
    let eviction = disruption.into_eviction(decider.deadline(&arrived));
    let namespace = eviction.pod.namespace.clone();
    // In a box of its own when it is looked at, which is rare.
    let exemption = async { Box::pin(exemptions.look(&namespace, &circumstances)).await };
    let verdict = decider.decide_unless(eviction, arrived, exemption).await;
    Json(ReviewAnswer::new(uid, &verdict, Pin::Given)).into_response()
}

/// The answer, if it is the probe of an instance's: a denial of what was never meant, whose words show up where
/// the prober reads them.
pub fn answer_probe(probe: Probe, body: &[u8]) -> Option<Response> {
    #[derive(Deserialize)]
    struct Review {
        request: Request,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Request {
        uid: String,
        sub_resource: String,
        name: String,
    }
    let Review { request } = serde_json::from_slice(body).ok()?;
    let is_probe = request.sub_resource == "eviction" && request.name == probe.pod;
    is_probe.then(|| Json(denial(&request.uid, 400, "BadRequest", probe.answer)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exempt::Exemption;
    use crate::runtime::Asked;
    use axum::body::to_bytes;
    use holdfast_core::model::Operation;
    use holdfast_core::verdict::{AllowReason, Allowed, Denial, DenyReason, Verdict};
    use serde_json::Value;
    use tokio::sync::mpsc;

    const DELETE: &str = r#"{"request":{"uid":"r1","resource":{"resource":"pods"},"operation":"DELETE",
        "namespace":"n","name":"p","userInfo":{"username":"someone"},"oldObject":{"metadata":{
        "name":"p","namespace":"n","uid":"u"},"spec":{"containers":[]},"status":{"phase":"Running"}}}}"#;

    fn allow() -> Verdict {
        let reason = AllowReason::Granted;
        Verdict::Allow(Allowed { reason, uid: None, grants: Vec::new() })
    }

    fn deny() -> Verdict {
        let (reason, message) = (DenyReason::BudgetExhausted, "no room".to_owned());
        Verdict::Deny(Denial { reason, message, causes: Vec::new() })
    }

    /// The answer, and what the engine was asked, in order.
    async fn decide(
        verdicts: Vec<Verdict>,
        exemption: Option<Exemption>,
    ) -> (bool, Vec<(String, bool)>) {
        let (asked, mut requests) = mpsc::channel(1);
        let decider = Decider::asking(asked);
        let engine = tokio::spawn(async move {
            let mut seen = Vec::new();
            for verdict in verdicts {
                let Asked { eviction, reply } = requests.recv().await.unwrap();
                assert_eq!(eviction.operation, Operation::Delete);
                seen.push((eviction.id, eviction.exempt));
                reply.send(verdict).unwrap();
            }
            seen
        });
        let Ok(PodReview::Disrupts(disruption)) = PodReview::parse(DELETE.as_bytes()) else {
            panic!("a delete disrupts");
        };
        let arrived = Arrived::now(&HeaderMap::new());
        let eviction = disruption.into_eviction(decider.deadline(&arrived));
        let verdict = decider.decide_unless(eviction, arrived, async { exemption }).await;
        (verdict.is_allow(), engine.await.unwrap())
    }

    #[tokio::test]
    async fn an_exemption_is_looked_for_before_a_denial_and_recorded_as_one() {
        let once = vec![("r1".to_owned(), false)];
        let node_gone = Some(Exemption::NodeGone);
        assert_eq!(decide(vec![allow()], node_gone).await, (true, once.clone()));
        assert_eq!(decide(vec![deny()], None).await, (false, once.clone()));
        let twice = vec![once[0].clone(), ("r1-exempt".to_owned(), true)];
        assert_eq!(decide(vec![deny(), allow()], node_gone).await, (true, twice.clone()));
        // What other rules deny, such as caches that are behind, is denied all the same.
        assert_eq!(decide(vec![deny(), deny()], node_gone).await, (false, twice));
    }

    #[tokio::test]
    async fn the_probe_is_recognised_and_nothing_else() {
        let eviction = |name: &str| {
            format!(
                r#"{{"request":{{"uid":"r1","resource":{{"resource":"pods"}},"operation":"CREATE",
                "subResource":"eviction","namespace":"n","name":"{name}","dryRun":true,
                "object":{{"kind":"Eviction","metadata":{{"name":"{name}"}}}}}}}}"#
            )
        };
        let answer = |body: &str| answer_probe(PROBE, body.as_bytes());
        assert!(answer(&eviction("other")).is_none());
        assert!(answer(DELETE).is_none());
        let answer = answer(&eviction(PROBE.pod)).unwrap();
        let answer = to_bytes(answer.into_body(), 10_000).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["response"]["uid"], "r1");
        assert_eq!(answer["response"]["status"]["message"], PROBE.answer);
    }
}
