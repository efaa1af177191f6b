//! The state of a small world: stored objects, engines, and everything that is on its way.
//!
//! To copy a state copies pointers; a step copies only the parts that it changes.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_core::model::{BudgetKey, ObjectKey, Timestamp};
use holdfast_core::verdict::Verdict;
use holdfast_core::{Command, Engine, Input};

use super::fingerprint::{Digest, fingerprint};
use super::scope::Scope;
use super::step::Watched;
use crate::truth::Truth;

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) scope: &'static Scope,
    pub(super) layout: Arc<Layout>,
    pub(super) now: Timestamp,
    pub(super) truth: Arc<Stored>,
    pub(super) instances: Vec<Instance>,
    /// Status writes that no instance waits for and that may still reach the API server.
    pub(super) late: Vec<Arc<Late>>,
    pub(super) clients: Clients,
    pub(super) replies: Vec<String>,
    pub(super) violation: Option<String>,
}

/// The names of a scope's objects, made once.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) pods: Vec<ObjectKey>,
    /// The replica of each pod.
    pub(super) replica_of: Vec<usize>,
    pub(super) budgets: Vec<BudgetKey>,
}

/// The objects of the API server.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) truth: Truth,
    pub(super) digest: Option<Digest>,
}

#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) process: Arc<Process>,
    /// Watch events on their way, by kind and in order within the kind.
    pub(super) watch: [VecDeque<Arc<Event>>; Watched::ALL.len()],
}

/// One running Holdfast process with its calls and their answers.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// None while it is down.
    pub(super) engine: Option<Engine>,
    pub(super) wake: Option<Timestamp>,
    pub(super) calls: Vec<Command>,
    pub(super) answers: Vec<(Command, Input)>,
    pub(super) digest: Option<Digest>,
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) input: Input,
    pub(super) digest: Digest,
}

#[derive(Debug)]
pub(super) struct Late {
    pub(super) command: Command,
    pub(super) digest: Digest,
}

/// What clients have asked and been told, and what was lost. All of it is for the steps and the
/// promise; no engine sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients {
    pub(super) requests: Vec<Asked>,
    /// Allowed evictions that the API server may still carry out.
    pub(super) allows: Vec<Allow>,
    /// Why each pod of the scope is not healthy.
    pub(super) lost: Vec<Loss>,
    pub(super) used: Used,
    /// Grants of live pods in stored statuses, in scopes that limit their age.
    pub(super) grants: Vec<HeldGrant>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) attempts: u8,
    pub(super) open: Option<Open>,
}

/// A request that has not been answered.
#[derive(Clone, Debug)]
pub(super) struct Open {
    /// Pods that were lost otherwise than by a grant, and the instance had been told so.
    pub(super) known_lost: u32,
    /// The smallest number of replicas that each budget has desired since the request was sent.
    pub(super) desired: Vec<i64>,
}

#[derive(Clone, Debug)]
pub(super) struct Allow {
    pub(super) pod: usize,
    pub(super) uid: String,
    /// The API server gives up then.
    pub(super) until: Timestamp,
    /// The pod was covered by no budget while the request was under way. No grant took it.
    pub(super) uncovered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    Healthy,
    /// An allowed eviction took the pod, and no successor has been ready.
    ByGrant,
    /// The pod was deleted by others, or is not ready.
    Otherwise,
}

/// How often the scope's limited steps have happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Used {
    pub(super) losses: u8,
    pub(super) crashes: u8,
    pub(super) deletions: u8,
    pub(super) creations: u8,
    pub(super) flaps: u8,
    pub(super) edits: u8,
    pub(super) recreations: u8,
    pub(super) refusals: u8,
    pub(super) spans: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldGrant {
    pub(super) budget: usize,
    pub(super) uid: String,
    pub(super) since: Timestamp,
}

impl State {
    pub(super) fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// What clients were told in the last step.
    pub(super) fn replies(&self) -> &[String] {
        &self.replies
    }

    /// Equal for states from which the same can happen.
    pub(super) fn fingerprint(&mut self) -> u64 {
        if self.truth.digest.is_none() {
            let stored = Arc::make_mut(&mut self.truth);
            stored.digest = Some(Digest::of(&(&stored.truth, stored.truth.version())));
        }
        for instance in &mut self.instances {
            if instance.process.digest.is_none() {
                Arc::make_mut(&mut instance.process).refresh_digest();
            }
        }
        let clients = Digest::of(&self.clients);
        // It ends each queue, so that an event of one queue does not pass for one of another.
        let end = Digest::default();
        let mut parts = vec![&clients];
        parts.extend(&self.truth.digest);
        for instance in &self.instances {
            parts.extend(&instance.process.digest);
            for queue in &instance.watch {
                parts.extend(queue.iter().map(|event| &event.digest));
                parts.push(&end);
            }
        }
        parts.extend(self.late.iter().map(|late| &late.digest));
        fingerprint(self.now, &parts)
    }
}

impl Process {
    pub(super) fn down() -> Self {
        Self { engine: None, wake: None, calls: Vec::new(), answers: Vec::new(), digest: None }
    }

    /// One `handle` and, as the engine's contract asks, `poll` until it is empty.
    pub(super) fn handle(&mut self, now: Timestamp, input: Input) -> Vec<(String, Verdict)> {
        self.digest = None;
        let mut replies = Vec::new();
        let Some(engine) = &mut self.engine else { return replies };
        engine.handle(now, input);
        while let Some(command) = engine.poll() {
            match command {
                Command::Reply { eviction, verdict } => replies.push((eviction, verdict)),
                Command::WakeAt(at) => self.wake = Some(at),
                // Nothing that an engine does depends on them.
                Command::Event(_) | Command::Relate { .. } => {}
                command => self.calls.push(command),
            }
        }
        replies
    }

    fn refresh_digest(&mut self) {
        let engine = self.engine.as_ref().map(Engine::state);
        self.digest = Some(Digest::of(&(engine, self.wake, &self.calls, &self.answers)));
    }
}
