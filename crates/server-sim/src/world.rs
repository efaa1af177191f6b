//! Everything that the simulation knows, behind one lock: objects, faults, instances, the auditor and the trace.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use holdfast_sim::random::Random;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::fault::{Episode, Fault};
use crate::judge::Judge;
use crate::params::Params;
use crate::resources::{BUDGETS, Kind, PODS, STATEFUL_SETS};
use crate::store::{Store, Verb};
use crate::view::View;

/// The time of day at the beginning, in milliseconds since 1970.
pub const WALL_MS: i64 = 1_800_000_000_000;

/// A handle on the world. Everything runs on one thread, so the lock is never waited for.
#[derive(Clone, Debug)]
pub struct Sim(Arc<Mutex<World>>);

#[derive(Debug)]
pub struct World {
    pub params: Params,
    pub random: Random,
    pub store: Store,
    pub judge: Judge,
    pub seats: Vec<Seat>,
    pub episodes: Vec<Episode>,
    /// How often each fault has struck.
    pub struck: BTreeMap<Fault, u64>,
    pub watches: BTreeMap<u64, OpenWatch>,
    /// Lists that have more pages, by token.
    pub pages: BTreeMap<String, Pages>,
    pub numbers: u64,
    started: Instant,
    bell: Arc<Notify>,
    trace: String,
    /// The first rule that was broken.
    violation: Option<String>,
}

/// Where one instance of Holdfast runs. A process that starts again is another incarnation.
#[derive(Debug, Default)]
pub struct Seat {
    pub incarnation: u32,
    pub up: bool,
    pub webhook: Option<Router>,
    pub health: Option<Router>,
    pub view: View,
    pub open: BTreeMap<Kind, usize>,
    /// Since when there is no open watch, by kind. A list starts the time over.
    pub cut_off: BTreeMap<Kind, u64>,
    /// The instance knows how to write statuses.
    pub knows_version: bool,
    /// When a status write was first sent, by budget and precondition.
    pub writes: BTreeMap<(String, String), u64>,
}

/// A process of one instance, as its connections know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub instance: usize,
    pub incarnation: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct OpenWatch {
    pub process: Process,
    pub kind: Kind,
    /// The fault that is to strike this watch.
    pub order: Option<Fault>,
}

/// What is left of a list.
#[derive(Clone, Debug)]
pub struct Pages {
    pub version: u64,
    pub shown: Vec<Arc<Value>>,
    pub rest: Vec<Arc<Value>>,
}

impl Sim {
    pub fn new(params: Params) -> Self {
        let seats = (0..params.instances).map(|_| Seat::default()).collect();
        let random = Random::new(params.seed ^ 0x5eed_0000);
        Self(Arc::new(Mutex::new(World {
            judge: Judge::new(params.is_exact()),
            params,
            random,
            store: Store::default(),
            seats,
            episodes: Vec::new(),
            struck: BTreeMap::new(),
            watches: BTreeMap::new(),
            pages: BTreeMap::new(),
            numbers: 0,
            started: Instant::now(),
            bell: Arc::default(),
            trace: String::new(),
            violation: None,
        })))
    }

    /// The world, until the guard is dropped. Not to be held while waiting.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn sleep(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

impl World {
    /// Milliseconds since the beginning.
    pub fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The instant of so many milliseconds since the beginning.
    pub fn instant(&self, ms: u64) -> Instant {
        self.started + Duration::from_millis(ms)
    }

    pub fn wall(&self) -> i64 {
        WALL_MS + i64::try_from(self.now()).unwrap_or(i64::MAX)
    }

    /// As the API server writes it.
    pub fn timestamp(&self) -> String {
        jiff::Timestamp::from_second(self.wall() / 1000).unwrap_or_default().to_string()
    }

    /// Evenly from `low..=high`.
    pub fn draw(&mut self, low: u64, high: u64) -> u64 {
        let span = usize::try_from(high - low + 1).unwrap_or(usize::MAX);
        low + u64::try_from(self.random.below(span)).unwrap_or(0)
    }

    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub fn note(&mut self, line: &str) {
        let now = self.now();
        // Writing into a String does not fail.
        let _ = writeln!(self.trace, "{:>7}.{:03} {line}", now / 1000, now % 1000);
    }

    pub fn trace(&self) -> &str {
        &self.trace
    }

    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// Reports a broken rule. The first one counts.
    pub fn violate(&mut self, what: &str) {
        self.note(&format!("VIOLATION {what}"));
        self.violation.get_or_insert_with(|| what.to_owned());
        self.ring();
    }

    /// Wakes everything that waits for the bell, in the order in which it began to wait. (The receivers of a
    /// `tokio::sync::watch` wake in random order.)
    pub fn ring(&self) {
        self.bell.notify_waiters();
    }

    pub fn bell(&self) -> Arc<Notify> {
        self.bell.clone()
    }

    pub fn strike(&mut self, fault: Fault) {
        *self.struck.entry(fault).or_default() += 1;
    }

    /// Whether this fault hits now. Counts it if it does.
    pub fn hits(&mut self, fault: Fault, instance: usize, kind: Option<Kind>) -> bool {
        let now = self.now();
        let episode = self.episodes.iter().find(|episode| {
            episode.fault == fault && now < episode.until && episode.concerns(instance, kind)
        });
        let Some(percent) = episode.map(|episode| episode.percent) else { return false };
        let hit = self.random.chance(percent);
        if hit {
            self.strike(fault);
        }
        hit
    }

    /// Until when this fault holds, if it does.
    pub fn holds_until(&self, fault: Fault, instance: usize, kind: Kind) -> Option<u64> {
        let now = self.now();
        let active = self.episodes.iter().filter(|episode| {
            episode.fault == fault && now < episode.until && episode.concerns(instance, Some(kind))
        });
        active.map(|episode| episode.until).max()
    }

    pub fn is_connected(&self, process: Process) -> bool {
        let seat = &self.seats[process.instance];
        seat.up && seat.incarnation == process.incarnation
    }

    /// The seat of a process that is still there.
    pub fn seat(&mut self, process: Process) -> Option<&mut Seat> {
        let connected = self.is_connected(process);
        self.seats.get_mut(process.instance).filter(|_| connected)
    }

    pub fn create(&mut self, kind: Kind, mut object: Value) -> Arc<Value> {
        object["metadata"]["creationTimestamp"] = json!(self.timestamp());
        let object = self.store.create(kind, object);
        self.stored();
        object
    }

    pub fn replace(&mut self, kind: Kind, object: Value) -> Arc<Value> {
        let object = self.store.replace(kind, object);
        self.stored();
        object
    }

    pub fn delete(&mut self, kind: Kind, namespace: &str, name: &str) {
        if self.store.delete(kind, namespace, name).is_some() {
            self.stored();
        }
    }

    /// Changes an object in place, if it is there.
    pub fn modify(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) {
        let Some(stored) = self.store.get(kind, namespace, name) else { return };
        let mut object = Value::clone(stored);
        change(&mut object);
        self.replace(kind, object);
    }

    fn stored(&mut self) {
        let Some(change) = self.store.last_change().cloned() else { return };
        let meta = &change.object["metadata"];
        let name = meta["name"].as_str().unwrap_or_default();
        let line =
            format!("{} {} {name} {}", change.verb.name(), change.kind.plural, change.version);
        if change.kind.watched {
            self.note(&line);
            let wall = self.wall();
            self.judge.stored(wall, change.verb == Verb::Deleted, &change.object);
        }
        self.ring();
        self.look();
    }

    /// The exact check, after everything that may have changed its result.
    pub fn look(&mut self) {
        let seats = &self.seats;
        let told = |version| {
            seats.iter().filter(|seat| seat.up).all(|seat| seat.view.has_reached(&PODS, version))
        };
        for finding in self.judge.look(&told) {
            self.violate(&finding);
        }
    }

    /// Kinds without which an instance must not call itself ready.
    pub fn needed() -> [Kind; 3] {
        [&PODS, &BUDGETS, &STATEFUL_SETS]
    }
}
