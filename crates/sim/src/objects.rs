//! What people and controllers do to objects. Every call ends with the engine having seen the
//! change, unless watch events are held.

use holdfast_core::model::{
    Budget, BudgetKey, BudgetSpec, BudgetStatus, BuiltinBudget, ControllerRef, GroupApi, GroupKind,
    ObjectKey, Owner, Pod, PodGroup, Workload,
};

use crate::builders::{BudgetBuilder, GroupBuilder, OwnerBuilder, PodBuilder, WorkloadBuilder};
use crate::name::Name;
use crate::world::World;

/// The uid in a reference to an owner that is not stored.
pub(crate) const NOBODY: &str = "uid-of-nobody";

impl World {
    /// Create the pod, or replace all of it but its uid.
    pub fn apply_pod(&mut self, new: PodBuilder) -> ObjectKey {
        let (mut pod, node, shape) = new.into_parts();
        self.fill_uid(&pod.key.namespace, &mut pod.controller);
        self.cluster.assign(&pod.key, node.as_deref(), shape);
        let key = self.store(pod).key;
        self.settle();
        key
    }

    pub fn edit_pod(&mut self, pod: impl Name, edit: impl FnOnce(&mut Pod)) {
        let stored = self.pod(pod).expect("the pod exists");
        let mut pod = stored.clone();
        edit(&mut pod);
        if pod != *stored {
            self.store(pod);
        }
        self.settle();
    }

    /// Remove the pod at once, without a mark of why. Nothing happens if there is none. As the API
    /// server does it with a grace period of zero: the pod is seen to terminate first, even if it did.
    pub fn delete_pod(&mut self, pod: impl Name) {
        let key = pod.object_key();
        if let Some(pod) = self.truth.pods.get(&key).cloned() {
            self.store(Pod { terminating: true, ..pod });
        }
        self.discard::<Pod>(&key);
        self.settle();
    }

    pub fn pod(&self, pod: impl Name) -> Option<&Pod> {
        self.truth.pods.get(&pod.object_key())
    }

    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.truth.pods.values()
    }

    /// Create the budget, or replace its spec: the generation counts spec changes, and the status is
    /// not the writer's to give.
    pub fn apply_budget(&mut self, new: BudgetBuilder) -> BudgetKey {
        let budget = new.into_budget();
        let key = budget.key.clone();
        if self.truth.budgets.contains_key(&key) {
            self.edit_budget(&key, |spec| *spec = budget.spec);
        } else {
            self.store(budget);
            self.settle();
        }
        key
    }

    pub fn edit_budget(&mut self, budget: impl Name, edit: impl FnOnce(&mut BudgetSpec)) {
        let stored = self.budget(budget).expect("the budget exists");
        let mut budget = stored.clone();
        edit(&mut budget.spec);
        if budget.spec != stored.spec {
            budget.generation += 1;
            self.store(budget);
        }
        self.settle();
    }

    /// Write the status as somebody other than the engine.
    pub fn edit_status(&mut self, budget: impl Name, edit: impl FnOnce(&mut BudgetStatus)) {
        let stored = self.budget(budget).expect("the budget exists");
        let mut budget = stored.clone();
        edit(&mut budget.status);
        if budget != *stored {
            self.store(budget);
        }
        self.settle();
    }

    pub fn delete_budget(&mut self, budget: impl Name) {
        self.discard::<Budget>(&budget.budget_key());
        self.settle();
    }

    pub fn budget(&self, budget: impl Name) -> Option<&Budget> {
        self.truth.budgets.get(&budget.budget_key())
    }

    pub fn budgets(&self) -> impl Iterator<Item = &Budget> {
        self.truth.budgets.values()
    }

    /// The status as stored, which is what people and tools see.
    pub fn status(&self, budget: impl Name) -> &BudgetStatus {
        &self.budget(budget).expect("the budget exists").status
    }

    pub fn apply_builtin_budget(&mut self, budget: BuiltinBudget) {
        self.store(budget);
        self.settle();
    }

    pub fn delete_builtin_budget(&mut self, budget: impl Name) {
        self.discard::<BuiltinBudget>(&budget.object_key());
        self.settle();
    }

    pub fn apply_pod_group(&mut self, new: GroupBuilder) -> ObjectKey {
        let mut group = new.into_group();
        self.fill_uid(&group.key.namespace, &mut group.controller);
        let key = self.store(group).key;
        self.settle();
        key
    }

    pub fn delete_pod_group(&mut self, api: GroupApi, group: impl Name) {
        self.discard::<PodGroup>(&(api, group.object_key()));
        self.settle();
    }

    pub fn apply_workload(&mut self, new: WorkloadBuilder) -> ObjectKey {
        let key = self.store(new.into_workload()).key;
        self.settle();
        key
    }

    pub fn delete_workload(&mut self, api: GroupApi, workload: impl Name) {
        self.discard::<Workload>(&(api, workload.object_key()));
        self.settle();
    }

    /// Store a controller's object. Its `/scale` is served from here; the engine hears of changes
    /// only if it watches the kind.
    pub fn apply_owner(&mut self, new: OwnerBuilder) -> ObjectKey {
        let mut owner = new.into_owner();
        self.fill_uid(&owner.key.namespace, &mut owner.controller);
        let key = self.store(owner).key;
        self.settle();
        key
    }

    pub fn delete_owner(&mut self, kind: &GroupKind, owner: impl Name) {
        self.discard::<Owner>(&(kind.clone(), owner.object_key()));
        self.settle();
    }

    /// Builders name a controller; only the world knows its uid. One that does not exist keeps a
    /// reference that leads nowhere.
    fn fill_uid(&self, namespace: &str, controller: &mut Option<ControllerRef>) {
        let Some(controller) = controller.as_mut().filter(|c| c.uid.is_empty()) else { return };
        let name = ObjectKey::new(namespace, controller.name.clone());
        let uid = if controller.group_kind.is("", "Pod") {
            self.truth.pods.get(&name).map(|pod| &pod.uid)
        } else {
            let owner = self.truth.owners.get(&(controller.group_kind.clone(), name));
            owner.map(|owner| &owner.uid)
        };
        controller.uid = uid.map_or_else(|| NOBODY.to_owned(), Clone::clone);
    }
}
