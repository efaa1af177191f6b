//! The state of a small world: stored objects, engines, and everything that is on its way.
//!
//! To copy a state copies pointers; a step copies only the parts that it changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use holdfast_audit::Auditor;
use holdfast_core::Input;
use holdfast_core::model::{BudgetKey, ObjectKey, Timestamp};

use super::fingerprint::{Digest, Part, fingerprint};
use super::process::{Call, Memo, Process};
use super::scope::Scope;
use super::step::Watched;
use crate::truth::Truth;

#[derive(Clone)]
pub(super) struct State {
    pub(super) scope: &'static Scope,
    pub(super) layout: Arc<Layout>,
    pub(super) memo: Arc<Memo>,
    pub(super) now: Timestamp,
    pub(super) truth: Arc<Stored>,
    pub(super) instances: Vec<Instance>,
    /// Status writes that no instance waits for and that may still reach the API server.
    pub(super) late: Vec<Arc<Call>>,
    pub(super) audited: Arc<Audited>,
    pub(super) clients: Clients,
    pub(super) replies: Vec<String>,
    pub(super) violation: Option<String>,
}

/// The names of a scope's objects, made once.
pub(super) struct Layout {
    pub(super) pods: Vec<ObjectKey>,
    pub(super) budgets: Vec<BudgetKey>,
}

/// The objects of the API server.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) truth: Truth,
    /// The event that told of each object last.
    pub(super) told: BTreeMap<(Watched, String), Arc<Event>>,
}

#[derive(Clone)]
pub(super) struct Instance {
    /// None while it is down.
    pub(super) process: Option<Arc<Process>>,
    pub(super) calls: Vec<Arc<Call>>,
    pub(super) answers: Vec<Arc<Answer>>,
    /// Watch events on their way, by kind and in order within the kind.
    pub(super) watch: [VecDeque<Arc<Event>>; Watched::ALL.len()],
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) input: Input,
    pub(super) digest: Digest,
}

/// An answer on its way, and the call that it answers.
pub(super) struct Answer {
    pub(super) call: Arc<Call>,
    pub(super) input: Input,
    pub(super) digest: Digest,
}

/// The auditor, which follows the stored objects and the evictions.
#[derive(Clone, Default)]
pub(super) struct Audited {
    pub(super) auditor: Auditor,
    digest: OnceLock<Digest>,
}

/// What clients have asked and been told. All of it is for the steps and the checks; no engine sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients {
    pub(super) requests: Vec<Asked>,
    /// Allowed evictions that the API server may still carry out.
    pub(super) allows: Vec<Allowed>,
    pub(super) used: Used,
    /// Grants of live pods in stored statuses, in scopes that limit their age.
    pub(super) grants: Vec<HeldGrant>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) attempts: u8,
    /// Not answered yet.
    pub(super) open: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Allowed {
    pub(super) eviction: String,
    pub(super) pod: usize,
    pub(super) uid: String,
    /// The API server gives up then.
    pub(super) until: Timestamp,
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
    pub(super) scale_ups: u8,
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

    pub(super) fn auditor(&mut self) -> &mut Auditor {
        let audited = Arc::make_mut(&mut self.audited);
        audited.digest = OnceLock::new();
        &mut audited.auditor
    }

    /// What clients were told in the last step.
    pub(super) fn replies(&self) -> &[String] {
        &self.replies
    }

    /// Equal for states from which the same can happen.
    pub(super) fn fingerprint(&self) -> u64 {
        let clients = Digest::of(&self.clients);
        let version = Digest::of(&self.truth.truth.version());
        let mut parts = vec![Part::Is(&clients), Part::Is(&version)];
        parts.extend(self.truth.told.values().map(|event| Part::Is(&event.digest)));
        parts.push(Part::EndOfQueue);
        for instance in &self.instances {
            instance.add_parts(&mut parts);
        }
        parts.extend(self.late.iter().map(|call| Part::Is(&call.digest)));
        parts.push(Part::EndOfQueue);
        parts.push(Part::Is(self.audited.digest()));
        fingerprint(self.now, &parts)
    }
}

impl Instance {
    pub(super) fn down() -> Self {
        let watch = std::array::from_fn(|_| VecDeque::new());
        Self { process: None, calls: Vec::new(), answers: Vec::new(), watch }
    }

    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.process.as_ref().and_then(|process| process.wake())
    }

    fn add_parts<'a>(&'a self, parts: &mut Vec<Part<'a>>) {
        parts.extend(self.process.iter().map(|process| Part::Is(process.digest())));
        parts.push(Part::EndOfQueue);
        parts.extend(self.calls.iter().map(|call| Part::Is(&call.digest)));
        parts.push(Part::EndOfQueue);
        for answer in &self.answers {
            parts.extend([Part::Is(&answer.call.digest), Part::Is(&answer.digest)]);
        }
        for queue in &self.watch {
            parts.push(Part::EndOfQueue);
            parts.extend(queue.iter().map(|event| Part::Is(&event.digest)));
        }
        parts.push(Part::EndOfInstance);
    }
}

impl Event {
    pub(super) fn new(input: Input) -> Arc<Self> {
        Arc::new(Self { digest: Digest::of(&input), input })
    }
}

impl Answer {
    pub(super) fn new(call: Arc<Call>, input: Input) -> Arc<Self> {
        Arc::new(Self { call, digest: Digest::of(&input), input })
    }
}

impl Audited {
    fn digest(&self) -> &Digest {
        self.digest.get_or_init(|| Digest::of(&self.auditor.remembered()))
    }
}
