//! Semantics 3.2 and 4: what counts although its pods are not there. Owners count by their pod templates, and by
//! what the budget's status remembers of the pods that it granted away.

use holdfast_core::model::{
    Budget, GroupApi, GroupKind, Owner, PendingReplacement, Pod, PodTemplate, Scope,
};

use super::budget::{is_healthy_replica, unit};
use super::expected::{Source, by_counting_groups, by_kind, by_workload, root_owner, sources_of};
use super::replica::{Replica, by_reference, is_whole, members, min_count, replica_of};
use super::{Snapshot, matches_labels, selects};

/// Sources by template and by memory, beside those that pods have brought in. None in the list is unknown.
pub fn absent_sources(
    world: &Snapshot,
    budget: &Budget,
    present: &[(Source, i64)],
    all: &[Replica],
) -> Vec<Option<(Source, i64)>> {
    let mut found = by_templates(world, budget, (present, all), true);
    let selector = budget.spec.selector.as_ref();
    let is_selected = |pending: &&PendingReplacement| {
        selector.is_some_and(|s| matches_labels(s, &pending.labels))
    };
    for pending in budget.status.pending_replacements.iter().filter(is_selected) {
        found.extend(pending.sources.iter().filter_map(|text| {
            let is_present = |of: &Source| present.iter().any(|(present, _)| present == of);
            standing(world, budget, text, all).filter(|(source, _)| !is_present(source)).map(Some)
        }));
    }
    found
}

fn by_templates(
    world: &Snapshot,
    budget: &Budget,
    (present, all): (&[(Source, i64)], &[Replica]),
    presumed: bool,
) -> Vec<Option<(Source, i64)>> {
    let namespace = &budget.key.object.namespace;
    let mut found = Vec::new();
    for owner in world.owners.iter().filter(|owner| owner.key.namespace == *namespace) {
        let is_present = present.iter().any(|(s, _)| *s == Source::Owner(owner.uid.clone()));
        // Pods of a LeaderWorkerSet count by their labels, whatever controls the set.
        let is_lws = owner.group_kind.is(Owner::LWS_GROUP, "LeaderWorkerSet") && world.config.lws;
        let is_controlled = owner.controller.is_some() && !is_lws;
        if is_controlled || !is_active(owner) || is_present {
            continue;
        }
        for template in owner.pods.templates.iter().filter(|t| will_select(budget, t)) {
            found.extend(by_template(world, budget, (owner, template), all, presumed));
        }
    }
    found
}

/// The source that pods of the template would have, `presumed`: also if only their owner's namespace or somebody else may
/// put them into groups; empty if they would be in no group.
fn by_template(
    world: &Snapshot,
    budget: &Budget,
    (owner, template): (&Owner, &PodTemplate),
    all: &[Replica],
    presumed: bool,
) -> Vec<Option<(Source, i64)>> {
    let namespace = budget.key.object.namespace.as_str();
    let is_lws = owner.group_kind.is(Owner::LWS_GROUP, "LeaderWorkerSet");
    if is_lws && world.config.lws {
        return vec![by_kind(world, namespace, owner, all)];
    }
    if let Some(reference) = &template.reference {
        let replica = by_reference(reference);
        return vec![
            by_workload(world, namespace, &replica)
                .or_else(|| by_kind(world, namespace, owner, all))
                .or_else(|| by_counting_groups(world, namespace, &replica)),
        ];
    }
    let is_set = owner.group_kind.is("apps", "StatefulSet");
    let is_job = matches!(owner.group_kind.kind.as_str(), "Job" | "JobSet");
    let is_grouped = if is_set {
        owner.group_size.is_some()
    } else {
        owner.pods.grouped || (is_job && presumed && !has_ungrouped_pod(world, budget, owner))
    };
    if is_grouped { vec![by_kind(world, namespace, owner, all)] } else { Vec::new() }
}

/// Whether a selected pod shows that the owner's pods are in no groups.
fn has_ungrouped_pod(world: &Snapshot, budget: &Budget, owner: &Owner) -> bool {
    let namespace = budget.key.object.namespace.as_str();
    world.pods.iter().any(|pod| {
        let is_owned =
            || root_owner(world, namespace, pod).is_some_and(|root| root.uid == owner.uid);
        selects(budget, pod) && replica_of(world, pod).is_none() && is_owned()
    })
}

/// What a remembered source says today, if it still says anything.
fn standing(
    world: &Snapshot,
    budget: &Budget,
    text: &str,
    all: &[Replica],
) -> Option<(Source, i64)> {
    let namespace = budget.key.object.namespace.as_str();
    let parts: Vec<&str> = text.split('/').collect();
    let api = |text| if text == "holdfast" { GroupApi::Holdfast } else { GroupApi::Kubernetes };
    let owner = |group: &str, kind: &str, name: &str| {
        let owner = world.owner(&GroupKind::new(group, kind), namespace, name)?;
        let templates = &owner.pods.templates;
        let is_selected = templates.is_empty() || templates.iter().any(|t| will_select(budget, t));
        let number = by_kind(world, namespace, owner, all)?;
        (is_active(owner) && is_selected).then_some(number)
    };
    let counts = |root: &Owner| by_kind(world, namespace, root, all).is_some();
    // The writer may not have seen what the pods of these groups count by.
    let instead = |count: &Source| {
        let own = |replica: &&Replica| {
            by_counting_groups(world, namespace, replica).is_some_and(|(own, _)| own == *count)
        };
        let sources = all.iter().flat_map(|r| sources_of(world, namespace, r, all)).flatten();
        if sources.map(|(source, _)| source).any(|source| source == *count) {
            return None;
        }
        let sources = all.iter().filter(own).flat_map(|r| sources_of(world, namespace, r, all));
        let texts = sources.flatten().map(|(source, _)| encode_source(world, &source));
        let rank = |text: &String| {
            let kinds = ["Workload/", "LeaderWorkerSet/", "JobSet/", "StatefulSet/"];
            kinds.iter().position(|kind| text.starts_with(kind))
        };
        let ranked = texts.filter_map(|text| Some((rank(&text)?, text)));
        ranked.min().map(|(_, text)| standing(world, budget, &text, all))
    };
    let groups = |is_one: &dyn Fn(&holdfast_core::model::PodGroup) -> bool| {
        let mut groups = world.groups.iter().filter(|g| g.key.namespace == namespace);
        let group = groups.find(|g| !g.terminating && is_one(g))?;
        let replica = match group.api {
            GroupApi::Kubernetes => Replica::PodGroup { name: group.key.name.clone() },
            GroupApi::Holdfast => Replica::Annotation { name: group.key.name.clone() },
        };
        let counted = by_counting_groups(world, namespace, &replica);
        let (count, number) = counted?;
        if let Some(other) = instead(&count) {
            return other;
        }
        // Groups that count by sources of their own are not counted again.
        let otherwise = |replica: &&Replica| {
            let group = by_counting_groups(world, namespace, replica).map(|(group, _)| group);
            let mut sources = sources_of(world, namespace, replica, all).into_iter().flatten();
            group.as_ref() == Some(&count) && !sources.any(|(source, _)| source == count)
        };
        let otherwise = i64::try_from(all.iter().filter(otherwise).count()).expect("few");
        Some((count, (number - otherwise).max(0)))
    };
    match parts[..] {
        ["LeaderWorkerSet", name] => owner(Owner::LWS_GROUP, "LeaderWorkerSet", name),
        ["Job", name] => owner("batch", "Job", name),
        ["JobSet", name] => owner(Owner::JOBSET_GROUP, "JobSet", name),
        ["StatefulSet", name] => owner("apps", "StatefulSet", name),
        ["Workload", of, workload, entry] => {
            let found = world.workload(api(of), namespace, workload)?;
            let entry = found.entries.iter().find(|e| e.name == entry)?;
            let replicas = entry.replicas.filter(|replicas| *replicas > 0)?;
            Some((Source::Entry(api(of), workload.to_owned(), entry.name.clone()), replicas))
        }
        ["PodGroupsOfTemplate", of, workload, template] => groups(&|g| {
            let own = g.template.as_ref();
            g.api == api(of)
                && own.is_some_and(|t| t.workload == workload && t.template == template)
        }),
        // The writer may not have seen the owner.
        ["PodGroupsOfController", _, uid] if root_of(world, uid).is_some_and(&counts) => {
            let root = root_of(world, uid)?;
            owner(&root.group_kind.group, &root.group_kind.kind, &root.key.name)
        }
        ["PodGroupsOfController", of, uid] => groups(&|g| {
            let own = g.controller.as_ref().filter(|_| g.template.is_none());
            g.api == api(of) && own.is_some_and(|c| c.uid == uid)
        }),
        _ => panic!("a source that nobody can read: {text}"),
    }
}

/// The root of the controller chain of the owner with this uid.
fn root_of<'a>(world: &'a Snapshot, uid: &str) -> Option<&'a Owner> {
    let mut root = world.owners.iter().find(|owner| owner.uid == uid)?;
    for _ in 0..8 {
        let Some(above) = &root.controller else { return Some(root) };
        let next = world.owner(&above.group_kind, &root.key.namespace, &above.name);
        root = next.filter(|owner| owner.uid == above.uid)?;
    }
    None
}

/// Not being deleted, finished or suspended, and it wants pods.
fn is_active(owner: &Owner) -> bool {
    let pods = &owner.pods;
    let makes_none = pods.finished || pods.suspended || pods.parallelism == Some(0);
    !owner.terminating && !makes_none && owner.replicas != Some(0)
}

fn will_select(budget: &Budget, template: &PodTemplate) -> bool {
    let selector = budget.spec.selector.as_ref();
    selector.is_some_and(|s| super::is_valid(s) && matches_labels(s, &template.labels))
}

/// Semantics 3.2: the size that a group had when the budget granted one of its pods away.
pub fn remembered_size(budget: &Budget, replica: &Replica) -> i64 {
    let pending = budget.status.pending_replacements.iter();
    let own = pending.filter(|p| encode_replica(replica).as_ref() == Some(&p.replica));
    own.map(|p| p.size).max().unwrap_or(0)
}

fn encode_replica(replica: &Replica) -> Option<String> {
    match replica {
        Replica::Lws { group_key, .. } => Some(format!("lws/{group_key}")),
        Replica::PodGroup { name } => Some(format!("podgroup/{name}")),
        Replica::Annotation { name } => Some(format!("annotation/{name}")),
        Replica::Entry { .. } => None,
    }
}

fn encode_source(world: &Snapshot, source: &Source) -> String {
    let api = |api: &GroupApi| match api {
        GroupApi::Kubernetes => "kubernetes",
        GroupApi::Holdfast => "holdfast",
    };
    match source {
        Source::Entry(of, workload, entry) => format!("Workload/{}/{workload}/{entry}", api(of)),
        Source::Owner(uid) => {
            let owner = world.owners.iter().find(|owner| owner.uid == *uid).expect("it counts");
            format!("{}/{}", owner.group_kind.kind, owner.key.name)
        }
        Source::GroupsOfTemplate(of, workload, template) => {
            format!("PodGroupsOfTemplate/{}/{workload}/{template}", api(of))
        }
        Source::GroupsOfController(of, uid) => format!("PodGroupsOfController/{}/{uid}", api(of)),
    }
}

/// What a write that grants this pod away must remember: the size, and the sources.
pub fn replacement(world: &Snapshot, budget: &Budget, pod: &Pod) -> Option<(i64, Vec<String>)> {
    let namespace = budget.key.object.namespace.as_str();
    let replica = replica_of(world, pod).filter(|_| unit(world, budget) == Scope::Workload)?;
    let is_sized = is_whole(world, namespace, &replica)
        && encode_replica(&replica).is_some()
        && min_count(world, budget, &replica).is_some();
    let own = |pod: &&Pod| replica_of(world, pod).as_ref() == Some(&replica);
    let live = world.pods_in(namespace).filter(own).filter(|p| !p.is_terminal() && !p.terminating);
    let live = i64::try_from(live.count()).expect("few");
    let size = if is_sized { live.max(remembered_size(budget, &replica)) } else { 0 };
    let all = unfinished(world, budget);
    let by_templates = by_templates(world, budget, (&[], &all), false);
    let sources = sources_of(world, namespace, &replica, &all).into_iter().flatten();
    let kept = sources.filter(|source| !by_templates.contains(&Some(source.clone())));
    let texts = kept.map(|(source, _)| encode_source(world, &source));
    let texts: Vec<String> =
        texts.filter(|text| standing(world, budget, text, &all).is_some()).collect();
    (size > 0 || !texts.is_empty()).then_some((size, texts))
}

/// Whether a budget may forget this.
pub fn may_forget(
    world: &Snapshot,
    budget: &Budget,
    pending: &PendingReplacement,
    (size, source): (bool, Option<&str>),
    is_granted: bool,
) -> bool {
    let namespace = budget.key.object.namespace.as_str();
    let all = unfinished(world, budget);
    let is_live = |pod: &Pod| !pod.is_terminal() && !pod.terminating;
    if size {
        let own = |pod: &&Pod| {
            let replica = replica_of(world, pod);
            replica.and_then(|r| encode_replica(&r)).as_ref() == Some(&pending.replica)
        };
        let live = world.pods_in(namespace).filter(own).filter(|pod| is_live(pod)).count();
        // In these worlds owners may shrink at any time.
        return !is_granted && live >= usize::try_from(pending.size).unwrap()
            || !pending.controller.is_empty();
    }
    let text = source.expect("the size or a source");
    let selector = budget.spec.selector.as_ref();
    if !selector.is_some_and(|s| matches_labels(s, &pending.labels)) {
        return true;
    }
    let Some(source) = standing(world, budget, text, &all) else { return true };
    let selected = world.pods_in(namespace).filter(|pod| selects(budget, pod) && is_live(pod));
    let mut back = selected.filter_map(|pod| replica_of(world, pod)).filter(|replica| {
        let group = by_counting_groups(world, namespace, replica).map(|(group, _)| group);
        let is_one = group.as_ref() == Some(&source.0);
        is_healthy_replica(world, budget, replica)
            && (is_one
                || sources_of(world, namespace, replica, &all).contains(&Some(source.clone())))
    });
    !is_granted && back.next().is_some()
}

fn unfinished(world: &Snapshot, budget: &Budget) -> Vec<Replica> {
    let mut replicas = Vec::new();
    for pod in world.selected(budget).into_iter().filter(|pod| !pod.is_terminal()) {
        if let Some(replica) = replica_of(world, pod).filter(|r| !replicas.contains(r)) {
            assert!(!members(world, &budget.key.object.namespace, &replica).is_empty());
            replicas.push(replica);
        }
    }
    replicas
}
