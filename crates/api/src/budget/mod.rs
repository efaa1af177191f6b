//! `PodDisruptionBudget` of `policy.holdfast.dev/v1`: `policy/v1` with `budgetScope`, counts in replicas and
//! `grants`. Built-in `policy/v1` budgets therefore decode with it too.
//!
//! The schema for the API server is in `crds/`. A test compares both.

mod convert;
mod selector;
mod threshold;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use convert::{StatusBody, StatusUpdate, StatusUpdateMeta};
pub use selector::{LabelSelector, Requirement};
pub use threshold::IntOrString;

use crate::lenient::null_default;
use crate::meta::Meta;
use crate::time::Time;

pub const GROUP: &str = "policy.holdfast.dev";
pub const VERSION: &str = "v1";
pub const API_VERSION: &str = "policy.holdfast.dev/v1";
pub const KIND: &str = "PodDisruptionBudget";
pub const PLURAL: &str = "poddisruptionbudgets";

#[derive(Clone, Debug, Deserialize)]
pub struct PodDisruptionBudget {
    pub metadata: Meta,
    #[serde(default, deserialize_with = "null_default")]
    pub spec: PodDisruptionBudgetSpec,
    #[serde(default, deserialize_with = "null_default")]
    pub status: PodDisruptionBudgetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDisruptionBudgetSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_pod_eviction_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_scope: Option<String>,
}

/// The status. Counts are always written, zeros too, as Kubernetes does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDisruptionBudgetStatus {
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    #[serde(
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub disrupted_pods: BTreeMap<String, Time>,
    #[serde(default, deserialize_with = "null_default")]
    pub disruptions_allowed: i64,
    #[serde(default, deserialize_with = "null_default")]
    pub current_healthy: i64,
    #[serde(default, deserialize_with = "null_default")]
    pub desired_healthy: i64,
    #[serde(default, deserialize_with = "null_default")]
    pub expected_pods: i64,
    #[serde(default, deserialize_with = "null_default")]
    pub disruptions_allowed_replicas: i64,
    #[serde(default, deserialize_with = "null_default")]
    pub current_healthy_replicas: i64,
    #[serde(default, deserialize_with = "null_default")]
    pub desired_healthy_replicas: i64,
    #[serde(default, deserialize_with = "null_default")]
    pub expected_replicas: i64,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    #[serde(
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub watermarks: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub pending_replacements: Vec<PendingReplacement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    #[serde(default)]
    pub last_transition_time: Time,
    #[serde(default, deserialize_with = "null_default")]
    pub reason: String,
    #[serde(default, deserialize_with = "null_default")]
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    pub pod: String,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub replica: String,
    #[serde(default, deserialize_with = "null_default")]
    pub cost: i64,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub requester: String,
    #[serde(default)]
    pub time: Time,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub eviction: String,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<String>,
    /// Empty for an eviction.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub operation: String,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub generation: i64,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "is_false")]
    pub shared: bool,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub age_seconds: i64,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "is_false")]
    pub pinned: bool,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "is_false")]
    pub targeted_before: bool,
}

/// A pod that was evicted by a grant and that its controller has not replaced yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingReplacement {
    pub pod: String,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub replica: String,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub size: i64,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub controller: String,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    #[serde(
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub age_seconds: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn is_zero(n: &i64) -> bool {
    *n == 0
}
