//! A watcher against an API server that fails in the ways that real ones do, on a paused clock.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use holdfast_core::{Input, Kind};
use http::StatusCode;
use serde_json::json;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::{Instant, timeout};

use super::Watcher;
use crate::api_client::ApiClient;
use crate::metrics::Metrics;

#[derive(Clone, Copy, Debug, Default)]
enum Lists {
    #[default]
    Answer,
    Refuse,
    Hang,
}

#[derive(Clone, Default)]
struct ApiServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: u64,
    lists: Lists,
    watches_refused: bool,
    /// The watch that is open. Dropped, the connection ends.
    watch: Option<UnboundedSender<String>>,
}

impl ApiServer {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    async fn answer(self, request: Request) -> Response {
        // A moment, so that a client that tries again and again lets time pass.
        tokio::time::sleep(Duration::from_millis(1)).await;
        if request.uri().query().is_some_and(|query| query.contains("watch=1")) {
            return self.watch();
        }
        let lists = self.lock().lists;
        match lists {
            Lists::Answer => {
                let version = self.lock().version;
                let metadata = json!({"resourceVersion": version.to_string()});
                axum::Json(json!({"metadata": metadata, "items": []})).into_response()
            }
            Lists::Refuse => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Lists::Hang => std::future::pending().await,
        }
    }

    fn watch(&self) -> Response {
        if self.lock().watches_refused {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        let (sender, receiver) = mpsc::unbounded_channel::<String>();
        self.lock().watch = Some(sender);
        let lines = stream::unfold(receiver, |mut receiver| async move {
            let line = receiver.recv().await?;
            Some((Ok::<_, Infallible>(line), receiver))
        });
        Body::from_stream(lines).into_response()
    }

    /// The watch ends with the event that API servers send when a version has expired.
    fn expire_watch(&self) {
        let status = json!({"kind": "Status", "code": 410, "message": "too old resource version"});
        let event = json!({"type": "ERROR", "object": status});
        let watch = self.lock().watch.take().expect("a watch is open");
        watch.send(format!("{event}\n")).expect("somebody reads it");
    }

    async fn until_watched(&self) {
        while self.lock().watch.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A watcher of pods that has listed at version 1000 and whose watch is open.
async fn watching() -> (ApiServer, mpsc::Receiver<Input>) {
    let server = ApiServer::default();
    server.lock().version = 1000;
    let router = {
        let server = server.clone();
        Router::new().fallback(move |request: Request| server.clone().answer(request))
    };
    let client = ApiClient::new(kube::Client::new(router, "default"));
    let (feed, mut told) = mpsc::channel(100);
    tokio::spawn(Watcher::new(client, Kind::Pod, feed, Metrics::new(0)).run());
    assert!(matches!(told.recv().await, Some(Input::ListBegan(Kind::Pod))));
    assert!(matches!(told.recv().await, Some(Input::ListEnded(Kind::Pod, _))));
    server.until_watched().await;
    (server, told)
}

/// Lets this time pass, and returns when the kind was lost, if it was.
async fn lost_within(told: &mut mpsc::Receiver<Input>, limit: Duration) -> Option<Duration> {
    let began = Instant::now();
    while let Ok(input) = timeout(limit.saturating_sub(began.elapsed()), told.recv()).await {
        match input.expect("the watcher runs") {
            Input::Lost(Kind::Pod) => return Some(began.elapsed()),
            Input::ListBegan(_) => {}
            other => panic!("not expected: {other:?}"),
        }
    }
    None
}

async fn until_listed(told: &mut mpsc::Receiver<Input>) -> Vec<Input> {
    let mut inputs = Vec::new();
    while !matches!(inputs.last(), Some(Input::ListEnded(..))) {
        inputs.push(told.recv().await.expect("the watcher runs"));
    }
    inputs
}

const TEN_SECONDS: std::ops::Range<Duration> =
    Duration::from_secs(10)..Duration::from_millis(10_100);

#[tokio::test(start_paused = true)]
async fn a_list_that_keeps_failing_after_a_410_is_a_loss_from_the_end_of_the_watch() {
    for lists in [Lists::Refuse, Lists::Hang] {
        let (server, mut told) = watching().await;
        server.lock().lists = lists;
        server.expire_watch();
        let lost = lost_within(&mut told, Duration::from_mins(1)).await.expect("it is lost");
        assert!(TEN_SECONDS.contains(&lost), "{lists:?}: lost after {lost:?}");
        assert_eq!(lost_within(&mut told, Duration::from_mins(1)).await, None, "told once");
        server.lock().lists = Lists::Answer;
        until_listed(&mut told).await;
        server.until_watched().await;
        assert_eq!(lost_within(&mut told, Duration::from_mins(1)).await, None, "it recovers");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_be_opened_again_is_a_loss_and_recovers() {
    let (server, mut told) = watching().await;
    server.lock().watches_refused = true;
    server.lock().watch = None;
    let lost = lost_within(&mut told, Duration::from_mins(1)).await.expect("it is lost");
    assert!(TEN_SECONDS.contains(&lost), "lost after {lost:?}");
    // Lists are answered, so the cache is current at times, and lost again 10 s after each list.
    until_listed(&mut told).await;
    assert!(lost_within(&mut told, Duration::from_secs(11)).await.is_some());
    server.lock().watches_refused = false;
    until_listed(&mut told).await;
    server.until_watched().await;
    assert_eq!(lost_within(&mut told, Duration::from_mins(1)).await, None, "it recovers");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_in_good_order_goes_on_without_a_list() {
    let (server, mut told) = watching().await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(290)).await;
        server.lock().watch = None;
        server.until_watched().await;
    }
    assert!(told.try_recv().is_err(), "neither lost nor listed");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_older_than_the_watch_rebuilds_the_cache() {
    let (server, mut told) = watching().await;
    server.lock().version = 500;
    // kube-apiserver is restarted when etcd is restored, which ends every watch. The next watch from version 1000
    // would be accepted and deliver nothing.
    server.lock().watch = None;
    let inputs = until_listed(&mut told).await;
    assert!(
        matches!(&inputs[..], [
            Input::ListBegan(Kind::Pod),
            Input::Restored(Kind::Pod),
            Input::ListEnded(Kind::Pod, version)
        ] if *version == 500.into()),
        "{inputs:?}"
    );
    // Told once: from here on versions are compared with those of the restored state.
    server.until_watched().await;
    server.lock().version = 501;
    server.expire_watch();
    let inputs = until_listed(&mut told).await;
    assert!(matches!(&inputs[..], [Input::ListBegan(_), Input::ListEnded(..)]), "{inputs:?}");
}
