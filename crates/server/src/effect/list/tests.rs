//! Lists of a namespace against an API server that pages, hangs, and serves what it likes.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use holdfast_core::io::SnapshotOutcome;
use holdfast_core::{Input, Kind};
use http::StatusCode;
use serde_json::{Value, json};

use super::Lister;
use crate::api_client::ApiClient;

const BUDGETS: &str = "/apis/policy.holdfast.dev/v1/namespaces/n/poddisruptionbudgets";

fn lister(answer: fn(&str, &str) -> Option<Value>, delay: Duration) -> Lister {
    let answer = move |request: Request| async move {
        tokio::time::sleep(delay).await;
        let uri = request.uri();
        let body = answer(uri.path(), uri.query().unwrap_or_default());
        body.map_or_else(
            || StatusCode::NOT_FOUND.into_response(),
            |b| axum::Json(b).into_response(),
        ) as Response
    };
    Lister::new(ApiClient::new(kube::Client::new(Router::new().fallback(answer), "default")))
}

fn discovery(path: &str) -> Option<Value> {
    match path {
        "/apis/policy.holdfast.dev" => Some(json!({"versions": [{"version": "v1"}]})),
        "/apis/policy.holdfast.dev/v1" => {
            let resource = json!({"name": "poddisruptionbudgets", "kind": "PodDisruptionBudget"});
            Some(json!({"resources": [resource]}))
        }
        _ => None,
    }
}

fn pages(path: &str, query: &str) -> Option<Value> {
    let pod = |name: &str| {
        json!({"metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": "7"},
               "spec": {}, "status": {"phase": "Running"}})
    };
    match (path, query) {
        ("/api/v1/namespaces/n/pods", "limit=500&continue=") => {
            let metadata = json!({"resourceVersion": "9", "continue": "more"});
            Some(json!({"metadata": metadata, "items": [pod("a")]}))
        }
        ("/api/v1/namespaces/n/pods", "limit=500&continue=more") => {
            Some(json!({"metadata": {"resourceVersion": "9"}, "items": [pod("b")]}))
        }
        (BUDGETS, _) => {
            let metadata = json!({"namespace": "n", "name": "garbled", "resourceVersion": "8"});
            let garbled = json!({"metadata": metadata, "spec": 7});
            Some(json!({"metadata": {"resourceVersion": "9"}, "items": [garbled]}))
        }
        (path, _) => discovery(path),
    }
}

async fn outcome(lister: Lister, kind: Kind) -> SnapshotOutcome {
    match lister.list(kind, "n".to_owned()).await {
        Input::Snapshot { outcome, .. } => outcome,
        other => panic!("not a snapshot: {other:?}"),
    }
}

/// Five seconds for each page: longer than one ordinary request may take, and the list is complete all the same.
#[tokio::test(start_paused = true)]
async fn every_page_has_its_own_time() {
    let listed = outcome(lister(pages, Duration::from_secs(5)), Kind::Pod).await;
    let SnapshotOutcome::Listed { version, objects } = listed else { panic!("{listed:?}") };
    assert_eq!((version, objects.len()), (9.into(), 2));
}

#[tokio::test(start_paused = true)]
async fn a_list_of_budgets_that_is_late_has_failed() {
    let listed = outcome(lister(pages, Duration::from_secs(5)), Kind::Budget).await;
    let SnapshotOutcome::Failed(why) = listed else { panic!("{listed:?}") };
    assert!(why.contains("within 4 s"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_cannot_be_decoded_is_in_the_list() {
    let listed = outcome(lister(pages, Duration::ZERO), Kind::Budget).await;
    let SnapshotOutcome::Listed { objects, .. } = listed else { panic!("{listed:?}") };
    let [Input::Unreadable { kind: Kind::Budget, key, .. }] = &objects[..] else {
        panic!("{objects:?}")
    };
    assert_eq!(key.name, "garbled");
}

#[tokio::test(start_paused = true)]
async fn only_kinds_that_may_be_missing_may_be_missing() {
    let nothing = || lister(|_, _| None, Duration::ZERO);
    let missing = outcome(nothing(), Kind::UnavailableBudget).await;
    assert!(matches!(missing, SnapshotOutcome::NotServed), "{missing:?}");
    let missing = outcome(nothing(), Kind::Budget).await;
    assert!(matches!(missing, SnapshotOutcome::Failed(_)), "{missing:?}");
}
