//! Pod groups and gangs on a real API server. Who does not use them pays for a few watches.

pub mod act;
mod holds;
mod placer;
mod runtime;
mod watched;

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_core::gang::{Settings, World};
use holdfast_core::model::GroupApi;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::api_client::ApiClient;
use crate::clock::Clock;
use crate::error::Error;
use crate::install::gang::{PROBE, PodGroups, placed, placing};
use crate::install::{Entry, Registration};
use crate::interception::{Interception, Probe, Subject};
use crate::metrics::Metrics;
pub use placer::Placer;
#[cfg(test)]
pub use runtime::Asked;
use runtime::Runtime;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangOptions {
    pub pod_groups: PodGroups,
    /// A gang that is not bound whole by then is taken back.
    pub timeout: Duration,
    /// A gang without room is let go after this time, for whoever adds nodes. Zero: never.
    pub room_wait: Duration,
}

/// Has API servers ask where pods belong, where workloads ask for groups and nowhere else.
pub struct Gangs {
    api: GroupApi,
    placing: Registration,
    asking: Registration,
    covered: watch::Receiver<BTreeSet<String>>,
    synced: watch::Receiver<bool>,
    /// Where an API server was seen to ask.
    in_force: watch::Sender<BTreeSet<String>>,
}

impl Gangs {
    /// `registration`: any of ours. The task ends only with an error.
    pub fn start(
        api: GroupApi,
        options: GangOptions,
        registration: &Registration,
        clock: Clock,
        metrics: Metrics,
        leads: watch::Receiver<bool>,
    ) -> (Self, Placer, JoinHandle<Result<(), Error>>) {
        let GangOptions { timeout, room_wait, .. } = options;
        let world = World::new(Settings { api, timeout, room_wait });
        let client = registration.client.clone();
        let (runtime, handles) = Runtime::new(world, api, client, clock, metrics.clone(), leads);
        let (in_force, seen) = watch::channel(BTreeSet::new());
        let of = |entry| Registration { entry, ..registration.clone() };
        let gangs = Self {
            api,
            placing: of(Entry::Placing(api)),
            asking: of(Entry::Asking),
            covered: handles.covered,
            synced: handles.synced,
            in_force,
        };
        let placer = Placer { api, asked: handles.asked, in_force: seen, metrics };
        (gangs, placer, tokio::spawn(runtime.run()))
    }

    /// Requests may come here already, or to a process that is gone. On a cluster that is new to us they
    /// come from now on if we are to install. Deleting it is the kill switch: only an installation brings it
    /// back.
    pub async fn begin(&self, install: bool) -> Result<(), Error> {
        for registration in [&self.placing, &self.asking] {
            if install || registration.exists().await? {
                registration.enter(install).await?;
            }
        }
        Ok(())
    }

    /// For ever.
    pub async fn keep(self) {
        let Self { api, placing, asking, covered, mut synced, in_force } = self;
        let placing = async {
            // Namespaces are taken out that are not known to be needed: before that, all are.
            if synced.wait_for(|synced| *synced).await.is_ok() {
                let interception = Interception::new(placing, Places { api, in_force });
                interception.keep(covered).await;
            }
        };
        tokio::join!(asking.keep(|_| {}), placing);
    }
}

struct Places {
    api: GroupApi,
    in_force: watch::Sender<BTreeSet<String>>,
}

impl Subject for Places {
    const TROUBLE: &str = "pods are not put into groups everywhere";

    fn probe(&self) -> Probe {
        PROBE
    }

    fn webhooks(&self, evict: &str, bundle: &Value, namespaces: &BTreeSet<String>) -> Value {
        placing(self.api, evict, bundle, namespaces)["webhooks"].take()
    }

    fn namespaces(&self, configuration: &Value) -> BTreeSet<String> {
        placed(configuration)
    }

    /// The watches know.
    async fn is_free(&self, _: &ApiClient, _: &str) -> Result<bool, String> {
        Ok(true)
    }

    async fn announce(&self, seen: &BTreeSet<String>) {
        self.in_force.send_replace(seen.clone());
    }
}
