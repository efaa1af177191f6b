//! Dispatch: every input goes to its namespace, every timer to whoever set it.

mod lists;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use crate::cache::Progress;
use crate::invariant::Violations;
use crate::io::{Change, Command, Input, Kind};
use crate::leisure::Leisure;
use crate::model::{
    BudgetKey, BudgetStatus, GroupApi, GroupKind, ObjectKey, Owner, ResourceVersion, Timestamp,
};
use crate::namespace::{Context, Namespace, Reads};
use crate::stats::{Counters, Stats};
use crate::timer::Timers;
use crate::view::{BudgetView, OpinionView};
use lists::Asked;

/// What a deployment chooses.
#[derive(Clone, Debug)]
pub struct Config {
    /// Kinds that must be synced (or not served) before anything is allowed.
    pub kinds: BTreeSet<Kind>,
    /// Treat the groups of a `LeaderWorkerSet` as replicas by their labels (semantics 3.1).
    pub lws: bool,
    /// Feature gate `MultiPodPDBs`; off, scope Workload counts pods and says so in a condition.
    pub multi_pod_pdbs: bool,
    /// Namespaces whose evictions never reach us; budgets there say `NotEnforced`.
    pub excluded_namespaces: BTreeSet<String>,
    /// Namespaces in which the API server asks us about deletes and updates of pods:
    /// `PodUnavailableBudgets` elsewhere say that they are not enforced.
    pub intercepted: BTreeSet<String>,
    /// Namespaces in which it never will.
    pub unguarded_namespaces: BTreeSet<String>,
    /// Clear stale `DisruptionTarget` conditions; off while upstream's controller does it.
    pub clear_stale_disruption_targets: bool,
}

impl Default for Config {
    fn default() -> Self {
        let owners = Owner::WATCHED.map(|(group, kind)| Kind::Owner(GroupKind::new(group, kind)));
        let mut kinds = BTreeSet::from([
            Kind::Pod,
            Kind::Budget,
            Kind::UnavailableBudget,
            Kind::BuiltinBudget,
            Kind::PodGroup(GroupApi::Kubernetes),
            Kind::PodGroup(GroupApi::Holdfast),
            Kind::Workload(GroupApi::Kubernetes),
            Kind::Workload(GroupApi::Holdfast),
        ]);
        kinds.extend(owners);
        Self {
            kinds,
            lws: true,
            multi_pod_pdbs: true,
            excluded_namespaces: BTreeSet::new(),
            unguarded_namespaces: BTreeSet::new(),
            intercepted: BTreeSet::new(),
            clear_stale_disruption_targets: false,
        }
    }
}

/// Names by namespace.
type Listed = BTreeMap<String, BTreeSet<Box<str>>>;

/// See the crate documentation for the contract.
#[derive(Clone, Debug)]
pub struct Engine {
    config: Config,
    /// The time of the newest input.
    now: Timestamp,
    namespaces: BTreeMap<Arc<str>, Namespace>,
    /// Kinds that are not synced yet.
    unsynced: BTreeSet<Kind>,
    /// Lists under way, and what they have held so far.
    lists: BTreeMap<Kind, Listed>,
    /// How far each kind's watch has come.
    progress: Progress,
    /// Lists of one namespace that are under way.
    asked: BTreeMap<(Kind, String), Asked>,
    leads: bool,
    /// Namespaces with requests that wait until a watch or a list has come far enough.
    waiting: BTreeSet<Arc<str>>,
    timers: Timers,
    reads: Reads,
    leisure: Leisure,
    counters: Counters,
    commands: VecDeque<Command>,
}

impl Engine {
    pub fn new(config: Config) -> Self {
        Self {
            unsynced: config.kinds.clone(),
            progress: Progress::new(&config.kinds),
            leads: true,
            config,
            now: Timestamp::default(),
            namespaces: BTreeMap::new(),
            lists: BTreeMap::new(),
            waiting: BTreeSet::new(),
            asked: BTreeMap::new(),
            timers: Timers::default(),
            reads: Reads::default(),
            leisure: Leisure::default(),
            counters: Counters::default(),
            commands: VecDeque::new(),
        }
    }

    /// Take in one input at time `now`.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        self.now = now;
        self.dispatch(now, input);
        for namespace in self.waiting.clone() {
            self.within(now, &namespace, Namespace::watch_progressed);
        }
        while let Some((namespace, due)) = self.timers.pop_due(now) {
            self.timers.woken();
            self.within(now, &namespace, |ns, cx| ns.due(cx, due));
        }
        if let Some(at) = self.timers.announce() {
            self.commands.push_back(Command::WakeAt(at));
        }
    }

    /// The next thing to do, or None when everything has been handed out.
    pub fn poll(&mut self) -> Option<Command> {
        let command = self.commands.pop_front()?;
        self.note_sent(&command);
        Some(command)
    }

    /// Kinds that are neither synced nor known to be not served. Empty means ready.
    pub fn unsynced(&self) -> Vec<&Kind> {
        self.unsynced.iter().collect()
    }

    /// The budget's status as the engine computes it now, written or not.
    pub fn status(&self, budget: &BudgetKey) -> Option<BudgetStatus> {
        let namespace = self.namespaces.get(budget.object.namespace.as_str())?;
        namespace.computed_status(&self.config, self.now, budget)
    }

    /// Every budget that it knows, in order.
    pub fn budgets(&self) -> impl Iterator<Item = &BudgetKey> {
        self.namespaces.values().flat_map(Namespace::budget_keys)
    }

    /// A budget with everything that it counts. Looks at every pod of the namespace.
    pub fn view(&self, budget: &BudgetKey) -> Option<BudgetView> {
        let namespace = self.namespaces.get(budget.object.namespace.as_str())?;
        namespace.view(&self.config, self.now, budget)
    }

    /// What every budget that covers a pod says to its eviction, by the cache alone; and why a built-in
    /// `policy/v1` budget would refuse it.
    pub fn opinions(&self, pod: &ObjectKey) -> (Vec<OpinionView>, Option<String>) {
        let namespace = self.namespaces.get(pod.namespace.as_str());
        namespace.map(|namespace| namespace.opinions(self.now, &pod.name)).unwrap_or_default()
    }

    /// Looks at every budget, so not for every input.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats { counters: self.counters, ..Stats::default() };
        self.namespaces.values().for_each(|namespace| namespace.add_to(&mut stats));
        stats
    }

    /// Which of its own checks have failed.
    pub fn violations(&self) -> Violations {
        self.counters.violations
    }

    /// Everything that later commands depend on: all but the configuration, the time and the
    /// statistics. Exploration compares it as text to recognise a state that it has visited.
    pub fn state(&self) -> impl fmt::Debug + '_ {
        (
            &self.namespaces,
            &self.unsynced,
            &self.lists,
            self.progress.all_reached(),
            &self.asked,
            &self.waiting,
            self.leads,
            &self.timers,
            self.reads.under_way(),
            &self.leisure,
        )
    }

    /// Recompute every counter from scratch and panic where it differs from the one kept.
    pub fn verify(&self) {
        self.namespaces.values().for_each(Namespace::verify);
    }

    fn dispatch(&mut self, now: Timestamp, input: Input) {
        if let Some((kind, key, version)) = input.subject() {
            match self.lists.get_mut(&kind) {
                // In no order of versions: it shows how far it is when it ends.
                Some(list) => note(list, key),
                None => self.progress.reach(&kind, version),
            }
            let namespace = self.namespaces.get(key.namespace.as_str());
            let superseded = namespace.is_some_and(|ns| match &input {
                Input::Budget(change) => ns.is_listed(change),
                _ => ns.is_superseded(&kind, version),
            });
            if superseded {
                return;
            }
        }
        self.take_in(now, input);
    }

    fn take_in(&mut self, now: Timestamp, input: Input) {
        match input {
            Input::Pod(change) => {
                let name = self.shared_name(&change.object().key.namespace);
                self.within(now, &name, |ns, cx| match change {
                    Change::Applied(pod) => ns.apply_pod(cx, pod),
                    Change::Deleted(pod) => ns.delete_pod(cx, &pod),
                });
            }
            Input::Budget(change) => {
                let name = self.shared_name(&change.object().key.object.namespace);
                self.within(now, &name, |ns, cx| match change {
                    Change::Applied(budget) => ns.apply_budget(cx, budget),
                    Change::Deleted(budget) => ns.delete_budget_of(cx, budget),
                });
            }
            Input::BuiltinBudget(change) => {
                let name = self.shared_name(&change.object().key.namespace);
                self.within(now, &name, |ns, _| match change {
                    Change::Applied(budget) => ns.apply_builtin(budget),
                    Change::Deleted(budget) => ns.delete_builtin(&budget.key.name),
                });
            }
            Input::PodGroup(change) => {
                let name = self.shared_name(&change.object().key.namespace);
                self.within(now, &name, |ns, cx| match change {
                    Change::Applied(group) => ns.apply_group(cx, group),
                    Change::Deleted(g) => ns.delete_group(cx, g.api, &g.key.name, &g.version),
                });
            }
            Input::Workload(change) => {
                let name = self.shared_name(&change.object().key.namespace);
                self.within(now, &name, |ns, cx| match change {
                    Change::Applied(workload) => ns.apply_workload(cx, workload),
                    Change::Deleted(w) => ns.delete_workload(cx, w.api, &w.key.name, &w.version),
                });
            }
            Input::Owner(change) => {
                let name = self.shared_name(&change.object().key.namespace);
                self.within(now, &name, |ns, cx| match change {
                    Change::Applied(owner) => ns.apply_owner(cx, owner),
                    Change::Deleted(o) => {
                        ns.delete_owner(cx, &o.group_kind, &o.key.name, &o.version);
                    }
                });
            }
            Input::ListBegan(kind) => {
                self.lists.insert(kind, Listed::new());
            }
            Input::ListEnded(kind, version) => {
                self.progress.reach(&kind, &version);
                self.list_ended(now, &kind, Some(&version));
            }
            Input::NotServed(kind) => {
                self.forget_budget_lists(&kind);
                // The cache is empty, so nothing of it has been reached.
                self.progress.forget(&kind);
                // When the kind is served again, its objects may have the versions that they had before.
                self.everywhere(now, |ns, _| ns.forget_snapshot(&kind));
                self.lists.insert(kind.clone(), Listed::new());
                self.list_ended(now, &kind, None);
            }
            Input::Snapshot { kind, namespace, outcome } => {
                self.snapshot(now, &kind, &namespace, outcome);
            }
            Input::Intercepted(namespaces) => {
                self.config.intercepted = namespaces;
                self.everywhere(now, Namespace::touch_all);
            }
            Input::Lead(leads) => {
                let began = leads && !self.leads && !planted!(LazyLeader);
                self.leads = leads;
                if began {
                    self.everywhere(now, Namespace::touch_all);
                }
            }
            Input::Lost(kind) => {
                self.unsynced.insert(kind);
            }
            Input::Restored(kind) => self.restored(now, &kind),
            Input::Unreadable { kind, key, why, salvaged } => {
                if let Some(list) = self.lists.get_mut(&kind) {
                    note(list, &key);
                }
                let name = self.shared_name(&key.namespace);
                self.within(now, &name, |ns, cx| {
                    ns.unreadable(cx, &kind, key, why, salvaged, false);
                });
            }
            Input::Evict(eviction) => {
                let name = self.shared_name(&eviction.pod.namespace);
                self.within(now, &name, |ns, cx| ns.evict(cx, eviction));
            }
            Input::PodRead { token, outcome } => {
                if let Some((namespace, purpose)) = self.reads.end(token) {
                    self.within(now, &namespace, |ns, cx| ns.read(cx, purpose, outcome));
                }
            }
            Input::StatusWritten { budget, uid, outcome } => {
                let name = self.shared_name(&budget.object.namespace);
                self.within(now, &name, |ns, cx| ns.written(cx, &budget, &uid, outcome));
            }
            Input::ScaleRead { namespace, owner, outcome } => {
                let name = self.shared_name(&namespace);
                self.within(now, &name, |ns, cx| ns.scale_read(cx, &owner, outcome));
            }
            Input::Tick => {}
        }
    }

    /// Whatever the list did not hold is gone.
    fn list_ended(&mut self, now: Timestamp, kind: &Kind, version: Option<&ResourceVersion>) {
        let Some(list) = self.lists.remove(kind) else { return };
        let none = BTreeSet::new();
        self.everywhere(now, |ns, cx| {
            let held = list.get(ns.name()).unwrap_or(&none);
            ns.retain(cx, kind, version, held);
        });
        // No status is written from caches that are not complete.
        if self.unsynced.remove(kind) && self.unsynced.is_empty() {
            self.everywhere(now, Namespace::touch_all);
        }
    }

    fn everywhere(&mut self, now: Timestamp, mut f: impl FnMut(&mut Namespace, &mut Context<'_>)) {
        let names: Vec<Arc<str>> = self.namespaces.keys().cloned().collect();
        for name in names {
            self.within(now, &name, &mut f);
        }
    }

    fn shared_name(&self, namespace: &str) -> Arc<str> {
        let known = self.namespaces.get_key_value(namespace);
        known.map_or_else(|| namespace.into(), |(name, _)| name.clone())
    }

    fn within(
        &mut self,
        now: Timestamp,
        name: &Arc<str>,
        f: impl FnOnce(&mut Namespace, &mut Context<'_>),
    ) {
        let unsynced = self.unsynced.first();
        let mut context = Context {
            now,
            config: &self.config,
            unsynced,
            progress: &self.progress,
            leads: self.leads,
            commands: &mut self.commands,
            timers: &mut self.timers,
            reads: &mut self.reads,
            leisure: &mut self.leisure,
            counters: &mut self.counters,
        };
        let namespace =
            self.namespaces.entry(name.clone()).or_insert_with(|| Namespace::new(name.clone()));
        f(namespace, &mut context);
        if namespace.is_waiting() {
            self.waiting.insert(name.clone());
        } else {
            self.waiting.remove(name);
        }
        if namespace.is_empty() {
            self.namespaces.remove(name);
        }
    }
}

/// There may be 150,000, so each namespace is named once.
fn note(list: &mut Listed, key: &ObjectKey) {
    let names = match list.get_mut(&key.namespace) {
        Some(names) => names,
        None => list.entry(key.namespace.clone()).or_default(),
    };
    names.insert(key.name.as_str().into());
}
