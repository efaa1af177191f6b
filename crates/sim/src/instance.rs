//! One running Holdfast process: an engine, its watches, its calls and its clock.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::model::Timestamp;
use holdfast_core::{Command, Config, Engine, Eviction, Input, Kind};

use crate::view::View;
use crate::world::World;

/// What becomes of a call that an instance has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Executed, and answered.
    Answered,
    /// Executed, and nobody learns of it.
    AnswerLost,
    /// Lost before it was executed; to the instance this looks the same.
    NotApplied,
    /// Given up by the instance, and executed when [`World::land_late`] is called.
    AppliedLate,
    /// A write that the API server refuses, and says so; anything else is lost.
    Refused,
}

#[derive(Debug)]
pub(crate) struct Instance {
    /// None while it is down.
    pub engine: Option<Engine>,
    pub config: Config,
    pub listed: bool,
    /// Nothing reaches it, and its clock goes on.
    pub paused: bool,
    /// How many calls it has made.
    pub sent: u64,
    /// On its own clock.
    pub wake: Option<Timestamp>,
    pub watch: Watch,
    pub calls: Calls,
    pub clock: Clock,
    pub view: Arc<View>,
}

impl Instance {
    pub fn new(config: &Config, clock: Clock) -> Self {
        Self {
            engine: Some(Engine::new(config.clone())),
            config: config.clone(),
            listed: false,
            paused: false,
            sent: 0,
            wake: None,
            watch: Watch::default(),
            calls: Calls::default(),
            clock,
            view: Arc::default(),
        }
    }

    pub fn watches(&self, kind: &Kind) -> bool {
        self.listed && self.config.kinds.contains(kind)
    }
}

/// Watch events on their way in. Each kind has a watch of its own: one may lag behind another, but
/// within a kind events come in order.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub waiting: VecDeque<(Kind, Input)>,
    held: bool,
    held_kinds: BTreeSet<Kind>,
}

impl Watch {
    pub fn next(&mut self) -> Option<Input> {
        if self.held {
            return None;
        }
        let next = self.waiting.iter().position(|(kind, _)| !self.held_kinds.contains(kind))?;
        self.waiting.remove(next).map(|(_, event)| event)
    }

    fn next_of(&mut self, kind: &Kind) -> Option<Input> {
        let next = self.waiting.iter().position(|(of, _)| of == kind)?;
        self.waiting.remove(next).map(|(_, event)| event)
    }
}

/// A call as it was sent, with what its sender knew then.
#[derive(Debug)]
pub(crate) struct Call {
    pub by: usize,
    pub command: Command,
    pub view: Arc<View>,
}

/// Calls on their way out, and answers on their way back.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub waiting: VecDeque<Call>,
    pub answers: VecDeque<(Command, Input)>,
    held: bool,
    held_lists: bool,
}

/// A clock that does not jump, but may be wrong and may run fast or slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Timestamp,
    offset_ms: i64,
    rate_permille: i64,
}

impl Clock {
    pub fn new(start: Timestamp) -> Self {
        Self { start, offset_ms: 0, rate_permille: 1000 }
    }

    pub fn read(&self, now: Timestamp) -> Timestamp {
        let elapsed = (now.0 - self.start.0) * self.rate_permille / 1000;
        Timestamp(self.start.0 + self.offset_ms + elapsed)
    }

    /// The first moment of the world at which this clock shows at least `shown`.
    pub fn when(&self, shown: Timestamp) -> Timestamp {
        let elapsed = shown.0 - self.start.0 - self.offset_ms;
        let up = elapsed * 1000 + self.rate_permille - 1;
        Timestamp(self.start.0 + up.div_euclid(self.rate_permille))
    }
}

/// One instance of a [`World`], to do something to it.
#[derive(Debug)]
pub struct InstanceMut<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) index: usize,
}

impl InstanceMut<'_> {
    pub(crate) fn own(&mut self) -> &mut Instance {
        &mut self.world.instances[self.index]
    }

    /// List every watched kind, and watch from there on. Events that were still held are lost, as
    /// they are when a real watch breaks: a second call is a relist.
    pub fn sync(&mut self) {
        self.own().watch.waiting.clear();
        self.own().listed = true;
        for kind in self.own().config.kinds.clone() {
            self.list(&kind);
        }
        self.world.settle();
    }

    /// The watch of this kind broke: list it again.
    pub fn relist(&mut self, kind: &Kind) {
        self.own().watch.waiting.retain(|(of, _)| of != kind);
        self.list(kind);
        self.world.settle();
    }

    fn list(&mut self, kind: &Kind) {
        self.world.feed_to(self.index, Input::ListBegan(kind.clone()));
        for object in self.world.truth.list(kind) {
            self.world.feed_to(self.index, object);
        }
        let version = self.world.truth.version();
        self.world.feed_to(self.index, Input::ListEnded(kind.clone(), version));
    }

    /// Set its clock wrong by so much, and let it run at this rate from the beginning of the world.
    /// To be called before it has seen anything: clocks do not jump.
    pub fn skew(&mut self, offset: Duration, rate_permille: i64) {
        let offset_ms = i64::try_from(offset.as_millis()).unwrap_or(i64::MAX);
        let clock = &mut self.own().clock;
        (clock.offset_ms, clock.rate_permille) = (offset_ms, rate_permille);
    }

    /// A new process reads the time of day anew, and that may have been set meanwhile.
    pub(crate) fn set_clock(&mut self, offset: Duration) {
        self.own().clock.offset_ms = i64::try_from(offset.as_millis()).unwrap_or(i64::MAX);
    }

    /// The time on its own clock.
    pub fn now(&mut self) -> Timestamp {
        let now = self.world.now();
        self.own().clock.read(now)
    }

    pub fn lead(&mut self, leads: bool) {
        self.inject(Input::Lead(leads));
    }

    /// From now on its watch events wait.
    pub fn hold_watch(&mut self) {
        self.own().watch.held = true;
    }

    pub fn release_watch(&mut self) {
        self.own().watch.held = false;
        self.own().watch.held_kinds.clear();
        self.world.settle();
    }

    /// From now on events of this kind wait; the others come.
    pub fn hold_kind(&mut self, kind: &Kind) {
        self.own().watch.held_kinds.insert(kind.clone());
    }

    pub fn release_kind(&mut self, kind: &Kind) {
        self.own().watch.held_kinds.remove(kind);
        self.world.settle();
    }

    /// Kinds of which events wait.
    pub fn kinds_waiting(&mut self) -> BTreeSet<Kind> {
        self.own().watch.waiting.iter().map(|(kind, _)| kind.clone()).collect()
    }

    /// Deliver the oldest waiting event of this kind, held or not.
    pub fn deliver(&mut self, kind: &Kind) {
        if let Some(event) = self.own().watch.next_of(kind) {
            self.inject(event);
        }
    }

    /// From now on its calls stay under way, except lists of budgets: those precede every allow, and a test of
    /// anything else need not count them.
    pub fn hold_calls(&mut self) {
        self.own().calls.held = true;
    }

    /// From now on its calls stay under way, lists of budgets too.
    pub fn hold_calls_and_lists(&mut self) {
        self.own().calls.held = true;
        self.own().calls.held_lists = true;
    }

    pub fn release_calls(&mut self) {
        self.own().calls.held = false;
        self.own().calls.held_lists = false;
        self.world.settle();
    }

    /// Calls that wait to be executed, oldest first.
    pub fn calls_waiting(&mut self) -> Vec<Command> {
        self.own().calls.waiting.iter().map(|call| call.command.clone()).collect()
    }

    /// How many answers are on their way back.
    pub fn answers_waiting(&mut self) -> usize {
        self.own().calls.answers.len()
    }

    /// Execute the n-th waiting call; its answer stays on the way until delivered or lost.
    pub fn execute_call(&mut self, n: usize) {
        let Some(call) = self.own().calls.waiting.remove(n) else { return };
        let command = call.command.clone();
        if let Some(answer) = self.world.execute(call) {
            self.own().calls.answers.push_back((command, answer));
        }
    }

    /// Deliver the n-th answer that is on its way.
    pub fn deliver_answer(&mut self, n: usize) {
        if let Some((_, answer)) = self.own().calls.answers.remove(n) {
            self.inject(answer);
        }
    }

    /// The n-th answer that is on its way never comes; the instance gives up waiting.
    pub fn lose_answer(&mut self, n: usize) {
        if let Some((command, _)) = self.own().calls.answers.remove(n)
            && let Some(nothing) = no_answer(&command)
        {
            self.inject(nothing);
        }
    }

    /// Let this become of the n-th waiting call.
    pub fn end_call(&mut self, n: usize, fate: Fate) {
        let Some(call) = self.own().calls.waiting.remove(n) else { return };
        let nothing = no_answer(&call.command);
        let answer = match fate {
            Fate::Answered => self.world.execute(call),
            Fate::AnswerLost => {
                self.world.execute(call);
                nothing
            }
            Fate::NotApplied => nothing,
            Fate::Refused => refusal(&call.command).or(nothing),
            Fate::AppliedLate => {
                self.world.late.push(call);
                nothing
            }
        };
        if let Some(answer) = answer {
            self.inject(answer);
        }
    }

    /// Ask this instance. [`World::reply`] has the answer once there is one.
    pub fn submit(&mut self, eviction: Eviction) -> String {
        let id = eviction.id.clone();
        self.inject(Input::Evict(eviction));
        id
    }

    /// The process dies: engine and queues are gone. Calls that it had sent may still be executed,
    /// by [`World::land_late`].
    pub fn crash(&mut self) {
        let config = self.own().config.clone();
        let clock = self.own().clock;
        let died = std::mem::replace(self.own(), Instance::new(&config, clock));
        self.own().engine = None;
        self.own().watch.held = died.watch.held;
        self.own().watch.held_kinds = died.watch.held_kinds;
        (self.own().calls.held, self.own().calls.held_lists) =
            (died.calls.held, died.calls.held_lists);
        self.world.late.extend(died.calls.waiting);
    }

    pub fn is_up(&mut self) -> bool {
        self.own().engine.is_some()
    }

    /// A new process with empty memory in its place, which lists and watches.
    pub fn restart(&mut self) {
        self.revive();
        self.sync();
    }

    /// A new process with empty memory in its place, which has not listed anything yet.
    pub(crate) fn revive(&mut self) {
        let config = self.own().config.clone();
        self.own().engine = Some(Engine::new(config));
    }

    /// The engine; it must be up.
    pub fn engine(&mut self) -> &Engine {
        self.own().engine.as_ref().expect("the instance is up")
    }

    /// Hand over one input, and let everything follow that is not held.
    pub fn inject(&mut self, input: Input) {
        self.world.feed_to(self.index, input);
        self.world.settle();
    }
}

impl Calls {
    /// What comes next if nothing is held: answers first, for they were sent first.
    pub fn next(&mut self) -> Option<Next> {
        if self.held {
            let is_free = |call: &Call| !self.held_lists && lists_budgets(&call.command);
            let free = self.waiting.iter().position(is_free)?;
            return self.waiting.remove(free).map(Next::Call);
        }
        let answer = self.answers.pop_front().map(|(_, answer)| Next::Answer(Box::new(answer)));
        answer.or_else(|| self.waiting.pop_front().map(Next::Call))
    }
}

pub(crate) enum Next {
    Answer(Box<Input>),
    Call(Call),
}

fn lists_budgets(command: &Command) -> bool {
    matches!(command, Command::ListNamespace { kind: Kind::Budget | Kind::UnavailableBudget, .. })
}

fn refusal(command: &Command) -> Option<Input> {
    use holdfast_core::io::WriteOutcome;
    let Command::WriteStatus { budget, uid, .. } = command.clone() else { return None };
    let outcome = WriteOutcome::Rejected("no".to_owned());
    Some(Input::StatusWritten { budget, uid, outcome })
}

/// What an instance is told when a call came to nothing that it knows of.
pub(crate) fn no_answer(command: &Command) -> Option<Input> {
    use holdfast_core::io::{PodReadOutcome, ScaleOutcome, SnapshotOutcome, WriteOutcome};
    let why = || "no answer".to_owned();
    match command.clone() {
        Command::WriteStatus { budget, uid, .. } | Command::ReadBudget { budget, uid } => {
            Some(Input::StatusWritten { budget, uid, outcome: WriteOutcome::Unknown(why()) })
        }
        Command::ReadPod { token, .. } => {
            Some(Input::PodRead { token, outcome: PodReadOutcome::Failed(why()) })
        }
        Command::ReadScale { namespace, owner } => {
            Some(Input::ScaleRead { namespace, owner, outcome: ScaleOutcome::Failed(why()) })
        }
        Command::ListNamespace { kind, namespace } => {
            Some(Input::Snapshot { kind, namespace, outcome: SnapshotOutcome::Failed(why()) })
        }
        _ => None,
    }
}
