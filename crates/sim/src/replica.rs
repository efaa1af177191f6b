//! Which pods make up which replica, by the pods' own words (semantics 3).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use holdfast_core::model::{GroupReference, ObjectKey, Pod};

/// The identity of a replica.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replica {
    pub namespace: String,
    pub kind: ReplicaKind,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplicaKind {
    Lws { lws: String, group_index: Option<i64>, group_key: String },
    PodGroup { name: String },
    AnnotatedGroup { name: String },
    WorkloadEntry { workload: String, entry: String, replica_key: Option<String> },
}

impl Replica {
    /// None if the pod stands for itself.
    pub fn of(pod: &Pod) -> Option<Self> {
        let kind = match (&pod.lws, &pod.reference) {
            (Some(member), _) => ReplicaKind::Lws {
                lws: member.lws.clone(),
                group_index: member.group_index,
                group_key: member.group_key.clone(),
            },
            (None, Some(GroupReference::PodGroup { name })) => {
                ReplicaKind::PodGroup { name: name.clone() }
            }
            (None, Some(GroupReference::Annotation { name })) => {
                ReplicaKind::AnnotatedGroup { name: name.clone() }
            }
            (None, Some(GroupReference::WorkloadEntry { workload, entry, replica_key })) => {
                ReplicaKind::WorkloadEntry {
                    workload: workload.clone(),
                    entry: entry.clone(),
                    replica_key: replica_key.clone(),
                }
            }
            (None, None) => return None,
        };
        Some(Self { namespace: pod.key.namespace.clone(), kind })
    }
}

/// As the engine's messages name it.
impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ReplicaKind::Lws { lws, group_index: Some(index), .. } => {
                write!(f, "LeaderWorkerSet {lws} group {index}")
            }
            ReplicaKind::Lws { group_key, .. } => write!(f, "LeaderWorkerSet group {group_key}"),
            ReplicaKind::PodGroup { name } | ReplicaKind::AnnotatedGroup { name } => {
                write!(f, "PodGroup {name}")
            }
            ReplicaKind::WorkloadEntry { workload, entry, replica_key: None } => {
                write!(f, "Workload {workload} pod group {entry}")
            }
            ReplicaKind::WorkloadEntry { workload, entry, replica_key: Some(key) } => {
                write!(f, "Workload {workload} pod group {entry} replica {key}")
            }
        }
    }
}

/// The members of each replica, kept up to date so that nobody has to look at all pods.
#[derive(Debug, Default)]
pub(crate) struct Members {
    of: BTreeMap<Replica, BTreeSet<ObjectKey>>,
    /// Pods that have changed since somebody asked.
    changed: BTreeSet<ObjectKey>,
}

impl Members {
    pub fn saw(&mut self, pod: &Pod) {
        self.changed.insert(pod.key.clone());
        if let Some(replica) = Replica::of(pod) {
            self.of.entry(replica).or_default().insert(pod.key.clone());
        }
    }

    pub fn lost(&mut self, pod: &Pod) {
        self.changed.insert(pod.key.clone());
        if let Some(members) = Replica::of(pod).and_then(|replica| self.of.get_mut(&replica)) {
            members.remove(&pod.key);
        }
    }

    pub fn of(&self, replica: &Replica) -> impl Iterator<Item = &ObjectKey> {
        self.of.get(replica).into_iter().flatten()
    }

    /// Every replica that ever had a pod.
    pub fn replicas(&self) -> impl Iterator<Item = &Replica> {
        self.of.keys()
    }

    pub fn take_changed(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.changed)
    }
}
