//! What is there, as the watches have told, and what goes with what.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::memory::Memory;
use super::model::HostPort;
use super::{Group, GroupApi, Kind, Namespace, Node, Owner, Pod, Resources, Seen};
use crate::io::Change;
use crate::model::{ControllerRef, GroupKind, ObjectKey, ResourceVersion, Workload};

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub api: GroupApi,
    /// A gang that was let go and is not whole by then is taken back.
    pub timeout: Duration,
    /// A gang that there was no room for during this time is let go all the same, alone, for whoever adds nodes to
    /// see it. Zero: never.
    pub room_wait: Duration,
}

#[derive(Debug)]
pub struct World {
    pub(super) settings: Settings,
    pub(super) pods: BTreeMap<ObjectKey, Pod>,
    /// Pods by the `PodGroup` that they name.
    pub(super) members: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Pods by the UID of their controller, if that may be of a workload of ours.
    pub(super) children: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// Pods that the scheduler is about to find a place for, as far as we know.
    pub(super) pending: BTreeSet<ObjectKey>,
    pub(super) nodes: BTreeMap<String, Place>,
    pub(super) namespaces: BTreeMap<String, Namespace>,
    pub(super) owners: BTreeMap<(GroupKind, ObjectKey), Owner>,
    /// Those that ask by themselves: most clusters have many owners, and few of these.
    asking: BTreeSet<(GroupKind, ObjectKey)>,
    pub(super) groups: BTreeMap<ObjectKey, Group>,
    /// Groups by the UID of their controller and their slot.
    pub(super) slots: BTreeMap<(String, String), BTreeSet<ObjectKey>>,
    pub(super) workloads: BTreeMap<ObjectKey, Workload>,
    pub(super) memory: Memory,
    /// Groups, or names of groups that are not there, about which something has changed since the last plan, or was
    /// left to do by it.
    pub(super) open: BTreeSet<ObjectKey>,
    /// Kinds that are being listed, and what was in the list so far.
    lists: BTreeMap<Kind, BTreeSet<ObjectKey>>,
    synced: BTreeSet<Kind>,
}

/// A node, or what pods say of one that has not been seen.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) node: Option<Node>,
    pub(super) used: Resources,
    pub(super) ports: Vec<HostPort>,
}

impl World {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            pods: BTreeMap::new(),
            members: BTreeMap::new(),
            children: BTreeMap::new(),
            pending: BTreeSet::new(),
            nodes: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            owners: BTreeMap::new(),
            asking: BTreeSet::new(),
            groups: BTreeMap::new(),
            slots: BTreeMap::new(),
            workloads: BTreeMap::new(),
            memory: Memory::default(),
            open: BTreeSet::new(),
            lists: BTreeMap::new(),
            synced: BTreeSet::new(),
        }
    }

    pub fn see(&mut self, seen: Seen) {
        match seen {
            Seen::Pod(change) => {
                self.list(&Kind::Pod, &change.object().key);
                self.pod(change);
            }
            Seen::Node(change) => {
                self.list(&Kind::Node, &cluster_wide(&change.object().name));
                self.node(change);
            }
            Seen::Namespace(change) => {
                let name = change.object().name.clone();
                let known = self.namespaces.get(&name);
                if known.is_some_and(|known| known.asks != change.object().asks) {
                    let its = self.groups.keys().filter(|key| key.namespace == name);
                    self.open.extend(its.cloned());
                }
                self.list(&Kind::Namespace, &cluster_wide(&name));
                store(&mut self.namespaces, name, change, |n| &n.version);
            }
            Seen::Owner(change) => {
                let owner = change.object();
                let (kind, key) = (owner.group_kind.clone(), owner.key.clone());
                self.open_of(&[Some(owner.uid.clone()), parent_of(owner)]);
                if let Change::Deleted(owner) = &change {
                    self.memory.forget_owner(&owner.uid);
                }
                self.list(&Kind::Owner(kind.clone()), &key);
                let id = (kind, key);
                store(&mut self.owners, id.clone(), change, |o| &o.version);
                if self.owners.get(&id).is_some_and(|owner| owner.asks == Some(true)) {
                    self.asking.insert(id);
                } else {
                    self.asking.remove(&id);
                }
            }
            Seen::Group(change) => {
                self.list(&Kind::Group, &change.object().object.key);
                self.group(change);
            }
            Seen::Workload(change) => {
                let key = change.object().key.clone();
                self.list(&Kind::Workload, &key);
                let of = |group: &&Group| {
                    let template = group.object.template.as_ref();
                    group.object.key.namespace == key.namespace
                        && template.is_some_and(|template| template.workload == key.name)
                };
                let made_from_it = self.groups.values().filter(of);
                self.open.extend(made_from_it.map(|group| group.object.key.clone()));
                store(&mut self.workloads, key, change, |w| &w.version);
            }
            Seen::ListBegan(kind) => {
                self.lists.insert(kind, BTreeSet::new());
            }
            Seen::ListEnded(kind) => {
                let listed = self.lists.remove(&kind).unwrap_or_default();
                self.retain(&kind, &listed);
                self.synced.insert(kind);
            }
            Seen::NotServed(kind) => {
                self.retain(&kind, &BTreeSet::new());
                self.synced.insert(kind);
            }
        }
    }

    /// What is not known yet. Nothing is done before everything is.
    pub fn unsynced(&self) -> Vec<Kind> {
        let mut kinds = vec![Kind::Namespace, Kind::Group, Kind::Workload];
        kinds.extend(Owner::KINDS.map(|(group, kind)| Kind::Owner(GroupKind::new(group, kind))));
        if self.needs_pods() {
            kinds.push(Kind::Pod);
            kinds.extend((self.settings.api == GroupApi::Holdfast).then_some(Kind::Node));
        }
        kinds.retain(|kind| !self.synced.contains(kind));
        kinds
    }

    /// Whether there is any group, or a workload that is to have some. Before that pods need not be watched.
    pub fn needs_pods(&self) -> bool {
        !self.groups.is_empty() || self.asking().next().is_some()
    }

    /// The namespaces with workloads that ask for groups, or have asked and have pods in them.
    pub fn covered(&self) -> BTreeSet<String> {
        let mut covered: BTreeSet<String> = self.asking().cloned().collect();
        for group in self.groups.values().filter(|group| group.slot.is_some()) {
            let namespace = &group.object.key.namespace;
            if !covered.contains(namespace) && self.is_used(group) {
                covered.insert(namespace.clone());
            }
        }
        covered
    }

    fn asking(&self) -> impl Iterator<Item = &String> {
        let namespaces = self.namespaces.values().filter(|n| n.asks && !n.terminating);
        namespaces.map(|n| &n.name).chain(self.asking.iter().map(|(_, key)| &key.namespace))
    }

    pub(super) fn is_synced(&self, kind: &GroupKind) -> bool {
        self.synced.contains(&Kind::Owner(kind.clone()))
    }

    /// The very object that is referred to.
    pub(super) fn owner(&self, namespace: &str, of: &ControllerRef) -> Option<&Owner> {
        let key = ObjectKey::new(namespace, &*of.name);
        self.owners.get(&(of.group_kind.clone(), key)).filter(|owner| owner.uid == of.uid)
    }

    /// Whether the owner or its namespace asks for groups.
    pub(super) fn asks(&self, owner: &Owner) -> bool {
        let of_namespace = || self.namespaces.get(&owner.key.namespace).is_some_and(|n| n.asks);
        owner.asks.unwrap_or_else(of_namespace)
    }

    /// Pods that name this group, whatever has become of them.
    pub(super) fn members(&self, group: &ObjectKey) -> impl Iterator<Item = &Pod> {
        self.members.get(group).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }

    fn list(&mut self, kind: &Kind, key: &ObjectKey) {
        if let Some(listed) = self.lists.get_mut(kind) {
            listed.insert(key.clone());
        }
    }

    fn retain(&mut self, kind: &Kind, listed: &BTreeSet<ObjectKey>) {
        match kind {
            Kind::Pod => {
                let gone = self.pods.keys().filter(|key| !listed.contains(key));
                for key in gone.cloned().collect::<Vec<_>>() {
                    let group = self.pods.get(&key).and_then(Pod::group_key);
                    self.forget_pod(&key);
                    self.note_end(group);
                }
            }
            Kind::Node => {
                for (name, place) in &mut self.nodes {
                    if !listed.contains(&cluster_wide(name)) {
                        place.node = None;
                    }
                }
            }
            Kind::Namespace => {
                self.namespaces.retain(|name, _| listed.contains(&cluster_wide(name)));
            }
            Kind::Owner(kind) => {
                self.owners.retain(|(k, key), _| k != kind || listed.contains(key));
                self.asking.retain(|id| self.owners.contains_key(id));
                self.open.extend(self.groups.keys().cloned());
            }
            Kind::Group => {
                let gone = self.groups.keys().filter(|key| !listed.contains(key));
                for key in gone.cloned().collect::<Vec<_>>() {
                    self.forget_group(&key);
                }
            }
            Kind::Workload => {
                self.workloads.retain(|key, _| listed.contains(key));
                self.open.extend(self.groups.keys().cloned());
            }
        }
    }

    fn pod(&mut self, change: Change<Pod>) {
        let key = change.object().key.clone();
        if let Some(known) = self.pods.get(&key)
            && change.object().version.is_older_than(&known.version)
        {
            return;
        }
        let before = self.pods.get(&key).and_then(Pod::group_key);
        self.forget_pod(&key);
        if let Change::Applied(pod) = change {
            self.keep_pod(key, pod);
        }
        self.note_end(before);
    }

    fn keep_pod(&mut self, key: ObjectKey, mut pod: Pod) {
        if pod.group.is_none() && pod.node.is_some() {
            // It is where it is: only what it takes there matters.
            pod.constraints.node_selector.clear();
            pod.constraints.affinity = None;
            pod.constraints.tolerations.clear();
        }
        if let Some(group) = pod.group_key() {
            self.touch(&group);
            self.members.entry(group).or_default().insert(key.clone());
        }
        if let Some(controller) = parent(&pod) {
            self.children.entry(controller.to_owned()).or_default().insert(key.clone());
        }
        if !pod.finished {
            if let Some(node) = &pod.node {
                let place = self.nodes.entry(node.clone()).or_default();
                for (resource, amount) in &pod.requests {
                    let used = place.used.entry(resource.clone()).or_default();
                    *used = used.saturating_add(*amount);
                }
                place.ports.extend(pod.constraints.ports.iter().cloned());
            } else if !pod.terminating && !pod.gated && !pod.held {
                self.pending.insert(key.clone());
            }
        }
        self.pods.insert(key, pod);
    }

    /// The next pods may be there before the next plan, and are another gang.
    fn note_end(&mut self, group: Option<ObjectKey>) {
        let Some(key) = group else { return };
        if !self.members(&key).any(Pod::is_lasting)
            && let Some(group) = self.groups.get(&key)
        {
            self.memory.gang(&key, &group.object.uid).over = true;
        }
    }

    fn forget_pod(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.remove(key) else { return };
        self.pending.remove(key);
        if let Some(group) = pod.group_key() {
            self.touch(&group);
            remove(&mut self.members, &group, key);
        }
        if let Some(controller) = parent(&pod) {
            remove(&mut self.children, &controller.to_owned(), key);
        }
        if let Some(place) = pod.node.as_ref().and_then(|node| self.nodes.get_mut(node))
            && !pod.finished
        {
            for (resource, amount) in &pod.requests {
                if let Some(used) = place.used.get_mut(resource) {
                    *used = used.saturating_sub(*amount);
                }
            }
            for port in &pod.constraints.ports {
                if let Some(at) = place.ports.iter().position(|used| used == port) {
                    place.ports.swap_remove(at);
                }
            }
        }
    }

    fn node(&mut self, change: Change<Node>) {
        match change {
            Change::Applied(node) => {
                let place = self.nodes.entry(node.name.clone()).or_default();
                place.node = Some(node);
            }
            Change::Deleted(node) => {
                if let Some(place) = self.nodes.get_mut(&node.name) {
                    place.node = None;
                }
            }
        }
    }

    fn group(&mut self, change: Change<Group>) {
        let key = change.object().object.key.clone();
        if let Some(known) = self.groups.get(&key)
            && change.object().object.version.is_older_than(&known.object.version)
        {
            return;
        }
        self.forget_group(&key);
        let Change::Applied(group) = change else { return };
        if let Some(slot) = slot_of(&group) {
            self.slots.entry(slot).or_default().insert(key.clone());
        }
        self.groups.insert(key.clone(), group);
        self.touch(&key);
    }

    fn forget_group(&mut self, key: &ObjectKey) {
        self.touch(key);
        if let Some(slot) = self.groups.remove(key).as_ref().and_then(slot_of) {
            remove(&mut self.slots, &slot, key);
        }
    }

    /// The group is to be looked at, and so are others of its slot.
    fn touch(&mut self, key: &ObjectKey) {
        let slot = self.groups.get(key).and_then(slot_of);
        let others = slot.and_then(|slot| self.slots.get(&slot));
        self.open.extend(others.into_iter().flatten().cloned());
        self.open.insert(key.clone());
    }

    /// Groups of these workloads.
    fn open_of(&mut self, owners: &[Option<String>]) {
        for uid in owners.iter().flatten() {
            let slots = self.slots.range((uid.clone(), String::new())..);
            let its = slots.take_while(|((owner, _), _)| owner == uid).flat_map(|(_, keys)| keys);
            self.open.extend(its.cloned());
        }
    }
}

/// Of a Job that a `JobSet` has made.
fn parent_of(owner: &Owner) -> Option<String> {
    owner.controller.as_ref().map(|controller| controller.uid.clone())
}

/// Whose controller may be of a workload of ours: only these are looked up.
fn parent(pod: &Pod) -> Option<&str> {
    let controller = pod.controller.as_ref()?;
    let kind = &controller.group_kind;
    (kind.is("apps", "StatefulSet") || kind.is("batch", "Job")).then_some(controller.uid.as_str())
}

/// The UID of its controller, and its slot.
pub(super) fn slot_of(group: &Group) -> Option<(String, String)> {
    Some((group.object.controller.as_ref()?.uid.clone(), group.slot.clone()?))
}

/// Of an object without namespace.
fn cluster_wide(name: &str) -> ObjectKey {
    ObjectKey::new("", name)
}

fn store<K: Ord, T>(
    objects: &mut BTreeMap<K, T>,
    key: K,
    change: Change<T>,
    version: impl Fn(&T) -> &ResourceVersion,
) {
    let known = objects.get(&key);
    if known.is_some_and(|known| version(change.object()).is_older_than(version(known))) {
        return;
    }
    match change {
        Change::Applied(object) => objects.insert(key, object),
        Change::Deleted(_) => objects.remove(&key),
    };
}

fn remove<K: Ord>(index: &mut BTreeMap<K, BTreeSet<ObjectKey>>, at: &K, key: &ObjectKey) {
    if let Some(keys) = index.get_mut(at) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(at);
        }
    }
}
