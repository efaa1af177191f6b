//! Which group of which workload a pod belongs to.

use super::name::is_name_of;
use super::slot::{Slot, job_set_slot, job_slot, lws_slot, of_stateful_set, stateful_set_slot};
use super::{LwsPlace, NewGroup, Owner, OwnerSpec, Placement, Pod, Policy, World};
use crate::model::{self, ControllerRef, GroupKind, ObjectKey};

impl World {
    /// Where a pod that is about to be created belongs. `token` is unlike any other's.
    pub fn place(&self, pod: &Pod, token: &str) -> Placement {
        let controller = pod.controller.as_ref();
        if pod.node.is_some() || pod.mirror {
            return Placement::Alone("it has a node already");
        }
        if controller.is_some_and(|c| c.group_kind.is("apps", "DaemonSet")) {
            return Placement::Alone("it is a DaemonSet's, for a node of its own");
        }
        if pod.foreign {
            return Placement::Alone("it brings a group of another kind");
        }
        let holdfast = self.settings.api == model::GroupApi::Holdfast;
        if let Some(group) = &pod.group {
            if holdfast {
                return Placement::Into { group: group.clone(), make: None, gate: true };
            }
            return Placement::Alone("it brings its own group");
        }
        if let Some(kind) = self.unsynced().first() {
            return Placement::Unseen(format!("the list of {kind}"));
        }
        let slot = match self.slot(pod, token) {
            Ok(slot) => slot,
            Err(placement) => return placement,
        };
        let present = self.present(pod, &slot);
        // Whoever changes his mind has half of the pods waiting for the others.
        let is_begun = matches!(&present, Present::Group(name) if self.is_begun(pod, name));
        if !self.asks(slot.owner) && !is_begun {
            return Placement::Alone("its workload does not ask for groups");
        }
        if slot.owner.terminating {
            return Placement::Alone("its workload is being deleted");
        }
        let policy = slot.policy();
        let gate = holdfast && matches!(policy, Policy::Gang { .. });
        match present {
            Present::None => {
                let make = slot.new_group(pod);
                Placement::Into { group: make.key.name.clone(), make: Some(Box::new(make)), gate }
            }
            Present::Group(group) => {
                let key = ObjectKey::new(&*pod.key.namespace, &*group);
                let make = (!self.groups.contains_key(&key))
                    .then(|| Box::new(NewGroup { key, ..slot.new_group(pod) }));
                Placement::Into { group, make, gate }
            }
            Present::Ungrouped => {
                Placement::Alone("its group runs already, without a PodGroup, and is left to")
            }
            Present::Unseen(what) => Placement::Unseen(what),
        }
    }

    /// A group that is gone although this pod, which is there, names it; if it was one of ours.
    pub(super) fn remade(&self, pod: &Pod) -> Option<NewGroup> {
        let name = pod.group.as_deref()?;
        let slot = self.slot(pod, "").ok()?;
        if slot.owner.terminating {
            return None;
        }
        let key = ObjectKey::new(&*pod.key.namespace, name);
        is_name_of(name, &slot.readable()).then(|| NewGroup { key, ..slot.new_group(pod) })
    }

    /// The group of a workload that has such pods, whether or not it asks for it; or the answer.
    fn slot<'a>(&'a self, pod: &'a Pod, token: &'a str) -> Result<Slot<'a>, Placement> {
        let Some(controller) = &pod.controller else {
            return Err(Placement::Alone("it has no controller"));
        };
        let namespace = pod.key.namespace.as_str();
        if controller.group_kind.is("apps", "StatefulSet") {
            let lws = GroupKind::new(model::Owner::LWS_GROUP, "LeaderWorkerSet");
            let Some(set) = self.owner(namespace, controller) else {
                return Err(self.unseen(&controller.group_kind, namespace, &controller.name));
            };
            // Anybody can write labels.
            let by = set.controller.as_ref().map(|controller| &controller.group_kind);
            let is_lws = by.is_some_and(|by| *by == lws || by.is("", "Pod"));
            let Some(place) = pod.lws.as_ref().filter(|_| is_lws) else {
                return stateful_set_slot(set, pod);
            };
            let key = ObjectKey::new(namespace, &*place.name);
            let Some(owner) = self.owners.get(&(lws.clone(), key)) else {
                return Err(self.unseen(&lws, namespace, &place.name));
            };
            return Ok(lws_slot(owner, place.group_index, place.size, token));
        }
        if controller.group_kind.is("batch", "Job") {
            let Some(job) = self.owner(namespace, controller) else {
                return Err(self.unseen(&controller.group_kind, namespace, &controller.name));
            };
            let of_job_set =
                |c: &&ControllerRef| c.group_kind.is(model::Owner::JOBSET_GROUP, "JobSet");
            let Some(parent) = job.controller.as_ref().filter(of_job_set) else {
                return job_slot(job);
            };
            let Some(owner) = self.owner(namespace, parent) else {
                return Err(self.unseen(&parent.group_kind, namespace, &parent.name));
            };
            return job_set_slot(owner, job);
        }
        Err(Placement::Alone("its controller has no groups"))
    }

    /// A kind that is not served has no objects to wait for.
    fn unseen(&self, kind: &GroupKind, namespace: &str, name: &str) -> Placement {
        let has_some = self.owners.keys().any(|(k, _)| k == kind);
        if self.is_synced(kind) && !has_some && kind.group == model::Owner::LWS_GROUP {
            return Placement::Alone("it says that it is of a LeaderWorkerSet, and there are none");
        }
        Placement::Unseen(format!("{} {namespace}/{name}", kind.kind))
    }

    /// What the other pods of the group are in.
    fn present(&self, pod: &Pod, slot: &Slot<'_>) -> Present {
        if let (Some(place), OwnerSpec::LeaderWorkerSet { .. }) = (&pod.lws, &slot.owner.spec) {
            return if place.worker_index == 0 {
                self.for_leader(slot)
            } else {
                self.of_leader(pod, place)
            };
        }
        let siblings = self.siblings(pod).filter(|other| self.in_slot(other, slot));
        for other in siblings {
            match &other.group {
                Some(group) => return Present::Group(group.clone()),
                None if !other.terminating => return Present::Ungrouped,
                None => {}
            }
        }
        let key = (slot.owner.uid.clone(), slot.name.clone());
        let name = slot.group_name();
        let is_it = |key: &&ObjectKey| {
            key.name == name && !self.groups.get(key).is_some_and(|g| g.object.terminating)
        };
        let known = self.slots.get(&key).into_iter().flatten().find(is_it);
        known.map_or(Present::None, |key| Present::Group(key.name.clone()))
    }

    fn is_begun(&self, pod: &Pod, group: &str) -> bool {
        let key = ObjectKey::new(&*pod.key.namespace, group);
        self.members(&key).any(Pod::is_lasting)
    }

    /// A leader begins a group: of those that there are, only one that nobody is in yet will do.
    fn for_leader(&self, slot: &Slot<'_>) -> Present {
        let key = (slot.owner.uid.clone(), slot.name.clone());
        let groups = self.slots.get(&key).into_iter().flatten().filter_map(|k| self.groups.get(k));
        let unused = groups
            .filter(|g| !g.object.terminating && self.members(&g.object.key).next().is_none())
            .max_by_key(|g| (g.created, g.object.key.clone()));
        unused.map_or(Present::None, |g| Present::Group(g.object.key.name.clone()))
    }

    /// A worker is where its leader is: the one that the controller of its controller is.
    fn of_leader(&self, pod: &Pod, place: &LwsPlace) -> Present {
        let namespace = pod.key.namespace.as_str();
        let set = pod.controller.as_ref().and_then(|c| self.owner(namespace, c));
        let Some(set) = set else {
            return Present::Unseen(format!("the StatefulSet of pod {}", pod.key));
        };
        let leader = set.controller.as_ref();
        let name = leader.map(|leader| leader.name.clone()).or_else(|| place.leader.clone());
        let name = name.unwrap_or_else(|| format!("{}-{}", place.name, place.group_index));
        let key = ObjectKey::new(namespace, name);
        let seen = self.pods.get(&key).filter(|p| leader.is_none_or(|leader| leader.uid == p.uid));
        match seen {
            None => Present::Unseen(format!("pod {key}, which leads it")),
            Some(Pod { group: Some(group), .. }) => Present::Group(group.clone()),
            Some(_) => Present::Ungrouped,
        }
    }

    /// Unfinished pods of the same controller.
    fn siblings(&self, pod: &Pod) -> impl Iterator<Item = &Pod> {
        let controller = pod.controller.as_ref().and_then(|c| self.children.get(&c.uid));
        let pods = controller.into_iter().flatten().filter_map(|key| self.pods.get(key));
        pods.filter(move |other| !other.finished && other.key != pod.key)
    }

    fn in_slot(&self, other: &Pod, slot: &Slot<'_>) -> bool {
        self.slot(other, "").is_ok_and(|theirs| theirs.name == slot.name)
    }

    /// The group's slot as its workload has it now; None if it has no such slot any more.
    pub(super) fn slot_now<'a>(&'a self, owner: &'a Owner, slot: &'a str) -> Option<Slot<'a>> {
        match &owner.spec {
            OwnerSpec::LeaderWorkerSet { replicas, .. } => {
                let index = slot.parse().ok().filter(|index| index < replicas)?;
                Some(lws_slot(owner, index, None, ""))
            }
            OwnerSpec::StatefulSet { replicas, group_size: Some(size), .. } => {
                let index: i64 = slot.parse().ok()?;
                (index.saturating_mul(*size) < *replicas)
                    .then(|| of_stateful_set(owner, index, *size))
            }
            OwnerSpec::StatefulSet { .. } => None,
            OwnerSpec::Job(_) => job_slot(owner).ok(),
            OwnerSpec::JobSet { .. } => {
                let kind = GroupKind::new("batch", "Job");
                let name = format!("{}-{slot}", owner.key.name);
                let job = self.owners.get(&(kind, ObjectKey::new(&*owner.key.namespace, name)))?;
                let is_its = job.controller.as_ref().is_some_and(|c| c.uid == owner.uid);
                is_its.then(|| job_set_slot(owner, job).ok())?
            }
        }
    }
}

enum Present {
    /// They are in none, or there are none.
    None,
    Group(String),
    /// They run without.
    Ungrouped,
    Unseen(String),
}
