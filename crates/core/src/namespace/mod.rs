//! Everything the engine knows of one namespace. Budgets, pods and the objects that replicas are
//! resolved from never reach across namespaces, so neither does any state here.
//!
//! ```text
//! cache: pods, PodGroups, Workloads, owners, as the watches have shown them
//!   |--labels--> budget_index --> budgets: tally (counters), writer <--> grants: one ledger per budget
//!   \--replica key--> replicas: members, resolution
//! requests --> writer of the 1st budget --> of the 2nd --> ... --> Reply
//! ```

mod announce;
mod assess;
mod available;
mod budgets;
mod evaluate;
mod expiry;
mod explain;
mod grants;
mod last_look;
mod lists;
mod objects;
mod old_scales;
mod owners;
#[cfg(feature = "planted-bugs")]
mod planted;
mod pods;
mod relate;
mod replacements;
mod requests;
mod reserve;
mod scale;
mod status;
mod units;
mod unreadable;
mod verify;
mod view;
mod writer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::cache::{BudgetLists, Cache, CatchUp, Claim, Progress, SelectorIndex};
use crate::engine::Config;
use crate::grants::Grants;
use crate::io::{Command, Kind, PodReadOutcome};
use crate::leisure::Leisure;
use crate::model::{BudgetId, Covering, Scope, Target, Timestamp};
use crate::replicas::Replicas;
use crate::stats::{Counters, Stats};
use crate::timer::{Due, Timers};

use budgets::{BudgetEntry, Shown};
use relate::Relating;
use requests::Request;

#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    name: Arc<str>,
    cache: Cache,
    replicas: Replicas,
    budgets: BTreeMap<BudgetId, BudgetEntry>,
    budget_index: SelectorIndex<BudgetId>,
    /// Budgets that an answer has shown and the watch has not. Each is in force when the watch has shown it, or the
    /// deletion of its predecessor, and with that the last grants. Until then nothing is allowed in this namespace.
    successors: BTreeMap<BudgetId, Box<Shown>>,
    /// Budgets that name a workload instead of labels.
    targets: BTreeMap<Target, BTreeSet<BudgetId>>,
    grants: Grants,
    /// Boxed, because a node of the tree is made and dropped with every request that comes alone.
    requests: BTreeMap<String, Box<Request>>,
    /// Requests that were denied while a write of theirs to these budgets might still land, and when
    /// that was.
    abandoned: BTreeMap<String, (Timestamp, BTreeSet<BudgetId>)>,
    /// Pod name to requests that wait until the cache has caught up with a live read of it, or until
    /// an earlier request for the same pod is answered.
    parked: BTreeMap<String, BTreeSet<String>>,
    /// Requests that wait, and what they need this instance to have seen.
    waiting: BTreeMap<String, Vec<Claim>>,
    catch_up: CatchUp,
    budget_lists: BudgetLists,
    relating: Relating,
}

/// What a namespace needs from the engine while it handles one input.
pub(crate) struct Context<'a> {
    pub(crate) now: Timestamp,
    pub(crate) config: &'a Config,
    /// A kind because of which nothing may be allowed yet; None when all caches are synced.
    pub(crate) unsynced: Option<&'a Kind>,
    pub(crate) progress: &'a Progress,
    /// Whether this instance does the housekeeping.
    pub(crate) leads: bool,
    pub(crate) commands: &'a mut VecDeque<Command>,
    pub(crate) timers: &'a mut Timers,
    pub(crate) reads: &'a mut Reads,
    pub(crate) leisure: &'a mut Leisure,
    pub(crate) counters: &'a mut Counters,
}

impl Context<'_> {
    pub(crate) fn send(&mut self, command: Command) {
        self.commands.push_back(command);
    }
}

/// Live reads of pods that are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    next_token: u64,
    purposes: BTreeMap<u64, (Arc<str>, ReadPurpose)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadPurpose {
    Decide { eviction: String },
    Expire { budget: BudgetId, pod: String, uid: String, asked: Timestamp },
}

/// A token under a name by which [`crate::Engine::state`] can be compared: later tokens do not
/// depend on its value, only on its being taken.
#[derive(Debug)]
#[expect(dead_code, reason = "it is there to be printed")]
pub(crate) struct Token(u64);

impl Reads {
    pub(crate) fn under_way(&self) -> Vec<(Token, &(Arc<str>, ReadPurpose))> {
        self.purposes.iter().map(|(token, read)| (Token(*token), read)).collect()
    }

    pub(crate) fn begin(&mut self, namespace: &Arc<str>, purpose: ReadPurpose) -> u64 {
        self.next_token += 1;
        self.purposes.insert(self.next_token, (namespace.clone(), purpose));
        self.next_token
    }

    pub(crate) fn end(&mut self, token: u64) -> Option<(Arc<str>, ReadPurpose)> {
        self.purposes.remove(&token)
    }
}

impl Namespace {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            cache: Cache::default(),
            replicas: Replicas::default(),
            budgets: BTreeMap::new(),
            budget_index: SelectorIndex::default(),
            successors: BTreeMap::new(),
            targets: BTreeMap::new(),
            grants: Grants::default(),
            requests: BTreeMap::new(),
            abandoned: BTreeMap::new(),
            parked: BTreeMap::new(),
            waiting: BTreeMap::new(),
            catch_up: CatchUp::default(),
            budget_lists: BudgetLists::default(),
            relating: Relating::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Nothing is kept here, so the namespace itself need not be.
    pub(crate) fn is_empty(&self) -> bool {
        self.cache.is_empty()
            && self.budgets.is_empty()
            && !self.grants.has_orphans()
            && self.requests.is_empty()
            && self.successors.is_empty()
            // An answer that is under way must meet the request for it.
            && self.budget_lists.is_idle()
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        stats.unreadable_pods += self.cache.unreadable_pods();
        for budget in self.budgets.values() {
            stats.workload_budgets += usize::from(budget.scope == Scope::Workload);
            stats.grants += self.grants.ledger(&budget.id).live().count();
            stats.queued += budget.writer.queued();
            self.judge(budget, &mut stats.budgets);
        }
    }

    pub(crate) fn read(
        &mut self,
        cx: &mut Context<'_>,
        purpose: ReadPurpose,
        outcome: PodReadOutcome,
    ) {
        match purpose {
            ReadPurpose::Decide { eviction } => self.decide_read(cx, &eviction, outcome),
            ReadPurpose::Expire { budget, pod, uid, asked } => {
                self.expire_read(cx, (&budget, &pod, &uid), asked, &outcome);
            }
        }
    }

    /// A time that this namespace asked to be woken at has come.
    pub(crate) fn due(&mut self, cx: &mut Context<'_>, due: Due) {
        match due {
            Due::Deadline { eviction } => self.deadline(cx, &eviction),
            Due::Housekeep { budget } => self.housekeep(cx, &budget),
            Due::Commit { budget } => self.pump(cx, &budget),
            Due::Expire { budget, pod, uid } => self.expire(cx, &budget, &pod, &uid),
            Due::Incomplete { budget, pod, uid } => self.refund_incomplete(cx, &budget, &pod, &uid),
            Due::Scale { kind, name } => self.refresh_scale(cx, &kind, &name),
            Due::StaleTarget { pod, uid } => self.clear_stale_target(cx, &pod, &uid),
            Due::Orphan { budget } => self.forget_orphans(cx, &budget),
            Due::Relate => self.relate(cx),
            Due::SizeKept { budget } => self.touch(cx, &budget),
        }
    }
}
