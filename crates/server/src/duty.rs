//! What differs between the modes: what the API server reaches, and how it comes to do so.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::api_client::ApiClient;
use crate::decide::Decider;
use crate::error::Error;
use crate::install::certificate::Served;
use crate::install::certificate::keeper::Bearer;
use crate::install::native::api_service::Place;
use crate::install::native::{Takeover, service_port};
use crate::install::{Entry, Intercept, Registration};
use crate::metrics::Metrics;
use crate::native::Native;
use crate::native::trust::{FrontProxy, Trust};
use crate::serve::{Mode, ServeOptions};
use crate::webhook;

/// How often to say what is still missing.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often to look whether another instance has taken over.
const LOOK: Duration = Duration::from_secs(1);

pub struct Front {
    pub router: Router,
    pub acceptor: watch::Receiver<TlsAcceptor>,
    pub duty: Duty,
}

impl Front {
    pub fn webhook(
        decider: Decider,
        served: &Arc<Served>,
        registration: Registration,
    ) -> Result<Self, Error> {
        let acceptor = watch::channel(served.acceptor(None)?).1;
        let duty = Duty::Webhook(registration);
        Ok(Self { router: webhook::router(decider), acceptor, duty })
    }

    /// `serves` is false when watches through us are to end.
    pub async fn native(
        client: ApiClient,
        decider: Decider,
        served: Arc<Served>,
        registration: Registration,
        serves: Arc<watch::Sender<bool>>,
        leads: watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        let front_proxy = FrontProxy::read(&client).await?;
        let (tls, acceptor) = watch::channel(served.acceptor(Some(front_proxy.verifier()?))?);
        let (believed, front_proxy) = watch::channel(Arc::new(front_proxy));
        let native = Native::new(client.clone(), decider.clone(), front_proxy, serves.subscribe())?;
        let router = webhook::router(decider).merge(native.router());
        let port = service_port(&client).await?.map_or(0, |(port, _)| port);
        let place = Place { port, trusted: registration.trusted.clone() };
        let trust = Trust { front_proxy: believed, acceptor: tls };
        tokio::spawn(trust.keep(client.clone(), served));
        let registration = Registration { entry: Entry::Evictions(Intercept::All), ..registration };
        let duty = Duty::Native(Takeover { client, registration, place, serves }, leads);
        Ok(Self { router, acceptor, duty })
    }
}

/// What makes evictions come to us, and keeps them coming.
pub enum Duty {
    Webhook(Registration),
    Native(Takeover, watch::Receiver<bool>),
}

impl Duty {
    /// What API servers know us by, as far as evictions and `policy/v1` go.
    pub fn bearers(&self) -> Vec<Bearer> {
        match self {
            Self::Webhook(registration) => vec![Bearer::Entry(registration.clone())],
            Self::Native(Takeover { client, registration, place, .. }, _) => vec![
                Bearer::Entry(registration.clone()),
                Bearer::ApiService(client.clone(), place.clone()),
            ],
        }
    }

    /// Evictions already come here, or to a process that is gone: "being processed" is a better answer
    /// than none. On a cluster that is new to us they come when we can decide them.
    pub async fn begin(
        &mut self,
        options: &ServeOptions,
        unsynced: watch::Receiver<Vec<String>>,
        metrics: &Metrics,
    ) -> Result<(), Error> {
        match self {
            Self::Webhook(registration) => {
                let registered = registration.exists().await?;
                if !registered {
                    synced(unsynced.clone()).await;
                }
                // Native mode may be about to take over what is there.
                registration.enter_in_turn(options.install).await?;
                metrics.asked(true);
                if registered {
                    synced(unsynced).await;
                }
            }
            Self::Native(takeover, leads) => {
                let (accept_bypass, claim) = match options.mode {
                    Mode::Native { accept_bypass, claim } => (accept_bypass, claim),
                    Mode::Webhook => (false, false),
                };
                let ours = if claim && !options.install {
                    ours_unless_leader(takeover, leads).await?
                } else {
                    takeover.standing().await?.is_ours()
                };
                if ours {
                    takeover.join(options.install).await?;
                    metrics.asked(true);
                    synced(unsynced).await;
                    takeover.complete().await?;
                } else if options.install || claim {
                    takeover.preflight(accept_bypass).await?;
                    synced(unsynced).await;
                    takeover.install().await?;
                    metrics.asked(true);
                } else {
                    let missing = "apiservice/v1.policy (served by kube-apiserver itself)";
                    return Err(Error::NotInstalled(vec![missing.to_owned()]));
                }
            }
        }
        Ok(())
    }

    pub async fn keep(&self, metrics: &Metrics) {
        match self {
            Self::Webhook(registration) => {
                registration.keep(|state| metrics.asked(state.is_asked())).await;
            }
            Self::Native(takeover, _) => {
                let found = |asked| metrics.asked(asked);
                tokio::join!(takeover.registration.keep(|_| {}), takeover.keep(found));
            }
        }
    }
}

/// Instances that start together: one takes over, and the others find it done.
async fn ours_unless_leader(
    takeover: &Takeover,
    leads: &watch::Receiver<bool>,
) -> Result<bool, Error> {
    loop {
        let ours = takeover.standing().await?.is_ours();
        if ours || *leads.borrow() {
            return Ok(ours);
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn synced(mut unsynced: watch::Receiver<Vec<String>>) {
    while tokio::time::timeout(PATIENCE, unsynced.wait_for(Vec::is_empty)).await.is_err() {
        let missing = unsynced.borrow().join(", ");
        tracing::warn!(%missing, "not ready yet");
    }
}
