//! The page for people: what is on it is somebody else's, here it is served.

use std::net::{IpAddr, SocketAddr};
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::decisions::Decisions;
use crate::error::Error;
use crate::listen;

#[derive(Clone, Debug)]
pub struct PageOptions {
    pub listen: SocketAddr,
    /// Of requests for anything, all of which only read.
    pub router: Router,
    /// Filled for it to show.
    pub decisions: Decisions,
}

/// Until `stop`, on a thread of its own: to read and draw a large cluster must not hold up a decision.
pub fn serve(
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    stop: watch::Receiver<bool>,
) -> Result<JoinHandle<()>, Error> {
    let internal = |error: std::io::Error| Error::Internal(format!("the page: {error}"));
    let listener = listener.into_std().map_err(internal)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(internal)?;
    let router = if address.ip().is_loopback() { router.layer(from_fn(local)) } else { router };
    let run = move || {
        runtime.block_on(async {
            match TcpListener::from_std(listener) {
                Ok(listener) => listen::serve(listener, None, router, stop).await,
                Err(error) => tracing::error!(%error, "cannot serve the page"),
            }
        });
    };
    std::thread::Builder::new().name("page".to_owned()).spawn(run).map_err(internal)
}

/// A page of somebody else's in the browser of whoever may reach us here could have its name resolve to this
/// machine, and read along.
async fn local(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if host.is_none_or(is_local) {
        return next.run(request).await;
    }
    let why = "this page is served to this machine only: call it by localhost or 127.0.0.1\n";
    (StatusCode::FORBIDDEN, why).into_response()
}

fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    let name = name.unwrap_or_default();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "LocalHost:9445", "127.0.0.1:1", "127.0.0.1", "[::1]:80", "[::1]"]
        {
            assert!(is_local(host), "{host}");
        }
        for host in
            ["evil.example", "evil.example:9445", "127.0.0.1.evil.example", "10.0.0.1:80", ""]
        {
            assert!(!is_local(host), "{host}");
        }
    }
}
