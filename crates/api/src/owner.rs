//! The objects of workload controllers, and the `/scale` of kinds without a decoder.

use std::collections::BTreeMap;

use holdfast_core::io::ScaleOutcome;
use holdfast_core::model::{self, GroupKind, OwnerPods};
use serde::Deserialize;

use crate::lenient::null_default;
use crate::meta::{Meta, positive};
use crate::pod::{JOB_NAME, JOBSET_NAME, LWS_NAME, PodTemplate, REPLICATED_JOB_NAME};

/// Any of [`model::Owner::WATCHED`]. Their fields do not overlap in meaning, so one struct reads all.
#[derive(Clone, Debug, Deserialize)]
pub struct Owner {
    pub metadata: Meta,
    #[serde(default, deserialize_with = "null_default")]
    pub spec: OwnerSpec,
    #[serde(default, deserialize_with = "null_default")]
    pub status: OwnerStatus,
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
    /// Job and `StatefulSet`.
    pub template: Option<PodTemplate>,
    /// Job.
    pub parallelism: Option<i64>,
    /// Job and `JobSet`.
    #[serde(default, deserialize_with = "null_default")]
    pub suspend: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ReplicatedJob {
    #[serde(default, deserialize_with = "null_default")]
    pub name: String,
    pub replicas: Option<i64>,
    #[serde(default, deserialize_with = "null_default")]
    pub template: JobTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct JobTemplate {
    #[serde(default, deserialize_with = "null_default")]
    pub spec: JobSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct JobSpec {
    pub template: Option<PodTemplate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderWorkerTemplate {
    pub restart_policy: Option<String>,
    /// If it is missing, leaders are created from the worker template.
    pub leader_template: Option<PodTemplate>,
    pub worker_template: Option<PodTemplate>,
}

/// The conditions of a Job or a `JobSet` that show its end.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct OwnerStatus {
    #[serde(default, deserialize_with = "null_default")]
    pub conditions: Vec<OwnerCondition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct OwnerCondition {
    #[serde(rename = "type", default, deserialize_with = "null_default")]
    pub kind: String,
    #[serde(default, deserialize_with = "null_default")]
    pub status: String,
}

impl OwnerStatus {
    fn is_finished(&self) -> bool {
        let ends = |kind: &str| matches!(kind, "Complete" | "Completed" | "Failed");
        self.conditions.iter().any(|c| c.status == "True" && ends(&c.kind))
    }
}

impl Owner {
    pub fn into_model(self, group_kind: GroupKind) -> model::Owner {
        let is_statefulset = group_kind.is("apps", "StatefulSet");
        let is_lws = group_kind.is(model::Owner::LWS_GROUP, "LeaderWorkerSet");
        let is_job = group_kind.is("batch", "Job");
        let is_jobset = group_kind.is(model::Owner::JOBSET_GROUP, "JobSet");
        let pods = OwnerPods {
            templates: templates(&group_kind, &self.metadata.name, &self.spec),
            grouped: self.metadata.annotations.asks.as_deref() == Some("true"),
            parallelism: self.spec.parallelism.filter(|_| is_job),
            finished: (is_job || is_jobset) && self.status.is_finished(),
            suspended: (is_job || is_jobset) && self.spec.suspend,
        };
        let restart_policy = self.spec.leader_worker_template.restart_policy.as_deref();
        model::Owner {
            pods,
            key: self.metadata.key(),
            version: self.metadata.version(),
            terminating: self.metadata.terminating,
            replicas: replicas(&group_kind, &self.spec),
            group_size: is_statefulset
                .then_some(self.metadata.annotations.group_size.as_deref())
                .flatten()
                .and_then(positive),
            // An absent value means RecreateGroupOnPodRestart. Treat unknown values the same.
            lws_keeps_group: is_lws && matches!(restart_policy, Some("None" | "Default")),
            controller: self.metadata.controller,
            uid: self.metadata.uid,
            group_kind,
        }
    }
}

/// Returns the pods that the owner will create, with the labels that its controller always adds.
fn templates(group_kind: &GroupKind, name: &str, spec: &OwnerSpec) -> Vec<model::PodTemplate> {
    let template = |template: &PodTemplate, added: &[(&str, &str)]| {
        let added = added.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let own = template.metadata.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
        let labels: BTreeMap<String, String> = own.chain(added).collect();
        model::PodTemplate { labels, reference: template.clone().reference() }
    };
    match (group_kind.group.as_str(), group_kind.kind.as_str()) {
        (model::Owner::LWS_GROUP, "LeaderWorkerSet") => {
            let LeaderWorkerTemplate { leader_template, worker_template, .. } =
                &spec.leader_worker_template;
            let both = leader_template.iter().chain(worker_template);
            both.map(|t| template(t, &[(LWS_NAME, name)])).collect()
        }
        ("batch", "Job") => {
            let own = spec.template.iter();
            own.map(|t| template(t, &[(JOB_NAME, name), ("job-name", name)])).collect()
        }
        (model::Owner::JOBSET_GROUP, "JobSet") => {
            let jobs = spec.replicated_jobs.iter();
            let jobs = jobs.filter_map(|job| Some((job, job.template.spec.template.as_ref()?)));
            jobs.map(|(job, t)| {
                template(t, &[(JOBSET_NAME, name), (REPLICATED_JOB_NAME, &job.name)])
            })
            .collect()
        }
        ("apps", "StatefulSet") => spec.template.iter().map(|t| template(t, &[])).collect(),
        _ => Vec::new(),
    }
}

/// Returns the scale. Each of these APIs documents one as the default of an absent number.
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
    /// Go leaves out a zero.
    #[serde(default, deserialize_with = "null_default")]
    pub replicas: i64,
}

impl From<Scale> for ScaleOutcome {
    fn from(scale: Scale) -> Self {
        Self::Found { uid: scale.metadata.uid, replicas: scale.spec.replicas }
    }
}
