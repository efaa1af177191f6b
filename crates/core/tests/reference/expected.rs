//! Semantics 4 and upstream 1.5: how many units there should be, whatever is there now.

use holdfast_core::io::ScaleOutcome;
use holdfast_core::model::{Budget, ControllerRef, GroupApi, GroupKind, Owner, Pod};

use super::Snapshot;
use super::absent::absent_sources;
use super::replica::{
    Replica, entry_of, entry_workload, group_of, lws_object, members, template_entry,
};

/// What a read of `/scale` answers, by namespace, kind and name.
pub type Scales = Vec<((String, GroupKind, String), ScaleOutcome)>;

/// Upstream's `getExpectedScale`: the sum over the distinct controllers of the pods. Pods without a
/// controller are left out; Err when one pod's controller cannot be found or read.
pub fn pods_by_controllers(world: &Snapshot, pods: &[&Pod]) -> Result<i64, ()> {
    let mut found: Vec<(String, i64)> = Vec::new();
    for pod in pods {
        let Some(controller) = &pod.controller else { continue };
        // Upstream skips a controller whose uid it has met as another pod's Deployment, so that its
        // answer depends on the order of the pods; here every controller is found for itself.
        let (uid, scale) = find_controller(world, &pod.key.namespace, controller)?;
        if !found.iter().any(|(known, _)| *known == uid) {
            found.push((uid, scale));
        }
    }
    Ok(found.iter().map(|(_, scale)| scale).sum())
}

/// The finders in upstream's order: `ReplicationController`, Deployment, `ReplicaSet`,
/// `StatefulSet`, scale.
fn find_controller(
    world: &Snapshot,
    namespace: &str,
    controller: &ControllerRef,
) -> Result<(String, i64), ()> {
    let is_apps = |kind: &GroupKind| kind.group == "apps" || kind.group == "extensions";
    let kind = &controller.group_kind;
    let cached = |kind: &GroupKind, reference: &ControllerRef| {
        world.owner(kind, namespace, &reference.name).filter(|owner| owner.uid == reference.uid)
    };
    let of_itself = |owner: &Owner| (owner.uid.clone(), owner.replicas.unwrap_or(1));

    if kind.is("", "ReplicationController")
        && let Some(owner) = cached(kind, controller)
    {
        return Ok(of_itself(owner));
    }
    if is_apps(kind)
        && kind.kind == "ReplicaSet"
        && let Some(set) = cached(&GroupKind::new("apps", "ReplicaSet"), controller)
    {
        match &set.controller {
            Some(above) if above.group_kind.kind == "Deployment" => {
                let deployment = cached(&GroupKind::new("apps", "Deployment"), above);
                if is_apps(&above.group_kind)
                    && let Some(deployment) = deployment
                {
                    return Ok(of_itself(deployment));
                }
                // The ReplicaSet finder leaves Deployments' sets alone: only its scale remains.
            }
            _ => return Ok(of_itself(set)),
        }
    }
    if kind.is("apps", "StatefulSet")
        && let Some(owner) = cached(kind, controller)
    {
        return Ok(of_itself(owner));
    }
    match scale(world, namespace, controller) {
        Some(ScaleOutcome::Found { uid, replicas }) if *uid == controller.uid => {
            Ok((uid.clone(), *replicas))
        }
        _ => Err(()),
    }
}

fn scale<'a>(
    world: &'a Snapshot,
    namespace: &str,
    controller: &ControllerRef,
) -> Option<&'a ScaleOutcome> {
    let wanted = (namespace.to_owned(), controller.group_kind.clone(), controller.name.clone());
    world.scales.iter().find(|(key, _)| *key == wanted).map(|(_, outcome)| outcome)
}

/// Where a number of replicas comes from. A budget adds up distinct sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// (a) `replicas` of a Workload's entry.
    Entry(GroupApi, String, String),
    /// (b), (c) an owner, by uid.
    Owner(String),
    /// (d) `PodGroup` objects of one (workload, template).
    GroupsOfTemplate(GroupApi, String, String),
    /// (d) `PodGroup` objects of one controller.
    GroupsOfController(GroupApi, String),
}

/// Semantics 4 a to e, over the replicas that have an unfinished selected pod and the owners that are expected
/// without one. None is unknown.
pub fn replicas_by_sources(
    world: &Snapshot,
    budget: &Budget,
    contributing: &[Replica],
) -> Option<i64> {
    let namespace = budget.key.object.namespace.as_str();
    let mut sources: Vec<(Source, i64)> = Vec::new();
    for replica in contributing {
        for source in sources_of(world, namespace, replica, contributing) {
            let source = source?;
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
    }
    for source in absent_sources(world, budget, &sources, contributing) {
        let source = source?;
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    Some(sources.iter().map(|(_, replicas)| replicas).sum())
}

pub fn sources_of(
    world: &Snapshot,
    namespace: &str,
    replica: &Replica,
    all: &[Replica],
) -> Vec<Option<(Source, i64)>> {
    if let Replica::Lws { lws, .. } = replica {
        let owner = lws_object(world, namespace, lws);
        return vec![owner.and_then(|o| Some((Source::Owner(o.uid.clone()), o.replicas?)))];
    }
    if let Some(stated) = by_workload(world, namespace, replica) {
        return vec![Some(stated)];
    }
    let source = |pod: &&Pod| {
        by_root_owner(world, namespace, pod, all)
            .or_else(|| by_counting_groups(world, namespace, replica))
    };
    members(world, namespace, replica).iter().map(source).collect()
}

/// (a)
pub fn by_workload(world: &Snapshot, namespace: &str, replica: &Replica) -> Option<(Source, i64)> {
    if let Replica::Entry { workload, entry, .. } = replica {
        let replicas = entry_of(world, namespace, replica)?.replicas?;
        let api = entry_workload(world, namespace, replica)?.api;
        return Some((Source::Entry(api, workload.clone(), entry.clone()), replicas));
    }
    let group = group_of(world, namespace, replica)?;
    let replicas = template_entry(world, group)?.replicas?;
    let template = group.template.as_ref()?;
    let (workload, entry) = (template.workload.clone(), template.template.clone());
    Some((Source::Entry(group.api, workload, entry), replicas))
}

/// (b) and (c).
fn by_root_owner(
    world: &Snapshot,
    namespace: &str,
    pod: &Pod,
    all: &[Replica],
) -> Option<(Source, i64)> {
    by_kind(world, namespace, root_owner(world, namespace, pod)?, all)
}

pub fn by_kind(
    world: &Snapshot,
    namespace: &str,
    root: &Owner,
    all: &[Replica],
) -> Option<(Source, i64)> {
    let kind = &root.group_kind;
    let number = if kind.is(Owner::LWS_GROUP, "LeaderWorkerSet") {
        root.replicas?
    } else if kind.is("batch", "Job") {
        1
    } else if kind.is(Owner::JOBSET_GROUP, "JobSet") {
        if !jobs_are_replicas(world, namespace, root, all) {
            return None;
        }
        root.replicas?
    } else if kind.is("apps", "StatefulSet") {
        let size = root.group_size?;
        (root.replicas? + size - 1) / size
    } else {
        return None;
    };
    Some((Source::Owner(root.uid.clone()), number))
}

/// The last reference of the controller chain, if its object is known with that uid.
pub fn root_owner<'a>(world: &'a Snapshot, namespace: &str, pod: &Pod) -> Option<&'a Owner> {
    let mut reference = pod.controller.as_ref()?;
    // A chain longer than all owners has a loop.
    for _ in 0..=world.owners.len() {
        let owner = world.owner(&reference.group_kind, namespace, &reference.name)?;
        if owner.uid != reference.uid {
            return None;
        }
        match &owner.controller {
            Some(above) => reference = above,
            None => return Some(owner),
        }
    }
    None
}

/// A `JobSet`'s number counts Jobs, so it counts replicas only where the two are the same thing: one to
/// one, among the replicas that would be counted this way.
fn jobs_are_replicas(world: &Snapshot, namespace: &str, jobset: &Owner, all: &[Replica]) -> bool {
    let mut pairs: Vec<(usize, &str)> = Vec::new();
    for (index, replica) in all.iter().enumerate() {
        let is_stated = by_workload(world, namespace, replica).is_some();
        if is_stated || matches!(replica, Replica::Lws { .. }) {
            continue;
        }
        for pod in members(world, namespace, replica) {
            if root_owner(world, namespace, pod).is_some_and(|root| root.uid == jobset.uid)
                && let Some(job) = &pod.controller
            {
                pairs.push((index, job.uid.as_str()));
            }
        }
    }
    pairs.iter().all(|a| pairs.iter().all(|b| (a.0 == b.0) == (a.1 == b.1)))
}

/// (d)
pub fn by_counting_groups(
    world: &Snapshot,
    namespace: &str,
    replica: &Replica,
) -> Option<(Source, i64)> {
    let group = group_of(world, namespace, replica)?;
    let alive = world
        .groups
        .iter()
        .filter(|g| g.api == group.api && g.key.namespace == namespace && !g.terminating);
    let (source, count) = if let Some(template) = &group.template {
        let count = alive.filter(|g| g.template.as_ref() == Some(template)).count();
        let (workload, template) = (template.workload.clone(), template.template.clone());
        (Source::GroupsOfTemplate(group.api, workload, template), count)
    } else {
        // A group that was made from a template is counted with its template, never twice.
        let uid = &group.controller.as_ref()?.uid;
        let count = alive
            .filter(|g| g.template.is_none())
            .filter(|g| g.controller.as_ref().is_some_and(|owner| owner.uid == *uid))
            .count();
        (Source::GroupsOfController(group.api, uid.clone()), count)
    };
    Some((source, i64::try_from(count).unwrap()))
}
