//! All objects at one moment: as they are stored, or as one process has been told.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::objects::{
    Api, Budget, BudgetKey, Controller, Entry, Kind, Name, Object, Owner, Pod, PodGroup, Workload,
};

/// Copies share the objects.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub pods: BTreeMap<Name, Arc<Pod>>,
    pub budgets: BTreeMap<BudgetKey, Arc<Budget>>,
    pub groups: BTreeMap<(Api, Name), Arc<PodGroup>>,
    pub workloads: BTreeMap<(Api, Name), Arc<Workload>>,
    pub owners: BTreeMap<(Kind, Name), Arc<Owner>>,
}

impl State {
    pub fn store(&mut self, object: Object) {
        match object {
            Object::Pod(pod) => {
                self.pods.insert(pod.key.clone(), Arc::new(pod));
            }
            Object::Budget(budget) => {
                self.budgets.insert(budget.key.clone(), Arc::new(budget));
            }
            Object::PodGroup(group) => {
                self.groups.insert((group.api, group.key.clone()), Arc::new(group));
            }
            Object::Workload(workload) => {
                self.workloads.insert((workload.api, workload.key.clone()), Arc::new(workload));
            }
            Object::Owner(owner) => {
                self.owners.insert((owner.kind.clone(), owner.key.clone()), Arc::new(owner));
            }
        }
    }

    pub fn delete(&mut self, object: &Object) {
        match object {
            Object::Pod(pod) => {
                self.pods.remove(&pod.key);
            }
            Object::Budget(budget) => {
                self.budgets.remove(&budget.key);
            }
            Object::PodGroup(group) => {
                self.groups.remove(&(group.api, group.key.clone()));
            }
            Object::Workload(workload) => {
                self.workloads.remove(&(workload.api, workload.key.clone()));
            }
            Object::Owner(owner) => {
                self.owners.remove(&(owner.kind.clone(), owner.key.clone()));
            }
        }
    }

    /// The version of the stored object of the same kind and name.
    pub fn version_of(&self, object: &Object) -> Option<u64> {
        match object {
            Object::Pod(pod) => self.pods.get(&pod.key).map(|o| o.version),
            Object::Budget(budget) => self.budgets.get(&budget.key).map(|o| o.version),
            Object::PodGroup(group) => {
                self.groups.get(&(group.api, group.key.clone())).map(|o| o.version)
            }
            Object::Workload(workload) => {
                self.workloads.get(&(workload.api, workload.key.clone())).map(|o| o.version)
            }
            Object::Owner(owner) => {
                self.owners.get(&(owner.kind.clone(), owner.key.clone())).map(|o| o.version)
            }
        }
    }

    /// The pods that the budget covers.
    pub fn selected<'a>(&'a self, budget: &'a Budget) -> impl Iterator<Item = &'a Pod> + 'a {
        self.pods.values().map(|pod| &**pod).filter(|pod| budget.covers(pod))
    }

    pub fn owner(&self, kind: &Kind, namespace: &str, name: &str) -> Option<&Owner> {
        self.owners.get(&(kind.clone(), Name::new(namespace, name))).map(|owner| &**owner)
    }

    /// The root of the controller chain; None if a link is missing or belongs to another uid.
    pub fn root(&self, namespace: &str, controller: &Controller) -> Option<&Owner> {
        // Real chains have 2 or 3 links; the bound is against loops.
        const LINKS_MAX: usize = 8;
        let mut reference = controller;
        for _ in 0..LINKS_MAX {
            let owner = self.owner(&reference.kind, namespace, &reference.name)?;
            if owner.uid != reference.uid {
                return None;
            }
            match &owner.controller {
                Some(next) => reference = next,
                None => return Some(owner),
            }
        }
        None
    }

    /// A Workload's entry, of the first API that has the Workload.
    pub fn entry(&self, api: Api, namespace: &str, workload: &str, entry: &str) -> Option<&Entry> {
        let workload = self.workloads.get(&(api, Name::new(namespace, workload)))?;
        workload.entries.iter().find(|e| e.name == entry)
    }
}
