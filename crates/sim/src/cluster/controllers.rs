//! Workload controllers: how the pods that go come back.
//!
//! | controller | comes back | under |
//! |---|---|---|
//! | `ReplicaSet`, `ReplicationController` | when its predecessor begins to go | a new name |
//! | `LeaderWorkerSet` group | when the whole group is gone; when one pod goes, all go | the same names |
//! | any other, as a `StatefulSet` | when its predecessor is gone | the same name |
//!
//! A successor is its predecessor's likeness: it has the same labels and names the same group. An
//! owner whose object is stored is obeyed when it wants fewer than there are; one that is gone wants
//! none; one that never was keeps the number of its pods.

use holdfast_core::model::{ControllerRef, GroupKind, ObjectKey, Owner, Phase, Pod};

use super::Departed;
use crate::objects::NOBODY;
use crate::world::World;

/// Namespace and group key.
pub(super) type LwsGroup = (String, String);
/// Namespace and the controller's uid, kind and name.
pub(super) type OwnerKey = (String, ControllerRef);

pub(super) fn lws_group(pod: &Pod) -> Option<LwsGroup> {
    Some((pod.key.namespace.clone(), pod.lws.as_ref()?.group_key.clone()))
}

pub(super) fn owner_key(pod: &Pod) -> Option<OwnerKey> {
    Some((pod.key.namespace.clone(), pod.controller.clone()?))
}

/// How a pod comes back.
enum Manner {
    NewName,
    WithGroup(LwsGroup),
    SameName,
    Never,
}

impl World {
    /// The pod begins to go.
    pub(super) fn replace_terminating(&mut self, pod: &ObjectKey) {
        let Some(pod) = self.truth.pods.get(pod).cloned() else { return };
        match self.manner(&pod) {
            Manner::NewName => {
                let shape = self.cluster.seats.get(&pod.key).map(|seat| seat.shape);
                self.come_back_renamed(Departed { pod, shape: shape.unwrap_or_default() });
            }
            Manner::WithGroup(group) => self.delete_group(&group),
            Manner::SameName | Manner::Never => {}
        }
    }

    /// The pod is gone.
    pub(super) fn replace_gone(&mut self, departed: Departed) {
        match self.manner(&departed.pod) {
            // If it went by way of termination, it was replaced then.
            Manner::NewName if departed.pod.terminating => {}
            Manner::NewName => self.come_back_renamed(departed),
            Manner::SameName => {
                if let Some(group) = lws_group(&departed.pod) {
                    self.cluster.departed.remove(&group);
                }
                if self.wants(&departed.pod) {
                    self.create(departed);
                }
            }
            Manner::WithGroup(group) => {
                // Several may have gone in one moment; the first of them brought all back.
                let waits = self.cluster.departed.get(&group).is_some_and(|waiting| {
                    waiting.iter().any(|other| other.pod.uid == departed.pod.uid)
                });
                if waits {
                    self.delete_group(&group);
                    self.recreate_group(&group);
                }
            }
            Manner::Never => {}
        }
    }

    fn manner(&self, pod: &Pod) -> Manner {
        if let Some(member) = &pod.lws {
            let kind = GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet");
            let key = ObjectKey::new(pod.key.namespace.clone(), member.lws.clone());
            let keeps = self.truth.owners.get(&(kind, key)).is_some_and(|lws| lws.lws_keeps_group);
            if !keeps && let Some(group) = lws_group(pod) {
                return Manner::WithGroup(group);
            }
        }
        match pod.controller.as_ref().map(|controller| controller.group_kind.kind.as_str()) {
            // A pod of a Job that has succeeded has done its work.
            Some("Job") if pod.phase == Phase::Succeeded => Manner::Never,
            // Those of a DaemonSet belong to their node; a drain leaves them alone.
            None | Some("DaemonSet" | "Node") => Manner::Never,
            Some("ReplicaSet" | "ReplicationController") => Manner::NewName,
            Some(_) => Manner::SameName,
        }
    }

    fn come_back_renamed(&mut self, departed: Departed) {
        if !self.wants(&departed.pod) {
            return;
        }
        let Some(owner) = departed.pod.controller.as_ref().map(|c| c.name.clone()) else { return };
        let mut successor = departed;
        loop {
            let suffix = self.cluster.random.letters(5);
            successor.pod.key.name = format!("{owner}-{suffix}");
            if !self.truth.pods.contains_key(&successor.pod.key) {
                break;
            }
        }
        self.create(successor);
    }

    /// Plain deletes, which no budget is asked about.
    fn delete_group(&mut self, group: &LwsGroup) {
        let members: Vec<ObjectKey> =
            self.cluster.lws_members.get(group).into_iter().flatten().cloned().collect();
        for key in members {
            if let Some(pod) = self.truth.pods.get(&key).filter(|pod| !pod.terminating).cloned() {
                self.store(Pod { terminating: true, ..pod });
            }
        }
    }

    /// Leader first, once all are gone.
    fn recreate_group(&mut self, group: &LwsGroup) {
        if self.cluster.lws_members.contains_key(group) {
            return;
        }
        let mut members = self.cluster.departed.remove(group).unwrap_or_default();
        members.sort_by(|a, b| {
            let by_name = |d: &Departed| (d.pod.key.name.len(), d.pod.key.name.clone());
            by_name(a).cmp(&by_name(b))
        });
        for departed in members {
            if self.wants(&departed.pod) {
                self.create(departed);
            }
        }
    }

    /// Whether its controller wants a pod in this one's place.
    fn wants(&self, gone: &Pod) -> bool {
        let namespace = &gone.key.namespace;
        if let Some(member) = &gone.lws {
            let kind = GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet");
            let key = ObjectKey::new(namespace.clone(), member.lws.clone());
            let replicas = self.truth.owners.get(&(kind, key)).and_then(|lws| lws.replicas);
            return match (member.group_index, replicas) {
                (Some(index), Some(replicas)) => index < replicas,
                _ => true,
            };
        }
        let Some(controller) = &gone.controller else { return false };
        let key = ObjectKey::new(namespace.clone(), controller.name.clone());
        let owner = self.truth.owners.get(&(controller.group_kind.clone(), key));
        match owner.filter(|owner| owner.uid == controller.uid) {
            Some(owner) => owner.replicas.is_none_or(|replicas| self.staying(gone) < replicas),
            None => controller.uid == NOBODY,
        }
    }

    /// How many pods of the same owner are there to stay.
    fn staying(&self, gone: &Pod) -> i64 {
        let owner = owner_key(gone);
        owner.and_then(|owner| self.cluster.staying.get(&owner).copied()).unwrap_or_default()
    }

    fn create(&mut self, departed: Departed) {
        let Departed { pod, shape } = departed;
        if self.truth.pods.contains_key(&pod.key) {
            return;
        }
        self.cluster.seats.entry(pod.key.clone()).or_default().shape = shape;
        self.store(Pod {
            phase: Phase::Pending,
            ready: false,
            terminating: false,
            disruption_target: None,
            ..pod
        });
    }
}
