//! `POST /podunavailablebudgets` and `POST /convert`: the budgets themselves, before they are stored.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdfast_api::admission::BudgetReview;
use holdfast_api::{decode, unavailable};
use holdfast_core::model::{Budget, BudgetKind};

use super::refuse;
use crate::api_client::ApiClient;
use crate::effect::status::resource;
use crate::watch::Page;

pub async fn validate(State(client): State<ApiClient>, body: Bytes) -> Response {
    let review = match BudgetReview::parse(&body) {
        Ok(review) => review,
        Err(error) => {
            tracing::warn!(%error, "cannot read an admission request");
            return refuse(&error);
        }
    };
    match others(&client, &review.namespace).await {
        Ok(others) => Json(review.answer(&others)).into_response(),
        // For the API server to apply the failure policy.
        Err(reason) => {
            let BudgetReview { namespace, name, .. } = &review;
            tracing::warn!(%namespace, %name, %reason, "cannot look for budgets on the same pods");
            (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
        }
    }
}

pub async fn convert(body: Bytes) -> Response {
    Json(unavailable::convert::convert(&body)).into_response()
}

/// All budgets of the namespace, as they are now and not as a cache has them: whoever has just created
/// one is told about it.
async fn others(client: &ApiClient, namespace: &str) -> Result<Vec<Budget>, String> {
    let resource = resource(BudgetKind::PodUnavailableBudget);
    let answer = client.list(&resource.namespace_path(namespace)).await;
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.code != StatusCode::OK {
        return Err(answer.message());
    }
    let items = Page::of(&answer)?.items.unwrap_or_default();
    // What cannot be read cannot be compared, and the watch tells about it.
    let budgets =
        items.iter().filter_map(|item| decode::unavailable_budget(item.get().as_bytes()).ok());
    Ok(budgets.collect())
}
