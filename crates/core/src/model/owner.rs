use std::collections::BTreeMap;

use super::{ControllerRef, GroupKind, GroupReference, ObjectKey, ResourceVersion};

/// A workload controller's object: `ReplicationController`, `ReplicaSet`, Deployment, `StatefulSet`,
/// Job, `JobSet`, `LeaderWorkerSet`, or Kruise's `CloneSet` or `StatefulSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub group_kind: GroupKind,
    pub key: ObjectKey,
    pub uid: String,
    pub version: ResourceVersion,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    pub controller: Option<ControllerRef>,
    /// `spec.replicas`; for a `JobSet` the sum of its replicated jobs' replicas; none for a Job.
    pub replicas: Option<i64>,
    /// Annotation `holdfast.dev/group-size` of a `StatefulSet`, if it is a number >= 1.
    pub group_size: Option<i64>,
    /// `LeaderWorkerSet` with restartPolicy None or Default: losing one pod does not take the group.
    pub lws_keeps_group: bool,
    pub pods: OwnerPods,
}

/// What an owner says about the pods that it makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerPods {
    /// Pod templates of a `LeaderWorkerSet`, Job, `JobSet` or `StatefulSet`. Other kinds have none here.
    pub templates: Vec<PodTemplate>,
    /// Holdfast puts the pods into `PodGroups`, so the templates need not name one.
    pub grouped: bool,
    /// Parallelism of a Job.
    pub parallelism: Option<i64>,
    /// The Job or `JobSet` has completed or failed: it makes no pods any more.
    pub finished: bool,
    /// `spec.suspend` of a Job or `JobSet`.
    pub suspended: bool,
}

/// A pod as its controller will make it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTemplate {
    /// Labels of the template, and labels that the controller always adds with a known value.
    pub labels: BTreeMap<String, String>,
    /// The group that the template names.
    pub reference: Option<GroupReference>,
}

impl Owner {
    /// As API group and kind.
    pub const WATCHED: [(&str, &str); 9] = [
        ("", "ReplicationController"),
        ("apps", "ReplicaSet"),
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
        (Self::JOBSET_GROUP, "JobSet"),
        (Self::LWS_GROUP, "LeaderWorkerSet"),
        (Self::KRUISE_GROUP, "CloneSet"),
        (Self::KRUISE_GROUP, "StatefulSet"),
    ];

    /// Kinds that are known by their own watch; others by their `/scale`.
    pub fn is_watched(kind: &GroupKind) -> bool {
        Self::WATCHED.iter().any(|(group, name)| kind.is(group, name))
    }

    /// Labels that the controller adds to every pod with a value that the template does not tell.
    pub(crate) fn has_varying_label(kind: &GroupKind, label: &str) -> bool {
        match (kind.group.as_str(), kind.kind.as_str()) {
            (Self::LWS_GROUP, "LeaderWorkerSet") => {
                label.starts_with("leaderworkerset.sigs.k8s.io/") || of_statefulset(label)
            }
            (Self::JOBSET_GROUP, "JobSet") => {
                label.starts_with("jobset.sigs.k8s.io/") || of_job(label)
            }
            ("batch", "Job") => of_job(label),
            ("apps", "StatefulSet") => of_statefulset(label),
            _ => false,
        }
    }

    pub const LWS_GROUP: &str = "leaderworkerset.x-k8s.io";
    pub const JOBSET_GROUP: &str = "jobset.x-k8s.io";
    pub const KRUISE_GROUP: &str = "apps.kruise.io";
}

fn of_job(label: &str) -> bool {
    label.starts_with("batch.kubernetes.io/") || matches!(label, "job-name" | "controller-uid")
}

fn of_statefulset(label: &str) -> bool {
    matches!(
        label,
        "apps.kubernetes.io/pod-index"
            | "statefulset.kubernetes.io/pod-name"
            | "controller-revision-hash"
    )
}
