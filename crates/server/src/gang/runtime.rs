//! The one task that owns what gangs are decided by.
//!
//! ```text
//!   watches ==Seen==> World <--Place-- webhook on pods      (Unseen: asked again with what comes)
//!                       | plan, when this instance leads
//!                       v
//!                    actions ==> API server                 (what fails is in the next plan again)
//! ```

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_core::gang::{
    Action, Counts, Kind, NewGroup, Owner, Placement, Plan, Pod, Seen, World,
};
use holdfast_core::model::{GroupApi, GroupKind, ObjectKey};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::act::{Actor, Undone};
use super::holds::Holds;
use super::watched::Watch;
use crate::api_client::ApiClient;
use crate::clock::Clock;
use crate::effect::event::Events;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::runtime::{FEED_MAX, finished, set};
use crate::watch::Watcher;

/// Between plans: gangs come by the pod, and are looked at when there are some.
const PLAN_EVERY: Duration = Duration::from_millis(20);

/// So many times as long as a plan takes is the time to the next: evictions wait for the same thread.
const LEISURE: u32 = 9;

/// Requests under way at a time. The API server has some 45 seats for us.
const ACTIONS_MAX: usize = 64;

/// Of those, evictions. Each keeps a seat until it is decided, by us, and that takes a write for which there
/// has to be a seat as well.
const EVICTIONS_MAX: usize = 8;

/// How many changes are taken in before whoever waits for one is looked at.
const BATCH: usize = 256;

/// For how long a namespace is covered for a workload that is about to be created.
const ANNOUNCED: Duration = Duration::from_secs(30);

/// Namespaces that are covered for such workloads: each is named in the webhook's configuration.
const ANNOUNCED_MAX: usize = 1000;

/// What the webhooks want to know.
#[derive(Debug)]
pub enum Asked {
    Place(Place),
    /// A workload that asks for groups is about to be in this namespace.
    Cover(String),
}

#[derive(Debug)]
pub struct Place {
    pub pod: Box<Pod>,
    /// Unlike any other's.
    pub token: String,
    /// Nothing is to be made.
    pub dry_run: bool,
    pub deadline: Instant,
    pub reply: oneshot::Sender<Placed>,
}

/// The group, if there is one, is there. An error is why not now.
pub type Placed = Result<Placement, String>;

/// The other ends.
#[derive(Debug)]
pub struct Handles {
    pub asked: mpsc::Sender<Asked>,
    /// Namespaces where pods are to be asked about.
    pub covered: watch::Receiver<BTreeSet<String>>,
    /// Whether everything has been seen once.
    pub synced: watch::Receiver<bool>,
}

pub struct Runtime {
    world: World,
    api: GroupApi,
    client: ApiClient,
    clock: Clock,
    metrics: Metrics,
    events: Events,
    actor: Actor,
    leads: watch::Receiver<bool>,
    asked: mpsc::Receiver<Asked>,
    feed: mpsc::Receiver<Seen>,
    /// For watches that are yet to begin.
    feeder: mpsc::Sender<Seen>,
    watches_pods: bool,
    covered: watch::Sender<BTreeSet<String>>,
    synced: watch::Sender<bool>,
    /// Namespaces of workloads that are about to be, and until when.
    announced: BTreeMap<String, Instant>,
    /// Pods that something has not been seen of.
    waiting: Vec<Place>,
    /// Groups that are being made, and who waits for them.
    making: BTreeMap<ObjectKey, Vec<(Placement, oneshot::Sender<Placed>)>>,
    doing: JoinSet<Done>,
    holds: Holds,
    planned: Instant,
    pause: Duration,
    /// When to plan.
    due: Option<Instant>,
}

enum Done {
    Made(ObjectKey, Result<(), String>),
    Acted(Action, Result<(), Undone>),
}

impl Runtime {
    pub fn new(
        world: World,
        api: GroupApi,
        client: ApiClient,
        clock: Clock,
        metrics: Metrics,
        leads: watch::Receiver<bool>,
    ) -> (Self, Handles) {
        let (asked_tx, asked) = mpsc::channel(crate::runtime::ASKED_MAX);
        let (feeder, feed) = mpsc::channel(FEED_MAX);
        let (covered, covered_rx) = watch::channel(BTreeSet::new());
        let (synced, synced_rx) = watch::channel(false);
        let runtime = Self {
            world,
            api,
            events: Events::start(client.clone(), clock, metrics.clone()),
            actor: Actor::new(client.clone(), api),
            client,
            clock,
            metrics,
            leads,
            asked,
            feed,
            feeder,
            watches_pods: false,
            covered,
            synced,
            announced: BTreeMap::new(),
            waiting: Vec::new(),
            making: BTreeMap::new(),
            doing: JoinSet::new(),
            holds: Holds::default(),
            planned: Instant::now(),
            pause: PLAN_EVERY,
            due: None,
        };
        (runtime, Handles { asked: asked_tx, covered: covered_rx, synced: synced_rx })
    }

    /// Until it is dropped: nothing is lost that is not in the next plan.
    pub async fn run(mut self) -> Result<(), Error> {
        for kind in [Kind::Namespace, Kind::Group, Kind::Workload] {
            self.watch(kind);
        }
        for (group, kind) in Owner::KINDS {
            self.watch(Kind::Owner(GroupKind::new(group, kind)));
        }
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let wake = self.wake();
            tokio::select! {
                Some(asked) = self.asked.recv() => self.take(asked),
                _ = self.feed.recv_many(&mut batch, BATCH) => {
                    for seen in batch.drain(..) {
                        self.world.see(seen);
                    }
                    self.changed();
                }
                Some(done) = self.doing.join_next() => self.done(finished(done)?),
                Ok(()) = self.leads.changed() => self.lead(),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => self.tick(),
            }
        }
    }

    fn watch(&self, kind: Kind) {
        let watch = Watch { kind, api: self.api };
        let feed = self.feeder.clone();
        tokio::spawn(Watcher::new(self.client.clone(), watch, feed, self.metrics.clone()).run());
    }

    /// The earliest thing to do by the clock.
    fn wake(&self) -> Option<Instant> {
        let waiting = self.waiting.iter().map(|place| place.deadline);
        waiting.chain(self.due).chain(self.announced.values().copied()).min()
    }

    fn tick(&mut self) {
        let now = Instant::now();
        let before = self.announced.len();
        self.announced.retain(|_, until| *until > now);
        if self.announced.len() < before {
            self.cover();
        }
        self.place_waiting();
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.plan();
        }
    }

    fn lead(&mut self) {
        if !*self.leads.borrow_and_update() {
            // Another instance counts them from now on.
            self.metrics.publish_gangs(Counts::default());
        }
        self.plan_soon();
    }

    /// More has been seen.
    fn changed(&mut self) {
        if !self.watches_pods && self.world.needs_pods() {
            self.watches_pods = true;
            self.watch(Kind::Pod);
            if self.api == GroupApi::Holdfast {
                self.watch(Kind::Node);
            }
        }
        self.cover();
        set(&self.synced, self.world.unsynced().is_empty());
        self.place_waiting();
        self.plan_soon();
    }

    fn cover(&self) {
        let mut covered = self.world.covered();
        covered.extend(self.announced.keys().cloned());
        set(&self.covered, covered);
    }

    fn take(&mut self, asked: Asked) {
        match asked {
            Asked::Place(place) => self.place(place),
            Asked::Cover(namespace)
                if self.announced.len() >= ANNOUNCED_MAX
                    && !self.announced.contains_key(&namespace) =>
            {
                // Whoever waits for it is refused, and tries again.
                tracing::warn!(namespace, "too many namespaces are about to have pod groups");
            }
            Asked::Cover(namespace) => {
                self.announced.insert(namespace, Instant::now() + ANNOUNCED);
                self.cover();
            }
        }
    }

    fn place(&mut self, place: Place) {
        match self.world.place(&place.pod, &place.token) {
            Placement::Into { group, make: Some(new), gate } if !place.dry_run => {
                self.make(*new, Placement::Into { group, make: None, gate }, place.reply);
            }
            Placement::Unseen(_) if Instant::now() < place.deadline => self.waiting.push(place),
            // The API server may have hung up.
            placement => drop(place.reply.send(Ok(placement))),
        }
    }

    fn place_waiting(&mut self) {
        for place in std::mem::take(&mut self.waiting) {
            self.place(place);
        }
    }

    /// Pods of one gang come at once: the first has it made, and the others wait with it.
    fn make(&mut self, new: NewGroup, placement: Placement, reply: oneshot::Sender<Placed>) {
        let key = new.key.clone();
        let waiters = self.making.entry(key.clone()).or_default();
        waiters.push((placement, reply));
        if waiters.len() == 1 {
            let actor = self.actor.clone();
            self.doing.spawn(async move { Done::Made(key, actor.make(&new).await) });
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Made(key, outcome) => {
                let failed = |why| {
                    format!("Holdfast cannot make PodGroup {key}: {why}; controllers try again")
                };
                let outcome = outcome.map_err(failed);
                for (placement, reply) in self.making.remove(&key).unwrap_or_default() {
                    drop(reply.send(outcome.clone().map(|()| placement)));
                }
            }
            Done::Acted(action, outcome) => {
                self.metrics.acted(name(&action), result(&outcome));
                log(&action, &outcome);
                self.holds.ended(&action, outcome.is_ok());
                self.plan_soon();
            }
        }
    }

    fn plan_soon(&mut self) {
        self.plan_at(self.planned);
    }

    /// Or when there is time for it again.
    fn plan_at(&mut self, at: Instant) {
        let at = at.max(self.planned + self.pause);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn plan(&mut self) {
        if !*self.leads.borrow() || !*self.synced.borrow() {
            return;
        }
        let began = Instant::now();
        let Plan { actions, events, wake, counts } = self.world.plan(self.clock.now());
        self.planned = Instant::now();
        self.pause = PLAN_EVERY.max((self.planned - began) * LEISURE);
        if let Some(wake) = wake {
            self.plan_at(self.clock.instant(wake));
        }
        if let Some(counts) = counts {
            self.metrics.publish_gangs(counts);
        }
        for event in events {
            self.events.send(event);
        }
        for action in actions {
            self.begin(action);
        }
        if let Some(until) = self.holds.next(self.planned) {
            self.plan_at(until);
        }
    }

    fn begin(&mut self, action: Action) {
        // What does not fit is in the plan that follows the next that ends.
        let evictions_full =
            matches!(action, Action::Evict { .. }) && self.holds.evictions() >= EVICTIONS_MAX;
        if self.holds.under_way() >= ACTIONS_MAX || evictions_full || !self.holds.begin(&action) {
            return;
        }
        let actor = self.actor.clone();
        self.doing.spawn(async move {
            let outcome = actor.act(&action).await;
            Done::Acted(action, outcome)
        });
    }
}

fn log(action: &Action, outcome: &Result<(), Undone>) {
    let (what, (kind, object)) = (name(action), action.object());
    match outcome {
        Ok(()) => tracing::debug!(what, kind, %object, "done"),
        Err(Undone::NotYet(reason)) => tracing::debug!(what, kind, %object, reason, "not yet"),
        Err(Undone::Failed(reason)) => tracing::warn!(what, kind, %object, reason, "cannot do it"),
    }
}

fn result(outcome: &Result<(), Undone>) -> &'static str {
    match outcome {
        Ok(()) => "done",
        Err(Undone::NotYet(_)) => "not-yet",
        Err(Undone::Failed(_)) => "failed",
    }
}

fn name(action: &Action) -> &'static str {
    match action {
        Action::Lift { .. } => "lift",
        Action::Evict { .. } => "evict",
        Action::Report { .. } => "report",
        Action::Mark { .. } => "mark",
        Action::Protect { .. } => "protect",
        Action::Delete { .. } => "delete",
        Action::Resize { .. } => "resize",
        Action::Remake(_) => "remake",
    }
}
