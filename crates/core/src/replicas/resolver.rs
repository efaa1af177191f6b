//! A replica's minCount, whether it is leaving, and where its expected number comes from.

use std::collections::BTreeSet;
use std::sync::Arc;

use litemap::LiteMap;

use super::{Member, MinCount, ReplicaKey, Resolution, Source};
use crate::cache::{GroupCount, ObjectName, Objects, owner_kind};
use crate::model::{
    ControllerRef, GroupApi, GroupKind, GroupPolicy, GroupReference, Owner, PodGroup, TemplateRef,
    WorkloadEntry,
};

pub(crate) const KUBERNETES_FIRST: [GroupApi; 2] = [GroupApi::Kubernetes, GroupApi::Holdfast];
pub(crate) const HOLDFAST_FIRST: [GroupApi; 2] = [GroupApi::Holdfast, GroupApi::Kubernetes];

/// Resolves a replica from its members, and says which objects were looked at, found or not: when one of them changes,
/// the replica is resolved again.
pub(crate) fn resolve(
    objects: &Objects,
    key: &ReplicaKey,
    members: &LiteMap<Arc<Member>, u32>,
) -> (Resolution, Box<[ObjectName]>) {
    let mut resolver = Resolver { objects, members, seen: BTreeSet::new(), whole: false };
    let resolution = match key {
        ReplicaKey::Lws { .. } => resolver.lws(key),
        ReplicaKey::PodGroup { name } => resolver.pod_group(key, name, KUBERNETES_FIRST),
        ReplicaKey::AnnotatedGroup { name } => resolver.pod_group(key, name, HOLDFAST_FIRST),
        ReplicaKey::WorkloadEntry { workload, entry, replica_key } => {
            resolver.entry(key, workload, entry, replica_key.as_deref())
        }
        // Made up by a budget, which resolves it too: no pod names one.
        ReplicaKey::Labelled { .. } => Resolution::default(),
    };
    let resolution = Resolution { whole: resolver.whole, ..resolution };
    (resolution, resolver.seen.into_iter().collect())
}

struct Resolver<'a> {
    objects: &'a Objects,
    members: &'a LiteMap<Arc<Member>, u32>,
    seen: BTreeSet<ObjectName>,
    /// A `PodGroup` was looked at that is disrupted as a whole.
    whole: bool,
}

impl<'a> Resolver<'a> {
    /// Semantics 3.1.
    fn lws(&mut self, key: &ReplicaKey) -> Resolution {
        let member = self.members.keys().find_map(|m| m.lws.as_ref());
        let name = member.map(|m| m.lws.clone()).unwrap_or_default();
        let index = self.members.keys().filter_map(|m| m.lws.as_ref()?.group_index).max();
        let kind = GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet");
        self.seen.insert(ObjectName::Owner(Box::new((kind, name.clone()))));
        let lws = self.objects.owner(Owner::LWS_GROUP, "LeaderWorkerSet", &name);
        let keeps_group = lws.is_some_and(|lws| lws.lws_keeps_group);
        let by_reference = if keeps_group { self.min_by_reference() } else { None };
        let leaving = match (index, lws.and_then(|lws| lws.replicas)) {
            (Some(index), Some(replicas)) => index >= replicas,
            _ => false,
        };
        let label = index.map_or_else(
            || key.to_string(),
            |index| format!("LeaderWorkerSet {name} group {index}"),
        );
        Resolution {
            min: by_reference.unwrap_or_else(|| self.min_by_size(&label)),
            whole: false,
            leaving,
            sources: Arc::from([Source::Lws { name: name.clone() }]),
            workload: Some(format!("LeaderWorkerSet {name}")),
            jobs: BTreeSet::new(),
            label,
        }
    }

    fn min_by_size(&self, label: &str) -> MinCount {
        let mut largest = None;
        for member in self.unfinished() {
            let Some(size) = member.lws.as_ref().and_then(|lws| lws.size) else {
                return MinCount::Unresolved(unreadable_size(label));
            };
            largest = largest.max(Some(size));
        }
        match largest {
            Some(size) => MinCount::Known(size),
            None => MinCount::Unresolved(format!("{label} has no unfinished pod")),
        }
    }

    /// The largest minCount of what the members name; None if they name nothing.
    fn min_by_reference(&mut self) -> Option<MinCount> {
        let references: BTreeSet<GroupReference> =
            self.unfinished().filter_map(|m| m.reference.clone()).collect();
        let mut largest = None;
        for reference in references {
            let min = match &reference {
                GroupReference::PodGroup { name } => self.group_min(name, KUBERNETES_FIRST).0,
                GroupReference::Annotation { name } => self.group_min(name, HOLDFAST_FIRST).0,
                GroupReference::WorkloadEntry { workload, entry, replica_key } => {
                    self.entry_min(workload, entry, replica_key.as_deref()).0
                }
            };
            match (min, &largest) {
                (MinCount::Known(n), Some(MinCount::Known(m))) if n <= *m => {}
                (MinCount::Known(n), _) => largest = Some(MinCount::Known(n)),
                (unresolved, _) => return Some(unresolved),
            }
        }
        largest
    }

    /// Semantics 3.2 and 3.4.
    fn pod_group(&mut self, key: &ReplicaKey, name: &str, order: [GroupApi; 2]) -> Resolution {
        let (min, group) = self.group_min(name, order);
        let count = group.and_then(GroupCount::of);
        let template = group.and_then(|g| Some((g.api, g.template.as_ref()?)));
        let counted_entry = template.and_then(|(api, t)| {
            let entry = self.objects.workload_entry(api, &t.workload, &t.template)?;
            entry.replicas.map(|_| Source::Entry {
                api,
                workload: t.workload.clone(),
                entry: t.template.clone(),
            })
        });
        let (sources, jobs) = match counted_entry {
            Some(source) => (BTreeSet::from([source]), BTreeSet::new()),
            None => self.owner_sources(count.as_ref()),
        };
        let workload = group.and_then(|g| match (&g.template, &g.controller) {
            (Some(t), _) => Some(format!("Workload {}", t.workload)),
            (None, Some(c)) => Some(format!("{} {}", c.group_kind.kind, c.uid)),
            (None, None) => None,
        });
        Resolution {
            min,
            whole: false,
            leaving: group.is_some_and(|g| g.terminating),
            sources: sources.into_iter().collect(),
            workload,
            jobs,
            label: key.to_string(),
        }
    }

    /// Semantics 3.3.
    fn entry(
        &mut self,
        key: &ReplicaKey,
        workload: &str,
        entry: &str,
        replica_key: Option<&str>,
    ) -> Resolution {
        let (min, found) = self.entry_min(workload, entry, replica_key);
        let (sources, jobs) = match found {
            Some((api, e)) if e.replicas.is_some() => {
                let source =
                    Source::Entry { api, workload: workload.to_owned(), entry: entry.to_owned() };
                (BTreeSet::from([source]), BTreeSet::new())
            }
            _ => self.owner_sources(None),
        };
        Resolution {
            min,
            whole: false,
            leaving: false,
            sources: sources.into_iter().collect(),
            workload: Some(format!("Workload {workload}")),
            jobs,
            label: key.to_string(),
        }
    }

    fn entry_min(
        &mut self,
        workload: &str,
        entry: &str,
        replica_key: Option<&str>,
    ) -> (MinCount, Option<(GroupApi, &'a WorkloadEntry)>) {
        self.seen.insert(ObjectName::Workload(workload.to_owned()));
        let objects = self.objects;
        let Some(api) =
            KUBERNETES_FIRST.into_iter().find(|api| objects.has_workload(*api, workload))
        else {
            return (MinCount::Unresolved(format!("Workload {workload} does not exist")), None);
        };
        let Some(found) = objects.workload_entry(api, workload, entry) else {
            let why = format!("Workload {workload} has no pod group named {entry}");
            return (MinCount::Unresolved(why), None);
        };
        let no_key = replica_key.is_none_or(str::is_empty);
        let min = match found.replicas {
            Some(replicas) if replicas > 1 && no_key => MinCount::Unresolved(format!(
                "pod group {entry} of Workload {workload} has {replicas} replicas, but its pods carry no \
                 podGroupReplicaKey that tells them apart"
            )),
            _ => policy_min(found.policy, &format!("pod group {entry} of Workload {workload}")),
        };
        (min, Some((api, found)))
    }

    fn group_min(&mut self, name: &str, order: [GroupApi; 2]) -> (MinCount, Option<&'a PodGroup>) {
        self.seen.insert(ObjectName::PodGroup(name.to_owned()));
        let objects = self.objects;
        let Some(group) = order.into_iter().find_map(|api| objects.group(api, name)) else {
            return (MinCount::Unresolved(format!("PodGroup {name} does not exist")), None);
        };
        if let Some(template) = &group.template {
            self.seen.insert(ObjectName::Workload(template.workload.clone()));
        }
        if let Some(parent) = &group.composite_parent {
            let why = format!(
                "PodGroup {name} belongs to CompositePodGroup {parent}, and composites are not supported yet"
            );
            return (MinCount::Unresolved(why), Some(group));
        }
        let policy = match (group.policy, &group.template) {
            (GroupPolicy::Absent, Some(template)) => {
                let TemplateRef { workload, template } = template;
                if !objects.has_workload(group.api, workload) {
                    let why = format!("Workload {workload} of PodGroup {name} does not exist");
                    return (MinCount::Unresolved(why), Some(group));
                }
                let Some(entry) = objects.workload_entry(group.api, workload, template) else {
                    let why = format!(
                        "Workload {workload} of PodGroup {name} has no pod group template named {template}"
                    );
                    return (MinCount::Unresolved(why), Some(group));
                };
                entry.policy
            }
            (policy, _) => policy,
        };
        self.whole |= group.disrupt_whole;
        let min = match policy_min(policy, &format!("PodGroup {name}")) {
            // disruptionMode all: no surplus (semantics 3.2).
            MinCount::Known(n) if group.disrupt_whole => MinCount::Known(n.max(self.present())),
            MinCount::Basic { group: what, .. } if group.disrupt_whole => {
                MinCount::Basic { group: what, at_least: self.present() }
            }
            min => min,
        };
        (min, Some(group))
    }

    /// Sources b to d of semantics 4, for each controller among the members.
    fn owner_sources(
        &mut self,
        count: Option<&GroupCount>,
    ) -> (BTreeSet<Source>, BTreeSet<(String, String)>) {
        let controllers: BTreeSet<Option<&'a ControllerRef>> =
            self.members.keys().map(|m| m.controller.as_deref()).collect();
        let mut sources = BTreeSet::new();
        let mut jobs = BTreeSet::new();
        for controller in controllers {
            let root = controller.and_then(|c| self.root(c));
            let kind = |owner: &Owner, group, kind| owner.group_kind.is(group, kind);
            let source = root.and_then(|owner| {
                let name = owner.key.name.clone();
                if kind(owner, Owner::LWS_GROUP, "LeaderWorkerSet") {
                    Some(Source::Lws { name })
                } else if kind(owner, "batch", "Job") {
                    Some(Source::Job { name })
                } else if kind(owner, Owner::JOBSET_GROUP, "JobSet") {
                    jobs.extend(controller.map(|c| (name.clone(), c.uid.clone())));
                    Some(Source::JobSet { name, otherwise: count.cloned() })
                } else if kind(owner, "apps", "StatefulSet") && owner.group_size.is_some() {
                    Some(Source::StatefulSet { name })
                } else {
                    None
                }
            });
            let counted = || count.map_or(Source::Unknown, |count| Source::Groups(count.clone()));
            sources.insert(source.unwrap_or_else(counted));
        }
        (sources, jobs)
    }

    /// The root of the controller chain, if every link is in the cache.
    fn root(&mut self, controller: &'a ControllerRef) -> Option<&'a Owner> {
        // Real chains have 2 or 3 links; the bound is against loops.
        const LINKS_MAX: usize = 8;
        let mut reference = controller;
        for _ in 0..LINKS_MAX {
            let kind = owner_kind(&reference.group_kind).into_owned();
            self.seen.insert(ObjectName::Owner(Box::new((kind, reference.name.clone()))));
            let owner = self.objects.controller(reference)?;
            match &owner.controller {
                Some(next) => reference = next,
                None => return Some(owner),
            }
        }
        None
    }

    fn unfinished(&self) -> impl Iterator<Item = &Member> {
        self.members.keys().map(|m| &**m).filter(|m| m.unfinished)
    }

    fn present(&self) -> i64 {
        self.members.iter().filter(|(m, _)| m.unfinished).map(|(_, n)| i64::from(*n)).sum()
    }
}

/// Says that a pod of a `LeaderWorkerSet` group does not tell how many pods the group has.
pub(crate) fn unreadable_size(label: &str) -> String {
    format!(
        "a pod of {label} has no readable annotation leaderworkerset.sigs.k8s.io/size, which is a whole number from 1 \
         to {}",
        i32::MAX
    )
}

fn policy_min(policy: GroupPolicy, what: &str) -> MinCount {
    match policy {
        GroupPolicy::Gang { min_count } if min_count >= 1 => MinCount::Known(min_count),
        GroupPolicy::Gang { min_count } => MinCount::Unresolved(format!(
            "gang.minCount of {what} is {min_count}, which is below 1"
        )),
        GroupPolicy::Basic => MinCount::Basic { group: what.to_owned(), at_least: 0 },
        GroupPolicy::Absent => {
            MinCount::Unresolved(format!("{what} has neither a scheduling policy nor a template"))
        }
    }
}
