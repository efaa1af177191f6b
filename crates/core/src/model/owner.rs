use super::{ControllerRef, GroupKind, ObjectKey, ResourceVersion};

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

    pub const LWS_GROUP: &str = "leaderworkerset.x-k8s.io";
    pub const JOBSET_GROUP: &str = "jobset.x-k8s.io";
    pub const KRUISE_GROUP: &str = "apps.kruise.io";
}
