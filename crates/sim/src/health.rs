//! The world's own count of what is healthy, to hold against the engine's.

use std::collections::BTreeSet;

use holdfast_core::model::{GroupPolicy, GroupReference, ObjectKey, Phase, Pod, PodGroup};

use crate::world::World;

impl World {
    /// The replicas that work at this moment: `PodGroup`s of which at least minCount pods are Running,
    /// Ready and not terminating. Grants play no part, for a pod that may be evicted still works.
    /// Replicas that no `PodGroup` object stands for are not counted here.
    pub fn healthy_replicas(&self) -> BTreeSet<ObjectKey> {
        let healthy = self.truth.pod_groups.values().filter(|group| self.is_healthy(group));
        healthy.map(|group| group.key.clone()).collect()
    }

    fn is_healthy(&self, group: &PodGroup) -> bool {
        let members = || self.truth.pods.values().filter(|pod| is_member(pod, group));
        let working = members()
            .filter(|pod| pod.phase == Phase::Running && pod.ready && !pod.terminating)
            .count();
        let present = members().filter(|pod| !pod.is_terminal()).count();
        let Some(policy_min) = self.policy_min(group) else { return false };
        let min_count = if group.disrupt_whole { policy_min.max(present) } else { policy_min };
        !group.terminating && working >= min_count
    }

    fn policy_min(&self, group: &PodGroup) -> Option<usize> {
        let policy = match (&group.policy, &group.template) {
            (GroupPolicy::Absent, Some(template)) => {
                let key = ObjectKey::new(group.key.namespace.clone(), template.workload.clone());
                let workload = self.truth.workloads.get(&(group.api, key))?;
                workload.entries.iter().find(|entry| entry.name == template.template)?.policy
            }
            (policy, _) => *policy,
        };
        match policy {
            GroupPolicy::Gang { min_count } => usize::try_from(min_count).ok(),
            GroupPolicy::Basic | GroupPolicy::Absent => None,
        }
    }
}

fn is_member(pod: &Pod, group: &PodGroup) -> bool {
    let named = match &pod.reference {
        Some(GroupReference::PodGroup { name } | GroupReference::Annotation { name }) => name,
        Some(GroupReference::WorkloadEntry { .. }) | None => return false,
    };
    pod.key.namespace == group.key.namespace && *named == group.key.name
}
