//! The webhooks' side.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_core::gang::{Placement, Pod};
use holdfast_core::model::GroupApi;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::runtime::{Asked, Place, Placed};
use crate::install::Installed;
use crate::metrics::Metrics;

/// Until then what has not been seen may yet be.
const SEEING: Duration = Duration::from_secs(5);

/// Until then a group is made. The webhook's timeout is ten seconds.
const MAKING: Duration = Duration::from_secs(9);

/// Until then pods are asked about in a namespace.
const COVERING: Duration = Duration::from_secs(8);

#[derive(Clone, Debug)]
pub struct Placer {
    pub api: GroupApi,
    pub asked: mpsc::Sender<Asked>,
    /// Namespaces in which an API server was seen to ask about pods.
    pub in_force: watch::Receiver<BTreeSet<String>>,
    pub metrics: Metrics,
}

impl Placer {
    /// Where a pod belongs that is about to be created, in a group that is there unless it is a dry run.
    pub async fn place(&self, pod: Pod, token: String, dry_run: bool, arrived: Instant) -> Placed {
        let (reply, placed) = oneshot::channel();
        let deadline = arrived + SEEING;
        let asking = async {
            let place = Place { pod: Box::new(pod), token, dry_run, deadline, reply };
            self.asked.send(Asked::Place(place)).await.ok()?;
            placed.await.ok()
        };
        let placed = match timeout_at(arrived + MAKING, asking).await {
            Ok(Some(placed)) => placed,
            Ok(None) => Err("Holdfast is stopping; controllers try again".to_owned()),
            Err(_) => Err("Holdfast could not make it in time; controllers try again".to_owned()),
        };
        self.metrics.placed(match &placed {
            Ok(Placement::Alone(_)) => "alone",
            Ok(Placement::Into { .. }) => "into",
            Ok(Placement::Unseen(_)) => "unseen",
            Err(_) => "failed",
        });
        placed
    }

    /// Returns when API servers ask about pods of this namespace, so that none comes without its group.
    pub async fn cover(&self, namespace: &str) -> Result<(), String> {
        let mut in_force = self.in_force.clone();
        if in_force.borrow().contains(namespace) {
            return Ok(());
        }
        // Whoever is stopping does not cover anything.
        let _ = self.asked.send(Asked::Cover(namespace.to_owned())).await;
        match timeout(COVERING, in_force.wait_for(|seen| seen.contains(namespace))).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(format!(
                "API servers do not ask Holdfast about pods in namespace {namespace} yet, and they would get \
                 no groups; try again, or look at {} and Holdfast's log",
                Installed::Placing.title()
            )),
        }
    }

    /// As [`Self::cover`], of a namespace that is not there yet, where nothing can be seen.
    pub async fn foresee(&self, namespace: &str) {
        let _ = self.asked.send(Asked::Cover(namespace.to_owned())).await;
        tokio::time::sleep(crate::interception::NOTICE).await;
    }
}
