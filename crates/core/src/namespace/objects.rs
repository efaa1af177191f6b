//! `PodGroups`, Workloads and owners come and go.

use super::{BudgetId, Context, Namespace};
use crate::model::{GroupApi, GroupKind, Owner, PodGroup, ResourceVersion, Scope, Workload};
use crate::replica::{Dependency, GroupCount};

impl Namespace {
    pub(crate) fn apply_group(&mut self, cx: &mut Context<'_>, group: PodGroup) {
        let key = (group.api, group.key.name.clone());
        if let Some(old) = self.objects.groups.get(&key) {
            if old.uid == group.uid && group.version.is_older_than(&old.version) {
                return;
            }
            let same = PodGroup { version: group.version.clone(), ..old.clone() } == group;
            self.count_group(&old.clone(), -1);
            self.count_group(&group, 1);
            self.objects.groups.insert(key.clone(), group);
            if same {
                return;
            }
        } else {
            self.count_group(&group, 1);
            self.objects.groups.insert(key.clone(), group);
        }
        self.object_changed(cx, &Dependency::PodGroup(key.1));
    }

    pub(crate) fn delete_group(&mut self, cx: &mut Context<'_>, api: GroupApi, name: &str) {
        if let Some(old) = self.objects.groups.remove(&(api, name.to_owned())) {
            self.count_group(&old, -1);
            self.object_changed(cx, &Dependency::PodGroup(name.to_owned()));
        }
    }

    pub(crate) fn apply_workload(&mut self, cx: &mut Context<'_>, workload: Workload) {
        let key = (workload.api, workload.key.name.clone());
        if let Some(old) = self.objects.workloads.get(&key)
            && old.uid == workload.uid
            && workload.version.is_older_than(&old.version)
        {
            return;
        }
        self.objects.workloads.insert(key.clone(), workload);
        self.object_changed(cx, &Dependency::Workload(key.1));
    }

    pub(crate) fn delete_workload(&mut self, cx: &mut Context<'_>, api: GroupApi, name: &str) {
        if self.objects.workloads.remove(&(api, name.to_owned())).is_some() {
            self.object_changed(cx, &Dependency::Workload(name.to_owned()));
        }
    }

    pub(crate) fn apply_owner(&mut self, cx: &mut Context<'_>, owner: Owner) {
        let key = (owner.group_kind.clone(), owner.key.name.clone());
        if let Some(old) = self.objects.owners.get(&key) {
            if old.uid == owner.uid && owner.version.is_older_than(&old.version) {
                return;
            }
            // Owners change with every pod of theirs; hardly any change is one of scale.
            let version = |v: &ResourceVersion| v.clone();
            let same = Owner { version: version(&owner.version), ..old.clone() } == owner;
            if same {
                self.objects.owners.insert(key, owner);
                return;
            }
        }
        self.objects.owners.insert(key.clone(), owner);
        self.object_changed(cx, &Dependency::Owner(key.0, key.1));
    }

    pub(crate) fn delete_owner(&mut self, cx: &mut Context<'_>, kind: &GroupKind, name: &str) {
        let key = (kind.clone(), name.to_owned());
        if self.objects.owners.remove(&key).is_some() {
            self.object_changed(cx, &Dependency::Owner(key.0, key.1));
        }
    }

    /// Resolve what depends on it, and look again at every budget that may count by it. Such
    /// objects change orders of magnitude less often than pods do.
    fn object_changed(&mut self, cx: &mut Context<'_>, changed: &Dependency) {
        self.resolve_dependents(cx, changed);
        let counting = |scope, needs_total| scope == Scope::Workload || needs_total;
        let touched: Vec<BudgetId> = self
            .budgets
            .iter()
            .filter(|(_, b)| counting(b.scope, b.needs_total()))
            .map(|(id, _)| id.clone())
            .collect();
        for id in touched {
            self.touch(cx, &id);
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
