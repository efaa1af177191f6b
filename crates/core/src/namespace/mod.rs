//! Everything the engine knows of one namespace. Budgets, pods and the objects that replicas are
//! resolved from never reach across namespaces, so neither does any state here.
//!
//! ```text
//! pods ----labels----> budget_index --> budgets: tally (counters), ledger (grants), writer
//!   \--replica key--> replicas: members, resolution <--dependents-- PodGroups, Workloads, owners
//! requests --> writer of the 1st budget --> of the 2nd --> ... --> Reply
//! ```

mod announce;
mod assess;
mod available;
mod behind;
mod budget_lists;
mod budgets;
mod evaluate;
mod expiry;
mod explain;
mod grants;
mod last_look;
mod objects;
mod owners;
#[cfg(feature = "planted-bugs")]
mod planted;
mod pods;
mod relate;
mod replacements;
mod requests;
mod reserve;
mod restored;
mod scale;
mod status;
mod units;
mod unreadable;
mod verify;
mod view;
mod writer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::cache::Controllers;
use crate::engine::Config;
use crate::grants::Grants;
use crate::intern::Interner;
use crate::io::{Command, Kind, PodReadOutcome};
use crate::leisure::Leisure;
use crate::model::{BudgetId, GroupKind, ResourceVersion, Scope, Target, Timestamp};
use crate::progress::Progress;
use crate::replica::{Dependency, Objects, ReplicaKey};
use crate::selector::SelectorIndex;
use crate::stats::{Counters, Stats};
use crate::timer::{Due, Timers};

use behind::Behind;
use budget_lists::BudgetLists;
use budgets::{BudgetEntry, BuiltinEntry, Shown};
use pods::{PodEntry, ReplicaEntry};
use relate::Relating;
use requests::Request;
use scale::ScaleEntry;

/// Budgets that select one pod, in reservation order: hardly ever more than two.
pub(crate) type Covering = SmallVec<[BudgetId; 2]>;

#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    name: Arc<str>,
    interner: Interner,
    pods: BTreeMap<Arc<str>, Box<PodEntry>>,
    /// Pods whose newest state cannot be decoded.
    unreadable_pods: BTreeSet<Arc<str>>,
    controllers: Controllers,
    budgets: BTreeMap<BudgetId, BudgetEntry>,
    budget_index: SelectorIndex<BudgetId>,
    /// Budgets that an answer has shown and the watch has not. Each is in force when the watch has shown it, or the
    /// deletion of its predecessor, and with that the last grants. Until then nothing is allowed in this namespace.
    successors: BTreeMap<BudgetId, Box<Shown>>,
    /// Budgets that name a workload instead of labels.
    targets: BTreeMap<Target, BTreeSet<BudgetId>>,
    builtins: BTreeMap<String, BuiltinEntry>,
    builtin_index: SelectorIndex<String>,
    objects: Objects,
    replicas: BTreeMap<Arc<ReplicaKey>, Box<ReplicaEntry>>,
    dependents: BTreeMap<Dependency, BTreeSet<Arc<ReplicaKey>>>,
    scales: BTreeMap<(GroupKind, String), ScaleEntry>,
    grants: Grants,
    /// Boxed, because a node of the tree is made and dropped with every request that comes alone.
    requests: BTreeMap<String, Box<Request>>,
    /// Requests that were denied while a write of theirs to these budgets might still land, and when
    /// that was.
    abandoned: BTreeMap<String, (Timestamp, BTreeSet<BudgetId>)>,
    /// Pod name to requests that wait until the cache has caught up with a live read of it, or until
    /// an earlier request for the same pod is answered.
    parked: BTreeMap<String, BTreeSet<String>>,
    behind: Behind,
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
            interner: Interner::default(),
            pods: BTreeMap::new(),
            unreadable_pods: BTreeSet::new(),
            controllers: Controllers::default(),
            budgets: BTreeMap::new(),
            budget_index: SelectorIndex::default(),
            successors: BTreeMap::new(),
            targets: BTreeMap::new(),
            builtins: BTreeMap::new(),
            builtin_index: SelectorIndex::default(),
            objects: Objects::default(),
            replicas: BTreeMap::new(),
            dependents: BTreeMap::new(),
            scales: BTreeMap::new(),
            grants: Grants::default(),
            requests: BTreeMap::new(),
            abandoned: BTreeMap::new(),
            parked: BTreeMap::new(),
            behind: Behind::default(),
            budget_lists: BudgetLists::default(),
            relating: Relating::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Nothing is kept here, so the namespace itself need not be.
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty()
            && self.budgets.is_empty()
            && self.builtins.is_empty()
            && self.objects.groups.is_empty()
            && self.objects.workloads.is_empty()
            && self.objects.owners.is_empty()
            && !self.grants.has_orphans()
            && self.requests.is_empty()
            && self.successors.is_empty()
            // An answer that is under way must meet the request for it.
            && self.budget_lists.is_idle()
    }

    /// A complete list of this kind, as of a version, holds nothing else of an age to be in it.
    pub(crate) fn retain(
        &mut self,
        cx: &mut Context<'_>,
        kind: &Kind,
        version: Option<&ResourceVersion>,
        held: &BTreeSet<Box<str>>,
    ) {
        let newer =
            |own: &ResourceVersion| version.is_some_and(|version| version.is_older_than(own));
        let gone = |name: &str, own: &ResourceVersion| !held.contains(name) && !newer(own);
        let unknown = ResourceVersion::default();
        let version = version.unwrap_or(&unknown);
        match kind {
            Kind::Pod => {
                let gone = self.pods.values().filter(|e| gone(&e.name, &e.pod.version));
                for name in gone.map(|e| e.name.clone()).collect::<Vec<_>>() {
                    self.forget_pod(cx, &name, version);
                    self.unpark(cx, &name);
                }
            }
            Kind::Budget | Kind::UnavailableBudget => {
                let of_kind = self.budgets.values().filter(|b| b.id.kind.watched() == *kind);
                let absent = of_kind.filter(|b| gone(&b.id.object.name, &b.object.version));
                let absent: Vec<BudgetId> = absent.map(|b| b.id.clone()).collect();
                self.successors.retain(|of, successor| {
                    of.kind.watched() != *kind || !gone(&of.object.name, &successor.budget.version)
                });
                for id in absent {
                    self.delete_budget(cx, &id);
                }
            }
            Kind::BuiltinBudget => {
                let gone = self.builtins.iter().filter(|(name, b)| gone(name, &b.object.version));
                for name in gone.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
                    self.delete_builtin(&name);
                }
            }
            Kind::PodGroup(api) => {
                let of_api = self.objects.groups.iter().filter(|((a, _), _)| a == api);
                let gone = of_api.filter(|((_, name), g)| gone(name, &g.version));
                for name in gone.map(|((_, name), _)| name.clone()).collect::<Vec<_>>() {
                    self.delete_group(cx, *api, &name, version);
                }
            }
            Kind::Workload(api) => {
                let of_api = self.objects.workloads.iter().filter(|((a, _), _)| a == api);
                let gone = of_api.filter(|((_, name), w)| gone(name, &w.version));
                for name in gone.map(|((_, name), _)| name.clone()).collect::<Vec<_>>() {
                    self.delete_workload(cx, *api, &name, version);
                }
            }
            Kind::Owner(kind) => {
                let of_kind = self.objects.owners.get(kind).into_iter().flatten();
                let gone = of_kind.filter(|(name, o)| gone(name, &o.version));
                for name in gone.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
                    self.delete_owner(cx, kind, &name, version);
                }
            }
        }
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        stats.unreadable_pods += self.unreadable_pods.len();
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
