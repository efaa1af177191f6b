//! Reads and writes of pods.

use holdfast_api::decode;
use holdfast_api::time::Time;
use holdfast_core::Input;
use holdfast_core::io::PodReadOutcome;
use holdfast_core::model::{ObjectKey, Timestamp};
use http::StatusCode;
use serde_json::{Value, json};

use super::get;
use crate::api_client::{Answer, ApiClient, NoAnswer, STRATEGIC_MERGE_PATCH};

/// [`holdfast_core::Command::ReadPod`].
pub async fn read(client: ApiClient, token: u64, pod: ObjectKey) -> Input {
    let outcome = match get(&client, &path(&pod)).await {
        Ok(answer) => outcome(&answer, &pod),
        Err(NoAnswer(reason)) => PodReadOutcome::Failed(reason),
    };
    Input::PodRead { token, outcome }
}

/// [`holdfast_core::Command::ClearDisruptionTarget`]. Safe to lose, so one try is enough.
pub async fn clear_disruption_target(
    client: ApiClient,
    now: Timestamp,
    pod: ObjectKey,
    uid: String,
) {
    let path = format!("{}/status", path(&pod));
    match client.patch(&path, STRATEGIC_MERGE_PATCH, &cleared(now, &uid)).await {
        Ok(answer) if answer.code.is_success() => {
            tracing::info!(%pod, "cleared a stale DisruptionTarget");
        }
        Ok(answer) => {
            tracing::warn!(%pod, reason = %answer.message(), "cannot clear DisruptionTarget");
        }
        Err(NoAnswer(reason)) => tracing::warn!(%pod, %reason, "cannot clear DisruptionTarget"),
    }
}

/// [`holdfast_core::Command::Relate`]. Safe to lose too.
pub async fn relate(client: ApiClient, pod: ObjectKey, uid: &str, budget: &str) {
    let patch = json!({"metadata": {
        "uid": uid,
        "annotations": {"pub.kruise.io/related-pub": budget, "kruise.io/related-pub": budget},
    }});
    let why = match client.patch(&path(&pod), STRATEGIC_MERGE_PATCH, &patch).await {
        Ok(answer) if answer.code.is_success() => return,
        Ok(answer) => answer.message(),
        Err(NoAnswer(reason)) => reason,
    };
    tracing::debug!(%pod, reason = %why, "cannot tell the pod of its budget");
}

fn outcome(answer: &Answer, pod: &ObjectKey) -> PodReadOutcome {
    if answer.code == StatusCode::OK {
        return match decode::pod(&answer.body) {
            Ok(pod) => PodReadOutcome::Found(Box::new(pod)),
            Err(error) => PodReadOutcome::Failed(error.to_string()),
        };
    }
    if answer.is_object_not_found(&pod.name) {
        return PodReadOutcome::NotFound;
    }
    PodReadOutcome::Failed(answer.message())
}

pub fn path(pod: &ObjectKey) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// The uid makes it fail if the name belongs to another pod by now.
fn cleared(now: Timestamp, uid: &str) -> Value {
    json!({
        "metadata": {"uid": uid},
        "status": {"conditions": [{
            "type": "DisruptionTarget",
            "status": "False",
            "reason": "",
            "message": "",
            "lastTransitionTime": Time(now),
        }]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proven_absence_is_not_found() {
        let pod = ObjectKey::new("n", "p");
        let read = |code: u16, body: &str| {
            let code = StatusCode::from_u16(code).unwrap();
            outcome(&Answer { code, body: body.as_bytes().to_vec() }, &pod)
        };
        let gone = r#"{"reason":"NotFound","details":{"name":"p","kind":"pods"}}"#;
        assert!(matches!(read(404, gone), PodReadOutcome::NotFound));
        assert!(matches!(read(404, "404 page not found"), PodReadOutcome::Failed(_)));
        assert!(matches!(read(403, "{}"), PodReadOutcome::Failed(_)));
        assert!(matches!(read(200, "[]"), PodReadOutcome::Failed(_)));
    }
}
