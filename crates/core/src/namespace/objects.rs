//! `PodGroups`, Workloads and owners come and go.

use super::budgets::BudgetEntry;
use super::{Context, Namespace};
use crate::io::Kind;
use crate::model::{GroupApi, GroupKind, Owner, PodGroup, ResourceVersion, Scope, Workload};
use crate::replica::{Dependency, GroupCount, Objects};

impl Namespace {
    pub(crate) fn apply_group(&mut self, cx: &mut Context<'_>, group: PodGroup) {
        let key = (group.api, group.key.name.clone());
        let version = group.version.clone();
        if let Some(old) = self.objects.groups.get(&key) {
            if group.version.is_older_than(&old.version) {
                return;
            }
            let same = PodGroup { version: group.version.clone(), ..(**old).clone() } == group;
            self.count_group(&old.clone(), -1);
            self.count_group(&group, 1);
            self.objects.groups.insert(key.clone(), Box::new(group));
            if same {
                return;
            }
        } else {
            self.count_group(&group, 1);
            self.objects.groups.insert(key.clone(), Box::new(group));
        }
        let changed = Dependency::PodGroup(key.1);
        self.object_changed(cx, &changed, &Kind::PodGroup(key.0), &version);
    }

    pub(crate) fn delete_group(
        &mut self,
        cx: &mut Context<'_>,
        api: GroupApi,
        name: &str,
        version: &ResourceVersion,
    ) {
        if let Some(old) = self.objects.groups.remove(&(api, name.to_owned())) {
            self.count_group(&old, -1);
            let changed = Dependency::PodGroup(name.to_owned());
            self.object_changed(cx, &changed, &Kind::PodGroup(api), version);
        }
    }

    pub(crate) fn apply_workload(&mut self, cx: &mut Context<'_>, workload: Workload) {
        let key = (workload.api, workload.key.name.clone());
        let version = workload.version.clone();
        if let Some(old) = self.objects.workloads.get(&key)
            && version.is_older_than(&old.version)
        {
            return;
        }
        self.objects.workloads.insert(key.clone(), workload);
        let changed = Dependency::Workload(key.1);
        self.object_changed(cx, &changed, &Kind::Workload(key.0), &version);
    }

    pub(crate) fn delete_workload(
        &mut self,
        cx: &mut Context<'_>,
        api: GroupApi,
        name: &str,
        version: &ResourceVersion,
    ) {
        if self.objects.workloads.remove(&(api, name.to_owned())).is_some() {
            let changed = Dependency::Workload(name.to_owned());
            self.object_changed(cx, &changed, &Kind::Workload(api), version);
        }
    }

    pub(crate) fn apply_owner(&mut self, cx: &mut Context<'_>, owner: Owner) {
        let key = (owner.group_kind.clone(), owner.key.name.clone());
        let version = owner.version.clone();
        let of_kind = self.objects.owners.get_mut(&key.0);
        if let Some(old) = of_kind.and_then(|of_kind| of_kind.get_mut(&key.1)) {
            if version.is_older_than(&old.version) {
                return;
            }
            // Owners change with every pod of theirs; hardly any change is one of scale.
            let same = Owner { version: version.clone(), ..old.clone() } == owner;
            if same {
                *old = owner;
                return;
            }
        }
        self.with_owners(&key.0, |objects| {
            objects.owners.entry(key.0.clone()).or_default().insert(key.1.clone(), owner);
        });
        self.owner_changed(&key.0, &key.1);
        let kind = Kind::Owner(key.0.clone());
        self.object_changed(cx, &Dependency::Owner(Box::new(key)), &kind, &version);
    }

    pub(crate) fn delete_owner(
        &mut self,
        cx: &mut Context<'_>,
        kind: &GroupKind,
        name: &str,
        version: &ResourceVersion,
    ) {
        if self.objects.owners.get(kind).is_some_and(|of_kind| of_kind.contains_key(name)) {
            self.with_owners(kind, |objects| {
                if let Some(of_kind) = objects.owners.get_mut(kind) {
                    of_kind.remove(name);
                    if of_kind.is_empty() {
                        objects.owners.remove(kind);
                    }
                }
            });
            self.owner_changed(kind, name);
            let changed = Dependency::Owner(Box::new((kind.clone(), name.to_owned())));
            self.object_changed(cx, &changed, &Kind::Owner(kind.clone()), version);
        }
    }

    /// Resolve what depends on it, and look again at every budget that may count by it. Such
    /// objects change orders of magnitude less often than pods do.
    fn object_changed(
        &mut self,
        cx: &mut Context<'_>,
        changed: &Dependency,
        kind: &Kind,
        version: &ResourceVersion,
    ) {
        self.resolve_dependents(cx, changed);
        let mut touched = Vec::new();
        for (id, budget) in &mut self.budgets {
            let spec = &budget.object.spec;
            if budget.scope == Scope::Workload || spec.needs_total() || spec.unavailable.is_some() {
                budget.seen.note(kind, version);
                touched.push(id.clone());
            }
        }
        for id in touched {
            self.touch(cx, &id);
        }
    }

    /// Which pods belong to whom may change: budgets that go by that count anew. Those of replicas do so for the
    /// workers of `LeaderWorkerSet`s, which end with their `StatefulSet`.
    fn with_owners(&mut self, kind: &GroupKind, change: impl FnOnce(&mut Objects)) {
        let is_set = kind.is("apps", "StatefulSet");
        let follows =
            |b: &&BudgetEntry| b.follows_owners() || (is_set && b.scope == Scope::Workload);
        let following = self.budgets.values().filter(follows);
        let following: Vec<_> = following.map(|b| b.id.clone()).collect();
        for id in &following {
            self.deselect_all(id);
        }
        change(&mut self.objects);
        for id in &following {
            self.select_all(id);
        }
    }

    fn count_group(&mut self, group: &PodGroup, n: i64) {
        if group.terminating {
            return;
        }
        let Some(key) = GroupCount::of(group) else { return };
        let count = self.objects.group_counts.entry(key.clone()).or_insert(0);
        *count += n;
        if *count == 0 {
            self.objects.group_counts.remove(&key);
        }
    }
}
