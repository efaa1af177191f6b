//! What is to be done, for the shell to do.

use super::{Pod, Policy, Priority};
use crate::io::Event;
use crate::model::{Condition, ControllerRef, ObjectKey, TemplateRef, Timestamp};

/// Where a pod that is about to be created belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Nothing to do with groups, or not ours to look after. In words why, for the log.
    Alone(&'static str),
    /// Into this `PodGroup`, which is to be made first where it is not there.
    Into { group: String, make: Option<Box<NewGroup>>, gate: bool },
    /// Something has not been seen yet: ask again when more has. In words what.
    Unseen(String),
}

/// A `PodGroup` to create, after its Workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    pub key: ObjectKey,
    /// The true workload: the controller of both.
    pub owner: ControllerRef,
    pub slot: String,
    pub workload: NewWorkload,
    /// Of the Workload; None if it has none for this group (more than eight kinds of groups).
    pub template: Option<String>,
    pub policy: Policy,
    /// What the policy's minCount is or would be.
    pub min_count: i64,
    /// Losing one pod takes the others: `disruptionMode` all.
    pub whole: bool,
    pub priority: Priority,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorkload {
    pub name: String,
    /// At most eight.
    pub templates: Vec<Template>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub name: String,
    pub policy: Policy,
    pub whole: bool,
}

/// To be done by the leader. None depends on another: what does not succeed is in the next plan again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Remove [`super::GATE`] from the pod.
    Lift { pod: ObjectKey, uid: String },
    /// By the Eviction API, so that its controller makes it anew, gated.
    Evict { pod: ObjectKey, uid: String },
    /// Shape Holdfast: the count, and these conditions among others.
    Report { group: ObjectKey, uid: String, scheduled_pods: i64, conditions: Vec<Condition> },
    /// Shape Kubernetes: this one condition; the scheduler owns the rest.
    Mark { group: ObjectKey, uid: String, condition: Condition },
    /// Add or remove the finalizer [`super::PROTECTION`].
    Protect { group: ObjectKey, uid: String, on: bool },
    /// Its slot has another by now, or is no more.
    Delete { group: ObjectKey, uid: String },
    /// Its `gang.minCount`, and that of its Workload's template.
    Resize { group: ObjectKey, uid: String, min_count: i64, template: Option<TemplateRef> },
    /// Pods name it, it is ours, and it is gone.
    Remake(Box<NewGroup>),
}

impl Action {
    pub(super) fn lift(pod: &Pod) -> Self {
        Self::Lift { pod: pod.key.clone(), uid: pod.uid.clone() }
    }

    pub(super) fn evict(pod: &Pod) -> Self {
        Self::Evict { pod: pod.key.clone(), uid: pod.uid.clone() }
    }

    /// What it is done to: not more than one thing at a time.
    pub fn object(&self) -> (&'static str, &ObjectKey) {
        match self {
            Self::Lift { pod, .. } | Self::Evict { pod, .. } => ("Pod", pod),
            Self::Report { group, .. }
            | Self::Mark { group, .. }
            | Self::Protect { group, .. }
            | Self::Delete { group, .. }
            | Self::Resize { group, .. } => ("PodGroup", group),
            Self::Remake(group) => ("PodGroup", &group.key),
        }
    }
}

/// What the leader is to do, all that there is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub events: Vec<Event>,
    /// When to ask again, if nothing happens before.
    pub wake: Option<Timestamp>,
    /// Of shape Holdfast.
    pub counts: Option<Counts>,
}

/// How gangs of shape Holdfast stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// For pods, or for room.
    pub waiting: usize,
    /// On their way to nodes.
    pub let_go: usize,
    pub whole: usize,
}
