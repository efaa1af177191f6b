//! Processes of Holdfast: started, asked whether they are ready, and started again when they end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use holdfast_core::model::Timestamp;
use holdfast_server::simulation::{self, Routers};
use holdfast_server::{
    CertificateOptions, ClusterOptions, Features, GangOptions, LogLevel, Lull, Mode, PodGroups,
    ServeOptions,
};
use http::Request;
use tokio::sync::{oneshot, watch};
use tower::ServiceExt;

use crate::resources::all;
use crate::wire;
use crate::world::{Process, Seat, Sim, World};

/// Where the API server calls every instance: a load balancer.
pub const URL: &str = "https://holdfast.example.com/evict";

/// How long a kind may be without a watch before `/readyz` says so: ten seconds, and some for the way.
const CUT_OFF_MS: u64 = 13_000;

/// Keeps one instance running until the simulation ends.
pub async fn supervise(sim: Sim, instance: usize) {
    loop {
        let process = start(&sim, instance);
        let (stop, stopped) = watch::channel(false);
        let (webhook, webhook_router) = oneshot::channel();
        let (health, health_router) = oneshot::channel();
        let wall = Timestamp(sim.world().wall());
        let options = options(sim.world().params.native);
        let client = wire::client(sim.clone(), process);
        let routers = Routers { webhook, health };
        let ready = {
            let sim = sim.clone();
            move |_: &_| sim.world().note(&format!("{process:?} is ready"))
        };
        let serving = simulation::serve(options, client, routers, wall, stopped, ready);
        let mut serving = tokio::task::spawn_local(serving);
        let bell = sim.world().bell();
        let (mut webhook_router, mut health_router) = (Some(webhook_router), Some(health_router));
        loop {
            let mut rung = pin!(bell.notified());
            rung.as_mut().enable();
            if !sim.world().is_connected(process) {
                break;
            }
            tokio::select! {
                biased;
                ended = &mut serving => {
                    sim.world().note(&format!("{process:?} ends: {ended:?}"));
                    break;
                }
                Ok(router) = received(&mut health_router) => {
                    if let Some(seat) = sim.world().seat(process) {
                        seat.health = Some(router);
                    }
                }
                Ok(router) = received(&mut webhook_router) => {
                    if let Some(seat) = sim.world().seat(process) {
                        seat.webhook = Some(router);
                    }
                }
                () = rung => {}
            }
        }
        // A process that is gone reaches nothing any more. What is left of it here ends by itself.
        let pause = {
            let mut world = sim.world();
            if let Some(seat) = world.seat(process) {
                seat.up = false;
            }
            world.draw(500, 8000)
        };
        let _ = stop.send(true);
        sim.sleep(pause).await;
    }
}

/// Never again, once it has been received.
async fn received<T>(
    receiver: &mut Option<oneshot::Receiver<T>>,
) -> Result<T, oneshot::error::RecvError> {
    match receiver {
        Some(waiting) => {
            let result = waiting.await;
            *receiver = None;
            result
        }
        None => std::future::pending().await,
    }
}

fn start(sim: &Sim, instance: usize) -> Process {
    let mut world = sim.world();
    let now = world.now();
    let incarnation = world.seats[instance].incarnation + 1;
    let cut_off = all().filter(|kind| kind.watched).map(|kind| (kind, now)).collect();
    world.seats[instance] = Seat { incarnation, up: true, cut_off, ..Seat::default() };
    let process = Process { instance, incarnation };
    world.note(&format!("{process:?} starts"));
    process
}

fn options(native: bool) -> ServeOptions {
    let address = ([127, 0, 0, 1], 0).into();
    ServeOptions {
        cluster: ClusterOptions::default(),
        install: false,
        take_over: false,
        listen: address,
        advertise: Some(URL.to_owned()),
        metrics_listen: address,
        log_level: LogLevel { get: Arc::new(String::new), set: Arc::new(|_| Ok(())) },
        traces: None,
        ready_file: None,
        features: Features::default(),
        mode: if native {
            Mode::Native { accept_bypass: false, claim: false }
        } else {
            Mode::Webhook
        },
        gangs: GangOptions {
            pod_groups: PodGroups::Off,
            timeout: Duration::from_mins(5),
            room_wait: Duration::ZERO,
        },
        page: None,
        certificate: CertificateOptions::Own { lifetime: Duration::from_hours(24 * 365) },
        lull: Lull::default(),
    }
}

/// Whether `/readyz` answers 200.
pub async fn is_ready(sim: &Sim, instance: usize) -> bool {
    let router = {
        let world = sim.world();
        let seat = &world.seats[instance];
        seat.health.clone().filter(|_| seat.up)
    };
    let Some(router) = router else { return false };
    let request = Request::get("/readyz").body(Body::empty()).expect("a request");
    let response = router.oneshot(request).await.expect("infallible");
    response.status() == http::StatusCode::OK
}

/// Looks at `/readyz` every second, until the simulation ends.
pub async fn watch_readiness(sim: Sim) {
    loop {
        sim.sleep(1000).await;
        let instances = sim.world().seats.len();
        for instance in 0..instances {
            if is_ready(&sim, instance).await {
                sim.world().judge_readiness(instance);
            }
        }
    }
}

impl World {
    /// R1: an instance that has lost a kind does not call itself ready.
    fn judge_readiness(&mut self, instance: usize) {
        let now = self.now();
        for kind in Self::needed() {
            let seat = &self.seats[instance];
            let open = seat.open.get(&kind).is_some_and(|open| *open > 0);
            let since = seat.cut_off.get(&kind).copied().unwrap_or(now);
            if !open && now - since > CUT_OFF_MS {
                let kind = kind.qualified();
                let seconds = (now - since) / 1000;
                self.violate(&format!(
                    "R1: instance {instance} is ready, and has had no watch of {kind} for {seconds} s"
                ));
            }
        }
    }
}
