//! Workloads that ask for pod groups.

use holdfast_core::gang::{self, JobSize, OwnerSpec};
use holdfast_core::model::{self, GroupKind};
use serde::Deserialize;

use crate::lenient::null_default;
use crate::meta::{Annotations, Meta, positive};

/// Any of [`gang::Owner::KINDS`]. Their fields do not overlap in meaning, so one struct reads all.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Owner {
    metadata: Meta,
    #[serde(default, deserialize_with = "null_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "null_default")]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    replicas: Option<i64>,
    /// `LeaderWorkerSet`.
    #[serde(default, deserialize_with = "null_default")]
    leader_worker_template: LeaderWorkerTemplate,
    startup_policy: Option<StartupPolicy>,
    /// `JobSet`.
    #[serde(default, deserialize_with = "null_default")]
    replicated_jobs: Vec<ReplicatedJob>,
    /// `Job`.
    parallelism: Option<i64>,
    completions: Option<i64>,
    /// `StatefulSet`.
    pod_management_policy: Option<String>,
    #[serde(default, deserialize_with = "null_default")]
    ordinals: Ordinals,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaderWorkerTemplate {
    size: Option<i64>,
    restart_policy: Option<String>,
}

/// The `startupPolicy` of a `LeaderWorkerSet`. That of a `JobSet` is an object, which says nothing about one Job.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum StartupPolicy {
    Name(String),
    Other(serde::de::IgnoredAny),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReplicatedJob {
    #[serde(default, deserialize_with = "null_default")]
    name: String,
    #[serde(default, deserialize_with = "null_default")]
    template: JobTemplate,
    #[serde(default, deserialize_with = "null_default")]
    depends_on: Vec<serde::de::IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct JobTemplate {
    #[serde(default, deserialize_with = "null_default")]
    metadata: TemplateMeta,
    #[serde(default, deserialize_with = "null_default")]
    spec: JobSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct TemplateMeta {
    #[serde(default, deserialize_with = "null_default")]
    annotations: Annotations,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct JobSpec {
    parallelism: Option<i64>,
    completions: Option<i64>,
}

impl JobSpec {
    fn size(self, succeeded: i64) -> JobSize {
        let parallelism = self.parallelism.unwrap_or(1);
        JobSize { parallelism, completions: self.completions, succeeded }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Ordinals {
    #[serde(default, deserialize_with = "null_default")]
    start: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default, deserialize_with = "null_default")]
    succeeded: i64,
    /// The failed indices of an Indexed Job with `backoffLimitPerIndex`, such as `1,3-5`.
    #[serde(default, deserialize_with = "null_default")]
    failed_indexes: String,
}

impl Status {
    /// Returns the number of pods that are not created again. An index that has failed permanently counts, as
    /// one that has succeeded does.
    fn done(&self) -> i64 {
        let count = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<i64>().ok()?, last.parse::<i64>().ok()?);
            Some(last.saturating_sub(first).saturating_add(1).max(0))
        };
        let failed = self.failed_indexes.split(',').filter_map(count);
        failed.fold(self.succeeded, i64::saturating_add)
    }
}

impl Owner {
    /// Returns None for another kind.
    pub fn into_model(self, group_kind: GroupKind, version: &str) -> Option<gang::Owner> {
        let meta = self.metadata;
        Some(gang::Owner {
            spec: spec(&group_kind, self.spec, &self.status, &meta.annotations)?,
            api_version: version.to_owned(),
            key: meta.key(),
            version: meta.version(),
            terminating: meta.terminating,
            asks: meta.annotations.asks.as_deref().map(|text| text == "true"),
            uid: meta.uid,
            controller: meta.controller,
            group_kind,
        })
    }
}

/// Returns the spec. Each of these APIs documents one as the default of an absent number.
fn spec(
    kind: &GroupKind,
    spec: Spec,
    status: &Status,
    annotations: &Annotations,
) -> Option<OwnerSpec> {
    Some(match (kind.group.as_str(), kind.kind.as_str()) {
        (model::Owner::LWS_GROUP, "LeaderWorkerSet") => OwnerSpec::LeaderWorkerSet {
            replicas: spec.replicas.unwrap_or(1),
            size: spec.leader_worker_template.size.unwrap_or(1),
            leader_ready: matches!(spec.startup_policy, Some(StartupPolicy::Name(name)) if name == "LeaderReady"),
            exclusive: annotations.lws_exclusive.is_some(),
            // An absent value means RecreateGroupOnPodRestart. Treat unknown values the same.
            keeps_group: matches!(
                spec.leader_worker_template.restart_policy.as_deref(),
                Some("None" | "Default")
            ),
        },
        (model::Owner::JOBSET_GROUP, "JobSet") => OwnerSpec::JobSet {
            // The annotation may be on some of the jobs only. The other jobs do not wait for each other then
            // either.
            exclusive: annotations.jobset_exclusive.is_some()
                || (spec.replicated_jobs.iter())
                    .any(|job| job.template.metadata.annotations.jobset_exclusive.is_some()),
            jobs: (spec.replicated_jobs.into_iter())
                .map(|job| gang::ReplicatedJob {
                    name: job.name,
                    size: job.template.spec.size(0),
                    depends: !job.depends_on.is_empty(),
                })
                .collect(),
        },
        ("batch", "Job") => OwnerSpec::Job(
            JobSpec { parallelism: spec.parallelism, completions: spec.completions }
                .size(status.done()),
        ),
        ("apps", "StatefulSet") => OwnerSpec::StatefulSet {
            replicas: spec.replicas.unwrap_or(1),
            start: spec.ordinals.start,
            group_size: annotations.group_size.as_deref().and_then(positive),
            ordered: spec.pod_management_policy.as_deref() != Some("Parallel"),
        },
        _ => return None,
    })
}
