//! Connections: accepted, encrypted if asked for, served, and brought to an orderly end.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response_with_state;
use axum::response::Response;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::error::Error;

/// Longer than the webhook's last answer, so that every request in flight gets one.
const DRAIN: Duration = Duration::from_millis(9500);

/// How long we go on when told to stop: clients with connections learn that they are to have others,
/// and whatever spreads the calls learns that we are going.
const NOTICE: Duration = Duration::from_secs(1);

/// Then connections without a request are closed. One that is on its way to such a connection meanwhile is lost, and
/// a drain gives up on it; so not while others still bring requests,
const QUIET: Duration = Duration::from_millis(300);
/// and not for ever.
const LINGER: Duration = Duration::from_secs(3);

const HANDSHAKE: Duration = Duration::from_secs(5);

/// What clients may take of us.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// More wait to be accepted. Each has one request at a time, so no more are ever under way; in native
    /// mode each watch has one.
    connections: usize,
    /// For the head of a request, and between two of them. Clients of Kubernetes close a connection that
    /// has been idle for 90 seconds; were we the first, requests would be lost.
    head: Duration,
    /// kube-apiserver names each group of a user in a header.
    headers: usize,
}

const BOUNDS: Bounds = Bounds { connections: 2048, head: Duration::from_secs(100), headers: 1000 };

pub async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |error: std::io::Error| Error::Listen { address, reason: error.to_string() };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// The certificate that a client has shown, and that the acceptor has found to be of its authority.
/// An extension of every request.
#[derive(Clone, Debug)]
pub struct PeerCertificate(pub Option<CertificateDer<'static>>);

/// Where a request comes from. An extension of every request without TLS.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Serves until `stop` is true, then answers what is in flight. Every connection is accepted by the
/// acceptor of that moment.
pub async fn serve(
    listener: TcpListener,
    tls: Option<watch::Receiver<TlsAcceptor>>,
    router: Router,
    stop: watch::Receiver<bool>,
) {
    serve_within(BOUNDS, listener, tls, router, stop).await;
}

async fn serve_within(
    bounds: Bounds,
    listener: TcpListener,
    tls: Option<watch::Receiver<TlsAcceptor>>,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(bounds.connections));
    let graceful = GracefulShutdown::new();
    let last = Last { stop: stop.clone(), answered: Arc::default() };
    let answered = last.answered.clone();
    let told = map_response_with_state(last, last_on_its_connection);
    let router = router.layer(told);
    let mut stopping = pin!(async {
        // An error means that the sender is gone, which is as good a reason to stop.
        let _ = stop.wait_for(|stop| *stop).await;
        tokio::time::sleep(NOTICE).await;
    });
    loop {
        let accepting = async {
            // Never closed.
            let place = room.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = accepting => accepted,
            () = &mut stopping => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                if room.available_permits() == 0 {
                    tracing::warn!(
                        connections = bounds.connections,
                        "no more connections are accepted"
                    );
                }
                let acceptor = tls.as_ref().map(|tls| tls.borrow().clone());
                let (router, watcher) = (router.clone(), graceful.watcher());
                tokio::spawn(async move {
                    connection((stream, peer), acceptor, router, watcher, bounds).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: wait for some to be closed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let quiet = async { while timeout(QUIET, answered.notified()).await.is_ok() {} };
    // If they still come then, some are lost.
    let _ = timeout(LINGER, quiet).await;
    if timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("closing connections that are still open");
    }
}

#[derive(Clone, Debug)]
struct Last {
    stop: watch::Receiver<bool>,
    answered: Arc<Notify>,
}

/// A client that is told will not send its next request into a connection that we are closing.
async fn last_on_its_connection(State(last): State<Last>, mut response: Response) -> Response {
    if *last.stop.borrow() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        last.answered.notify_one();
    }
    response
}

async fn connection(
    (stream, peer): (TcpStream, SocketAddr),
    tls: Option<TlsAcceptor>,
    router: Router,
    watcher: Watcher,
    bounds: Bounds,
) {
    // Answers are small and awaited.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let result = match tls {
        None => exchange(stream, router.layer(Extension(Peer(peer))), watcher, bounds).await,
        Some(tls) => match timeout(HANDSHAKE, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let (_, session) = stream.get_ref();
                let shown = session.peer_certificates().and_then(|chain| chain.first());
                let peer = PeerCertificate(shown.map(|leaf| leaf.clone().into_owned()));
                exchange(stream, router.layer(Extension(peer)), watcher, bounds).await
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err("no TLS handshake in time".into()),
        },
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection failed");
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    watcher: Watcher,
    bounds: Bounds,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // Not HTTP/2 either way (see `certificate`): a connection would have many requests.
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    let timer = TokioTimer::new();
    builder.http1().timer(timer).header_read_timeout(bounds.head).max_headers(bounds.headers);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    watcher.watch(connection).await
}

#[cfg(test)]
mod tests;
