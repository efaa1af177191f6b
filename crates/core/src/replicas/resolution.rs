//! What is known of a replica apart from its pods' health.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Source;
use crate::model::{ControllerRef, GroupReference, LwsMember, Pod};

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
