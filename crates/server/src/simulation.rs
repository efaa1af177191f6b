//! A server without sockets, for crates/server-sim: the caller is its API server, its network and its clock.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use holdfast_core::model::Timestamp;
use tokio::sync::{oneshot, watch};

use crate::api_client::ApiClient;
use crate::error::Error;
use crate::listen::PeerCertificate;
use crate::serve::{Addresses, ServeOptions, serve_over};
use crate::transport::{Cluster, Listener, Transport};

pub use crate::random::seed;

/// Where the routers of one server go when it serves them.
#[derive(Debug)]
pub struct Routers {
    pub webhook: oneshot::Sender<Router>,
    pub health: oneshot::Sender<Router>,
}

/// Makes a request to a router one of kube-apiserver's front proxy. Without TLS there is no certificate to verify, so
/// the cluster must allow every name.
pub fn from_front_proxy<B>(request: &mut http::Request<B>) {
    let certificate = rustls::pki_types::CertificateDer::from(Vec::new());
    request.extensions_mut().insert(PeerCertificate(Some(certificate)));
}

/// Runs until `stop` is true, as [`crate::serve()`] does. `wall` is the time of day at the start.
pub async fn serve(
    options: ServeOptions,
    client: kube::Client,
    routers: Routers,
    wall: Timestamp,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(&Addresses),
) -> Result<(), Error> {
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let transport = Transport {
        webhook: Listener::Router(routers.webhook, address(9443)),
        health: Listener::Router(routers.health, address(9444)),
        page: None,
        cluster: Cluster::Client(ApiClient::new(client), wall),
    };
    serve_over(transport, options, stop, ready).await
}
