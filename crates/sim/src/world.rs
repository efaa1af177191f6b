use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use holdfast_core::io::Event;
use holdfast_core::model::Timestamp;
use holdfast_core::verdict::Verdict;
use holdfast_core::{Change, Command, Config, Engine, Input, Kind};

use crate::nodes::Nodes;
use crate::truth::{Resource, Truth};

/// The virtual clock starts at a round, plausible time: 2027-01-15T08:00:00Z.
const START: Timestamp = Timestamp::from_secs(1_800_000_000);

/// Far more steps than any scenario takes; an engine that needs more is going round in circles.
const STEPS_MAX: usize = 100_000;

/// An API server, the cluster behind it and one engine, on a virtual clock.
///
/// Two queues stand between truth and engine, as they do in a real cluster: watch events on their way
/// in and API calls on their way out. By default both are emptied after every call; a test that
/// needs a stale cache or a write under way holds them.
#[derive(Debug)]
pub struct World {
    pub(crate) truth: Truth,
    pub(crate) nodes: Nodes,
    engine: Engine,
    watched: BTreeSet<Kind>,
    listed: bool,
    now: Timestamp,
    wake: Option<Timestamp>,
    watch: Queue<Input>,
    calls: Queue<Command>,
    replies: BTreeMap<String, Verdict>,
    events: Vec<Event>,
    evictions: u64,
}

impl World {
    /// An empty cluster. The engine sees nothing of it before [`World::sync`].
    pub fn new(config: Config) -> Self {
        Self {
            truth: Truth::default(),
            nodes: Nodes::default(),
            watched: config.kinds.clone(),
            engine: Engine::new(config),
            listed: false,
            now: START,
            wake: None,
            watch: Queue::default(),
            calls: Queue::default(),
            replies: BTreeMap::new(),
            events: Vec::new(),
            evictions: 0,
        }
    }

    /// List every watched kind to the engine, and watch from there on. Watch events that were still
    /// held are lost, as they are when a real watch breaks: a second call is a relist.
    pub fn sync(&mut self) {
        self.watch.waiting.clear();
        self.listed = true;
        for kind in self.watched.clone() {
            self.feed(Input::ListBegan(kind.clone()));
            for object in self.truth.list(&kind) {
                self.feed(object);
            }
            let version = self.truth.version();
            self.feed(Input::ListEnded(kind, version));
        }
        self.settle();
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Virtual time since the world began.
    pub fn elapsed(&self) -> Duration {
        Duration::from_millis((self.now.0 - START.0).unsigned_abs())
    }

    pub fn advance(&mut self, by: Duration) {
        self.advance_to(self.now + by);
    }

    /// Let time pass. The engine is woken, and pods become ready, at their own times on the way.
    pub fn advance_to(&mut self, to: Timestamp) {
        for _ in 0..STEPS_MAX {
            let Some(due) = self.next_due().filter(|due| *due <= to) else {
                self.now = self.now.max(to);
                return;
            };
            self.now = self.now.max(due);
            self.finish_starting_pods();
            if self.wake.is_some_and(|wake| wake <= self.now) {
                self.wake = None;
                self.feed(Input::Tick);
            }
            self.settle();
        }
        panic!("the engine asks to be woken again and again without time passing");
    }

    /// Jump from wake to wake until nothing is due any more, at most `limit` ahead. An engine with
    /// periodic work is never idle; the limit ends it.
    pub fn run_until_idle(&mut self, limit: Duration) {
        let end = self.now + limit;
        while let Some(due) = self.next_due().filter(|due| *due <= end) {
            self.advance_to(due);
        }
    }

    /// When something happens next without anybody's doing.
    pub fn next_due(&self) -> Option<Timestamp> {
        let pod = self.nodes.next_start();
        [self.wake, pod].into_iter().flatten().min()
    }

    /// From now on watch events wait: the engine's cache grows stale.
    pub fn hold_watch(&mut self) {
        self.watch.held = true;
    }

    pub fn release_watch(&mut self) {
        self.watch.held = false;
        self.settle();
    }

    /// Watch events that wait to be delivered, oldest first.
    pub fn watch_under_way(&self) -> impl Iterator<Item = &Input> {
        self.watch.waiting.iter()
    }

    /// From now on the engine's reads and writes stay under way, unanswered.
    pub fn hold_calls(&mut self) {
        self.calls.held = true;
    }

    pub fn release_calls(&mut self) {
        self.calls.held = false;
        self.settle();
    }

    /// Calls that wait to be answered, oldest first.
    pub fn calls_under_way(&self) -> impl Iterator<Item = &Command> {
        self.calls.waiting.iter()
    }

    /// The Kubernetes Events published since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Hand over one input that no object of this world explains, and let everything follow.
    pub fn inject(&mut self, input: Input) {
        self.feed(input);
        self.settle();
    }

    pub(crate) fn take_reply(&mut self, eviction: &str) -> Option<Verdict> {
        self.replies.remove(eviction)
    }

    pub(crate) fn is_answered(&self, eviction: &str) -> bool {
        self.replies.contains_key(eviction)
    }

    pub(crate) fn next_eviction_id(&mut self) -> String {
        self.evictions += 1;
        format!("eviction-{}", self.evictions)
    }

    /// Store an object and tell the watch.
    pub(crate) fn store<T: Resource>(&mut self, object: T) -> T {
        let stored = self.truth.put(object);
        self.notify(Change::Applied(stored.clone()), &stored.kind());
        stored
    }

    /// Remove an object and tell the watch.
    pub(crate) fn discard<T: Resource>(&mut self, key: &T::Key) -> Option<T> {
        let last: T = self.truth.remove(key)?;
        self.notify(Change::Deleted(last.clone()), &last.kind());
        Some(last)
    }

    /// Answer calls and deliver watch events until both queues are empty or held. Answers go first:
    /// a client sees the result of its own write before the watch tells it.
    pub(crate) fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            if let Some(call) = self.calls.next() {
                if let Some(answer) = self.execute(call) {
                    self.feed(answer);
                }
            } else if let Some(event) = self.watch.next() {
                self.feed(event);
            } else {
                return;
            }
        }
        panic!("engine and API server keep each other busy without end");
    }

    /// One `handle` and, as the engine's contract asks, `poll` until it is empty.
    pub(crate) fn feed(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        while let Some(command) = self.engine.poll() {
            match command {
                Command::Reply { eviction, verdict } => {
                    let earlier = self.replies.insert(eviction.clone(), verdict);
                    assert!(earlier.is_none(), "{eviction} was answered twice");
                }
                Command::Event(event) => self.events.push(event),
                Command::WakeAt(at) => self.wake = Some(at),
                call => self.calls.waiting.push_back(call),
            }
        }
    }

    fn notify<T: Resource>(&mut self, change: Change<T>, kind: &Kind) {
        // Before the first list there is no watch, and of other kinds there never is one.
        if self.listed && self.watched.contains(kind) {
            self.watch.waiting.push_back(T::input(change));
        }
    }
}

#[derive(Debug)]
struct Queue<T> {
    waiting: VecDeque<T>,
    held: bool,
}

impl<T> Queue<T> {
    fn next(&mut self) -> Option<T> {
        if self.held { None } else { self.waiting.pop_front() }
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), held: false }
    }
}
