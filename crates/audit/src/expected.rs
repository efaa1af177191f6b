//! How many units a budget expects (semantics 4).

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::Memory;
use crate::objects::{
    Api, Budget, Controller, JOBSET_GROUP, Kind, LWS_GROUP, Name, Owner, Phase, Pod, PodGroup,
    PodTemplate,
};
use crate::replica::{self, Replica};
use crate::state::State;

/// What tells how many replicas there should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Entry {
        api: Api,
        workload: String,
        entry: String,
    },
    Lws(String),
    Job(String),
    /// The name, and what counts where Jobs and replicas do not match one to one.
    JobSet(String, Option<Groups>),
    StatefulSet(String),
    Groups(Groups),
    Unknown,
}

/// `PodGroup` objects that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Groups {
    Template { api: Api, workload: String, entry: String },
    Controller { api: Api, uid: String },
}

impl Groups {
    fn of(group: &PodGroup) -> Option<Self> {
        let api = group.api;
        match (&group.template, &group.controller) {
            (Some(t), _) => {
                let (workload, entry) = (t.workload.clone(), t.entry.clone());
                Some(Self::Template { api, workload, entry })
            }
            (None, Some(c)) => Some(Self::Controller { api, uid: c.uid.clone() }),
            (None, None) => None,
        }
    }
}

/// The sources that a replica with these pods brings in.
pub fn sources(state: &State, replica: &Replica, members: &[&Pod]) -> BTreeSet<Source> {
    let Some(first) = members.first() else { return BTreeSet::new() };
    let namespace = &first.key.namespace;
    match replica {
        Replica::Lws { .. } => {
            members.iter().filter_map(|p| Some(Source::Lws(p.lws.as_ref()?.set.clone()))).collect()
        }
        Replica::PodGroup { .. } | Replica::Annotated { .. } => {
            let group = replica::group(state, namespace, replica);
            let template = group.and_then(|g| Some((g.api, g.template.as_ref()?)));
            let counted = template.filter(|(api, t)| {
                let entry = state.entry(*api, namespace, &t.workload, &t.entry);
                entry.is_some_and(|e| e.replicas.is_some())
            });
            if let Some((api, t)) = counted {
                let (workload, entry) = (t.workload.clone(), t.entry.clone());
                return BTreeSet::from([Source::Entry { api, workload, entry }]);
            }
            by_owner(state, members, group.and_then(Groups::of).as_ref())
        }
        Replica::Entry { workload, entry, .. } => {
            let has = |api: &Api| {
                let entry = state.entry(*api, namespace, workload, entry);
                entry.is_some_and(|e| e.replicas.is_some())
            };
            match [Api::Kubernetes, Api::Holdfast].into_iter().find(has) {
                Some(api) => {
                    let (workload, entry) = (workload.clone(), entry.clone());
                    BTreeSet::from([Source::Entry { api, workload, entry }])
                }
                None => by_owner(state, members, None),
            }
        }
        Replica::Labelled { .. } => members
            .iter()
            .flat_map(|pod| match &pod.lws {
                Some(lws) => BTreeSet::from([Source::Lws(lws.set.clone())]),
                None => by_owner(state, &[pod], None),
            })
            .collect(),
    }
}

/// The root of each pod's controller chain, or the `PodGroups` (4 b to e).
fn by_owner(state: &State, members: &[&Pod], groups: Option<&Groups>) -> BTreeSet<Source> {
    let source = |pod: &&Pod| {
        let root = pod.controller.as_ref().and_then(|c| state.root(&pod.key.namespace, c));
        root.and_then(|root| by_kind(root, groups))
            .or_else(|| groups.cloned().map(Source::Groups))
            .unwrap_or(Source::Unknown)
    };
    members.iter().map(source).collect()
}

fn by_kind(root: &Owner, groups: Option<&Groups>) -> Option<Source> {
    let name = root.key.name.clone();
    if root.kind.is(LWS_GROUP, "LeaderWorkerSet") {
        Some(Source::Lws(name))
    } else if root.kind.is("batch", "Job") {
        Some(Source::Job(name))
    } else if root.kind.is(JOBSET_GROUP, "JobSet") {
        Some(Source::JobSet(name, groups.cloned()))
    } else if root.kind.is("apps", "StatefulSet") && root.group_size.is_some() {
        Some(Source::StatefulSet(name))
    } else {
        None
    }
}

/// Owners whose pods the budget will select: such an owner counts without pods (4.2).
fn by_template<'a>(budget: &'a Budget, state: &'a State) -> impl Iterator<Item = Source> + 'a {
    let here = |owner: &&Owner| owner.key.namespace == budget.key.key.namespace;
    // Pods of a LeaderWorkerSet count by their labels, whatever controls the set.
    let is_root =
        |owner: &Owner| owner.controller.is_none() || owner.kind.is(LWS_GROUP, "LeaderWorkerSet");
    let counts = move |owner: &&Owner| is_active(owner) && is_root(owner);
    let owners = state.owners.values().map(|owner| &**owner).filter(here).filter(counts);
    owners.flat_map(|owner| {
        let templates = owner.templates.iter().filter(|t| budget.may_select(owner, t));
        templates.flat_map(|template| of_template(budget, state, owner, template))
    })
}

/// What tells how many replicas the pods of this template will be in. None if they will be in none.
fn of_template(
    budget: &Budget,
    state: &State,
    owner: &Owner,
    template: &PodTemplate,
) -> BTreeSet<Source> {
    let is_set = owner.kind.is("apps", "StatefulSet");
    let grouped = if is_set { owner.group_size.is_some() } else { may_group(budget, state, owner) };
    let is_lws = owner.kind.is(LWS_GROUP, "LeaderWorkerSet");
    let by_reference = template.reference.is_some() && !is_lws && budget.groups().is_none();
    if !by_reference {
        let counts = is_lws || grouped || budget.groups().is_some();
        return by_kind(owner, None).filter(|_| counts).into_iter().collect();
    }
    let pod = Pod {
        key: owner.key.clone(),
        uid: String::new(),
        version: 0,
        labels: template.labels.clone(),
        controller: Some(Controller {
            kind: owner.kind.clone(),
            name: owner.key.name.clone(),
            uid: owner.uid.clone(),
        }),
        phase: Phase::Pending,
        ready: false,
        terminating: false,
        evicted: false,
        reference: template.reference.clone(),
        lws: None,
        generation: 0,
        settled: true,
        applied: true,
    };
    let replica = replica::named(&pod);
    replica.map(|replica| sources(state, &replica, &[&pod])).unwrap_or_default()
}

/// Whether the owner's pods may be in groups that its template does not name. The namespace of a Job may ask for that.
fn may_group(budget: &Budget, state: &State, owner: &Owner) -> bool {
    let is_job = owner.kind.is("batch", "Job") || owner.kind.is(JOBSET_GROUP, "JobSet");
    if !is_job {
        return owner.grouped;
    }
    let namespace = &owner.key.namespace;
    let is_ungrouped = |pod: &Pod| {
        let root = pod.controller.as_ref().and_then(|c| state.root(namespace, c));
        root.is_some_and(|root| root.uid == owner.uid) && replica::of(budget, state, pod).is_none()
    };
    owner.grouped || !state.selected(budget).any(is_ungrouped)
}

/// Whether the owner creates pods.
fn is_active(owner: &Owner) -> bool {
    !owner.terminating && !owner.ended && owner.replicas != Some(0)
}

/// The expected number of replicas by the sources; None if one is unknown.
pub fn replicas(
    budget: &Budget,
    state: &State,
    memory: &Memory,
    members: &BTreeMap<Replica, Vec<&Pod>>,
) -> Option<i64> {
    let namespace = &budget.key.key.namespace;
    let mut all: BTreeSet<Source> = by_template(budget, state).collect();
    all.extend(memory.sources(&budget.key).filter(|s| exists(budget, state, s)).cloned());
    for (replica, pods) in members {
        if pods.iter().any(|pod| !pod.is_finished()) {
            all.extend(sources(state, replica, pods));
        }
    }
    // A JobSet that a template names and one that pods name are one.
    let sets: BTreeSet<String> = all.iter().filter_map(|s| job_set(s).cloned()).collect();
    let mut counted = BTreeSet::new();
    let mut sum = 0;
    for source in all.iter().filter(|s| job_set(s).is_none()) {
        if let Source::Groups(groups) = source {
            counted.insert(groups.clone());
        } else {
            sum += number(state, namespace, source)?;
        }
    }
    for name in sets {
        let kind = Kind::new(JOBSET_GROUP, "JobSet");
        let scale = state.owner(&kind, namespace, &name).and_then(|set| set.replicas);
        match scale.filter(|_| one_job_each(state, members, &name)) {
            Some(scale) => sum += scale,
            None => {
                for source in all.iter().filter(|s| job_set(s) == Some(&name)) {
                    let Source::JobSet(_, groups) = source else { continue };
                    counted.insert(groups.clone()?);
                }
            }
        }
    }
    let groups: usize = counted.iter().map(|groups| group_count(state, namespace, groups)).sum();
    Some(sum + i64::try_from(groups).unwrap_or(i64::MAX))
}

fn job_set(source: &Source) -> Option<&String> {
    match source {
        Source::JobSet(name, _) => Some(name),
        _ => None,
    }
}

/// Whether a source that only a grant remembers says that there should be replicas.
pub fn stands(budget: &Budget, state: &State, source: &Source) -> bool {
    let namespace = &budget.key.key.namespace;
    let has_replicas = |source| number(state, namespace, source).is_some_and(|n| n > 0);
    match source {
        Source::Groups(groups) => group_count(state, namespace, groups) > 0,
        // Its Jobs count, or its PodGroups.
        Source::JobSet(..) => exists(budget, state, source),
        _ => exists(budget, state, source) && has_replicas(source),
    }
}

/// Whether a source that only a grant remembers is still there to be counted. Templates that do not match say that the
/// pods will not come back.
fn exists(budget: &Budget, state: &State, source: &Source) -> bool {
    let namespace = &budget.key.key.namespace;
    let active = |kind: Kind, name: &str| {
        state.owner(&kind, namespace, name).is_some_and(|owner| {
            let mut templates = owner.templates.iter();
            let matches = templates.any(|template| budget.may_select(owner, template));
            is_active(owner) && (matches || owner.templates.is_empty())
        })
    };
    match source {
        Source::Lws(name) => active(Kind::lws(), name),
        Source::Job(name) => active(Kind::new("batch", "Job"), name),
        Source::JobSet(name, _) => active(Kind::new(JOBSET_GROUP, "JobSet"), name),
        Source::StatefulSet(name) => active(Kind::new("apps", "StatefulSet"), name),
        Source::Entry { api, workload, entry } => {
            state.entry(*api, namespace, workload, entry).is_some()
        }
        Source::Groups(_) => true,
        // A replica without a source says nothing once its pods are gone.
        Source::Unknown => false,
    }
}

fn number(state: &State, namespace: &str, source: &Source) -> Option<i64> {
    match source {
        Source::Entry { api, workload, entry } => {
            state.entry(*api, namespace, workload, entry)?.replicas
        }
        Source::Lws(name) => state.owner(&Kind::lws(), namespace, name)?.replicas,
        Source::StatefulSet(name) => {
            let set = state.owner(&Kind::new("apps", "StatefulSet"), namespace, name)?;
            let (replicas, size) = (set.replicas?, set.group_size?.max(1));
            Some((replicas + size - 1).div_euclid(size))
        }
        Source::Job(_) => Some(1),
        Source::JobSet(..) | Source::Groups(_) | Source::Unknown => None,
    }
}

fn group_count(state: &State, namespace: &str, groups: &Groups) -> usize {
    let of = |group: &&PodGroup| {
        group.key.namespace == namespace
            && !group.terminating
            && Groups::of(group).as_ref() == Some(groups)
    };
    state.groups.values().map(|group| &**group).filter(of).count()
}

/// Whether the budget's replicas of this `JobSet` and its Jobs match one to one.
fn one_job_each(state: &State, members: &BTreeMap<Replica, Vec<&Pod>>, set: &str) -> bool {
    let mut jobs = BTreeSet::new();
    members.values().all(|pods| {
        let own: BTreeSet<&str> = pods
            .iter()
            .filter(|pod| !pod.is_finished())
            .filter_map(|pod| {
                let controller = pod.controller.as_ref()?;
                let root = state.root(&pod.key.namespace, controller)?;
                let of_set = root.kind.is(JOBSET_GROUP, "JobSet") && root.key.name == set;
                of_set.then_some(controller.uid.as_str())
            })
            .collect();
        own.is_empty() || (own.len() == 1 && own.into_iter().all(|job| jobs.insert(job)))
    })
}

/// The sum of the scales of the selected pods' controllers; None if one cannot be told.
pub fn pods(budget: &Budget, state: &State) -> Option<i64> {
    let is_pub = budget.unavailable.is_some();
    let mut scales: BTreeMap<&str, i64> = BTreeMap::new();
    let mut alone = false;
    for pod in state.selected(budget).filter(|pod| !is_pub || !pod.is_finished()) {
        let Some(controller) = &pod.controller else {
            alone = true;
            continue;
        };
        match scale_of(state, &pod.key, controller) {
            Some(owner) if is_pub && owner.terminating => {}
            Some(owner) => {
                scales.insert(&owner.uid, owner.replicas?);
            }
            // Owners that are gone count nothing in a PodUnavailableBudget.
            None if is_pub => {}
            None => return None,
        }
    }
    if alone && (!is_pub || scales.is_empty()) {
        return None;
    }
    Some(scales.values().sum())
}

/// A `ReplicaSet` of a Deployment is counted by the Deployment, others by themselves.
fn scale_of<'a>(state: &'a State, pod: &Name, controller: &Controller) -> Option<&'a Owner> {
    let owner = state.owner(&controller.kind, &pod.namespace, &controller.name)?;
    if owner.uid != controller.uid {
        return None;
    }
    match &owner.controller {
        Some(above) if owner.kind.is("apps", "ReplicaSet") => {
            state.owner(&above.kind, &pod.namespace, &above.name).filter(|o| o.uid == above.uid)
        }
        _ => Some(owner),
    }
}
