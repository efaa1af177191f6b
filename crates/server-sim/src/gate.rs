//! Native mode: kube-apiserver's eviction handler asks at Holdfast's gate.

use axum::Router;
use axum::body::{Body, to_bytes};
use holdfast_server::simulation::from_front_proxy;
use http::{Method, Request, header};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::objects::NAMESPACE;

/// Whether the eviction of this pod is allowed, as an `AdmissionReview` would say it. None: no answer that the handler
/// takes for one.
pub async fn ask(router: Router, pod: &str) -> Option<Value> {
    let path = format!("/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets");
    let (code, list) = send(&router, Method::GET, &path, &Value::Null).await?;
    let budget = list["items"][0].clone();
    if code != 200 || budget.is_null() {
        return None;
    }
    let name = budget["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut update = budget;
    update["status"]["disruptedPods"] = json!({pod: "2027-01-15T08:00:00Z"});
    let (code, answer) =
        send(&router, Method::PUT, &format!("{path}/{name}/status"), &update).await?;
    match code {
        200 => Some(json!({"response": {"allowed": true}})),
        429 => {
            let message = &answer["message"];
            Some(json!({"response": {"allowed": false, "status": {"message": message}}}))
        }
        _ => None,
    }
}

async fn send(router: &Router, method: Method, path: &str, body: &Value) -> Option<(u16, Value)> {
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header("X-Remote-User", "system:apiserver")
        .header("X-Remote-Group", "system:masters")
        .body(Body::from(bytes))
        .ok()?;
    from_front_proxy(&mut request);
    let response = router.clone().oneshot(request).await.ok()?;
    let code = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.ok()?;
    Some((code, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}
