//! The one task that owns the engine.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use holdfast_core::io::Command;
use holdfast_core::model::{BudgetStatus, Timestamp};
use holdfast_core::verdict::Verdict;
use holdfast_core::{Config, Engine, Eviction, Input, Kind, Stats};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Sleep, sleep_until};

use crate::api_client::ApiClient;
use crate::clock::Clock;
use crate::covered::Covered;
use crate::effect::Caller;
use crate::effect::event::Events;
use crate::error::Error;
use crate::lull::Lull;
use crate::metrics::Metrics;
use crate::random;

/// Two pages of a list: the watches decode one while the engine takes in the other. More would only
/// be memory; when it is full, the watches stop reading and the API server's connections hold back.
pub const FEED_MAX: usize = 1000;

/// How much of that is taken in before something else may be: a fraction of a millisecond's work.
const BATCH: usize = 16;

/// Evictions on their way to the engine, which takes microseconds for each. The API server lets
/// through some hundreds of requests at a time (`--max-mutating-requests-inflight` is 200).
pub const ASKED_MAX: usize = 1024;

/// An eviction and where its answer goes.
#[derive(Debug)]
pub struct Asked {
    pub eviction: Eviction,
    pub reply: oneshot::Sender<Verdict>,
}

/// The other ends of the runtime's channels.
#[derive(Debug)]
pub struct Handles {
    pub asked: mpsc::Sender<Asked>,
    pub feed: mpsc::Sender<Input>,
    /// For the engine's numbers, when somebody looks at them.
    pub stats: mpsc::Sender<oneshot::Sender<Stats>>,
    /// What is not synced yet; empty means ready.
    pub unsynced: watch::Receiver<Vec<String>>,
    /// Namespaces with `PodUnavailableBudgets`.
    pub covered: watch::Receiver<BTreeSet<String>>,
}

/// What the runtime does next.
enum Next {
    Ask(Asked),
    /// Inputs are in the batch.
    Feed,
    Write(Result<Option<Input>, JoinError>),
    Read(Result<Option<Input>, JoinError>),
    Stats(oneshot::Sender<Stats>),
    Wake,
    Stop,
}

/// How many sources [`Runtime::poll_source`] knows.
const SOURCES: usize = 7;

#[derive(Debug)]
pub struct Runtime {
    engine: Engine,
    clock: Clock,
    metrics: Metrics,
    lull: Lull,
    caller: Caller,
    events: Events,
    asked: mpsc::Receiver<Asked>,
    feed: mpsc::Receiver<Input>,
    stats: mpsc::Receiver<oneshot::Sender<Stats>>,
    unsynced: watch::Sender<Vec<String>>,
    budgets: Covered,
    covered: watch::Sender<BTreeSet<String>>,
    waiting: HashMap<String, oneshot::Sender<Verdict>>,
    /// Kept apart from reads: at the end writes are waited for and reads are not.
    writes: JoinSet<Option<Input>>,
    reads: JoinSet<Option<Input>>,
    wake: Option<Timestamp>,
}

impl Runtime {
    pub fn new(
        config: Config,
        client: ApiClient,
        clock: Clock,
        metrics: Metrics,
        lull: Lull,
    ) -> (Self, Handles) {
        let engine = Engine::new(config);
        let (asked_tx, asked) = mpsc::channel(ASKED_MAX);
        let (feed_tx, feed) = mpsc::channel(FEED_MAX);
        let (stats_tx, stats) = mpsc::channel(1);
        let (unsynced, unsynced_rx) = watch::channel(names(engine.unsynced()));
        let (covered, covered_rx) = watch::channel(BTreeSet::new());
        let runtime = Self {
            engine,
            caller: Caller::new(client.clone(), clock, metrics.clone()),
            events: Events::start(client, clock, metrics.clone()),
            clock,
            metrics,
            lull,
            asked,
            feed,
            stats,
            unsynced,
            budgets: Covered::default(),
            covered,
            waiting: HashMap::new(),
            writes: JoinSet::new(),
            reads: JoinSet::new(),
            wake: None,
        };
        let handles = Handles {
            asked: asked_tx,
            feed: feed_tx,
            stats: stats_tx,
            unsynced: unsynced_rx,
            covered: covered_rx,
        };
        (runtime, handles)
    }

    /// Runs until `stop`, then waits for the status writes that are under way: the API server has
    /// them already, and whoever starts next should find them answered.
    pub async fn run(mut self, mut stop: oneshot::Receiver<()>) -> Result<(), Error> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut alarm = pin!(sleep_until(tokio::time::Instant::now()));
        let mut set_to = None;
        loop {
            if let Some(at) = self.wake.filter(|_| self.wake != set_to) {
                alarm.as_mut().reset(self.clock.instant(at));
            }
            set_to = self.wake;
            match self.next(&mut batch, alarm.as_mut(), &mut stop).await {
                Next::Ask(asked) => self.ask(asked),
                Next::Feed => {
                    self.lull.changed(batch.len());
                    batch.drain(..).for_each(|input| self.take(input));
                }
                Next::Write(answer) | Next::Read(answer) => self.answered(finished(answer)?),
                Next::Stats(asker) => {
                    self.metrics.publish_groups(self.budgets.groups());
                    // Whoever asked may have gone.
                    let _ = asker.send(self.engine.stats());
                }
                Next::Wake => {
                    self.wake = None;
                    self.handle(Input::Tick);
                }
                Next::Stop => break,
            }
        }
        let writes = self.writes.len();
        if writes > 0 {
            tracing::info!(writes, "waiting for status writes");
        }
        while let Some(written) = self.writes.join_next().await {
            finished(written)?;
        }
        Ok(())
    }

    /// Chooses at random among the sources that are ready: a flood of one kind, such as the first list of pods, does
    /// not hold up another, such as an eviction. `tokio::select!` does the same, but a simulation cannot seed it.
    async fn next(
        &mut self,
        batch: &mut Vec<Input>,
        mut alarm: Pin<&mut Sleep>,
        stop: &mut oneshot::Receiver<()>,
    ) -> Next {
        poll_fn(|cx| {
            let first = random::below(SOURCES);
            let mut sources = (0..SOURCES).map(|n| (first + n) % SOURCES);
            let next = sources
                .find_map(|source| self.poll_source(source, cx, batch, alarm.as_mut(), stop));
            next.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// None: this source has nothing now. It wakes the task when that changes.
    fn poll_source(
        &mut self,
        source: usize,
        cx: &mut Context<'_>,
        batch: &mut Vec<Input>,
        alarm: Pin<&mut Sleep>,
        stop: &mut oneshot::Receiver<()>,
    ) -> Option<Next> {
        match source {
            0 => ready(self.asked.poll_recv(cx)).flatten().map(Next::Ask),
            1 => ready(self.feed.poll_recv_many(cx, batch, BATCH))
                .filter(|count| *count > 0)
                .map(|_| Next::Feed),
            2 => ready(self.writes.poll_join_next(cx)).flatten().map(Next::Write),
            3 => ready(self.reads.poll_join_next(cx)).flatten().map(Next::Read),
            4 => ready(self.stats.poll_recv(cx)).flatten().map(Next::Stats),
            5 if self.wake.is_some() => ready(alarm.poll(cx)).map(|()| Next::Wake),
            5 => None,
            _ => ready(Pin::new(stop).poll(cx)).map(|_| Next::Stop),
        }
    }

    fn ask(&mut self, Asked { eviction, reply }: Asked) {
        self.waiting.insert(eviction.id.clone(), reply);
        self.handle(Input::Evict(eviction));
    }

    fn take(&mut self, input: Input) {
        if self.budgets.take(&input) {
            set(&self.covered, self.budgets.namespaces());
        }
        let may_sync = matches!(
            input,
            Input::ListEnded(..) | Input::NotServed(_) | Input::Lost(_) | Input::Restored(_)
        );
        self.handle(input);
        if may_sync {
            set(&self.unsynced, names(self.engine.unsynced()));
        }
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(self.clock.now(), input);
        while let Some(command) = self.engine.poll() {
            self.execute(command);
        }
    }

    /// Grants in it whose requests wait for an answer, this write's or that of another budget's.
    fn batch_size(&self, status: &BudgetStatus) -> usize {
        status.grants.iter().filter(|grant| self.waiting.contains_key(&grant.eviction)).count()
    }

    fn answered(&mut self, answer: Option<Input>) {
        if let Some(input) = answer {
            self.lull.changed(1);
            self.handle(input);
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Reply { eviction, verdict } => {
                if let Some(reply) = self.waiting.remove(&eviction) {
                    // The API server hung up: nobody waits for it.
                    let _ = reply.send(verdict);
                }
            }
            Command::Event(event) => self.events.send(event),
            Command::WakeAt(at) => self.wake = Some(at),
            Command::WriteStatus { ref status, .. } => {
                self.metrics.committing(self.batch_size(status));
                self.writes.spawn(self.caller.clone().call(command));
            }
            read => {
                self.reads.spawn(self.caller.clone().call(read));
            }
        }
    }
}

fn ready<T>(poll: Poll<T>) -> Option<T> {
    match poll {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// A task that panicked leaves the engine waiting for its answer for ever, so it ends the process.
pub fn finished<T>(joined: Result<T, JoinError>) -> Result<T, Error> {
    joined.map_err(|error| Error::Internal(format!("a request to the API server: {error}")))
}

/// Wakes whoever looks, if it is news.
pub fn set<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|now| {
        let changed = *now != value;
        *now = value;
        changed
    });
}

fn names(kinds: Vec<&Kind>) -> Vec<String> {
    kinds.into_iter().map(Kind::to_string).collect()
}
