//! `PodGroups`, Workloads and owners of one namespace.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::io::Kind;
use crate::model::{
    ControllerRef, GroupApi, GroupKind, Owner, PodGroup, ResourceVersion, TemplateRef, Workload,
    WorkloadEntry,
};

/// Controller chains have 2 or 3 links. The bound is against loops.
const LINKS_MAX: usize = 8;

/// The name of an object. `PodGroups` and Workloads of both APIs share their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ObjectName {
    PodGroup(String),
    Workload(String),
    /// Boxed, so that a `PodGroup`, of which there are more, takes no more than its name.
    Owner(Box<(GroupKind, String)>),
}

/// An object that has come, changed or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Changed {
    pub(crate) object: ObjectName,
    pub(crate) kind: Kind,
    pub(crate) version: ResourceVersion,
}

/// `PodGroup` objects that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupCount {
    Template(GroupApi, TemplateRef),
    Controller(GroupApi, String),
}

impl GroupCount {
    pub(crate) fn of(group: &PodGroup) -> Option<Self> {
        if let Some(template) = &group.template {
            return Some(Self::Template(group.api, template.clone()));
        }
        group.controller.as_ref().map(|c| Self::Controller(group.api, c.uid.clone()))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    groups: BTreeMap<(GroupApi, String), Box<PodGroup>>,
    workloads: BTreeMap<(GroupApi, String), Workload>,
    /// By kind, of which there are few, and name.
    owners: BTreeMap<GroupKind, BTreeMap<String, Owner>>,
    /// Incremental: `PodGroups` that are not being deleted.
    group_counts: BTreeMap<GroupCount, i64>,
}

impl Objects {
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.workloads.is_empty() && self.owners.is_empty()
    }

    pub(crate) fn group(&self, api: GroupApi, name: &str) -> Option<&PodGroup> {
        self.groups.get(&(api, name.to_owned())).map(|group| &**group)
    }

    /// Returns how many such `PodGroups` there are; None if there are none.
    pub(crate) fn group_count(&self, count: &GroupCount) -> Option<i64> {
        self.group_counts.get(count).copied()
    }

    pub(crate) fn has_workload(&self, api: GroupApi, name: &str) -> bool {
        self.workloads.contains_key(&(api, name.to_owned()))
    }

    pub(crate) fn workload_entry(
        &self,
        api: GroupApi,
        workload: &str,
        entry: &str,
    ) -> Option<&WorkloadEntry> {
        let workload = self.workloads.get(&(api, workload.to_owned()))?;
        workload.entries.iter().find(|e| e.name == entry)
    }

    pub(crate) fn owner(&self, group: &str, kind: &str, name: &str) -> Option<&Owner> {
        let (_, of_kind) = self.owners.iter().find(|(known, _)| known.is(group, kind))?;
        of_kind.get(name)
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.owners.values().flat_map(BTreeMap::values)
    }

    pub(crate) fn owners_of(&self, group: &str, kind: &str) -> impl Iterator<Item = &Owner> {
        let of_kind = self.owners.iter().find(|(known, _)| known.is(group, kind));
        of_kind.into_iter().flat_map(|(_, of_kind)| of_kind.values())
    }

    /// Returns the owner that a controller reference means, if the cache holds that very object.
    pub(crate) fn controller(&self, reference: &ControllerRef) -> Option<&Owner> {
        self.named(reference).filter(|owner| owner.uid == reference.uid)
    }

    /// Returns the owner that has the name now, that very object or another.
    pub(crate) fn named(&self, reference: &ControllerRef) -> Option<&Owner> {
        self.owners.get(&*owner_kind(&reference.group_kind))?.get(&reference.name)
    }

    /// Returns the controller, its controller, and so on, as far as the cache holds them.
    pub(crate) fn chain<'a>(
        &'a self,
        controller: &'a ControllerRef,
    ) -> impl Iterator<Item = &'a ControllerRef> {
        let next = move |reference: &&'a ControllerRef| {
            self.controller(reference).and_then(|owner| owner.controller.as_ref())
        };
        std::iter::successors(Some(controller), next).take(LINKS_MAX)
    }

    /// Returns the last link of the controller chain that is known.
    pub(crate) fn root<'a>(&'a self, controller: &'a ControllerRef) -> &'a ControllerRef {
        self.chain(controller).last().unwrap_or(controller)
    }

    /// Returns the owner by which upstream's finders scale such a pod: `ReplicationController`, Deployment, `ReplicaSet`,
    /// `StatefulSet` and Kruise's are watched (upstream 1.5).
    pub(crate) fn scaled_owner(&self, reference: &ControllerRef) -> Option<&Owner> {
        let kind = &*owner_kind(&reference.group_kind);
        let direct = kind.is("", "ReplicationController")
            || kind.is("apps", "StatefulSet")
            || kind.group == Owner::KRUISE_GROUP;
        if direct {
            return self.controller(reference);
        }
        if !kind.is("apps", "ReplicaSet") {
            return None;
        }
        let set = self.controller(reference)?;
        match &set.controller {
            Some(parent) if owner_kind(&parent.group_kind).is("apps", "Deployment") => {
                self.controller(parent)
            }
            // A Deployment of another API group is not watched; its ReplicaSet does not count.
            Some(parent) if parent.group_kind.kind == "Deployment" => None,
            _ => Some(set),
        }
    }

    /// Returns kind and version of every object.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (Kind, &ResourceVersion)> {
        let groups = self.groups.iter().map(|((api, _), g)| (Kind::PodGroup(*api), &g.version));
        let workloads = self.workloads.iter();
        let workloads = workloads.map(|((api, _), w)| (Kind::Workload(*api), &w.version));
        let owners = self.owners.iter().flat_map(|(kind, of_kind)| {
            of_kind.values().map(|owner| (Kind::Owner(kind.clone()), &owner.version))
        });
        groups.chain(workloads).chain(owners)
    }

    /// None: the event says nothing new.
    pub(crate) fn apply_group(&mut self, group: PodGroup) -> Option<Changed> {
        let key = (group.api, group.key.name.clone());
        let version = group.version.clone();
        let old = self.groups.get(&key);
        if old.is_some_and(|old| version.is_older_than(&old.version)) {
            return None;
        }
        let is_same = old
            .is_some_and(|old| PodGroup { version: version.clone(), ..(**old).clone() } == group);
        let (object, kind) = (ObjectName::PodGroup(key.1.clone()), Kind::PodGroup(key.0));
        self.count(&group, 1);
        if let Some(old) = self.groups.insert(key, Box::new(group)) {
            self.count(&old, -1);
        }
        (!is_same).then_some(Changed { object, kind, version })
    }

    /// None: there was no such object.
    pub(crate) fn delete_group(
        &mut self,
        api: GroupApi,
        name: &str,
        version: &ResourceVersion,
    ) -> Option<Changed> {
        let old = self.groups.remove(&(api, name.to_owned()))?;
        self.count(&old, -1);
        let (object, kind) = (ObjectName::PodGroup(name.to_owned()), Kind::PodGroup(api));
        Some(Changed { object, kind, version: version.clone() })
    }

    /// None: the event is older than what is known.
    pub(crate) fn apply_workload(&mut self, workload: Workload) -> Option<Changed> {
        let key = (workload.api, workload.key.name.clone());
        let version = workload.version.clone();
        if self.workloads.get(&key).is_some_and(|old| version.is_older_than(&old.version)) {
            return None;
        }
        let (object, kind) = (ObjectName::Workload(key.1.clone()), Kind::Workload(key.0));
        self.workloads.insert(key, workload);
        Some(Changed { object, kind, version })
    }

    /// None: there was no such object.
    pub(crate) fn delete_workload(
        &mut self,
        api: GroupApi,
        name: &str,
        version: &ResourceVersion,
    ) -> Option<Changed> {
        self.workloads.remove(&(api, name.to_owned()))?;
        let (object, kind) = (ObjectName::Workload(name.to_owned()), Kind::Workload(api));
        Some(Changed { object, kind, version: version.clone() })
    }

    /// Takes in an owner that says nothing new. Returns one that does, for [`Self::put_owner`]: owners change with every
    /// pod of theirs, and hardly any change is one of scale.
    pub(crate) fn news_of_owner(&mut self, owner: Owner) -> Option<Owner> {
        let of_kind = self.owners.get_mut(&owner.group_kind);
        let Some(old) = of_kind.and_then(|of_kind| of_kind.get_mut(&owner.key.name)) else {
            return Some(owner);
        };
        if owner.version.is_older_than(&old.version) {
            return None;
        }
        let is_same = Owner { version: owner.version.clone(), ..old.clone() } == owner;
        if is_same {
            *old = owner;
            return None;
        }
        Some(owner)
    }

    pub(crate) fn put_owner(&mut self, owner: Owner) -> Changed {
        let (kind, name) = (owner.group_kind.clone(), owner.key.name.clone());
        let changed = Changed::owner(kind.clone(), &name, &owner.version);
        self.owners.entry(kind).or_default().insert(name, owner);
        changed
    }

    /// None: there was no such object.
    pub(crate) fn delete_owner(
        &mut self,
        kind: &GroupKind,
        name: &str,
        version: &ResourceVersion,
    ) -> Option<Changed> {
        let of_kind = self.owners.get_mut(kind)?;
        of_kind.remove(name)?;
        if of_kind.is_empty() {
            self.owners.remove(kind);
        }
        Some(Changed::owner(kind.clone(), name, version))
    }

    /// Returns the names of objects of this kind for which that holds.
    pub(crate) fn names_where(
        &self,
        kind: &Kind,
        holds: impl Fn(&str, &ResourceVersion) -> bool,
    ) -> Vec<String> {
        let all: Vec<(&String, &ResourceVersion)> = match kind {
            Kind::PodGroup(api) => {
                let of_api = self.groups.iter().filter(|((of, _), _)| of == api);
                of_api.map(|((_, name), group)| (name, &group.version)).collect()
            }
            Kind::Workload(api) => {
                let of_api = self.workloads.iter().filter(|((of, _), _)| of == api);
                of_api.map(|((_, name), workload)| (name, &workload.version)).collect()
            }
            Kind::Owner(kind) => {
                let of_kind = self.owners.get(kind).into_iter().flatten();
                of_kind.map(|(name, owner)| (name, &owner.version)).collect()
            }
            Kind::Pod | Kind::Budget | Kind::UnavailableBudget | Kind::BuiltinBudget => Vec::new(),
        };
        let such = all.into_iter().filter(|(name, version)| holds(name, version));
        such.map(|(name, _)| name.clone()).collect()
    }

    /// Every object of this kind has this version from now on.
    pub(crate) fn set_versions(&mut self, kind: &Kind, version: &ResourceVersion) {
        match kind {
            Kind::PodGroup(api) => {
                let of_api = self.groups.iter_mut().filter(|((of, _), _)| of == api);
                of_api.for_each(|(_, group)| group.version.clone_from(version));
            }
            Kind::Workload(api) => {
                let of_api = self.workloads.iter_mut().filter(|((of, _), _)| of == api);
                of_api.for_each(|(_, workload)| workload.version.clone_from(version));
            }
            Kind::Owner(kind) => {
                let of_kind = self.owners.get_mut(kind).into_iter().flatten();
                of_kind.for_each(|(_, owner)| owner.version.clone_from(version));
            }
            Kind::Pod | Kind::Budget | Kind::UnavailableBudget | Kind::BuiltinBudget => {}
        }
    }

    fn count(&mut self, group: &PodGroup, n: i64) {
        if group.terminating {
            return;
        }
        let Some(key) = GroupCount::of(group) else { return };
        let count = self.group_counts.entry(key.clone()).or_insert(0);
        *count += n;
        if *count == 0 {
            self.group_counts.remove(&key);
        }
    }
}

impl Changed {
    fn owner(kind: GroupKind, name: &str, version: &ResourceVersion) -> Self {
        let object = ObjectName::Owner(Box::new((kind.clone(), name.to_owned())));
        Self { object, kind: Kind::Owner(kind), version: version.clone() }
    }
}

/// `extensions` was the old home of the workloads of `apps` (upstream 1.5).
pub(crate) fn owner_kind(kind: &GroupKind) -> Cow<'_, GroupKind> {
    let moved = matches!(kind.kind.as_str(), "ReplicaSet" | "Deployment");
    if moved && kind.group == "extensions" {
        Cow::Owned(GroupKind::new("apps", kind.kind.clone()))
    } else {
        Cow::Borrowed(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{GroupPolicy, ObjectKey, OwnerPods};

    fn group(name: &str, version: u64) -> PodGroup {
        PodGroup {
            api: GroupApi::Kubernetes,
            key: ObjectKey::new("n", name),
            uid: name.to_owned(),
            version: version.into(),
            terminating: false,
            controller: Some(reference("Job", "j")),
            policy: GroupPolicy::Gang { min_count: 1 },
            template: None,
            disrupt_whole: false,
            composite_parent: None,
        }
    }

    fn reference(kind: &str, name: &str) -> ControllerRef {
        ControllerRef {
            group_kind: GroupKind::new("apps", kind),
            version: "v1".to_owned(),
            name: name.to_owned(),
            uid: format!("uid of {name}"),
        }
    }

    fn owner(kind: &str, name: &str, controller: Option<ControllerRef>) -> Owner {
        Owner {
            group_kind: GroupKind::new("apps", kind),
            key: ObjectKey::new("n", name),
            uid: format!("uid of {name}"),
            version: 5.into(),
            terminating: false,
            controller,
            replicas: Some(3),
            group_size: None,
            lws_keeps_group: false,
            pods: OwnerPods::default(),
        }
    }

    #[test]
    fn groups_are_counted_while_they_are_not_being_deleted() {
        let mut objects = Objects::default();
        let count = GroupCount::of(&group("a", 1)).unwrap();
        assert!(objects.apply_group(group("a", 1)).is_some());
        assert!(objects.apply_group(group("b", 2)).is_some());
        assert_eq!(objects.group_count(&count), Some(2));
        assert_eq!(objects.apply_group(group("a", 3)), None, "a new version alone is no news");
        assert_eq!(objects.apply_group(group("a", 2)), None, "late");
        assert_eq!(objects.group_count(&count), Some(2));
        assert!(objects.apply_group(PodGroup { terminating: true, ..group("a", 4) }).is_some());
        assert_eq!(objects.group_count(&count), Some(1));
        let changed = objects.delete_group(GroupApi::Kubernetes, "b", &7.into()).unwrap();
        assert_eq!(changed.object, ObjectName::PodGroup("b".to_owned()));
        assert_eq!(
            (changed.kind, changed.version),
            (Kind::PodGroup(GroupApi::Kubernetes), 7.into())
        );
        assert_eq!(objects.group_count(&count), None);
        assert!(objects.delete_group(GroupApi::Kubernetes, "b", &8.into()).is_none());
    }

    #[test]
    fn an_owner_is_news_when_more_than_its_version_changes() {
        let mut objects = Objects::default();
        let own = owner("ReplicaSet", "r", None);
        assert_eq!(objects.news_of_owner(own.clone()), Some(own.clone()));
        let _ = objects.put_owner(own.clone());
        let newer = Owner { version: 6.into(), ..own.clone() };
        assert_eq!(objects.news_of_owner(newer), None);
        assert_eq!(objects.owner("apps", "ReplicaSet", "r").unwrap().version, 6.into());
        let scaled = Owner { version: 7.into(), replicas: Some(4), ..own.clone() };
        assert_eq!(objects.news_of_owner(scaled.clone()), Some(scaled.clone()));
        assert_eq!(objects.news_of_owner(Owner { version: 5.into(), ..scaled }), None, "late");
        assert!(objects.delete_owner(&own.group_kind, "r", &8.into()).is_some());
        assert!(objects.is_empty());
    }

    #[test]
    fn a_replica_set_is_scaled_by_its_deployment() {
        let mut objects = Objects::default();
        let _ = objects.put_owner(owner("Deployment", "d", None));
        let _ = objects.put_owner(owner("ReplicaSet", "r", Some(reference("Deployment", "d"))));
        let scaled = |objects: &Objects, of: &ControllerRef| {
            objects.scaled_owner(of).map(|owner| owner.key.name.clone())
        };
        assert_eq!(scaled(&objects, &reference("ReplicaSet", "r")).as_deref(), Some("d"));
        let another = ControllerRef { uid: "another".to_owned(), ..reference("ReplicaSet", "r") };
        assert_eq!(scaled(&objects, &another), None);
        let mut foreign = reference("Deployment", "d");
        foreign.group_kind.group = "example.com".to_owned();
        let _ = objects.put_owner(owner("ReplicaSet", "r", Some(foreign)));
        assert_eq!(scaled(&objects, &reference("ReplicaSet", "r")), None);
    }

    #[test]
    fn a_chain_ends_where_the_cache_does_and_in_loops() {
        let mut objects = Objects::default();
        let _ = objects.put_owner(owner("ReplicaSet", "r", Some(reference("Deployment", "d"))));
        let of_r = reference("ReplicaSet", "r");
        assert_eq!(objects.root(&of_r).name, "d", "named, though it is not in the cache");
        let _ = objects.put_owner(owner("Deployment", "d", Some(of_r.clone())));
        assert_eq!(objects.chain(&of_r).count(), LINKS_MAX);
    }
}
