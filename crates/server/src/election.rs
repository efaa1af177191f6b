//! Which instance does the housekeeping: the election of the core, on a real Lease.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use holdfast_core::Input;
use holdfast_core::lease::{Election, LeaseCommand, LeaseInput};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use crate::api_client::ApiClient;
use crate::clock::Clock;
use crate::effect::lease;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::random;

/// How often to look at the clock: a leader that cannot renew knows by it alone that it leads no more.
const LOOK: Duration = Duration::from_millis(250);

/// To give the Lease back at the end. If it takes longer, the next one waits for it to run out.
const RESIGN: Duration = Duration::from_secs(2);

type Pending = Pin<Box<dyn Future<Output = Result<LeaseInput, String>> + Send>>;

pub struct Elector {
    election: Election,
    client: ApiClient,
    clock: Clock,
    metrics: Metrics,
    feed: mpsc::Sender<Input>,
    /// For others who do housekeeping.
    leads: watch::Sender<bool>,
    /// The Lease could not be read or written, and that was said.
    troubled: bool,
}

impl Elector {
    pub fn new(
        client: ApiClient,
        clock: Clock,
        metrics: Metrics,
        feed: mpsc::Sender<Input>,
    ) -> Result<Self, Error> {
        let identity = identity()?;
        tracing::info!(identity, "standing for election");
        let election = Election::new(identity);
        let leads = watch::channel(false).0;
        Ok(Self { election, client, clock, metrics, feed, leads, troubled: false })
    }

    pub fn leads(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// Runs until `stop` is true, and then makes way for others. Nothing else waits for it: without a
    /// leader, evictions are decided all the same.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut pending: Option<Pending> = None;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let input = tokio::select! {
                answer = answered(&mut pending) => self.judge(answer),
                _ = look.tick() => LeaseInput::Tick,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            self.election.handle(self.clock.now(), input);
            if let Some(command) = self.request() {
                pending = Some(Box::pin(lease::execute(self.client.clone(), command)));
            }
            let leads = self.election.leads(self.clock.now());
            if !self.announce(leads).await {
                return;
            }
        }
        if tokio::time::timeout(RESIGN, self.resign(pending)).await.is_err() {
            tracing::debug!("the lease could not be given back in time");
        }
    }

    /// The next read or write. The clock is looked at anyway.
    fn request(&mut self) -> Option<LeaseCommand> {
        let mut request = None;
        while let Some(command) = self.election.poll() {
            if !matches!(command, LeaseCommand::WakeAt(_)) {
                request = Some(command);
            }
        }
        request
    }

    fn judge(&mut self, answer: Result<LeaseInput, String>) -> LeaseInput {
        match answer {
            Ok(input) => {
                if std::mem::take(&mut self.troubled) {
                    tracing::info!("the lease can be used again");
                }
                input
            }
            Err(reason) => {
                if !std::mem::replace(&mut self.troubled, true) {
                    tracing::warn!(
                        reason,
                        "cannot use the lease; evictions are decided all the same"
                    );
                }
                LeaseInput::Failed
            }
        }
    }

    /// False: nobody listens any more.
    async fn announce(&mut self, leads: bool) -> bool {
        if !self.leads.send_if_modified(|now| std::mem::replace(now, leads) != leads) {
            return true;
        }
        self.metrics.leads(leads);
        if leads {
            tracing::info!("leading: this instance keeps the statuses up to date");
        } else {
            tracing::info!(holder = self.election.holder(), "not leading any more");
        }
        self.feed.send(Input::Lead(leads)).await.is_ok()
    }

    async fn resign(&mut self, mut pending: Option<Pending>) {
        // A renewal under way changes the version that giving back depends on.
        if pending.is_some() {
            let input = answered(&mut pending).await.unwrap_or(LeaseInput::Failed);
            self.election.handle(self.clock.now(), input);
            self.request();
        }
        self.election.handle(self.clock.now(), LeaseInput::Resign);
        self.announce(false).await;
        if let Some(command) = self.request() {
            let _ = lease::execute(self.client.clone(), command).await;
        }
    }
}

/// Never, if nothing is under way.
async fn answered(pending: &mut Option<Pending>) -> Result<LeaseInput, String> {
    match pending {
        Some(request) => {
            let answer = request.await;
            *pending = None;
            answer
        }
        None => std::future::pending().await,
    }
}

/// The host for people, and random digits because a process that starts again is another one.
fn identity() -> Result<String, Error> {
    let system = rustix::system::uname();
    Ok(format!("{}_{}", system.nodename().to_string_lossy(), random::hex()?))
}
