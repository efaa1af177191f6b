//! `PodGroup` and Workload, in every shape of a release or of a KEP draft.
//!
//! Each release changed the API without a conversion, so there is no canonical version. The shapes do not contradict
//! each other: one struct with optional fields reads all of them.
//!
//! | shape | group -> template | minCount | whole group |
//! |---|---|---|---|
//! | 1.35 `v1alpha1` | no object; `podGroups[]` of the Workload | `policy.gang.minCount` | |
//! | 1.36 `v1alpha2` | `podGroupTemplateRef.workload.{workloadName, podGroupTemplateName}` | inline | `disruptionMode: PodGroup` |
//! | 1.37 `v1beta1`, `v1alpha3` | `workloadRef.{workloadName, templateName}` | inline | `disruptionMode: {all: {}}` |
//! | KEP-5682 draft | no object; `podGroups[]` with `replicas` | `policy.gang.minCount` | |
//! | KEP-5832 draft, `scheduling.holdfast.dev` | `workloadRef.name` and `podGroupTemplateName` or `podGroupTemplateRef.name` | in the template | |

use holdfast_core::model::{self, GroupApi, GroupPolicy, TemplateRef, WorkloadEntry};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::lenient::{non_empty, null_default};
use crate::meta::{Meta, positive};

#[derive(Clone, Debug, Deserialize)]
pub struct PodGroup {
    pub metadata: Meta,
    #[serde(default, deserialize_with = "null_default")]
    pub spec: PodGroupSpec,
}

impl PodGroup {
    /// Converts for budgets: a basic policy gets the minCount of the annotation.
    pub fn into_model(self, api: GroupApi) -> model::PodGroup {
        let min_count = self.metadata.annotations.min_count.as_deref().and_then(positive);
        let mut group = self.into_object(api);
        if let (GroupPolicy::Basic, Some(min_count)) = (group.policy, min_count) {
            group.policy = GroupPolicy::Gang { min_count };
        }
        group
    }

    /// Converts without changes.
    pub(crate) fn into_object(self, api: GroupApi) -> model::PodGroup {
        let template = self.spec.template();
        model::PodGroup {
            api,
            key: self.metadata.key(),
            version: self.metadata.version(),
            uid: self.metadata.uid,
            terminating: self.metadata.terminating,
            controller: self.metadata.controller,
            policy: policy(self.spec.scheduling_policy.as_ref()),
            template,
            disrupt_whole: self.spec.disruption_mode.is_some_and(|mode| mode.is_whole()),
            composite_parent: non_empty(self.spec.parent_composite_pod_group_name),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupSpec {
    pub scheduling_policy: Option<Policy>,
    pub workload_ref: Option<WorkloadRef>,
    pub pod_group_template_ref: Option<PodGroupTemplateRef>,
    pub pod_group_template_name: Option<String>,
    pub disruption_mode: Option<DisruptionMode>,
    pub parent_composite_pod_group_name: Option<String>,
}

impl PodGroupSpec {
    /// Returns the template. An incomplete reference counts as none.
    fn template(&self) -> Option<TemplateRef> {
        let by_workload = self.workload_ref.as_ref();
        let by_template = self.pod_group_template_ref.as_ref();
        let linked = by_template.and_then(|r| r.workload.as_ref());
        let workload = first([
            by_workload.and_then(|r| r.workload_name.as_ref()),
            by_workload.and_then(|r| r.name.as_ref()),
            linked.and_then(|r| r.workload_name.as_ref()),
        ])?;
        let template = first([
            by_workload.and_then(|r| r.template_name.as_ref()),
            self.pod_group_template_name.as_ref(),
            by_template.and_then(|r| r.name.as_ref()),
            linked.and_then(|r| r.pod_group_template_name.as_ref()),
        ])?;
        Some(TemplateRef { workload, template })
    }
}

/// A reference to a Workload. 1.37: `workloadName` and `templateName`; KEP-5832 draft: `name`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    pub workload_name: Option<String>,
    pub template_name: Option<String>,
    pub name: Option<String>,
}

/// A reference to a template. 1.36: `workload`; KEP-5832 draft: `name`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PodGroupTemplateRef {
    pub workload: Option<WorkloadTemplateRef>,
    pub name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadTemplateRef {
    pub workload_name: Option<String>,
    pub pod_group_template_name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum DisruptionMode {
    /// 1.36: `Pod` or `PodGroup`.
    Name(String),
    /// 1.37: one member is set. Unknown members of a later release do not count as `all`.
    Union { all: Option<IgnoredAny> },
}

impl DisruptionMode {
    fn is_whole(&self) -> bool {
        match self {
            Self::Name(name) => name == "PodGroup",
            Self::Union { all } => all.is_some(),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Workload {
    pub metadata: Meta,
    #[serde(default, deserialize_with = "null_default")]
    pub spec: WorkloadSpec,
}

impl Workload {
    pub fn into_model(self, api: GroupApi) -> model::Workload {
        let spec = self.spec;
        model::Workload {
            api,
            key: self.metadata.key(),
            version: self.metadata.version(),
            uid: self.metadata.uid,
            entries: spec
                .pod_group_templates
                .into_iter()
                .chain(spec.pod_groups)
                .map(Into::into)
                .collect(),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSpec {
    /// 1.35 and the KEP-5682 draft.
    #[serde(default, deserialize_with = "null_default")]
    pub pod_groups: Vec<Entry>,
    /// 1.36 and later, and the KEP-5832 draft.
    #[serde(default, deserialize_with = "null_default")]
    pub pod_group_templates: Vec<Entry>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    #[serde(default, deserialize_with = "null_default")]
    pub name: String,
    /// 1.36 and later.
    pub scheduling_policy: Option<Policy>,
    /// 1.35 and the drafts.
    pub policy: Option<Policy>,
    pub replicas: Option<i64>,
}

impl From<Entry> for WorkloadEntry {
    fn from(entry: Entry) -> Self {
        let policy = policy(entry.scheduling_policy.as_ref().or(entry.policy.as_ref()));
        Self { name: entry.name, policy, replicas: entry.replicas }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Policy {
    pub gang: Option<Gang>,
    pub basic: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gang {
    /// Absent reads as 0, which resolves to no replica (semantics 3).
    #[serde(default, deserialize_with = "null_default")]
    pub min_count: i64,
}

fn policy(policy: Option<&Policy>) -> GroupPolicy {
    match policy {
        Some(Policy { gang: Some(gang), .. }) => GroupPolicy::Gang { min_count: gang.min_count },
        Some(Policy { basic: Some(_), .. }) => GroupPolicy::Basic,
        _ => GroupPolicy::Absent,
    }
}

fn first<const N: usize>(candidates: [Option<&String>; N]) -> Option<String> {
    candidates.into_iter().flatten().find(|text| !text.is_empty()).cloned()
}
