//! `PodUnavailableBudget` of `policy.kruise.io`: the budget of Kruise, with groups. It protects from every
//! voluntary disruption of a pod, and counts pods or groups of pods.
//!
//! One struct reads both versions: `v1alpha1` lacks some of the fields and has annotations instead of others,
//! which [`annotation`] reads.

pub mod annotation;
pub mod convert;
pub mod crd;
mod model;
mod overlap;
pub mod validate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::budget::{Condition, Grant, IntOrString, LabelSelector, PendingReplacement, is_zero};
use crate::lenient::null_default;
use crate::meta::Meta;
use crate::time::Time;

pub const GROUP: &str = "policy.kruise.io";
/// The stored version, which Holdfast reads and writes.
pub const VERSION: &str = "v1beta1";
pub const API_VERSION: &str = "policy.kruise.io/v1beta1";
pub const ALPHA_API_VERSION: &str = "policy.kruise.io/v1alpha1";
pub const KIND: &str = "PodUnavailableBudget";
pub const PLURAL: &str = "podunavailablebudgets";

#[derive(Clone, Debug, Deserialize)]
pub struct PodUnavailableBudget {
    pub metadata: Meta,
    #[serde(default, deserialize_with = "null_default")]
    pub spec: PodUnavailableBudgetSpec,
    #[serde(default, deserialize_with = "null_default")]
    pub status: PodUnavailableBudgetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUnavailableBudgetSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub protect_operations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect_total_replicas: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored_pod_selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_group_policy: Option<PodGroupPolicy>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetReference {
    #[serde(default, deserialize_with = "null_default")]
    pub api_version: String,
    #[serde(default, deserialize_with = "null_default")]
    pub kind: String,
    #[serde(default, deserialize_with = "null_default")]
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupPolicy {
    #[serde(default, deserialize_with = "null_default")]
    pub group_label_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_replicas: Option<i64>,
}

/// The status. Counts are always written, zeros too, because Kruise's schema requires them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUnavailableBudgetStatus {
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    #[serde(
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub disrupted_pods: BTreeMap<String, Time>,
    #[serde(
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub unavailable_pods: BTreeMap<String, Time>,
    #[serde(default, deserialize_with = "null_default")]
    pub unavailable_allowed: i64,
    #[serde(default, deserialize_with = "null_default")]
    pub current_available: i64,
    #[serde(default, deserialize_with = "null_default")]
    pub desired_available: i64,
    #[serde(default, deserialize_with = "null_default")]
    pub total_replicas: i64,
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
