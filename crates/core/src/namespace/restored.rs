//! etcd was restored from a backup: objects of the cache may be of a time that never was.

use super::Namespace;
use crate::io::Kind;
use crate::model::ResourceVersion;

impl Namespace {
    /// Makes every cached object of this kind older than anything that a list can show, so that the list replaces it
    /// or shows that it is gone. Versions that were remembered beside the objects go too.
    pub(crate) fn forget_versions(&mut self, kind: &Kind) {
        // No object has the first revision of an etcd, so a write that names it conflicts. An empty one might not.
        let none = || ResourceVersion::from(1);
        match kind {
            Kind::Pod => self.pods.values_mut().for_each(|entry| entry.pod.version = none()),
            Kind::Budget | Kind::UnavailableBudget => {
                let of_kind = self.budgets.values_mut().filter(|b| b.id.kind.watched() == *kind);
                of_kind.for_each(|budget| {
                    budget.object.version = none();
                    budget.unreadable.iter_mut().for_each(|state| state.version = none());
                });
                self.successors.retain(|id, _| id.kind.watched() != *kind);
            }
            Kind::BuiltinBudget => {
                self.builtins.values_mut().for_each(|entry| entry.object.version = none());
            }
            Kind::PodGroup(api) => {
                let of_api = self.objects.groups.iter_mut().filter(|((of, _), _)| of == api);
                of_api.for_each(|(_, group)| group.version = none());
            }
            Kind::Workload(api) => {
                let of_api = self.objects.workloads.iter_mut().filter(|((of, _), _)| of == api);
                of_api.for_each(|(_, workload)| workload.version = none());
            }
            Kind::Owner(kind) => {
                let of_kind = self.objects.owners.get_mut(kind).into_iter().flatten();
                of_kind.for_each(|(_, owner)| owner.version = none());
            }
        }
        self.budgets.values_mut().for_each(|budget| budget.seen.forget(kind));
        self.forget_snapshot(kind);
        self.forget_budget_lists(kind);
    }
}
