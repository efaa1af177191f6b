//! What an instance has been told, kept by the world: what it may be blamed for having known.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::io::{SnapshotOutcome, WriteOutcome};
use holdfast_core::model::{
    Budget, BudgetKey, GroupApi, GroupKind, ObjectKey, Owner, Pod, PodGroup, ResourceVersion,
};
use holdfast_core::{Change, Input, Kind};

/// Objects as the watches, lists and snapshots have shown them to one instance. A plain copy of what
/// went over the wire; the engine's own cache plays no part.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub pods: BTreeMap<ObjectKey, Pod>,
    pub groups: BTreeMap<(GroupApi, ObjectKey), PodGroup>,
    pub owners: BTreeMap<(GroupKind, ObjectKey), Owner>,
    pub budgets: BTreeMap<BudgetKey, Budget>,
    /// Lists under way, and what they have held so far.
    lists: BTreeMap<Kind, BTreeSet<ObjectKey>>,
    /// A list showed everything up to here: older events say nothing new. By kind alone, so worlds
    /// that are checked by views keep to one namespace.
    floors: BTreeMap<Kind, ResourceVersion>,
    /// How far the watch has come.
    reached: BTreeMap<Kind, ResourceVersion>,
}

impl View {
    pub(crate) fn take_in(&mut self, input: &Input) {
        match input {
            Input::Pod(change) => {
                let pod = change.object();
                if self.is_new(&Kind::Pod, &pod.key, &pod.version) {
                    apply(&mut self.pods, pod.key.clone(), change, |old| &old.version);
                }
            }
            Input::PodGroup(change) => {
                let group = change.object();
                if self.is_new(&Kind::PodGroup(group.api), &group.key, &group.version) {
                    let key = (group.api, group.key.clone());
                    apply(&mut self.groups, key, change, |old| &old.version);
                }
            }
            Input::Owner(change) => {
                let owner = change.object();
                let kind = Kind::Owner(owner.group_kind.clone());
                if self.is_new(&kind, &owner.key, &owner.version) {
                    let key = (owner.group_kind.clone(), owner.key.clone());
                    apply(&mut self.owners, key, change, |old| &old.version);
                }
            }
            Input::Budget(change) => {
                let budget = change.object();
                if self.is_new(&budget.key.kind.watched(), &budget.key.object, &budget.version) {
                    apply(&mut self.budgets, budget.key.clone(), change, |old| &old.version);
                }
            }
            // The answer to a write or read of its own. Of one that is gone it says nothing.
            Input::StatusWritten { outcome: WriteOutcome::Current(budget), .. }
                if self.budgets.contains_key(&budget.key) =>
            {
                let change = Change::Applied((**budget).clone());
                apply(&mut self.budgets, budget.key.clone(), &change, |old| &old.version);
            }
            Input::ListBegan(kind) => {
                self.lists.insert(kind.clone(), BTreeSet::new());
            }
            Input::ListEnded(kind, version) => {
                let list = self.lists.remove(kind).unwrap_or_default();
                self.retain(kind, version, &list);
            }
            Input::Snapshot {
                kind, outcome: SnapshotOutcome::Listed { version, objects }, ..
            } => {
                // Overtaken by the watch: it says nothing new.
                if self.reached.get(kind).is_some_and(|reached| version.is_older_than(reached)) {
                    return;
                }
                let under_way = self.lists.insert(kind.clone(), BTreeSet::new());
                for object in objects {
                    self.take_in(object);
                }
                let list = self.lists.remove(kind).unwrap_or_default();
                self.retain(kind, version, &list);
                self.lists.extend(under_way.map(|list| (kind.clone(), list)));
            }
            _ => {}
        }
    }

    /// Whether all of this kind up to this version has been shown.
    pub fn has_seen(&self, kind: &Kind, version: &ResourceVersion) -> bool {
        let shown = [self.reached.get(kind), self.floors.get(kind)];
        shown.into_iter().flatten().any(|shown| !shown.is_older_than(version))
    }

    fn is_new(&mut self, kind: &Kind, key: &ObjectKey, version: &ResourceVersion) -> bool {
        if let Some(list) = self.lists.get_mut(kind) {
            list.insert(key.clone());
            return self.floors.get(kind).is_none_or(|floor| floor.is_older_than(version));
        }
        let reached = self.reached.entry(kind.clone()).or_default();
        if reached.is_older_than(version) {
            reached.clone_from(version);
        }
        self.floors.get(kind).is_none_or(|floor| floor.is_older_than(version))
    }

    fn retain(&mut self, kind: &Kind, version: &ResourceVersion, list: &BTreeSet<ObjectKey>) {
        let stays = |key: &ObjectKey, own: &ResourceVersion| {
            list.contains(key) || version.is_older_than(own)
        };
        match kind {
            Kind::Pod => self.pods.retain(|key, pod| stays(key, &pod.version)),
            Kind::Budget | Kind::UnavailableBudget => {
                self.budgets
                    .retain(|key, b| key.kind.watched() != *kind || stays(&key.object, &b.version));
            }
            Kind::PodGroup(api) => {
                self.groups.retain(|(of, key), g| of != api || stays(key, &g.version));
            }
            Kind::Owner(kind) => {
                self.owners.retain(|(of, key), o| of != kind || stays(key, &o.version));
            }
            Kind::Workload(_) | Kind::BuiltinBudget => {}
        }
        let floor = self.floors.entry(kind.clone()).or_default();
        if floor.is_older_than(version) {
            floor.clone_from(version);
        }
    }
}

fn apply<K: Ord, T: Clone>(
    table: &mut BTreeMap<K, T>,
    key: K,
    change: &Change<T>,
    version: impl Fn(&T) -> &ResourceVersion,
) {
    let new = change.object();
    if table.get(&key).is_some_and(|old| version(new).is_older_than(version(old))) {
        return;
    }
    match change {
        Change::Applied(object) => table.insert(key, object.clone()),
        Change::Deleted(_) => table.remove(&key),
    };
}
