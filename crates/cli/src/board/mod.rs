//! What the page of `holdfast serve --page-listen` shows: budgets and their replicas, what was decided, and what a
//! drain would do.
//!
//! ```text
//!   browser --api/state--> Looker --Reader--> Cluster --status, plan drain--> the same reports as on the command line
//!   browser --api/decisions--> the latest of this server
//! ```
//!
//! The cluster is read when somebody looks, and not more often than it can be read in a fifth of the time.

mod look;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use holdfast_server::{ClusterOptions, Decision, Decisions, Features, PageOptions};
use serde::Serialize;

use crate::drain::Choice;
use look::Looker;

const HTML: &str = include_str!("board.html");
const STYLE: &str = include_str!("board.css");
const SCRIPT: &str = include_str!("board.js");

/// Nothing from elsewhere, nothing within pages of others.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(Clone)]
struct Board {
    looker: Arc<Looker>,
    decisions: Decisions,
}

pub fn options(listen: SocketAddr, cluster: ClusterOptions, features: Features) -> PageOptions {
    let looker = Looker::of_cluster(cluster, features);
    let decisions = Decisions::default();
    PageOptions { listen, router: router(looker, decisions.clone()), decisions }
}

/// Addresses are relative, so that it works wherever a proxy puts it.
fn router(looker: Looker, decisions: Decisions) -> Router {
    Router::new()
        .route("/", get(async || file("text/html; charset=utf-8", HTML)))
        .route("/board.css", get(async || file("text/css; charset=utf-8", STYLE)))
        .route("/board.js", get(async || file("text/javascript; charset=utf-8", SCRIPT)))
        .route("/api/state", get(state))
        .route("/api/decisions", get(latest))
        .route("/api/plan", get(plan))
        .with_state(Board { looker: Arc::new(looker), decisions })
}

fn file(kind: &'static str, text: &'static str) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // A new release has another page.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, text)
}

/// `version`: the state that the caller has, which is not sent again.
async fn state(State(board): State<Board>, RawQuery(query): RawQuery) -> Response {
    let known = Query::of(query.as_deref()).number("version");
    match known {
        Ok(known) => Json(board.looker.state(known).await).into_response(),
        Err(wrong) => wrong.into_response(),
    }
}

#[derive(Serialize)]
struct Latest {
    decisions: Vec<Decision>,
}

/// `after`: the number of the last one that the caller has.
async fn latest(State(board): State<Board>, RawQuery(query): RawQuery) -> Response {
    match Query::of(query.as_deref()).number("after") {
        Ok(after) => Json(Latest { decisions: board.decisions.after(after) }).into_response(),
        Err(wrong) => wrong.into_response(),
    }
}

/// `node`, once or more; `force`, `ignore-daemonsets` and `delete-emptydir-data` as the flags of `holdfast plan drain`.
async fn plan(State(board): State<Board>, RawQuery(query): RawQuery) -> Response {
    let query = Query::of(query.as_deref());
    let choice = Choice {
        force: query.has("force"),
        ignore_daemonsets: query.has("ignore-daemonsets"),
        delete_emptydir_data: query.has("delete-emptydir-data"),
        ..Choice::default()
    };
    let nodes: Vec<String> = query.all("node").map(str::to_owned).collect();
    if nodes.is_empty() {
        return Wrong(StatusCode::BAD_REQUEST, "node is missing".to_owned()).into_response();
    }
    match board.looker.plan(&nodes, &choice).await {
        Ok(planned) => Json(planned).into_response(),
        Err(why) => Wrong(StatusCode::NOT_FOUND, why).into_response(),
    }
}

/// What is wrong with a request.
struct Wrong(StatusCode, String);

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        (self.0, self.1 + "\n").into_response()
    }
}

/// Names of nodes, numbers and flags: none has characters that would be encoded.
struct Query<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Query<'a> {
    fn of(query: Option<&'a str>) -> Self {
        let pairs = query.unwrap_or_default().split('&');
        Self(pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect())
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn has(&self, name: &str) -> bool {
        self.all(name).any(|value| value == "true")
    }

    /// 0 if it is not given.
    fn number(&self, name: &str) -> Result<u64, Wrong> {
        let Some(text) = self.all(name).next() else { return Ok(0) };
        let wrong = |_| Wrong(StatusCode::BAD_REQUEST, format!("{name}: {text:?} is no number"));
        text.parse().map_err(wrong)
    }
}
