//! The health of replicas, as the auditor counts it, for reports, plans and tests.

use std::collections::BTreeSet;

use holdfast_audit::cluster::every_replica;
use holdfast_audit::{Memory, ReplicaCount, State, count, objects as audit};
use holdfast_core::model::{GroupApi, GroupKind, GroupReference, ObjectKey, Owner, Pod};

use crate::audited;
use crate::replica::Replica;
use crate::world::World;

impl World {
    /// Returns the replicas that are healthy now. Grants do not count here: a pod with a grant still works.
    pub fn healthy_replicas(&self) -> BTreeSet<Replica> {
        let is_healthy = |replica: &&Replica| {
            self.health_of(replica, None).is_some_and(|replica| replica.healthy)
        };
        self.replicas().filter(is_healthy).cloned().collect()
    }

    /// Returns every replica that ever had a pod.
    pub fn replicas(&self) -> impl Iterator<Item = &Replica> {
        self.members.replicas()
    }

    /// Returns the pods that were created, changed or deleted since the last call.
    pub fn take_changed_pods(&mut self) -> BTreeSet<ObjectKey> {
        self.members.take_changed()
    }

    /// Counts one replica. Returns None if it has no pod. `basic_min` is the minCount of groups with the policy `basic`.
    pub fn health_of(&self, replica: &Replica, basic_min: Option<i64>) -> Option<ReplicaCount> {
        let mut state = State::default();
        for pod in self.members.of(replica).filter_map(|key| self.truth.pods.get(key)) {
            state.store(audit::Object::Pod(audited::pod(pod)));
            self.copy_groups(pod, &mut state);
            self.copy_owners(pod, &mut state);
        }
        let budget =
            audit::Budget { basic_min_count: basic_min, ..every_replica(&replica.namespace) };
        let counted = count(&budget, &state, &Memory::default(), &|_| false);
        counted.replicas.into_values().next()
    }

    /// Copies the objects that decide how many pods the replica of this pod needs.
    fn copy_groups(&self, pod: &Pod, state: &mut State) {
        for api in [GroupApi::Kubernetes, GroupApi::Holdfast] {
            let key = |name: &String| (api, ObjectKey::new(pod.key.namespace.clone(), name));
            let (group, workload) = match &pod.reference {
                Some(GroupReference::PodGroup { name } | GroupReference::Annotation { name }) => {
                    let group = self.truth.pod_groups.get(&key(name));
                    let template = group.and_then(|group| group.template.as_ref());
                    (group, template.map(|template| &template.workload))
                }
                Some(GroupReference::WorkloadEntry { workload, .. }) => (None, Some(workload)),
                None => (None, None),
            };
            let workload = workload.and_then(|name| self.truth.workloads.get(&key(name)));
            let group = group.map(|group| audit::Object::PodGroup(audited::group(group)));
            let workload = workload.map(|found| audit::Object::Workload(audited::workload(found)));
            group.into_iter().chain(workload).for_each(|object| state.store(object));
        }
    }

    /// Copies the `LeaderWorkerSet` of a pod, and the `StatefulSet` that the pod ends with.
    fn copy_owners(&self, pod: &Pod, state: &mut State) {
        let Some(member) = &pod.lws else { return };
        let set = GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet");
        let controller = pod.controller.as_ref().map(|c| (c.group_kind.clone(), c.name.clone()));
        for (kind, name) in controller.into_iter().chain([(set, member.lws.clone())]) {
            let key = (kind, ObjectKey::new(pod.key.namespace.clone(), name));
            if let Some(owner) = self.truth.owners.get(&key) {
                state.store(audit::Object::Owner(audited::owner(owner)));
            }
        }
    }
}
