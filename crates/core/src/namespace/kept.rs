//! What is kept of a pod. There may be 150,000 of them, so what many share is kept once: the
//! controller by all its pods, the rest of what bears on a replica by the replica's pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{ControllerRef, DisruptionTarget, Phase, Pod, ResourceVersion};
use crate::replica::Member;

#[derive(Debug)]
pub(super) struct KeptPod {
    pub(super) uid: String,
    pub(super) version: ResourceVersion,
    pub(super) phase: Phase,
    pub(super) ready: bool,
    pub(super) terminating: bool,
    pub(super) disruption_target: Option<Box<DisruptionTarget>>,
    pub(super) controller: Option<Arc<ControllerRef>>,
    /// Of the replica that it names, if it names one.
    pub(super) member: Option<Arc<Member>>,
}

impl KeptPod {
    pub(super) fn new(
        pod: Pod,
        controller: Option<Arc<ControllerRef>>,
        member: Option<Arc<Member>>,
    ) -> Self {
        Self {
            uid: pod.uid,
            version: pod.version,
            phase: pod.phase,
            ready: pod.ready,
            terminating: pod.terminating,
            disruption_target: pod.disruption_target.map(Box::new),
            controller,
            member,
        }
    }

    /// As [`Pod::is_targeted`].
    pub(super) fn is_targeted(&self) -> bool {
        self.disruption_target.as_ref().is_some_and(|target| target.is_eviction())
    }

    /// As [`Pod::is_terminal`].
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }
}

/// Controllers, each once, with the number of pods that have it.
#[derive(Debug, Default)]
pub(super) struct Controllers(BTreeMap<Arc<ControllerRef>, u32>);

impl Controllers {
    pub(super) fn acquire(&mut self, controller: ControllerRef) -> Arc<ControllerRef> {
        let key = match self.0.get_key_value(&controller) {
            Some((shared, _)) => shared.clone(),
            None => Arc::new(controller),
        };
        *self.0.entry(key.clone()).or_insert(0) += 1;
        key
    }

    pub(super) fn release(&mut self, controller: &Arc<ControllerRef>) {
        if let Some(uses) = self.0.get_mut(controller) {
            *uses -= 1;
            if *uses == 0 {
                self.0.remove(controller);
            }
        }
    }
}
