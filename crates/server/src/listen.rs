//! Connections: accepted, encrypted if asked for, served, and brought to an orderly end.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::error::Error;
use crate::runtime::ASKED_MAX;

/// Longer than the webhook's last answer, so that every request in flight gets one.
const DRAIN: Duration = Duration::from_millis(9500);

const HANDSHAKE: Duration = Duration::from_secs(5);

pub async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |error: std::io::Error| Error::Listen { address, reason: error.to_string() };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Serves until `stop` is true, then answers what is in flight.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection =
                    connection(stream, tls.clone(), router.clone(), graceful.watcher());
                tokio::spawn(connection);
            }
            Err(error) => {
                // Out of file descriptors, most likely: wait for some to be closed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("closing connections that are still open");
    }
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router, watcher: Watcher) {
    // Answers are small and awaited.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let result = match tls {
        None => exchange(stream, router, watcher).await,
        Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
            Ok(Ok(stream)) => exchange(stream, router, watcher).await,
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
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // kube-apiserver speaks HTTP/1.1 to webhooks, a connection per request under way. A client that
    // prefers HTTP/2 gets as many streams as the runtime takes evictions.
    builder.http2().max_concurrent_streams(u32::try_from(ASKED_MAX).ok());
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    watcher.watch(connection).await
}
