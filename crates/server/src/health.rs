//! `/healthz`, `/readyz` and `/metrics`, over plain HTTP on an address of their own.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use holdfast_core::Stats;
use tokio::sync::{mpsc, oneshot, watch};

use crate::metrics::Metrics;
use crate::runtime::Asked;

#[derive(Clone, Debug)]
pub struct Health {
    pub asked: mpsc::Sender<Asked>,
    pub stats: mpsc::Sender<oneshot::Sender<Stats>>,
    pub unsynced: watch::Receiver<Vec<String>>,
    pub metrics: Metrics,
}

/// Shorter than what Prometheus grants a page.
const PATIENCE: Duration = Duration::from_secs(1);

impl Health {
    pub fn router(self) -> Router {
        Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .with_state(self)
    }
}

/// Alive as long as somebody takes evictions.
async fn healthz(State(health): State<Health>) -> impl IntoResponse {
    if health.asked.is_closed() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

async fn readyz(State(health): State<Health>) -> impl IntoResponse {
    let unsynced = health.unsynced.borrow().clone();
    if unsynced.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not synced: {}\n", unsynced.join(", ")))
}

async fn metrics(State(health): State<Health>) -> impl IntoResponse {
    // A runtime that does not answer is shown by the numbers that it does not change.
    let asked = tokio::time::timeout(PATIENCE, stats(&health));
    if let Ok(Some(stats)) = asked.await {
        health.metrics.publish(&stats);
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], health.metrics.render())
}

async fn stats(health: &Health) -> Option<Stats> {
    let (reply, stats) = oneshot::channel();
    health.stats.send(reply).await.ok()?;
    stats.await.ok()
}
