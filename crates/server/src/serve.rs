//! The server's life: connect, install, sync, register, serve, stop.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use holdfast_core::model::GroupApi;
use holdfast_core::{Config, Input, Kind};
use serde::Serialize;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::connect::ClusterOptions;
use crate::decide::Decider;
use crate::duty::{Duty, Front};
use crate::election::Elector;
use crate::error::Error;
use crate::gang::{GangOptions, Gangs};
use crate::guard::Guard;
use crate::health::Health;
use crate::install::certificate::CertificateOptions;
use crate::install::certificate::keeper::{Bearer, Keeper};
use crate::install::rights::Needs;
use crate::install::{self, Base, EXCLUDED_NAMESPACES, Entry, Intercept, Registration};
use crate::log_level::{self, LogLevel};
use crate::lull::Lull;
use crate::metrics::Metrics;
use crate::page::{self, PageOptions};
use crate::runtime::{Handles, Runtime};
use crate::traces::Traces;
use crate::transport::Transport;
use crate::watch::Watcher;
use crate::webhook;

#[derive(Clone, Debug)]
pub struct ServeOptions {
    pub cluster: ClusterOptions,
    pub install: bool,
    /// Make `PodUnavailableBudgets` ours although their definition is somebody else's.
    pub take_over: bool,
    pub listen: SocketAddr,
    /// The URL that the API server calls; of a load balancer, for instance. Without it: `listen`.
    pub advertise: Option<String>,
    pub metrics_listen: SocketAddr,
    pub log_level: LogLevel,
    /// Where traces go: `http://HOST:PORT/v1/traces`. None: there are none.
    pub traces: Option<http::Uri>,
    /// Written when ready, removed at the end.
    pub ready_file: Option<PathBuf>,
    pub features: Features,
    pub mode: Mode,
    pub gangs: GangOptions,
    pub page: Option<PageOptions>,
    pub certificate: CertificateOptions,
    /// Of the thread that serves.
    pub lull: Lull,
}

/// How to stand in front of the Eviction API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// An admission webhook on pods/eviction.
    Webhook,
    /// Serve `policy/v1` itself.
    Native {
        /// Take over although admission rules about budgets will no longer see them.
        accept_bypass: bool,
        /// Take over without installing anything: others have.
        claim: bool,
    },
}

/// What the engine does differently from cluster to cluster; see [`holdfast_core::Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    pub lws_groups: bool,
    pub multi_pod_pdbs: bool,
    pub clear_stale_disruption_targets: bool,
}

/// Those of the flags.
impl Default for Features {
    fn default() -> Self {
        Self { lws_groups: true, multi_pod_pdbs: true, clear_stale_disruption_targets: false }
    }
}

/// Where a ready server can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Addresses {
    /// Where this instance listens: `https://127.0.0.1:9443/evict`.
    pub webhook: String,
    /// As registered with the API server.
    pub advertised: String,
    /// `http://127.0.0.1:9444`, for `/healthz`, `/readyz` and `/metrics`.
    pub health: String,
    /// Of the page for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    pub pid: u32,
}

/// Runs until `stop` is true. `ready` is called once, when evictions can be decided.
pub async fn serve(
    options: ServeOptions,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(&Addresses),
) -> Result<(), Error> {
    // Everything that can fail at once does so before the cluster is touched.
    let transport = Transport::bind(&options).await?;
    serve_over(transport, options, stop, ready).await
}

/// As [`serve`], over a transport that is there.
pub async fn serve_over(
    Transport { webhook: webhook_listener, health: health_listener, page, cluster }: Transport,
    options: ServeOptions,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(&Addresses),
) -> Result<(), Error> {
    let webhook_address = webhook_listener.address();
    let host = reachable(webhook_address.ip());
    let own = format!("https://{}/evict", SocketAddr::new(host, webhook_address.port()));
    let advertised = options.advertise.clone().unwrap_or_else(|| own.clone());
    let native = matches!(options.mode, Mode::Native { .. });
    let names = [host.to_string(), host_of(&advertised)?, install::SERVICE_HOST.to_owned()];
    let keeper = Keeper::new(options.certificate.clone(), names.into()).await?;
    let addresses = Addresses {
        webhook: own,
        advertised,
        health: format!("http://{}", health_listener.address()),
        page: page.as_ref().map(|(_, address)| format!("http://{address}/")),
        pid: std::process::id(),
    };
    let (client, identity) = cluster.connect().await?;
    tracing::info!(user = %identity, webhook = %addresses.webhook, health = %addresses.health, "connected");

    if !native {
        install::native::refuse_beside(&client).await?;
    }
    let (install, take_over) = (options.install, options.take_over);
    let unavailable = install::unavailable::is_to_be_served(&client, install, take_over).await?;
    let gang_api = install::gang::api(&client, options.gangs.pod_groups, install).await?;
    let rights = install::rights::needed(Needs {
        clearing: options.features.clear_stale_disruption_targets,
        native,
        claiming: matches!(options.mode, Mode::Native { accept_bypass: false, claim: true }),
        unavailable,
        gangs: gang_api,
        page: options.page.is_some(),
        installing: options.install || matches!(options.mode, Mode::Native { claim: true, .. }),
    });
    let base = Base { rights, gangs: gang_api, native };
    if options.install {
        let (host, port) = (host_of(&addresses.advertised)?, port_of(&addresses.advertised));
        base.apply(&client, &identity, (&host, port)).await?;
    } else {
        base.check(&client).await?;
    }
    let registration = Registration {
        client: client.clone(),
        url: addresses.advertised.clone(),
        trusted: keeper.trusted(),
        base: Arc::new(base),
        entry: Entry::Evictions(Intercept::Outside),
    };
    if unavailable {
        // Before they are listed: those of before a take-over come by way of us.
        let conversion = Registration { entry: Entry::Conversion, ..registration.clone() };
        conversion.enter_in_turn(options.install).await?;
        install::await_unavailable(&client).await?;
    }

    let clock = cluster.start_clock();
    let metrics = Metrics::new(clock.started_secs());
    let mut config = engine_config(options.features, native, unavailable);
    if unavailable {
        config.intercepted = Guard::before(&registration).await?;
    }
    let kinds = config.kinds.clone();
    let lull = options.lull.clone();
    let (runtime, handles) =
        Runtime::new(config, client.clone(), clock, metrics.clone(), lull.clone());
    let Handles { asked, feed, stats, unsynced, covered } = handles;
    let (stop_runtime, stopped) = oneshot::channel();
    let mut runtime = tokio::spawn(runtime.run(stopped));
    // Told to all parts, be it that we are told, be it that we cannot go on.
    let (stop_parts, parts_stop) = watch::channel(false);
    // Not before it is elected: others may be at it.
    let elector = Elector::new(client.clone(), clock, metrics.clone(), feed.clone())?;
    feed.send(Input::Lead(false)).await.map_err(|e| Error::Internal(e.to_string()))?;
    let leads = elector.leads();
    let elector = tokio::spawn(elector.run(parts_stop.clone()));
    for kind in kinds {
        let watcher = Watcher::new(client.clone(), kind, feed.clone(), metrics.clone());
        tokio::spawn(watcher.run());
    }
    let guard = unavailable.then(|| Guard::new(&registration, covered, feed));
    let gangs = gang_api.map(|api| {
        Gangs::start(api, options.gangs, &registration, clock, metrics.clone(), leads.clone())
    });
    let (gangs, placing, mut gang_runtime) = match gangs {
        Some((gangs, placer, runtime)) => (Some(gangs), Some(webhook::gang(placer)), Some(runtime)),
        None => (None, None, None),
    };

    let decisions = options.page.as_ref().map(|page| page.decisions.clone());
    let collector = options.traces.clone();
    let traces =
        collector.map(|collector| Traces::start(collector, metrics.clone())).unwrap_or_default();
    let (asking, counted) = (asked.clone(), metrics.clone());
    let decider = Decider { asked: asking, clock, metrics: counted, decisions, traces };
    let health = Health { asked, stats, unsynced: unsynced.clone(), metrics: metrics.clone() };
    let health = health.router().merge(log_level::router(options.log_level.clone()));
    let health = tokio::spawn(health_listener.serve(None, health, parts_stop.clone()));
    if let Some((page, (listener, address))) = options.page.as_ref().zip(page) {
        // Whoever looks is not waited for at the end.
        page::serve(listener, address, page.router.clone(), parts_stop.clone())?;
    }
    let serves = Arc::new(watch::channel(true).0);
    let guarding = unavailable.then(|| webhook::unavailable(client.clone(), decider.clone()));
    let mut bearers = bearers(&registration, unavailable, gang_api);
    let Front { router, acceptor, duty } = match options.mode {
        Mode::Webhook => Front::webhook(decider, &keeper.served(), registration)?,
        Mode::Native { .. } => {
            let served = keeper.served();
            Front::native(client, decider, served, registration, serves.clone(), leads).await?
        }
    };
    bearers.extend(duty.bearers());
    tokio::spawn(keeper.keep(bearers, metrics.clone()));
    let router = guarding.into_iter().chain(placing).fold(router, Router::merge);
    let router = lull.around(router);
    let webhook = tokio::spawn(webhook_listener.serve(Some(acceptor), router, parts_stop));

    let outcome = tokio::select! {
        biased;
        outcome = Box::pin(until_stopped(&options, (duty, guard, gangs, &metrics), &addresses, unsynced, stop, ready)) => outcome,
        outcome = &mut runtime => return ended(outcome),
        outcome = running(&mut gang_runtime) => return ended(outcome),
    };
    tracing::info!("stopping: no new requests, answering those in flight");
    stop_parts.send_replace(true);
    serves.send_replace(false);
    for task in [webhook, health, elector] {
        join(task).await?;
    }
    // Only now: requests in flight need the engine.
    let _ = stop_runtime.send(());
    ended(runtime.await)?;
    if let Some(gangs) = gang_runtime {
        gangs.abort();
    }
    remove_ready_file(&options).await;
    outcome
}

async fn until_stopped(
    options: &ServeOptions,
    (mut duty, guard, gangs, metrics): (Duty, Option<Guard>, Option<Gangs>, &Metrics),
    addresses: &Addresses,
    unsynced: watch::Receiver<Vec<String>>,
    mut stop: watch::Receiver<bool>,
    ready: impl FnOnce(&Addresses),
) -> Result<(), Error> {
    let becoming_ready = async {
        let joining = async {
            match &guard {
                Some(guard) => guard.join().await,
                None => Ok(false),
            }
        };
        let (joined, ()) = tokio::try_join!(joining, duty.begin(options, unsynced, metrics))?;
        // Deleting it is the kill switch: only an installation brings it back.
        if let (Some(guard), true) = (&guard, options.install && !joined) {
            guard.begin().await?;
        }
        if let Some(gangs) = &gangs {
            gangs.begin(options.install).await?;
        }
        if let Some(path) = &options.ready_file {
            write_ready_file(path, addresses).await?;
        }
        options.lull.ready();
        tracing::info!(webhook = %addresses.webhook, health = %addresses.health, "ready");
        ready(addresses);
        Ok(())
    };
    tokio::select! {
        biased;
        result = becoming_ready => result?,
        _ = stop.wait_for(|stop| *stop) => return Ok(()),
    }
    let guarding = async {
        if let Some(guard) = guard {
            guard.keep().await;
        }
    };
    let placing = async {
        if let Some(gangs) = gangs {
            gangs.keep().await;
        }
    };
    tokio::select! {
        biased;
        ((), (), ()) = async { tokio::join!(duty.keep(metrics), guarding, placing) } => {}
        // An error means that the sender is gone, which is as good a reason to stop.
        _ = stop.wait_for(|stop| *stop) => {}
    }
    Ok(())
}

/// What API servers know us by, beside evictions.
fn bearers(
    registration: &Registration,
    unavailable: bool,
    gang_api: Option<GroupApi>,
) -> Vec<Bearer> {
    let of = |entry| Bearer::Entry(Registration { entry, ..registration.clone() });
    Entry::beside_evictions(unavailable, gang_api).into_iter().map(of).collect()
}

/// In native mode all evictions come to us, and there is no other gate behind us.
pub fn engine_config(features: Features, native: bool, unavailable: bool) -> Config {
    let mut config = Config {
        lws: features.lws_groups,
        multi_pod_pdbs: features.multi_pod_pdbs,
        clear_stale_disruption_targets: features.clear_stale_disruption_targets,
        ..Config::default()
    };
    config.unguarded_namespaces = EXCLUDED_NAMESPACES.map(str::to_owned).into();
    if !unavailable {
        config.kinds.remove(&Kind::UnavailableBudget);
    }
    if native {
        config.kinds.remove(&Kind::BuiltinBudget);
    } else {
        config.excluded_namespaces = EXCLUDED_NAMESPACES.map(str::to_owned).into();
    }
    config
}

/// The API server runs on this machine in this setup; "any address" is none to call.
fn reachable(listen: IpAddr) -> IpAddr {
    if listen.is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { listen }
}

fn host_of(url: &str) -> Result<String, Error> {
    let host = url.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
    // An IPv6 address is in brackets.
    let host = host.map(|host| host.trim_matches(['[', ']']).to_owned());
    host.ok_or_else(|| Error::Internal(format!("{url} names no host")))
}

fn port_of(url: &str) -> u16 {
    url.parse::<http::Uri>().ok().and_then(|uri| uri.port_u16()).unwrap_or(443)
}

/// Whole or not at all: whoever waits for the file reads it as soon as it is there.
async fn write_ready_file(path: &PathBuf, addresses: &Addresses) -> Result<(), Error> {
    let failed = |reason: String| Error::ReadyFile { path: path.clone(), reason };
    let text = serde_json::to_string(addresses).map_err(|e| failed(e.to_string()))?;
    let partial = path.with_extension("partial");
    tokio::fs::write(&partial, text + "\n").await.map_err(|e| failed(e.to_string()))?;
    tokio::fs::rename(&partial, path).await.map_err(|e| failed(e.to_string()))
}

async fn remove_ready_file(options: &ServeOptions) {
    if let Some(path) = &options.ready_file
        && let Err(error) = tokio::fs::remove_file(path).await
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "cannot remove the ready file");
    }
}

/// Never, if there is no such task.
async fn running<T>(task: &mut Option<JoinHandle<T>>) -> Result<T, tokio::task::JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

async fn join(task: JoinHandle<()>) -> Result<(), Error> {
    task.await.map_err(|e| Error::Internal(e.to_string()))
}

fn ended(outcome: Result<Result<(), Error>, tokio::task::JoinError>) -> Result<(), Error> {
    outcome.map_err(|e| Error::Internal(e.to_string()))?
}
