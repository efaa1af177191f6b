//! A running Holdfast process, and what it does with an input.
//!
//! An engine is a function: the same engine, at the same time, makes the same of the same input. Most
//! steps of a search are taken in many states that differ elsewhere, in other instances or other queues.
//! So [`Memo`] keeps the outcome of each input, and states share the processes in it.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use holdfast_core::model::Timestamp;
use holdfast_core::verdict::Verdict;
use holdfast_core::{Command, Config, Engine, Input};

use super::fingerprint::{Digest, mix};
use super::search::Identity;
use crate::view::View;

/// Outcomes that each half of a part of the memo holds. A process takes some 35 kB, so all take 5 GB at most.
const OUTCOMES_MAX: usize = 1000;

/// Parts of the memo, so that workers seldom wait for each other.
const PARTS: usize = 64;

/// One running Holdfast process. Only [`Process::handle`] makes another of it.
#[derive(Clone)]
pub(super) struct Process {
    engine: Engine,
    wake: Option<Timestamp>,
    /// What the process has been told.
    view: Arc<View>,
    /// The last read token that the engine gave out: the next one depends on it.
    token: u64,
    /// A hash of everything that the process was given.
    history: u64,
    digest: OnceLock<Digest>,
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
        Arc::new(Self {
            engine: Engine::new(config),
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

    pub(super) fn digest(&self) -> &Digest {
        self.digest.get_or_init(|| Digest::of(&(self.engine.state(), self.wake, self.view.told())))
    }

    /// Equal for processes that make the same of every input. Processes with different histories may
    /// come to the same; the digest tells, where it was needed anyway.
    fn identity(&self) -> u64 {
        self.digest.get().map_or(self.history, |digest| mix(digest.exact(), self.token))
    }

    /// One `handle` and, as the engine's contract asks, `poll` until it is empty.
    fn handle(&self, now: Timestamp, input: &Input, history: u64) -> Handled {
        let mut next = self.clone();
        (next.history, next.digest) = (history, OnceLock::new());
        if matches!(input, Input::Tick) {
            next.wake = None;
        } else {
            Arc::make_mut(&mut next.view).take_in(input);
        }
        next.engine.handle(now, input.clone());
        let (mut calls, mut replies) = (Vec::new(), Vec::new());
        while let Some(command) = next.engine.poll() {
            match command {
                Command::Reply { eviction, verdict } => replies.push((eviction, verdict)),
                Command::WakeAt(at) => next.wake = Some(at),
                // Nothing that an engine does depends on them.
                Command::Event(_) | Command::Relate { .. } => {}
                command => calls.push(command),
            }
        }
        let tokens = calls.iter().filter_map(|command| match command {
            Command::ReadPod { token, .. } => Some(*token),
            _ => None,
        });
        next.token = tokens.fold(next.token, u64::max);
        let calls = calls.into_iter().map(|command| Call::new(command, &next.view)).collect();
        Handled { calls, replies, process: Arc::new(next) }
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
        process: &Process,
        now: Timestamp,
        (input, digest): (&Input, &Digest),
    ) -> Arc<Handled> {
        let moment = mix(process.identity(), now.0.cast_unsigned());
        let key = mix(moment, digest.exact());
        let part = &self.parts[(key >> 58) as usize];
        let known = part.lock().unwrap_or_else(PoisonError::into_inner).get(key);
        known.unwrap_or_else(|| {
            let handled = Arc::new(process.handle(now, input, key));
            part.lock().unwrap_or_else(PoisonError::into_inner).put(key, handled.clone());
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
