//! `POST /podunavailablebudgets` and `POST /convert`: the budgets themselves, before they are stored.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use holdfast_api::admission::ReviewAnswer;
use holdfast_api::unavailable;
use serde_json::Value;

use crate::api_client::ApiClient;

pub async fn validate(State(_client): State<ApiClient>, body: Bytes) -> Response {
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    Json(ReviewAnswer::allow(review["request"]["uid"].as_str().unwrap_or_default())).into_response()
}

pub async fn convert(body: Bytes) -> Response {
    Json(unavailable::convert::convert(&body)).into_response()
}
