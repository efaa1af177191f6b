//! Workload controllers' objects, and the `/scale` of those that we have no decoder for.

use holdfast_core::io::ScaleOutcome;
use holdfast_core::model::{self, GroupKind};
use serde::Deserialize;

use crate::lenient::null_default;
use crate::meta::{Meta, positive};

/// Any of [`model::Owner::WATCHED`]. Their fields do not overlap in meaning, so one struct reads all.
#[derive(Clone, Debug, Deserialize)]
pub struct Owner {
    pub metadata: Meta,
    #[serde(default, deserialize_with = "null_default")]
    pub spec: OwnerSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerSpec {
    pub replicas: Option<i64>,
    /// `JobSet`.
    #[serde(default, deserialize_with = "null_default")]
    pub replicated_jobs: Vec<ReplicatedJob>,
    /// `LeaderWorkerSet`.
    #[serde(default, deserialize_with = "null_default")]
    pub leader_worker_template: LeaderWorkerTemplate,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ReplicatedJob {
    pub replicas: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderWorkerTemplate {
    pub restart_policy: Option<String>,
}

impl Owner {
    pub fn into_model(self, group_kind: GroupKind) -> model::Owner {
        let is_statefulset = group_kind.is("apps", "StatefulSet");
        let is_lws = group_kind.is(model::Owner::LWS_GROUP, "LeaderWorkerSet");
        let restart_policy = self.spec.leader_worker_template.restart_policy.as_deref();
        model::Owner {
            key: self.metadata.key(),
            version: self.metadata.version(),
            terminating: self.metadata.terminating,
            replicas: replicas(&group_kind, &self.spec),
            group_size: is_statefulset
                .then_some(self.metadata.annotations.group_size.as_deref())
                .flatten()
                .and_then(positive),
            // Absent means RecreateGroupOnPodRestart, and so must anything that we do not know.
            lws_keeps_group: is_lws && matches!(restart_policy, Some("None" | "Default")),
            controller: self.metadata.controller,
            uid: self.metadata.uid,
            group_kind,
        }
    }
}

/// One is the default that each of these APIs documents for an absent number.
fn replicas(group_kind: &GroupKind, spec: &OwnerSpec) -> Option<i64> {
    if group_kind.is("batch", "Job") {
        None
    } else if group_kind.is(model::Owner::JOBSET_GROUP, "JobSet") {
        let jobs = spec.replicated_jobs.iter().map(|job| job.replicas.unwrap_or(1));
        Some(jobs.fold(0, i64::saturating_add))
    } else {
        Some(spec.replicas.unwrap_or(1))
    }
}

/// `autoscaling/v1` Scale.
#[derive(Clone, Debug, Deserialize)]
pub struct Scale {
    pub metadata: ScaleMeta,
    #[serde(default, deserialize_with = "null_default")]
    pub spec: ScaleSpec,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ScaleMeta {
    pub uid: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct ScaleSpec {
    /// Go leaves a zero out.
    #[serde(default, deserialize_with = "null_default")]
    pub replicas: i64,
}

impl From<Scale> for ScaleOutcome {
    fn from(scale: Scale) -> Self {
        Self::Found { uid: scale.metadata.uid, replicas: scale.spec.replicas }
    }
}
