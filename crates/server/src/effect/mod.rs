//! What the engine's commands do to the API server. Each is a future that ends in the answer that the
//! engine waits for, if it waits for one.

pub mod event;
pub mod lease;
pub mod list;
pub mod pod;
pub mod scale;
pub mod status;

use holdfast_core::Input;
use holdfast_core::io::Command;

use crate::ClusterOptions;
use crate::api_client::{Answer, ApiClient, NoAnswer};
use crate::clock::Clock;
use crate::connect::connect;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::watch::Backoff;
use list::Lister;
use scale::ScaleReader;
use status::StatusWriter;

/// Tries of a request that the engine waits for, beyond which it is told of the failure and decides.
const TRIES: usize = 3;

/// Carries out the engine's calls to the API server.
#[derive(Clone, Debug)]
pub struct Caller {
    client: ApiClient,
    clock: Clock,
    statuses: StatusWriter,
    scales: ScaleReader,
    lister: Lister,
}

impl Caller {
    pub fn new(client: ApiClient, clock: Clock, metrics: Metrics) -> Self {
        let scales = ScaleReader::new(client.clone());
        let statuses = StatusWriter::new(client.clone(), metrics);
        let lister = Lister::new(client.clone());
        Self { client, clock, statuses, scales, lister }
    }

    /// One that stands alone, for whoever wants to see what the API server answers.
    pub async fn connect(options: &ClusterOptions) -> Result<Self, Error> {
        let (client, _) = connect(options).await?;
        let clock = Clock::start();
        Ok(Self::new(client, clock, Metrics::new(clock.started_secs())))
    }

    /// The answer that the engine waits for; None where it waits for none, and for commands that are
    /// no calls.
    pub async fn call(self, command: Command) -> Option<Input> {
        let Self { client, clock, statuses, scales, lister } = self;
        Some(match command {
            Command::WriteStatus { budget, uid, version, status } => {
                statuses.write(budget, uid, version, status).await
            }
            Command::ReadBudget { budget, uid } => status::read(client, budget, uid).await,
            Command::ReadPod { token, pod } => pod::read(client, token, pod).await,
            Command::ListNamespace { kind, namespace } => lister.list(kind, namespace).await,
            Command::ReadScale { namespace, owner } => scales.read(namespace, owner).await,
            Command::ClearDisruptionTarget { pod, uid } => {
                pod::clear_disruption_target(client, clock.now(), pod, uid).await;
                return None;
            }
            Command::Relate { pod, uid, budget } => {
                pod::relate(client, pod, &uid, &budget).await;
                return None;
            }
            Command::Reply { .. } | Command::Event(_) | Command::WakeAt(_) => return None,
        })
    }
}

/// GET, again after transient failures.
async fn get(client: &ApiClient, path: &str) -> Result<Answer, NoAnswer> {
    let mut backoff = Backoff::new();
    for _ in 1..TRIES {
        match client.get(path).await {
            Ok(answer) if !answer.is_transient() => return Ok(answer),
            Ok(_) | Err(_) => backoff.pause().await,
        }
    }
    client.get(path).await
}
