use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::io::Event;
use holdfast_core::model::{Budget, ResourceVersion, Timestamp};
use holdfast_core::verdict::Verdict;
use holdfast_core::{Change, Command, Config, Engine, Input, Kind};

use crate::cluster::Cluster;
use crate::instance::{Call, Clock, Instance, InstanceMut, Next};
use crate::replica::Members;
use crate::truth::{Resource, Truth};
use crate::view::View;

/// The virtual clock starts at a round, plausible time: 2027-01-15T08:00:00Z.
const START: Timestamp = Timestamp::from_secs(1_800_000_000);

/// Far more steps than any scenario takes; an engine that needs more is going round in circles.
const STEPS_MAX: usize = 1_000_000;

/// An API server, the cluster behind it and one or more engines, on a virtual clock.
///
/// Two queues stand between truth and each engine, as they do in a real cluster: watch events on
/// their way in and API calls on their way out. By default both are emptied after every call; a test
/// that needs a stale cache or a write under way holds them. What does not say which instance it
/// means, means the first.
#[derive(Debug)]
pub struct World {
    pub(crate) truth: Truth,
    pub(crate) cluster: Cluster,
    pub(crate) members: Members,
    pub(crate) instances: Vec<Instance>,
    /// Calls that nobody waits for any more and that are still on their way.
    pub(crate) late: Vec<Call>,
    config: Config,
    now: Timestamp,
    /// And the version at which each was given.
    replies: BTreeMap<String, (Verdict, u64)>,
    events: Vec<Event>,
    evictions: u64,
    /// Views and writes, for those who check the engines by them; to keep them costs a copy of all
    /// objects per write.
    recording: bool,
    writes: Vec<Written>,
    /// All that is, and all that ever happened, for lists from an older server.
    true_view: View,
    history: Vec<(u64, Input)>,
}

/// A status write that the API server has applied.
#[derive(Clone, Debug)]
pub struct Written {
    /// The instance that wrote.
    pub by: usize,
    pub before: Budget,
    pub after: Budget,
    /// What the writer had been told when it decided.
    pub view: Arc<View>,
}

impl World {
    /// An empty cluster. The engine sees nothing of it before [`World::sync`].
    pub fn new(config: Config) -> Self {
        Self::with_instances(config, 1)
    }

    /// An empty cluster with so many instances of Holdfast.
    pub fn with_instances(config: Config, count: usize) -> Self {
        let clock = Clock::new(START);
        Self {
            truth: Truth::default(),
            cluster: Cluster::default(),
            members: Members::default(),
            instances: (0..count).map(|_| Instance::new(&config, clock)).collect(),
            late: Vec::new(),
            config,
            now: START,
            replies: BTreeMap::new(),
            events: Vec::new(),
            evictions: 0,
            recording: false,
            writes: Vec::new(),
            true_view: View::default(),
            history: Vec::new(),
        }
    }

    pub fn instance(&mut self, index: usize) -> InstanceMut<'_> {
        assert!(index < self.instances.len(), "there is no instance {index}");
        InstanceMut { world: self, index }
    }

    pub fn instance_count(&self) -> usize {
        self.instances.len()
    }

    /// List every watched kind to every instance, and watch from there on. Watch events that were
    /// still held are lost, as they are when a real watch breaks: a second call is a relist.
    pub fn sync(&mut self) {
        for index in 0..self.instances.len() {
            self.instance(index).sync();
        }
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The newest resource version: as long as it stays, no object has changed.
    pub fn version(&self) -> ResourceVersion {
        self.truth.version()
    }

    /// Virtual time since the world began.
    pub fn elapsed(&self) -> Duration {
        Duration::from_millis((self.now.0 - START.0).unsigned_abs())
    }

    pub fn advance(&mut self, by: Duration) {
        self.advance_to(self.now + by);
    }

    /// Let time pass. Engines are woken, and pods become ready, at their own times on the way.
    pub fn advance_to(&mut self, to: Timestamp) {
        let mut steps_left = STEPS_MAX;
        while steps_left > 0 {
            let Some(due) = self.next_due().filter(|due| *due <= to) else {
                self.now = self.now.max(to);
                return;
            };
            steps_left = if due > self.now { STEPS_MAX } else { steps_left - 1 };
            self.now = self.now.max(due);
            self.run_agenda();
            for index in 0..self.instances.len() {
                let instance = &mut self.instances[index];
                let shown = instance.clock.read(self.now);
                if !instance.paused && instance.wake.is_some_and(|wake| wake <= shown) {
                    instance.wake = None;
                    self.feed_to(index, Input::Tick);
                }
            }
            self.settle();
        }
        panic!("an engine asks to be woken again and again without time passing");
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
        let awake = self.instances.iter().filter(|instance| !instance.paused);
        let wakes = awake.filter_map(|i| i.wake.map(|wake| i.clock.when(wake)));
        wakes.chain(self.cluster.next_due()).min()
    }

    /// From now on watch events wait: the engine's cache grows stale.
    pub fn hold_watch(&mut self) {
        self.instance(0).hold_watch();
    }

    pub fn release_watch(&mut self) {
        self.instance(0).release_watch();
    }

    /// Watch events that wait to be delivered, oldest first.
    pub fn watch_under_way(&self) -> impl Iterator<Item = &Input> {
        self.instances[0].watch.waiting.iter().map(|(_, event)| event)
    }

    /// From now on the engine's reads and writes stay under way, unanswered. Lists of budgets are answered.
    pub fn hold_calls(&mut self) {
        self.instance(0).hold_calls();
    }

    /// As [`World::hold_calls`], and lists of budgets stay under way too.
    pub fn hold_calls_and_lists(&mut self) {
        self.instance(0).hold_calls_and_lists();
    }

    pub fn release_calls(&mut self) {
        self.instance(0).release_calls();
    }

    /// Calls that wait to be answered, oldest first.
    pub fn calls_under_way(&self) -> impl Iterator<Item = &Command> {
        self.instances[0].calls.waiting.iter().map(|call| &call.command)
    }

    /// How many calls are on their way that nobody waits for any more.
    pub fn late_calls(&self) -> usize {
        self.late.len()
    }

    /// The n-th call that nobody waits for any more arrives at last.
    pub fn land_late(&mut self, n: usize) {
        let call = self.late.remove(n);
        self.execute(call);
        self.settle();
    }

    /// The n-th call that nobody waits for any more never arrives.
    pub fn drop_late(&mut self, n: usize) {
        self.late.remove(n);
    }

    /// From now on keep what each instance is told ([`World::view_of`]), every status write, and
    /// everything that happens. To be called while the world is empty.
    pub fn record(&mut self) {
        assert!(self.truth.version() == 0.into(), "what is there already was not recorded");
        self.recording = true;
    }

    /// The status writes that were applied since the last call.
    pub fn take_writes(&mut self) -> Vec<Written> {
        std::mem::take(&mut self.writes)
    }

    /// The Kubernetes Events published since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub fn engine(&self) -> &Engine {
        self.instances[0].engine.as_ref().expect("the instance is up")
    }

    /// What the instance has been told so far.
    pub fn view_of(&self, index: usize) -> &View {
        &self.instances[index].view
    }

    /// Every object that an instance could have been told of, as it truly stands. Only of a world
    /// that is recorded.
    pub fn true_view(&self) -> &View {
        &self.true_view
    }

    /// Everything of this kind that happened after this version, oldest first.
    pub(crate) fn history(&self, kind: &Kind, after: u64) -> impl Iterator<Item = &Input> {
        let later = self.history.iter().filter(move |(version, _)| *version > after);
        let of_kind = move |input: &&Input| input.subject().is_some_and(|(of, ..)| of == *kind);
        later.map(|(_, input)| input).filter(of_kind)
    }

    /// An engine that has just listed everything, to hold against those that have been running.
    pub fn fresh_engine(&self) -> Engine {
        let mut engine = Engine::new(self.config.clone());
        for kind in &self.config.kinds {
            engine.handle(self.now, Input::ListBegan(kind.clone()));
            for object in self.truth.list(kind) {
                engine.handle(self.now, object);
            }
            engine.handle(self.now, Input::ListEnded(kind.clone(), self.truth.version()));
        }
        engine
    }

    /// Hand over one input that no object of this world explains, and let everything follow.
    pub fn inject(&mut self, input: Input) {
        self.instance(0).inject(input);
    }

    pub(crate) fn take_reply(&mut self, eviction: &str) -> Option<Verdict> {
        self.take_reply_as_of(eviction).map(|(verdict, _)| verdict)
    }

    /// With the version at which it was given.
    pub(crate) fn take_reply_as_of(&mut self, eviction: &str) -> Option<(Verdict, u64)> {
        self.replies.remove(eviction)
    }

    pub(crate) fn is_answered(&self, eviction: &str) -> bool {
        self.replies.contains_key(eviction)
    }

    pub(crate) fn next_eviction_id(&mut self) -> String {
        self.evictions += 1;
        format!("eviction-{}", self.evictions)
    }

    pub(crate) fn note_write(&mut self, written: Written) {
        if self.recording {
            self.writes.push(written);
        }
    }

    /// Store an object and tell the cluster and the watches.
    pub(crate) fn store<T: Resource>(&mut self, object: T) -> T {
        let stored = self.truth.put(object);
        self.notify(&stored.kind(), &T::input(Change::Applied(stored.clone())));
        stored
    }

    /// Remove an object and tell the cluster and the watches.
    pub(crate) fn discard<T: Resource>(&mut self, key: &T::Key) -> Option<T> {
        let last: T = self.truth.remove(key)?;
        self.notify(&last.kind(), &T::input(Change::Deleted(last.clone())));
        Some(last)
    }

    /// Answer calls and deliver watch events until all queues are empty or held. Answers go first:
    /// a client sees the result of its own write before the watch tells it.
    pub(crate) fn settle(&mut self) {
        self.react();
        for _ in 0..STEPS_MAX {
            let all = 0..self.instances.len();
            let mut calls = all.clone().filter_map(|i| Some((i, self.instances[i].calls.next()?)));
            if let Some((index, next)) = calls.next() {
                drop(calls);
                let answer = match next {
                    Next::Answer(answer) => Some(*answer),
                    Next::Call(call) => self.execute(call),
                };
                if let Some(answer) = answer {
                    self.feed_to(index, answer);
                }
                continue;
            }
            drop(calls);
            let mut events = all.filter_map(|i| Some((i, self.instances[i].watch.next()?)));
            let Some((index, event)) = events.next() else { return };
            drop(events);
            self.feed_to(index, event);
        }
        panic!("engines and API server keep each other busy without end");
    }

    pub(crate) fn feed(&mut self, input: Input) {
        self.feed_to(0, input);
    }

    /// One `handle` and, as the engine's contract asks, `poll` until it is empty.
    pub(crate) fn feed_to(&mut self, index: usize, input: Input) {
        let instance = &mut self.instances[index];
        let Some(engine) = &mut instance.engine else { return };
        if self.recording {
            Arc::make_mut(&mut instance.view).take_in(&input);
        }
        engine.handle(instance.clock.read(self.now), input);
        while let Some(command) = engine.poll() {
            match command {
                Command::Reply { eviction, verdict } => {
                    let earlier =
                        self.replies.insert(eviction.clone(), (verdict, self.truth.counter()));
                    assert!(earlier.is_none(), "{eviction} was answered twice");
                }
                Command::Event(event) => self.events.push(event),
                Command::WakeAt(at) => instance.wake = Some(at),
                command => {
                    instance.sent += 1;
                    let view = instance.view.clone();
                    instance.calls.waiting.push_back(Call { by: index, command, view });
                }
            }
        }
    }

    fn notify(&mut self, kind: &Kind, input: &Input) {
        if self.recording {
            self.true_view.take_in(input);
            self.history.push((self.truth.counter(), input.clone()));
        }
        match input {
            Input::Pod(Change::Applied(pod)) => {
                self.cluster.saw(pod);
                self.members.saw(pod);
            }
            Input::Pod(Change::Deleted(pod)) => {
                self.cluster.lost(pod);
                self.members.lost(pod);
            }
            _ => {}
        }
        // Before the first list there is no watch, and of other kinds there never is one.
        if !self.config.kinds.contains(kind) {
            return;
        }
        let watches = |instance: &&mut Instance| instance.watches(kind);
        for instance in self.instances.iter_mut().filter(watches) {
            instance.watch.waiting.push_back((kind.clone(), input.clone()));
        }
    }
}
