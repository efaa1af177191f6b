//! Controllers that objects of the input refer to and that are not in it themselves.
//!
//! `kubectl get nodes,pods,pdb` leaves them out, and without its scale a budget can never be computed:
//! the drain would seem to block for ever, which says nothing of the cluster. So each is taken to want
//! what it has, and a note says so.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::model::{
    Budget, ControllerRef, GroupKind, ObjectKey, Owner, OwnerPods, Pod, ResourceVersion, Scope,
};
use serde_json::Value;

use super::input::{Document, Place};
use super::labels;
use super::objects::{GivenOwner, Objects};
use super::scenario::count;

/// More are summed up in one note.
const NOTES_MAX: usize = 5;

type Id = (GroupKind, ObjectKey);

/// Adds the controllers of pods that a budget goes by, and the controllers of those.
pub fn assume(objects: &mut Objects) {
    let known: BTreeSet<Id> = (objects.owners.iter())
        .map(|given| (given.owner.group_kind.clone(), given.owner.key.clone()))
        .collect();
    let pods: Vec<&Pod> = objects.pods.iter().map(|placed| &placed.pod).collect();
    let counted: Vec<&Pod> = pods
        .into_iter()
        .filter(|pod| objects.budgets.iter().any(|b| asks(&b.budget, pod)))
        .collect();
    // By what is missing: how much it has, and of what.
    let mut missing: BTreeMap<Id, (i64, &str)> = BTreeMap::new();
    for pod in &counted {
        let Some(id) = id_of(pod.controller.as_ref(), &pod.key.namespace) else { continue };
        if is_counted_in_pods(&id.0) && !known.contains(&id) {
            missing.entry(id).or_insert((0, "pod")).0 += 1;
        }
    }
    for (id, groups) in groups_of_lws(&counted) {
        if !known.contains(&id) {
            missing.insert(id, (groups, "group"));
        }
    }
    let needed: BTreeSet<Id> = (counted.iter())
        .filter_map(|pod| id_of(pod.controller.as_ref(), &pod.key.namespace))
        .collect();
    for given in &objects.owners {
        let owner = &given.owner;
        let is_needed = needed.contains(&(owner.group_kind.clone(), owner.key.clone()));
        let id = id_of(owner.controller.as_ref(), &owner.key.namespace);
        let Some(id) = id.filter(|id| is_needed && !known.contains(id)) else { continue };
        if id.0.is("apps", "Deployment") {
            let pods = owner.replicas.unwrap_or_default();
            missing.entry(id).or_insert((0, "pod")).0 += pods;
        } else if id.0.is(Owner::JOBSET_GROUP, "JobSet") {
            missing.entry(id).or_insert((0, "Job")).0 += 1;
        }
    }
    note(&missing, &mut objects.notes);
    objects.notes.extend(note_others(&counted));
    let made = missing.into_iter().map(|((kind, key), (has, _))| made_up(kind, key, has));
    let made: Vec<GivenOwner> = made.collect();
    objects.owners.extend(made);
}

/// Whether the budget covers the pod and goes by its controllers: by how many they want, or, where it counts replicas, by
/// whether the `StatefulSet` of a `LeaderWorkerSet`'s pod is there, for without it the pod is about to be collected.
fn asks(budget: &Budget, pod: &Pod) -> bool {
    let of_group = budget.spec.scope == Scope::Workload && pod.lws.is_some();
    (budget.spec.needs_total() || of_group) && !pod.is_terminal() && labels::cover(budget, pod)
}

fn id_of(controller: Option<&ControllerRef>, namespace: &str) -> Option<Id> {
    let controller = controller?;
    Some((controller.group_kind.clone(), ObjectKey::new(namespace, controller.name.clone())))
}

fn is_counted_in_pods(kind: &GroupKind) -> bool {
    let kinds = [
        ("", "ReplicationController"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
    ];
    kinds.into_iter().any(|(group, name)| kind.is(group, name))
}

/// Pods name their `LeaderWorkerSet` in labels; `StatefulSet`s stand between them.
fn groups_of_lws(pods: &[&Pod]) -> BTreeMap<Id, i64> {
    let mut groups: BTreeMap<Id, (BTreeSet<&str>, i64)> = BTreeMap::new();
    for pod in pods {
        let Some(member) = &pod.lws else { continue };
        let kind = GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet");
        let key = ObjectKey::new(pod.key.namespace.clone(), member.lws.clone());
        let (keys, least) = groups.entry((kind, key)).or_default();
        keys.insert(&member.group_key);
        // A group beyond the scale would be one that is about to go.
        *least = member.group_index.map_or(*least, |index| index.saturating_add(1).max(*least));
    }
    let len = |keys: BTreeSet<&str>| i64::try_from(keys.len()).unwrap_or(i64::MAX);
    groups.into_iter().map(|(id, (keys, least))| (id, len(keys).max(least))).collect()
}

fn note(missing: &BTreeMap<Id, (i64, &str)>, notes: &mut Vec<String>) {
    for ((kind, key), (has, what)) in missing.iter().take(NOTES_MAX) {
        let has = count(usize::try_from(*has).unwrap_or_default(), what);
        notes.push(format!("{} {key} is not in the input: taken to want its {has}", kind.kind));
    }
    if missing.len() > NOTES_MAX {
        let more = count(missing.len() - NOTES_MAX, "more controller");
        notes.push(format!("{more} not in the input: each taken to want what it has"));
    }
}

/// Controllers of other kinds have a `/scale` that no manifest shows.
fn note_others(counted: &[&Pod]) -> Option<String> {
    let of = counted.iter().filter_map(|pod| pod.controller.as_ref());
    let kinds: BTreeSet<&str> = of
        .filter(|controller| !is_counted_in_pods(&controller.group_kind))
        .map(|controller| controller.group_kind.kind.as_str())
        .filter(|kind| !["DaemonSet", "Node"].contains(kind))
        .collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    (!kinds.is_empty()).then(|| {
        format!(
            "how many pods a controller of kind {} wants is not known here: budgets that go by it deny",
            kinds.join(" or ")
        )
    })
}

fn made_up(group_kind: GroupKind, key: ObjectKey, has: i64) -> GivenOwner {
    let owner = Owner {
        replicas: (!group_kind.is("batch", "Job")).then_some(has),
        group_kind,
        key,
        uid: String::new(),
        version: ResourceVersion::default(),
        terminating: false,
        controller: None,
        group_size: None,
        lws_keeps_group: false,
        pods: OwnerPods::default(),
    };
    GivenOwner { owner, document: Document { place: Place::of_file(""), value: Value::Null } }
}
