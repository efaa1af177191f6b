//! Bodies: whole before anything is done with them, in time, and no more of them at once than there is
//! room for. What is refused here is never an allow: an API server that gets no answer refuses the request.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Router, extract::DefaultBodyLimit};
use tokio::time::timeout;

use crate::room::{Room, length};

/// An API server writes its request at once.
const TIME: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Bounds {
    max: usize,
    room: Room,
}

/// Bodies have `max` bytes at most, and all that are being read or worked on `at_once` times as many.
pub fn bounded<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    max: usize,
    at_once: usize,
) -> Router<S> {
    let bounds = Bounds { max, room: Room::new(max, at_once) };
    router.layer(from_fn_with_state(bounds, receive)).layer(DefaultBodyLimit::disable())
}

async fn receive(
    State(Bounds { max, room }): State<Bounds>,
    request: Request,
    next: Next,
) -> Response {
    let (head, body) = request.into_parts();
    let length = length(&body);
    if length.is_some_and(|length| length > max) {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long");
    }
    let Some(_taken) = room.take(length).await else {
        return refuse(StatusCode::TOO_MANY_REQUESTS, "too many requests at once");
    };
    match timeout(TIME, to_bytes(body, max)).await {
        Ok(Ok(whole)) => next.run(Request::from_parts(head, Body::from(whole))).await,
        // Too long after all, or cut off.
        Ok(Err(error)) => refuse(StatusCode::PAYLOAD_TOO_LARGE, &error.to_string()),
        Err(_) => refuse(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"),
    }
}

/// What is left of the body is not waited for.
fn refuse(code: StatusCode, why: &str) -> Response {
    tracing::warn!(code = code.as_u16(), why, "refused a request");
    let mut response = (code, why.to_owned()).into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
