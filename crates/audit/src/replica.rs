//! Which replica a pod belongs to, and how many pods that replica needs (semantics 3).

use std::fmt;

use crate::memory::Memory;
use crate::objects::{Api, Budget, Kind, Name, Pod, PodGroup, Policy, Reference};
use crate::state::State;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Replica {
    Lws {
        group_key: String,
    },
    PodGroup {
        name: String,
    },
    Annotated {
        name: String,
    },
    Entry {
        workload: String,
        entry: String,
        replica_key: Option<String>,
    },
    /// Pods of one owner with one value of a label (semantics 9).
    Labelled {
        owner: String,
        value: String,
    },
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lws { group_key } => write!(f, "LeaderWorkerSet group {group_key}"),
            Self::PodGroup { name } | Self::Annotated { name } => write!(f, "PodGroup {name}"),
            Self::Entry { workload, entry, .. } => write!(f, "Workload {workload} entry {entry}"),
            Self::Labelled { value, .. } => write!(f, "group {value}"),
        }
    }
}

/// The replica that a pod names; None for a pod without a reference.
pub fn named(pod: &Pod) -> Option<Replica> {
    if let Some(lws) = &pod.lws {
        return Some(Replica::Lws { group_key: lws.group_key.clone() });
    }
    Some(match pod.reference.as_ref()? {
        Reference::PodGroup(name) => Replica::PodGroup { name: name.clone() },
        Reference::Annotation(name) => Replica::Annotated { name: name.clone() },
        Reference::Entry { workload, entry, replica_key } => Replica::Entry {
            workload: workload.clone(),
            entry: entry.clone(),
            replica_key: replica_key.clone(),
        },
    })
}

/// The replica of a pod as this budget counts.
pub fn of(budget: &Budget, state: &State, pod: &Pod) -> Option<Replica> {
    let Some(groups) = budget.groups() else { return named(pod) };
    let value = pod.labels.get(&groups.label)?.clone();
    let namespace = &pod.key.namespace;
    let owner = match (&pod.lws, &pod.controller) {
        (Some(lws), _) => lws.set.clone(),
        (None, Some(c)) => {
            state.root(namespace, c).map_or_else(|| c.uid.clone(), |root| root.uid.clone())
        }
        (None, None) => String::new(),
    };
    Some(Replica::Labelled { owner, value })
}

/// The `PodGroup` object behind a replica.
pub fn group<'a>(state: &'a State, namespace: &str, replica: &Replica) -> Option<&'a PodGroup> {
    let (name, order) = match replica {
        Replica::PodGroup { name } => (name, [Api::Kubernetes, Api::Holdfast]),
        Replica::Annotated { name } => (name, [Api::Holdfast, Api::Kubernetes]),
        _ => return None,
    };
    let found = |api| state.groups.get(&(api, Name::new(namespace, name)));
    order.into_iter().find_map(found).map(|group| &**group)
}

/// Whether the replica is on its way out (semantics 4).
pub fn is_leaving(state: &State, pod: &Pod, replica: &Replica) -> bool {
    let namespace = &pod.key.namespace;
    if let Some(lws) = &pod.lws {
        let scale = state.owner(&Kind::lws(), namespace, &lws.set).and_then(|set| set.replicas);
        return scale.zip(lws.group_index).is_some_and(|(scale, index)| index >= scale);
    }
    group(state, namespace, replica).is_some_and(|group| group.terminating)
}

/// Whether a worker of a `LeaderWorkerSet` group ends with its `StatefulSet`, which ends with its leader: the leader is
/// not there or `holds` says that it may go (semantics 5). The worker may be Ready beside the next leader until then.
pub fn is_abandoned(state: &State, pod: &Pod, holds: impl Fn(&Pod) -> bool) -> bool {
    let set =
        pod.controller.as_ref().filter(|c| pod.lws.is_some() && c.kind.is("apps", "StatefulSet"));
    let Some(reference) = set else { return false };
    let namespace = &pod.key.namespace;
    let set = state.owner(&reference.kind, namespace, &reference.name);
    let Some(set) = set.filter(|set| set.uid == reference.uid && !set.terminating) else {
        return true;
    };
    // The StatefulSet of the leaders belongs to the LeaderWorkerSet, and those of workers to a leader.
    let leader = set.controller.as_ref().filter(|c| c.kind.is("", "Pod"));
    leader.is_some_and(|leader| {
        let pod = state.pods.get(&Name::new(namespace, &leader.name));
        !pod.is_some_and(|pod| pod.uid == leader.uid && holds(pod))
    })
}

/// How many healthy pods the replica needs; Err if that cannot be told.
pub fn min_count(
    budget: &Budget,
    state: &State,
    memory: &Memory,
    replica: &Replica,
    members: &[&Pod],
) -> Result<i64, String> {
    let Some(first) = members.first() else { return Err(format!("{replica} has no pod")) };
    let namespace = &first.key.namespace;
    let min = match replica {
        Replica::Labelled { .. } => budget.groups().map_or(1, |groups| groups.min_ready),
        Replica::Lws { .. } => {
            let set = first.lws.as_ref().map(|lws| lws.set.as_str()).unwrap_or_default();
            let keeps =
                state.owner(&Kind::lws(), namespace, set).is_some_and(|set| set.keeps_group);
            let by_reference = if keeps { by_reference(budget, state, members) } else { None };
            by_reference.unwrap_or_else(|| by_size(members))?
        }
        Replica::PodGroup { .. } | Replica::Annotated { .. } => {
            let Some(group) = group(state, namespace, replica) else {
                return Err(format!("{replica} does not exist"));
            };
            let policy = policy_min(budget, group_policy(state, group)?)?;
            if group.whole {
                policy.max(whole_size(budget, state, memory, (namespace, replica)))
            } else {
                policy
            }
        }
        Replica::Entry { workload, entry, replica_key } => {
            entry_min(budget, state, namespace, (workload, entry, replica_key.as_deref()))?
        }
    };
    if min < 1 { Err(format!("minCount of {replica} is {min}")) } else { Ok(min) }
}

/// `disruptionMode: all`: the unfinished pods, selected or not, or as many as there were when a grant
/// took one.
fn whole_size(
    budget: &Budget,
    state: &State,
    memory: &Memory,
    (namespace, replica): (&str, &Replica),
) -> i64 {
    let present = of_replica(state, namespace, replica).filter(|pod| !pod.is_finished()).count();
    let present = i64::try_from(present).unwrap_or(i64::MAX);
    present.max(memory.size(&budget.key, replica).unwrap_or(0))
}

/// All pods that name this replica.
pub fn of_replica<'a>(
    state: &'a State,
    namespace: &'a str,
    replica: &'a Replica,
) -> impl Iterator<Item = &'a Pod> + 'a {
    let here = move |pod: &&Pod| pod.key.namespace == namespace;
    let of = move |pod: &&Pod| named(pod).as_ref() == Some(replica);
    state.pods.values().map(|pod| &**pod).filter(here).filter(of)
}

fn by_size(members: &[&Pod]) -> Result<i64, String> {
    let mut sizes = Vec::new();
    for pod in members.iter().filter(|pod| !pod.is_finished()) {
        let size = pod.lws.as_ref().and_then(|lws| lws.size);
        sizes.push(size.ok_or_else(|| format!("{} has no size", pod.key))?);
    }
    sizes.into_iter().max().ok_or_else(|| "no unfinished pod".to_owned())
}

/// What the members of a `LeaderWorkerSet` group name besides: the largest counts.
fn by_reference(budget: &Budget, state: &State, members: &[&Pod]) -> Option<Result<i64, String>> {
    let mut largest = None;
    for pod in members.iter().filter(|pod| !pod.is_finished() && pod.reference.is_some()) {
        let plain = Pod { lws: None, ..(*pod).clone() };
        let min = min_count(budget, state, &Memory::default(), &named(&plain)?, &[&plain]);
        match min {
            Ok(min) => largest = largest.max(Some(min)),
            Err(why) => return Some(Err(why)),
        }
    }
    largest.map(Ok)
}

fn group_policy(state: &State, group: &PodGroup) -> Result<Policy, String> {
    if group.composite {
        return Err(format!("PodGroup {} has a CompositePodGroup above it", group.key));
    }
    match (&group.policy, &group.template) {
        (Policy::Absent, Some(template)) => {
            let namespace = &group.key.namespace;
            let entry = state.entry(group.api, namespace, &template.workload, &template.entry);
            entry.map(|e| e.policy).ok_or_else(|| {
                format!("Workload {} or its entry {} is missing", template.workload, template.entry)
            })
        }
        (policy, _) => Ok(*policy),
    }
}

fn entry_min(
    budget: &Budget,
    state: &State,
    namespace: &str,
    (workload, entry, replica_key): (&str, &str, Option<&str>),
) -> Result<i64, String> {
    let apis = [Api::Kubernetes, Api::Holdfast];
    let exists = |api: &Api| state.workloads.contains_key(&(*api, Name::new(namespace, workload)));
    let api = apis.into_iter().find(exists).ok_or("the Workload does not exist")?;
    let found = state.entry(api, namespace, workload, entry).ok_or("the entry does not exist")?;
    let keyed = replica_key.is_some_and(|key| !key.is_empty());
    if found.replicas.is_some_and(|n| n > 1) && !keyed {
        return Err(format!("several replicas of {entry} look like one"));
    }
    policy_min(budget, found.policy)
}

fn policy_min(budget: &Budget, policy: Policy) -> Result<i64, String> {
    match policy {
        Policy::Gang(min) => Ok(min),
        Policy::Basic => budget.basic_min_count.ok_or_else(|| "the policy is basic".to_owned()),
        Policy::Absent => Err("there is no policy".to_owned()),
    }
}
