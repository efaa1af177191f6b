//! `PodGroups`, Workloads, owners and built-in budgets come and go.

use super::budgets::BudgetEntry;
use super::{Context, Namespace};
use crate::cache::{Cache, Changed};
use crate::model::{
    BuiltinBudget, GroupApi, GroupKind, Owner, PodGroup, ResourceVersion, Scope, Workload,
};

impl Namespace {
    pub(crate) fn apply_builtin(&mut self, builtin: BuiltinBudget) {
        self.cache.apply_builtin(builtin);
    }

    pub(crate) fn delete_builtin(&mut self, name: &str) {
        self.cache.delete_builtin(name);
    }

    pub(crate) fn apply_group(&mut self, cx: &mut Context<'_>, group: PodGroup) {
        let changed = self.cache.objects.apply_group(group);
        self.object_changed(cx, changed);
    }

    pub(crate) fn delete_group(
        &mut self,
        cx: &mut Context<'_>,
        api: GroupApi,
        name: &str,
        version: &ResourceVersion,
    ) {
        let changed = self.cache.objects.delete_group(api, name, version);
        self.object_changed(cx, changed);
    }

    pub(crate) fn apply_workload(&mut self, cx: &mut Context<'_>, workload: Workload) {
        let changed = self.cache.objects.apply_workload(workload);
        self.object_changed(cx, changed);
    }

    pub(crate) fn delete_workload(
        &mut self,
        cx: &mut Context<'_>,
        api: GroupApi,
        name: &str,
        version: &ResourceVersion,
    ) {
        let changed = self.cache.objects.delete_workload(api, name, version);
        self.object_changed(cx, changed);
    }

    pub(crate) fn apply_owner(&mut self, cx: &mut Context<'_>, owner: Owner) {
        let Some(owner) = self.cache.objects.news_of_owner(owner) else { return };
        let (kind, name) = (owner.group_kind.clone(), owner.key.name.clone());
        let changed = self.with_owners(&kind, |cache| Some(cache.objects.put_owner(owner)));
        self.owner_changed(&kind, &name);
        self.object_changed(cx, changed);
    }

    pub(crate) fn delete_owner(
        &mut self,
        cx: &mut Context<'_>,
        kind: &GroupKind,
        name: &str,
        version: &ResourceVersion,
    ) {
        if self.cache.objects.owner(&kind.group, &kind.kind, name).is_none() {
            return;
        }
        let changed =
            self.with_owners(kind, |cache| cache.objects.delete_owner(kind, name, version));
        self.owner_changed(kind, name);
        self.object_changed(cx, changed);
    }

    /// Resolve what depends on it, and look again at every budget that may count by it. Such
    /// objects change orders of magnitude less often than pods do.
    fn object_changed(&mut self, cx: &mut Context<'_>, changed: Option<Changed>) {
        let Some(Changed { object, kind, version }) = changed else { return };
        for key in self.replicas.dependents(&object) {
            self.resolve(cx, &key);
        }
        let mut touched = Vec::new();
        for (id, budget) in &mut self.budgets {
            let spec = &budget.object.spec;
            if budget.scope == Scope::Workload || spec.needs_total() || spec.unavailable.is_some() {
                budget.seen.note(&kind, &version);
                touched.push(id.clone());
            }
        }
        for id in touched {
            self.touch(cx, &id);
        }
    }

    /// Which pods belong to whom may change: budgets that go by that count anew. Those of replicas do so for the
    /// workers of `LeaderWorkerSet`s, which end with their `StatefulSet`.
    fn with_owners<T>(&mut self, kind: &GroupKind, change: impl FnOnce(&mut Cache) -> T) -> T {
        let is_set = kind.is("apps", "StatefulSet");
        let follows =
            |b: &&BudgetEntry| b.follows_owners() || (is_set && b.scope == Scope::Workload);
        let following = self.budgets.values().filter(follows);
        let following: Vec<_> = following.map(|b| b.id.clone()).collect();
        for id in &following {
            self.deselect_all(id);
        }
        let changed = change(&mut self.cache);
        for id in &following {
            self.select_all(id);
        }
        changed
    }
}
