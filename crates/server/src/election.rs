//! Which instance does the housekeeping: the election of the core, on a real Lease.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use holdfast_core::Input;
use holdfast_core::lease::{Election, LeaseCommand, LeaseInput};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::api_client::ApiClient;
use crate::clock::Clock;
use crate::effect::lease::{self, Trouble};
use crate::error::Error;
use crate::install::NAME;
use crate::metrics::Metrics;
use crate::random;

/// To give the Lease back at the end. If it takes longer, the next one waits for it to run out.
const RESIGN: Duration = Duration::from_secs(2);

type Pending = Pin<Box<dyn Future<Output = Result<LeaseInput, Trouble>> + Send>>;

/// One who stands for election on one Lease.
pub struct Candidate {
    identity: String,
    election: Election,
    client: ApiClient,
    clock: Clock,
    lease: &'static str,
    pending: Option<Pending>,
    /// Why the Lease could not be read or written last.
    trouble: Option<Trouble>,
}

impl Candidate {
    pub fn new(client: ApiClient, clock: Clock, lease: &'static str, identity: String) -> Self {
        let election = Election::new(identity.clone());
        Self { identity, election, client, clock, lease, pending: None, trouble: None }
    }

    /// Waits for the next answer, or until there is something to do. Whether it leads then. May be dropped and
    /// called again.
    pub async fn step(&mut self) -> bool {
        let due = self.election.due().map(|at| self.clock.instant(at));
        let input = tokio::select! {
            biased;
            answer = answered(&mut self.pending) => self.judge(answer),
            () = until(due) => LeaseInput::Tick,
        };
        self.election.handle(self.clock.now(), input);
        if let Some(command) = self.request() {
            self.pending = Some(Box::pin(lease::execute(self.client.clone(), self.lease, command)));
        }
        self.election.leads(self.clock.now())
    }

    /// Who leads, as last seen; empty if nobody does.
    pub fn holder(&self) -> &str {
        self.election.holder()
    }

    /// Whether the Lease was ours when it was last seen. Unlike who leads, this is not a matter of time: while
    /// nobody reaches the API server nobody can take it, either.
    pub fn holds(&self) -> bool {
        self.election.holder() == self.identity
    }

    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Makes way for others, if that can be done soon. Otherwise they wait until the Lease has run out.
    pub async fn resign(&mut self) {
        if tokio::time::timeout(RESIGN, self.give_back()).await.is_err() {
            tracing::debug!(lease = self.lease, "the lease could not be given back in time");
        }
    }

    async fn give_back(&mut self) {
        // A renewal under way changes the version that giving back depends on.
        if self.pending.is_some() {
            let input = answered(&mut self.pending).await.unwrap_or(LeaseInput::Failed);
            self.election.handle(self.clock.now(), input);
            self.request();
        }
        self.election.handle(self.clock.now(), LeaseInput::Resign);
        if let Some(command) = self.request() {
            let _ = lease::execute(self.client.clone(), self.lease, command).await;
        }
    }

    /// The next read or write.
    fn request(&mut self) -> Option<LeaseCommand> {
        std::iter::from_fn(|| self.election.poll()).last()
    }

    fn judge(&mut self, answer: Result<LeaseInput, Trouble>) -> LeaseInput {
        match answer {
            Ok(input) => {
                self.trouble = None;
                input
            }
            Err(trouble) => {
                self.trouble = Some(trouble);
                LeaseInput::Failed
            }
        }
    }
}

/// Finds out which instance does the housekeeping.
pub struct Elector {
    candidate: Candidate,
    metrics: Metrics,
    feed: mpsc::Sender<Input>,
    /// For others who do housekeeping.
    leads: watch::Sender<bool>,
    /// That the Lease could not be used was said.
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
        let candidate = Candidate::new(client, clock, NAME, identity);
        let leads = watch::channel(false).0;
        Ok(Self { candidate, metrics, feed, leads, troubled: false })
    }

    pub fn leads(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// Runs until `stop` is true, and then makes way for others. Nothing else waits for it: without a
    /// leader, evictions are decided all the same.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let leads = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                leads = self.candidate.step() => leads,
            };
            self.tell_trouble();
            if !self.announce(leads).await {
                return;
            }
        }
        self.announce(false).await;
        self.candidate.resign().await;
    }

    fn tell_trouble(&mut self) {
        let trouble = self.candidate.trouble();
        match (trouble, std::mem::replace(&mut self.troubled, trouble.is_some())) {
            (Some(Trouble { reason, .. }), false) => {
                tracing::warn!(reason, "cannot use the lease; evictions are decided all the same");
            }
            (None, true) => tracing::info!("the lease can be used again"),
            _ => {}
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
            tracing::info!(holder = self.candidate.holder(), "not leading any more");
        }
        self.feed.send(Input::Lead(leads)).await.is_ok()
    }
}

/// Never, if nothing is under way.
async fn answered(pending: &mut Option<Pending>) -> Result<LeaseInput, Trouble> {
    match pending {
        Some(request) => {
            let answer = request.await;
            *pending = None;
            answer
        }
        None => std::future::pending().await,
    }
}

/// Never, if nothing is due.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// The host for people, and random digits because a process that starts again is another one.
pub fn identity() -> Result<String, Error> {
    let system = rustix::system::uname();
    Ok(format!("{}_{}", system.nodename().to_string_lossy(), random::hex()?))
}
