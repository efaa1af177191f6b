//! The world's own count of what works at this moment, for reports, plans and tests. It knows no budgets and
//! no grants, so it judges no engine.

use std::collections::BTreeSet;

use holdfast_core::model::{
    GroupApi, GroupKind, GroupPolicy, GroupReference, ObjectKey, Owner, Phase, Pod, PodGroup,
};

use crate::replica::{Replica, ReplicaKind};
use crate::world::World;

/// A replica as it works, or does not, at this moment. Grants play no part: a pod that may be evicted
/// still works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaHealth {
    /// Pods that are Running, Ready and not terminating.
    pub working: usize,
    /// Pods that have not finished.
    pub present: usize,
    /// How many it needs; None if that cannot be told.
    pub min_count: Option<usize>,
    /// It is being deleted.
    pub leaving: bool,
}

impl ReplicaHealth {
    pub fn is_healthy(&self) -> bool {
        !self.leaving && self.min_count.is_some_and(|min| self.working >= min)
    }
}

impl World {
    /// The replicas that work at this moment, of those that a `PodGroup` object stands for.
    pub fn healthy_replicas(&self) -> BTreeSet<ObjectKey> {
        let healthy = self.truth.pod_groups.values().filter(|group| {
            let namespace = group.key.namespace.clone();
            let name = group.key.name.clone();
            let of = |kind| Replica { namespace: namespace.clone(), kind };
            self.health_of_group(group, &of(ReplicaKind::PodGroup { name: name.clone() }))
                .is_healthy()
                || self
                    .health_of_group(group, &of(ReplicaKind::AnnotatedGroup { name }))
                    .is_healthy()
        });
        healthy.map(|group| group.key.clone()).collect()
    }

    /// Every replica that ever had a pod.
    pub fn replicas(&self) -> impl Iterator<Item = &Replica> {
        self.members.replicas()
    }

    /// Pods that have come, changed or gone since the last call.
    pub fn take_changed_pods(&mut self) -> BTreeSet<ObjectKey> {
        self.members.take_changed()
    }

    pub fn health_of(&self, replica: &Replica) -> ReplicaHealth {
        match &replica.kind {
            ReplicaKind::PodGroup { name } => {
                self.health_of_named(replica, name, [GroupApi::Kubernetes, GroupApi::Holdfast])
            }
            ReplicaKind::AnnotatedGroup { name } => {
                self.health_of_named(replica, name, [GroupApi::Holdfast, GroupApi::Kubernetes])
            }
            ReplicaKind::WorkloadEntry { workload, entry, replica_key } => {
                let min_count = self.entry_min(replica, workload, entry, replica_key.as_deref());
                self.count(replica, min_count, false)
            }
            ReplicaKind::Lws { lws, group_index, .. } => {
                let key = ObjectKey::new(replica.namespace.clone(), lws.clone());
                let kind = GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet");
                let owner = self.truth.owners.get(&(kind, key));
                let keeps = owner.is_some_and(|lws| lws.lws_keeps_group);
                let by_reference = if keeps { self.min_by_reference(replica) } else { None };
                let min_count = by_reference.or_else(|| self.min_by_size(replica));
                let replicas = owner.and_then(|lws| lws.replicas);
                let leaving = group_index.zip(replicas).is_some_and(|(index, n)| index >= n);
                self.count(replica, min_count, leaving)
            }
        }
    }

    fn health_of_named(
        &self,
        replica: &Replica,
        name: &str,
        order: [GroupApi; 2],
    ) -> ReplicaHealth {
        let key = ObjectKey::new(replica.namespace.clone(), name);
        let found =
            order.into_iter().find_map(|api| self.truth.pod_groups.get(&(api, key.clone())));
        match found {
            Some(group) => self.health_of_group(group, replica),
            None => self.count(replica, None, false),
        }
    }

    fn health_of_group(&self, group: &PodGroup, replica: &Replica) -> ReplicaHealth {
        let mut health = self.count(replica, self.policy_min(group), group.terminating);
        if group.disrupt_whole {
            health.min_count = health.min_count.map(|min| min.max(health.present));
        }
        health
    }

    fn count(&self, replica: &Replica, min_count: Option<usize>, leaving: bool) -> ReplicaHealth {
        let (mut working, mut present) = (0, 0);
        for pod in self.members_of(replica).filter(|pod| !pod.is_terminal()) {
            present += 1;
            if pod.phase == Phase::Running && pod.ready && !pod.terminating {
                working += 1;
            }
        }
        ReplicaHealth { working, present, min_count, leaving }
    }

    fn members_of(&self, replica: &Replica) -> impl Iterator<Item = &Pod> {
        self.members.of(replica).filter_map(|key| self.truth.pods.get(key))
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
        gang_min(policy)
    }

    fn entry_min(
        &self,
        replica: &Replica,
        workload: &str,
        entry: &str,
        replica_key: Option<&str>,
    ) -> Option<usize> {
        let key = ObjectKey::new(replica.namespace.clone(), workload);
        let apis = [GroupApi::Kubernetes, GroupApi::Holdfast];
        let workload =
            apis.into_iter().find_map(|api| self.truth.workloads.get(&(api, key.clone())))?;
        let entry = workload.entries.iter().find(|e| e.name == entry)?;
        // Several replicas whose pods do not say which one they are of look like one.
        let blurred = entry.replicas.is_some_and(|n| n > 1) && replica_key.is_none();
        if blurred { None } else { gang_min(entry.policy) }
    }

    fn min_by_size(&self, replica: &Replica) -> Option<usize> {
        let sizes = self.members_of(replica).filter_map(|pod| pod.lws.as_ref()?.size);
        usize::try_from(sizes.max()?).ok()
    }

    fn min_by_reference(&self, replica: &Replica) -> Option<usize> {
        let group = self.members_of(replica).find_map(|pod| match &pod.reference {
            Some(GroupReference::PodGroup { name }) => Some(name),
            _ => None,
        })?;
        let key = ObjectKey::new(replica.namespace.clone(), group.clone());
        self.policy_min(self.truth.pod_groups.get(&(GroupApi::Kubernetes, key))?)
    }
}

fn gang_min(policy: GroupPolicy) -> Option<usize> {
    match policy {
        GroupPolicy::Gang { min_count } => usize::try_from(min_count).ok(),
        GroupPolicy::Basic | GroupPolicy::Absent => None,
    }
}
