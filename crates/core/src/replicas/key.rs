//! The identity of a replica.

use std::fmt;
use std::sync::Arc;

use crate::model::{GroupReference, Pod};

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

/// The form in which a budget's status remembers a replica. Names of Kubernetes objects have no slashes.
impl ReplicaKey {
    /// None for a group by label, which never has a size of its own.
    pub(crate) fn encode(&self) -> Option<String> {
        Some(match self {
            Self::Lws { group_key } => format!("lws/{group_key}"),
            Self::PodGroup { name } => format!("podgroup/{name}"),
            Self::AnnotatedGroup { name } => format!("annotation/{name}"),
            Self::WorkloadEntry { .. } | Self::Labelled { .. } => return None,
        })
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let name = name.to_owned();
        Some(match kind {
            "lws" => Self::Lws { group_key: name },
            "podgroup" => Self::PodGroup { name },
            "annotation" => Self::AnnotatedGroup { name },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for key in [
            ReplicaKey::Lws { group_key: "k".to_owned() },
            ReplicaKey::PodGroup { name: "g".to_owned() },
            ReplicaKey::AnnotatedGroup { name: "g".to_owned() },
        ] {
            let text = key.encode().unwrap();
            assert_eq!(ReplicaKey::decode(&text), Some(key), "{text}");
        }
        assert_eq!(ReplicaKey::decode("x"), None);
    }
}
