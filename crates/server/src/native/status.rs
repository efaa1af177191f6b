//! Answers that say what went wrong, in the shape that Kubernetes clients read.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;

/// An answer that ends a request early.
#[derive(Debug)]
pub struct Refusal(Box<Response>);

impl From<Response> for Refusal {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        *self.0
    }
}

pub fn failure(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code.as_u16(),
    });
    (code, Json(status)).into_response()
}

pub fn not_found() -> Response {
    let message = "the server could not find the requested resource";
    failure(StatusCode::NOT_FOUND, "NotFound", message)
}

pub fn method_not_allowed() -> Response {
    let message = "the server does not allow this method on the requested resource";
    failure(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
}

pub fn bad_request(message: &str) -> Response {
    failure(StatusCode::BAD_REQUEST, "BadRequest", message)
}

/// In the words of kube-apiserver, which clients take for a reason to read and try again.
pub fn modified(name: &str) -> Response {
    let message = format!(
        "Operation cannot be fulfilled on poddisruptionbudgets.policy \"{name}\": the object has \
         been modified; please apply your changes to the latest version and try again"
    );
    failure(StatusCode::CONFLICT, "Conflict", &message)
}

pub fn too_large() -> Response {
    let message = "the request is too large: the limit is 3145728 bytes";
    failure(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
}

/// As kube-apiserver says it of itself.
pub fn too_many() -> Response {
    let message = "too many requests, please try again later.";
    failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
}

/// Never 404, which clients take for an answer about the budget.
pub fn unavailable(why: &str) -> Response {
    let message = format!("Holdfast cannot reach the storage of policy/v1: {why}");
    failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &message)
}
