//! The pods of one namespace, with what other modules keep with each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::intern::Interner;
use super::pod::{CachedPod, Facts};
use super::selector::Labels;
use super::{Cache, Known};
use crate::model::{BudgetId, BudgetKey, ControllerRef, Covering, Phase, Pod};
use crate::replicas::ReplicaKey;

/// Nothing outside of the cache changes one.
#[derive(Clone, Debug)]
pub(crate) struct PodEntry {
    pub(crate) name: Arc<str>,
    pub(crate) pod: CachedPod,
    pub(crate) labels: Labels,
    /// The replica that the pod names.
    pub(crate) replica: Option<Arc<ReplicaKey>>,
    /// The budgets that select the pod, in reservation order.
    pub(crate) budgets: Covering,
    /// Live grants for this very pod, over all budgets.
    pub(crate) granted: u32,
}

/// What of a pod may change while its labels, its owner and its group stay the same, and bears on counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodState {
    pub(crate) phase: Phase,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
    pub(crate) facts: Facts,
    pub(crate) granted: bool,
}

impl PodEntry {
    pub(crate) fn state(&self) -> PodState {
        let CachedPod { phase, ready, terminating, facts, .. } = self.pod;
        PodState { phase, ready, terminating, facts, granted: self.granted > 0 }
    }

    pub(crate) fn is_selected_by(&self, budget: &BudgetKey) -> bool {
        self.budgets.iter().any(|id| **id == *budget)
    }

    /// Returns whether the cache may decide about the pod. Pending, ended and terminating pods need a read.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.pod.phase, Phase::Running | Phase::Unknown) && !self.pod.terminating
    }

    /// Returns whether nothing has changed but the pod's state, and that shows no eviction: so it is with nearly every
    /// event.
    fn differs_in_state_only(&self, interner: &Interner, pod: &Pod) -> bool {
        let same_replica = match &self.pod.member {
            Some(member) => {
                member.lws.as_deref() == pod.lws.as_ref() && member.reference == pod.reference
            }
            None => pod.lws.is_none() && pod.reference.is_none(),
        };
        same_replica
            && !pod.is_evicted()
            && self.pod.is_terminal() == pod.is_terminal()
            && self.pod.controller.as_deref() == pod.controller.as_ref()
            && self.labels.are(interner, &pod.labels)
    }
}

/// What an event says of a pod.
#[derive(Debug)]
#[must_use]
pub(crate) enum PodEvent<'a> {
    /// It comes twice or late and says nothing new.
    Late,
    /// The state alone has changed. The cache has the new one.
    State { pod: &'a PodEntry, was: PodState, known: Known<'a> },
    /// The name belongs to another pod now.
    Replaced(Arc<str>, Pod),
    /// The pod is new, or more than its state has changed.
    Placed(Arc<str>, Pod),
}

impl Cache {
    pub(crate) fn pod(&self, name: &str) -> Option<&PodEntry> {
        self.pods.get(name).map(|entry| &**entry)
    }

    pub(crate) fn pods(&self) -> impl Iterator<Item = &PodEntry> {
        self.pods.values().map(|entry| &**entry)
    }

    /// Returns the pods that the budget selects. Looks at every pod.
    pub(crate) fn selected_by(&self, budget: &BudgetKey) -> impl Iterator<Item = &PodEntry> {
        self.pods().filter(move |entry| entry.is_selected_by(budget))
    }

    /// Takes in a new state of a pod, or returns the pod for [`Self::put_pod`].
    pub(crate) fn apply_pod(&mut self, pod: Pod) -> PodEvent<'_> {
        if !self.unreadable_pods.is_empty() {
            self.unreadable_pods.remove(pod.key.name.as_str());
        }
        let Some(old) = self.pods.get_mut(pod.key.name.as_str()) else {
            return PodEvent::Placed(pod.key.name.as_str().into(), pod);
        };
        if pod.version.is_older_than(&old.pod.version) {
            return PodEvent::Late;
        }
        if old.pod.uid != *pod.uid {
            return PodEvent::Replaced(old.name.clone(), pod);
        }
        if !old.differs_in_state_only(&self.interner, &pod) {
            return PodEvent::Placed(old.name.clone(), pod);
        }
        let was = old.state();
        old.pod.update(pod);
        let known = Known { interner: &self.interner, objects: &self.objects };
        PodEvent::State { pod: old, was, known }
    }

    /// Interns labels, for an entry that will be put.
    pub(crate) fn intern(&mut self, labels: &BTreeMap<String, String>) -> Labels {
        Labels::acquire(&mut self.interner, labels)
    }

    /// Returns the labels of a pod that is not kept.
    pub(crate) fn look_up(&self, labels: &BTreeMap<String, String>) -> Labels {
        Labels::lookup(&self.interner, labels)
    }

    /// Shares a controller, for an entry that will be put.
    pub(crate) fn share(&mut self, controller: ControllerRef) -> Arc<ControllerRef> {
        self.controllers.acquire(controller)
    }

    pub(crate) fn put_pod(&mut self, entry: PodEntry) {
        if let Some(old) = self.pods.insert(entry.name.clone(), Box::new(entry)) {
            self.release(&old);
        }
    }

    pub(crate) fn remove_pod(&mut self, name: &str) -> Option<Box<PodEntry>> {
        let entry = self.pods.remove(name)?;
        self.release(&entry);
        Some(entry)
    }

    /// Changes how many live grants the pod has. Returns the state that it had until now.
    pub(crate) fn set_granted(&mut self, name: &str, granted: u32) -> Option<PodState> {
        let entry = self.pods.get_mut(name)?;
        let was = entry.state();
        entry.granted = granted;
        Some(was)
    }

    /// Changes whether the budget selects the pod.
    pub(crate) fn select(&mut self, name: &str, budget: &BudgetId, is_selected: bool) {
        let Some(entry) = self.pods.get_mut(name) else { return };
        entry.budgets.retain(|id| *id != *budget);
        if is_selected {
            entry.budgets.push(budget.clone());
            entry.budgets.sort_unstable();
        }
    }

    /// The newest state of the pod cannot be decoded. Returns false if that was known.
    pub(crate) fn mark_unreadable(&mut self, name: &str) -> bool {
        let Some(entry) = self.pods.get(name) else { return false };
        self.unreadable_pods.insert(entry.name.clone())
    }

    pub(crate) fn forget_unreadable(&mut self, name: &str) {
        self.unreadable_pods.remove(name);
    }

    pub(crate) fn unreadable_pods(&self) -> usize {
        self.unreadable_pods.len()
    }

    /// The pod counts as not Ready. Returns the state that it had until now.
    pub(crate) fn set_unready(&mut self, name: &str) -> Option<PodState> {
        let entry = self.pods.get_mut(name)?;
        let was = entry.state();
        entry.pod.ready = false;
        Some(was)
    }

    fn release(&mut self, entry: &PodEntry) {
        entry.labels.release(&mut self.interner);
        if let Some(controller) = &entry.pod.controller {
            self.controllers.release(controller);
        }
    }
}
