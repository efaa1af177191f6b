use super::{ControllerRef, GroupKind, ObjectKey, ResourceVersion};

/// A workload controller's object: `ReplicationController`, `ReplicaSet`, Deployment, `StatefulSet`,
/// Job, `JobSet` or `LeaderWorkerSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub group_kind: GroupKind,
    pub key: ObjectKey,
    pub uid: String,
    pub version: ResourceVersion,
    pub controller: Option<ControllerRef>,
    /// `spec.replicas`; for a `JobSet` the sum of its replicated jobs' replicas; none for a Job.
    pub replicas: Option<i64>,
    /// Annotation `holdfast.dev/group-size` of a `StatefulSet`, if it is a number >= 1.
    pub group_size: Option<i64>,
    /// `LeaderWorkerSet` with restartPolicy None or Default: losing one pod does not take the group.
    pub lws_keeps_group: bool,
}

impl Owner {
    pub const LWS_GROUP: &str = "leaderworkerset.x-k8s.io";
    pub const JOBSET_GROUP: &str = "jobset.x-k8s.io";
}
