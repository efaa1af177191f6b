//! What a server is connected to: the API server, its listeners, and the time of day.
//!
//! In production these are sockets and the system's clock. A simulation hands in a client, gets the routers, and sets
//! the clock; everything else in [`crate::serve()`] is the same.

use std::net::SocketAddr;

use axum::Router;
use tokio::net::TcpListener;
#[cfg(feature = "simulation")]
use tokio::sync::oneshot;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::api_client::ApiClient;
use crate::clock::Clock;
use crate::connect::{self, Identity};
use crate::error::Error;
use crate::listen;
use crate::serve::ServeOptions;

pub struct Transport {
    pub webhook: Listener,
    pub health: Listener,
    pub page: Option<(TcpListener, SocketAddr)>,
    pub cluster: Cluster,
}

/// Where requests come from.
pub enum Listener {
    Socket(TcpListener, SocketAddr),
    /// No connections: the simulation calls the router.
    #[cfg(feature = "simulation")]
    Router(oneshot::Sender<Router>, SocketAddr),
}

/// The API server.
pub enum Cluster {
    Kubeconfig(connect::ClusterOptions),
    #[cfg(feature = "simulation")]
    Client(ApiClient, holdfast_core::model::Timestamp),
}

impl Transport {
    pub async fn bind(options: &ServeOptions) -> Result<Self, Error> {
        let webhook = Listener::bind(options.listen).await?;
        let health = Listener::bind(options.metrics_listen).await?;
        let page = match &options.page {
            Some(page) => Some(listen::bind(page.listen).await?),
            None => None,
        };
        Ok(Self { webhook, health, page, cluster: Cluster::Kubeconfig(options.cluster.clone()) })
    }
}

impl Listener {
    async fn bind(address: SocketAddr) -> Result<Self, Error> {
        let (listener, address) = listen::bind(address).await?;
        Ok(Self::Socket(listener, address))
    }

    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Socket(_, address) => *address,
            #[cfg(feature = "simulation")]
            Self::Router(_, address) => *address,
        }
    }

    /// Serves until `stop` is true, then answers what is in flight.
    pub async fn serve(
        self,
        tls: Option<watch::Receiver<TlsAcceptor>>,
        router: Router,
        stop: watch::Receiver<bool>,
    ) {
        match self {
            Self::Socket(listener, _) => listen::serve(listener, tls, router, stop).await,
            #[cfg(feature = "simulation")]
            Self::Router(handed, _) => {
                let mut stop = stop;
                // The simulation may have given the instance up.
                let _ = handed.send(router);
                let _ = stop.wait_for(|stop| *stop).await;
            }
        }
    }
}

impl Cluster {
    /// A client that is known to work, and whom the API server takes it for.
    pub async fn connect(&self) -> Result<(ApiClient, Identity), Error> {
        match self {
            Self::Kubeconfig(options) => connect::connect(options).await,
            #[cfg(feature = "simulation")]
            Self::Client(client, _) => {
                connect::identified(client.clone(), "the simulated API server").await
            }
        }
    }

    pub fn start_clock(&self) -> Clock {
        match self {
            Self::Kubeconfig(_) => Clock::start(),
            #[cfg(feature = "simulation")]
            Self::Client(_, wall) => Clock::start_at(*wall),
        }
    }
}
