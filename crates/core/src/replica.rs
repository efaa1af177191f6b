//! Which replica a pod belongs to, and what that replica needs (semantics 3 and 4).
//!
//! ```text
//! pod --lws labels--------------------------------> LeaderWorkerSet group
//! pod --schedulingGroup / annotation--> PodGroup --template--> Workload entry
//! pod --workloadRef--------------------------------------------> Workload entry
//! pod --controller--> owner --controller--> ... root owner (how many replicas are expected)
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::model::{
    ControllerRef, GroupApi, GroupKind, GroupReference, LwsMember, Owner, Pod, PodGroup,
    TemplateRef, Workload, WorkloadEntry,
};

/// The identity of a replica within its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ReplicaKey {
    Lws {
        group_key: String,
    },
    PodGroup {
        name: String,
    },
    AnnotatedGroup {
        name: String,
    },
    WorkloadEntry {
        workload: String,
        entry: String,
        replica_key: Option<String>,
    },
    /// Pods of one owner with the same value of the label that a `PodUnavailableBudget` groups by.
    Labelled {
        owner: String,
        value: Arc<str>,
    },
}

impl ReplicaKey {
    pub(crate) fn of(pod: &Pod, lws: bool) -> Option<Self> {
        if let Some(member) = pod.lws.as_ref().filter(|_| lws) {
            return Some(Self::Lws { group_key: member.group_key.clone() });
        }
        pod.reference.as_ref().map(Self::named)
    }

    /// The replica that a reference names.
    pub(crate) fn named(reference: &GroupReference) -> Self {
        match reference {
            GroupReference::PodGroup { name } => Self::PodGroup { name: name.clone() },
            GroupReference::Annotation { name } => Self::AnnotatedGroup { name: name.clone() },
            GroupReference::WorkloadEntry { workload, entry, replica_key } => Self::WorkloadEntry {
                workload: workload.clone(),
                entry: entry.clone(),
                replica_key: replica_key.clone().filter(|key| !key.is_empty()),
            },
        }
    }
}

impl fmt::Display for ReplicaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lws { group_key } => write!(f, "LeaderWorkerSet group {group_key}"),
            Self::Labelled { owner, value } if owner.is_empty() => write!(f, "group {value}"),
            Self::Labelled { owner, value } => write!(f, "group {value} of {owner}"),
            Self::PodGroup { name } | Self::AnnotatedGroup { name } => write!(f, "PodGroup {name}"),
            Self::WorkloadEntry { workload, entry, replica_key: None } => {
                write!(f, "Workload {workload} pod group {entry}")
            }
            Self::WorkloadEntry { workload, entry, replica_key: Some(key) } => {
                write!(f, "Workload {workload} pod group {entry} replica {key}")
            }
        }
    }
}

/// What of a pod bears on its replica. Most pods of a replica share one; they are counted, so that
/// a pod event costs the same in a group of 8 and of 5,000.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Member {
    pub(crate) unfinished: bool,
    pub(crate) lws: Option<Box<LwsMember>>,
    pub(crate) reference: Option<GroupReference>,
    pub(crate) controller: Option<Arc<ControllerRef>>,
}

impl Member {
    pub(crate) fn of(pod: &Pod, controller: Option<Arc<ControllerRef>>) -> Self {
        Self {
            unfinished: !pod.is_terminal(),
            lws: pod.lws.clone().map(Box::new),
            reference: pod.reference.clone(),
            controller,
        }
    }
}

/// What is known of a replica apart from its pods' health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolution {
    pub(crate) min: MinCount,
    /// Its `PodGroup` is disrupted as a whole, so minCount follows the number of its pods (semantics 3.2).
    pub(crate) whole: bool,
    /// Being deleted, or beyond its `LeaderWorkerSet`'s scale (semantics 4).
    pub(crate) leaving: bool,
    /// In order, each once.
    pub(crate) sources: Arc<[Source]>,
    /// What `MultipleWorkloadsDetected` tells apart.
    pub(crate) workload: Option<String>,
    /// `JobSets`, by name, and their Jobs, by uid, that its pods belong to.
    pub(crate) jobs: BTreeSet<(String, String)>,
    /// As a person reads it.
    pub(crate) label: String,
}

/// Of which nothing is known.
impl Default for Resolution {
    fn default() -> Self {
        Self {
            min: MinCount::Unresolved(String::new()),
            whole: false,
            leaving: false,
            sources: Arc::default(),
            workload: None,
            jobs: BTreeSet::new(),
            label: String::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MinCount {
    Known(i64),
    /// A group without a minCount, which a budget's annotation may give; at least so many.
    Basic {
        group: String,
        at_least: i64,
    },
    /// Says which object or field is missing.
    Unresolved(String),
}

/// Where the number of expected replicas comes from, in the order of semantics 4.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Entry {
        api: GroupApi,
        workload: String,
        entry: String,
    },
    Lws {
        name: String,
    },
    Job {
        name: String,
    },
    /// Counts if each child Job is one replica; else the `PodGroups` are counted.
    JobSet {
        name: String,
        otherwise: Option<GroupCount>,
    },
    StatefulSet {
        name: String,
    },
    Groups(GroupCount),
    Unknown,
}

impl Source {
    /// API group, kind and name of the owner that says the number, if it is one.
    pub(crate) fn owner(&self) -> Option<(&'static str, &'static str, &str)> {
        Some(match self {
            Self::Lws { name } => (Owner::LWS_GROUP, "LeaderWorkerSet", name),
            Self::Job { name } => ("batch", "Job", name),
            Self::JobSet { name, .. } => (Owner::JOBSET_GROUP, "JobSet", name),
            Self::StatefulSet { name } => ("apps", "StatefulSet", name),
            Self::Entry { .. } | Self::Groups(_) | Self::Unknown => return None,
        })
    }
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

/// An object that a resolution has looked at, found or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dependency {
    PodGroup(String),
    Workload(String),
    /// Boxed, so that a `PodGroup`, of which there are more, takes no more than its name.
    Owner(Box<(GroupKind, String)>),
}

/// The objects of one namespace that replicas are resolved from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub(crate) groups: BTreeMap<(GroupApi, String), Box<PodGroup>>,
    pub(crate) workloads: BTreeMap<(GroupApi, String), Workload>,
    /// By kind, of which there are few, and name.
    pub(crate) owners: BTreeMap<GroupKind, BTreeMap<String, Owner>>,
    /// Incremental: `PodGroups` that are not being deleted.
    pub(crate) group_counts: BTreeMap<GroupCount, i64>,
}

impl Objects {
    pub(crate) fn owner(&self, group: &str, kind: &str, name: &str) -> Option<&Owner> {
        self.of_kind(group, kind)?.get(name)
    }

    pub(crate) fn of_kind(&self, group: &str, kind: &str) -> Option<&BTreeMap<String, Owner>> {
        self.owners.iter().find(|(known, _)| known.is(group, kind)).map(|(_, of_kind)| of_kind)
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

    /// The owner that a controller reference means, if the cache holds that very object.
    pub(crate) fn controller(&self, reference: &ControllerRef) -> Option<&Owner> {
        self.named(reference).filter(|owner| owner.uid == reference.uid)
    }

    /// The owner that has the name now, that very object or another.
    pub(crate) fn named(&self, reference: &ControllerRef) -> Option<&Owner> {
        self.owners.get(&*owner_kind(&reference.group_kind))?.get(&reference.name)
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
