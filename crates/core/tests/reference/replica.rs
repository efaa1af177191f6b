//! Semantics 3: which replica a pod belongs to, and how many healthy pods that replica needs.

use holdfast_core::model::{
    BasicMinCount, Budget, GroupApi, GroupKind, GroupPolicy, GroupReference, LwsMember, Owner, Pod,
    PodGroup, Workload, WorkloadEntry,
};

use super::Snapshot;
use super::absent::remembered_size;

/// One replica of a namespace. A `PodGroup` and an annotation of the same name are two replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replica {
    Lws { lws: String, group_key: String },
    PodGroup { name: String },
    Entry { workload: String, entry: String, key: Option<String> },
    Annotation { name: String },
}

/// First match wins; None is "no reference".
pub fn replica_of(world: &Snapshot, pod: &Pod) -> Option<Replica> {
    if world.config.lws
        && let Some(LwsMember { lws, group_key, .. }) = &pod.lws
    {
        return Some(Replica::Lws { lws: lws.clone(), group_key: group_key.clone() });
    }
    pod.reference.as_ref().map(by_reference)
}

pub fn by_reference(reference: &GroupReference) -> Replica {
    match reference {
        GroupReference::PodGroup { name } => Replica::PodGroup { name: name.clone() },
        GroupReference::WorkloadEntry { workload, entry, replica_key } => Replica::Entry {
            workload: workload.clone(),
            entry: entry.clone(),
            key: replica_key.clone(),
        },
        GroupReference::Annotation { name } => Replica::Annotation { name: name.clone() },
    }
}

/// Every pod of the namespace that belongs to the replica, in any phase, selected or not.
pub fn members<'a>(world: &'a Snapshot, namespace: &'a str, replica: &Replica) -> Vec<&'a Pod> {
    world
        .pods_in(namespace)
        .filter(|pod| replica_of(world, pod).as_ref() == Some(replica))
        .collect()
}

fn unfinished<'a>(world: &'a Snapshot, namespace: &'a str, replica: &Replica) -> Vec<&'a Pod> {
    members(world, namespace, replica).into_iter().filter(|pod| !pod.is_terminal()).collect()
}

/// None is "unresolved". It depends on the budget only through the annotation for `basic` policies.
pub fn min_count(world: &Snapshot, budget: &Budget, replica: &Replica) -> Option<i64> {
    let needed = min_count_now(world, budget, replica)?;
    let is_whole = is_whole(world, &budget.key.object.namespace, replica);
    Some(if is_whole { needed.max(remembered_size(budget, replica)) } else { needed })
}

/// Whether the replica is, or its unfinished pods name, a group that is disrupted as a whole.
pub fn is_whole(world: &Snapshot, namespace: &str, replica: &Replica) -> bool {
    let is_whole = |named: &Replica| {
        group_of(world, namespace, named).is_some_and(|group| group.disrupt_whole)
    };
    match replica {
        Replica::Lws { lws, .. } => {
            let pods = unfinished(world, namespace, replica);
            let mut named = pods.iter().filter_map(|pod| pod.reference.as_ref());
            keeps_group(world, namespace, lws) && named.any(|r| is_whole(&by_reference(r)))
        }
        named => is_whole(named),
    }
}

/// Without what the budget remembers.
fn min_count_now(world: &Snapshot, budget: &Budget, replica: &Replica) -> Option<i64> {
    let namespace = budget.key.object.namespace.as_str();
    match replica {
        Replica::Lws { lws, .. } => {
            let pods = unfinished(world, namespace, replica);
            if keeps_group(world, namespace, lws) && pods.iter().any(|pod| pod.reference.is_some())
            {
                // The restart policy lets the group live on without one pod, so the rules that the
                // pods' own references give decide (semantics 3.1).
                return largest(pods.iter().filter_map(|pod| pod.reference.as_ref()).map(
                    |reference| {
                        let named = by_reference(reference);
                        by_name(world, budget, &named, pods.len())
                    },
                ));
            }
            largest(pods.iter().map(|pod| pod.lws.as_ref().and_then(|member| member.size)))
        }
        named => by_name(world, budget, named, unfinished(world, namespace, replica).len()),
    }
}

/// Pods that disagree: the largest. One that cannot say, or no pod at all: nobody knows.
fn largest(counts: impl Iterator<Item = Option<i64>>) -> Option<i64> {
    counts.collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn by_name(world: &Snapshot, budget: &Budget, replica: &Replica, present: usize) -> Option<i64> {
    let namespace = budget.key.object.namespace.as_str();
    if let Replica::Entry { key, .. } = replica {
        let entry = entry_of(world, namespace, replica)?;
        if entry.replicas.is_some_and(|replicas| replicas > 1) && key.is_none() {
            return None;
        }
        return by_policy(budget, entry.policy);
    }
    let group = group_of(world, namespace, replica)?;
    if group.composite_parent.is_some() {
        return None;
    }
    let policy = match group.policy {
        GroupPolicy::Absent => template_entry(world, group)?.policy,
        inline => inline,
    };
    let needed = by_policy(budget, policy)?;
    let present = i64::try_from(present).unwrap();
    Some(if group.disrupt_whole { needed.max(present) } else { needed })
}

fn by_policy(budget: &Budget, policy: GroupPolicy) -> Option<i64> {
    match policy {
        GroupPolicy::Gang { min_count } => (min_count >= 1).then_some(min_count),
        GroupPolicy::Basic => match budget.spec.basic_min_count {
            BasicMinCount::Count(n) => (n >= 1).then_some(n),
            BasicMinCount::Absent | BasicMinCount::Unreadable(_) => None,
        },
        GroupPolicy::Absent => None,
    }
}

/// The `PodGroup` object that a replica names; the API that the reference is native to goes first.
pub fn group_of<'a>(
    world: &'a Snapshot,
    namespace: &str,
    replica: &Replica,
) -> Option<&'a PodGroup> {
    let (name, apis) = match replica {
        Replica::PodGroup { name } => (name, [GroupApi::Kubernetes, GroupApi::Holdfast]),
        Replica::Annotation { name } => (name, [GroupApi::Holdfast, GroupApi::Kubernetes]),
        Replica::Lws { .. } | Replica::Entry { .. } => return None,
    };
    apis.into_iter().find_map(|api| world.group(api, namespace, name))
}

pub fn entry_of<'a>(
    world: &'a Snapshot,
    namespace: &str,
    replica: &Replica,
) -> Option<&'a WorkloadEntry> {
    let Replica::Entry { entry, .. } = replica else { return None };
    entry_named(entry_workload(world, namespace, replica)?, entry)
}

pub fn entry_workload<'a>(
    world: &'a Snapshot,
    namespace: &str,
    replica: &Replica,
) -> Option<&'a Workload> {
    let Replica::Entry { workload, .. } = replica else { return None };
    [GroupApi::Kubernetes, GroupApi::Holdfast]
        .into_iter()
        .find_map(|api| world.workload(api, namespace, workload))
}

pub fn template_entry<'a>(world: &'a Snapshot, group: &PodGroup) -> Option<&'a WorkloadEntry> {
    let template = group.template.as_ref()?;
    let workload = world.workload(group.api, &group.key.namespace, &template.workload)?;
    entry_named(workload, &template.template)
}

fn entry_named<'a>(workload: &'a Workload, name: &str) -> Option<&'a WorkloadEntry> {
    workload.entries.iter().find(|entry| entry.name == name)
}

pub fn lws_object<'a>(world: &'a Snapshot, namespace: &str, lws: &str) -> Option<&'a Owner> {
    world.owner(&GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet"), namespace, lws)
}

fn keeps_group(world: &Snapshot, namespace: &str, lws: &str) -> bool {
    lws_object(world, namespace, lws).is_some_and(|owner| owner.lws_keeps_group)
}

/// Semantics 4: being deleted, or beyond the scale that its `LeaderWorkerSet` wants.
pub fn is_leaving(world: &Snapshot, namespace: &str, replica: &Replica) -> bool {
    if let Replica::Lws { lws, .. } = replica {
        let wanted = lws_object(world, namespace, lws).and_then(|owner| owner.replicas);
        return members(world, namespace, replica).iter().any(|pod| {
            let index = pod.lws.as_ref().and_then(|member| member.group_index);
            index.zip(wanted).is_some_and(|(index, wanted)| index >= wanted)
        });
    }
    group_of(world, namespace, replica).is_some_and(|group| group.terminating)
}

/// What semantics 8 counts for `MultipleWorkloadsDetected`; None does not count.
pub fn workload_name(world: &Snapshot, namespace: &str, replica: &Replica) -> Option<String> {
    match replica {
        Replica::Lws { lws, .. } => Some(format!("lws/{lws}")),
        Replica::Entry { workload, .. } => Some(format!("workload/{workload}")),
        Replica::PodGroup { .. } | Replica::Annotation { .. } => {
            let group = group_of(world, namespace, replica)?;
            match &group.template {
                Some(template) => Some(format!("workload/{}", template.workload)),
                None => group.controller.as_ref().map(|owner| format!("uid/{}", owner.uid)),
            }
        }
    }
}
