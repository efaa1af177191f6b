//! A running Holdfast process, and what it does with an input.
//!
//! An engine is a function: the same engine, at the same time, makes the same of the same input. Most
//! steps of a search are taken in many states that differ elsewhere, in other instances or other queues.
//! So [`Memo`] keeps the outcome of each input, and states share the processes in it.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, OnceLock};

use holdfast_core::model::Timestamp;
use holdfast_core::verdict::Verdict;
use holdfast_core::{Command, Config, Engine, Input};

use super::fingerprint::{Digest, mix};
use super::search::{Identity, lock};
use crate::view::View;

/// Outcomes that each half of a part of the memo holds. All take some 5 GB at most.
const OUTCOMES_MAX: usize = 1200;

/// Parts of the memo, so that workers seldom wait for each other.
const PARTS: usize = 64;

/// One running Holdfast process. Only [`Process::handle`] makes another of it.
pub(super) struct Process {
    body: Mutex<Body>,
    wake: Option<Timestamp>,
    /// What the process has been told.
    view: Arc<View>,
    /// The last read token that the engine gave out: the next one depends on it.
    token: u64,
    /// A hash of everything that the process was given.
    history: u64,
    digest: OnceLock<Digest>,
}

/// The engine, or how to make it again. A step passes through several processes and ends at one of them.
/// Engines are large, so those on the way hand their engine on.
struct Body {
    engine: Option<Engine>,
    /// None for a process that keeps its engine.
    origin: Option<Origin>,
}

struct Origin {
    parent: Arc<Process>,
    now: Timestamp,
    input: Input,
}

/// A call as it was sent, with what its sender knew then.
pub(super) struct Call {
    pub(super) command: Command,
    pub(super) view: Arc<View>,
    pub(super) digest: Digest,
}

/// What a process makes of one input.
pub(super) struct Handled {
    pub(super) process: Arc<Process>,
    pub(super) calls: Vec<Arc<Call>>,
    pub(super) replies: Vec<(String, Verdict)>,
}

impl Process {
    pub(super) fn new(config: Config) -> Arc<Self> {
        let body = Body { engine: Some(Engine::new(config)), origin: None };
        Arc::new(Self {
            body: Mutex::new(body),
            wake: None,
            view: Arc::default(),
            token: 0,
            history: 0,
            digest: OnceLock::new(),
        })
    }

    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.wake
    }

    /// Only states ask for it, so a step ends here, and the process keeps its engine.
    pub(super) fn digest(&self) -> &Digest {
        self.digest.get_or_init(|| {
            let mut body = lock(&self.body);
            let engine = body.take();
            *body = Body { engine: Some(engine), origin: None };
            let state = body.engine.as_ref().map(Engine::state);
            Digest::of(&(state, self.wake, self.view.told()))
        })
    }

    /// Equal for processes that make the same of every input. Processes with different histories may
    /// come to the same; the digest tells, where it was needed anyway.
    fn identity(&self) -> u64 {
        self.digest.get().map_or(self.history, |digest| mix(digest.exact(), self.token))
    }

    /// One `handle` and, as the engine's contract asks, `poll` until it is empty.
    fn handle(self: &Arc<Self>, now: Timestamp, input: &Input, history: u64) -> Handled {
        let (mut view, mut wake) = (self.view.clone(), self.wake);
        if matches!(input, Input::Tick) {
            wake = None;
        } else {
            Arc::make_mut(&mut view).take_in(input);
        }
        let mut engine = lock(&self.body).take();
        engine.handle(now, input.clone());
        let (mut calls, mut replies) = (Vec::new(), Vec::new());
        while let Some(command) = engine.poll() {
            match command {
                Command::Reply { eviction, verdict } => replies.push((eviction, verdict)),
                Command::WakeAt(at) => wake = Some(at),
                // Nothing that an engine does depends on them.
                Command::Event(_) | Command::Relate { .. } => {}
                command => calls.push(command),
            }
        }
        let tokens = calls.iter().filter_map(|command| match command {
            Command::ReadPod { token, .. } => Some(*token),
            _ => None,
        });
        let token = tokens.fold(self.token, u64::max);
        let calls = calls.into_iter().map(|command| Call::new(command, &view)).collect();
        let origin = Origin { parent: self.clone(), now, input: input.clone() };
        let body = Mutex::new(Body { engine: Some(engine), origin: Some(origin) });
        let digest = OnceLock::new();
        let process = Arc::new(Self { body, wake, view, token, history, digest });
        Handled { process, calls, replies }
    }
}

impl Body {
    /// An engine to go on with.
    fn take(&mut self) -> Engine {
        match (&self.engine, &self.origin) {
            (Some(engine), None) => engine.clone(),
            (Some(_), Some(_)) => self.engine.take().expect("it is there"),
            (None, origin) => {
                let origin = origin.as_ref().expect("the engine was handed on");
                let mut engine = lock(&origin.parent.body).take();
                engine.handle(origin.now, origin.input.clone());
                while engine.poll().is_some() {}
                engine
            }
        }
    }
}

impl Call {
    /// The auditor judges a write that grants by what its writer knew.
    fn new(command: Command, view: &Arc<View>) -> Arc<Self> {
        let grants =
            matches!(&command, Command::WriteStatus { status, .. } if !status.grants.is_empty());
        let digest = Digest::of(&(&command, grants.then(|| view.told())));
        Arc::new(Self { command, view: view.clone(), digest })
    }
}

/// Outcomes of inputs. Workers share it.
pub(super) struct Memo {
    parts: [Mutex<Outcomes>; PARTS],
}

type Map = HashMap<u64, Arc<Handled>, BuildHasherDefault<Identity>>;

/// Two generations: when the young one is full it becomes the old one, and the old one ends.
#[derive(Default)]
struct Outcomes {
    young: Map,
    old: Map,
}

impl Memo {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { parts: std::array::from_fn(|_| Mutex::default()) })
    }

    /// The outcome of an input with this digest.
    pub(super) fn handle(
        &self,
        process: &Arc<Process>,
        now: Timestamp,
        (input, digest): (&Input, &Digest),
    ) -> Arc<Handled> {
        let moment = mix(process.identity(), now.0.cast_unsigned());
        let key = mix(moment, digest.exact());
        let part = &self.parts[(key >> 58) as usize];
        let known = lock(part).get(key);
        known.unwrap_or_else(|| {
            let handled = Arc::new(process.handle(now, input, key));
            lock(part).put(key, handled.clone());
            handled
        })
    }
}

impl Outcomes {
    fn get(&mut self, key: u64) -> Option<Arc<Handled>> {
        if let Some(known) = self.young.get(&key) {
            return Some(known.clone());
        }
        let known = self.old.remove(&key)?;
        self.put(key, known.clone());
        Some(known)
    }

    fn put(&mut self, key: u64, handled: Arc<Handled>) {
        if self.young.len() >= OUTCOMES_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, handled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(memo: &Memo, process: &Arc<Process>, input: &Input) -> Arc<Process> {
        memo.handle(process, Timestamp(1000), (input, &Digest::of(input))).process.clone()
    }

    #[test]
    fn a_process_that_handed_its_engine_on_can_still_be_used() {
        let (lead, tick) = (Input::Lead(true), Input::Tick);
        let memo = Memo::new();
        let start = Process::new(Config::default());
        let passed = feed(&memo, &start, &lead);
        let last = feed(&memo, &passed, &tick);
        assert!(lock(&passed.body).engine.is_none());
        let fresh = feed(&Memo::new(), &start, &lead);
        assert_eq!(passed.digest().exact(), fresh.digest().exact());
        let again = feed(&Memo::new(), &fresh, &tick);
        assert_eq!(last.digest().exact(), again.digest().exact());
    }
}
