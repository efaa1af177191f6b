//! Pods. There are thousands of them, so the parser drops fields that the engine does not read.

mod container;
pub(crate) mod in_place;

use std::collections::BTreeMap;

use holdfast_core::model::{self, DisruptionTarget, GroupReference, LwsMember, Phase};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::lenient::{non_empty, null_default};
use crate::meta::{Annotations, Meta, positive};
use crate::printable;
use crate::time::Time;
use container::{Container, ContainerStatus};

#[derive(Clone, Debug, Deserialize)]
pub struct Pod<'a> {
    pub metadata: Meta,
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub spec: PodSpec<'a>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub status: PodStatus<'a>,
}

impl From<Pod<'_>> for model::Pod {
    fn from(pod: Pod<'_>) -> Self {
        let settled = in_place::is_settled(&pod);
        let applied = container::is_applied(&pod);
        let meta = pod.metadata;
        Self {
            key: meta.key(),
            version: meta.version(),
            lws: lws_member(&meta.labels, &meta.annotations),
            reference: (pod.spec.reference()).or_else(|| by_annotation(meta.annotations.pod_group)),
            uid: meta.uid,
            labels: meta.labels,
            controller: meta.controller,
            phase: phase(&pod.status.phase),
            ready: pod.status.conditions.ready,
            terminating: meta.terminating,
            disruption_target: pod.status.conditions.disruption_target,
            generation: meta.generation,
            settled,
            applied,
            related: meta.annotations.related_pub.is_some()
                || meta.annotations.related_pub_old.is_some(),
            no_protect: meta.annotations.no_protect.as_deref().is_some_and(is_true),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec<'a> {
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub(crate) containers: Vec<Container<'a>>,
    /// 1.36 and later.
    pub scheduling_group: Option<SchedulingGroup>,
    /// 1.35, and the KEP-5832 draft.
    pub workload_ref: Option<WorkloadRef>,
    /// KEP-5682 draft.
    pub workload: Option<WorkloadRef>,
}

impl PodSpec<'_> {
    fn reference(self) -> Option<GroupReference> {
        let group = |name| GroupReference::PodGroup { name };
        self.scheduling_group
            .and_then(|group| non_empty(group.pod_group_name))
            .map(group)
            .or_else(|| self.workload_ref?.reference())
            .or_else(|| self.workload?.reference())
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingGroup {
    pub pod_group_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    pub name: Option<String>,
    /// An entry of the Workload (1.35, KEP-5682 draft).
    pub pod_group: Option<String>,
    pub pod_group_replica_key: Option<String>,
    /// A `PodGroup` object (KEP-5832 draft).
    pub pod_group_name: Option<String>,
}

impl WorkloadRef {
    /// Returns the reference. A reference to a Workload without an entry keeps an empty entry: it is
    /// unresolved, which differs from absent.
    fn reference(self) -> Option<GroupReference> {
        if let Some(name) = non_empty(self.pod_group_name) {
            return Some(GroupReference::PodGroup { name });
        }
        let (workload, entry) = (non_empty(self.name), non_empty(self.pod_group));
        if workload.is_none() && entry.is_none() {
            return None;
        }
        Some(GroupReference::WorkloadEntry {
            workload: workload.unwrap_or_default(),
            entry: entry.unwrap_or_default(),
            replica_key: non_empty(self.pod_group_replica_key),
        })
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus<'a> {
    #[serde(default, deserialize_with = "null_default")]
    pub phase: String,
    #[serde(default)]
    pub conditions: PodConditions,
    /// The generation that the kubelet has seen; API servers before 1.34 have none.
    pub observed_generation: Option<i64>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub(crate) container_statuses: Vec<ContainerStatus<'a>>,
}

/// The conditions that Holdfast needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodConditions {
    pub ready: bool,
    /// A resize is pending or in progress.
    pub resizing: bool,
    pub disruption_target: Option<DisruptionTarget>,
}

impl<'de> Deserialize<'de> for PodConditions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ConditionsVisitor)
    }
}

struct ConditionsVisitor;

impl<'de> Visitor<'de> for ConditionsVisitor {
    type Value = PodConditions;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of conditions")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(PodConditions::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut kept = PodConditions::default();
        while let Some(condition) = seq.next_element::<PodCondition>()? {
            if condition.status != "True" {
                continue;
            }
            match condition.kind.as_str() {
                "Ready" => kept.ready = true,
                "PodResizePending" | "PodResizeInProgress" => kept.resizing = true,
                "DisruptionTarget" => {
                    kept.disruption_target = Some(DisruptionTarget {
                        reason: condition.reason,
                        since: condition.last_transition_time.into(),
                    });
                }
                _ => {}
            }
        }
        Ok(kept)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodCondition {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    status: String,
    #[serde(default, deserialize_with = "null_default")]
    reason: String,
    #[serde(default)]
    last_transition_time: Time,
}

/// Parses as Go's `strconv.ParseBool`.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// Reads the phase. A missing phase is not Pending, because Pending pods may be evicted without a check.
fn phase(text: &str) -> Phase {
    match text {
        "Pending" => Phase::Pending,
        "Running" => Phase::Running,
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        _ => Phase::Unknown,
    }
}

/// `spec.template` of a workload: the labels of its pods, and the group that they name.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PodTemplate {
    #[serde(default, deserialize_with = "null_default")]
    pub metadata: TemplateMeta,
    #[serde(default, deserialize_with = "null_default")]
    pub spec: TemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct TemplateMeta {
    #[serde(default, deserialize_with = "null_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_default")]
    pub annotations: Annotations,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateSpec {
    pub scheduling_group: Option<SchedulingGroup>,
    pub workload_ref: Option<WorkloadRef>,
    pub workload: Option<WorkloadRef>,
}

impl PodTemplate {
    pub(crate) fn reference(self) -> Option<GroupReference> {
        let TemplateSpec { scheduling_group, workload_ref, workload } = self.spec;
        let spec = PodSpec { scheduling_group, workload_ref, workload, ..PodSpec::default() };
        spec.reference().or_else(|| by_annotation(self.metadata.annotations.pod_group))
    }
}

fn by_annotation(name: Option<String>) -> Option<GroupReference> {
    let name = non_empty(name)?;
    // No group has a name with control characters, and the name is printed for users.
    let name = printable(&name).into_owned();
    Some(GroupReference::Annotation { name })
}

pub(crate) const JOB_NAME: &str = "batch.kubernetes.io/job-name";
pub(crate) const JOBSET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
pub(crate) const REPLICATED_JOB_NAME: &str = "jobset.sigs.k8s.io/replicatedjob-name";
pub(crate) const LWS_NAME: &str = "leaderworkerset.sigs.k8s.io/name";
const LWS_GROUP_KEY: &str = "leaderworkerset.sigs.k8s.io/group-key";
pub(crate) const LWS_GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";

fn lws_member(labels: &BTreeMap<String, String>, annotations: &Annotations) -> Option<LwsMember> {
    Some(LwsMember {
        group_key: labels.get(LWS_GROUP_KEY)?.clone(),
        lws: labels.get(LWS_NAME).cloned().unwrap_or_default(),
        group_index: labels.get(LWS_GROUP_INDEX).and_then(|text| text.parse().ok()),
        size: annotations.lws_size.as_deref().and_then(positive),
    })
}
