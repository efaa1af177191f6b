//! The messages, with the tags of Kubernetes' `generated.proto` files. The same structs write the JSON: Go's
//! `omitempty` is `skip_serializing_if` here.
//!
//! Go writes every field that is not a pointer, zeros too, and pointers only if they are set. So a pointer is an
//! `Option` here, and `Some("")` is not `None`. prost makes an `Option` of every message. Where Go has a message by
//! value, an absent message and an empty one are written in the same way.

use std::collections::BTreeMap;

use holdfast_core::model::Timestamp;
use prost::Message;
use serde::Serialize;
use serde::ser::{Error, Serializer};
use serde_json::Value;

use crate::time;

/// The envelope of every message (`runtime.Unknown`).
#[derive(Clone, PartialEq, Message)]
pub struct Unknown {
    #[prost(message, optional, tag = "1")]
    pub type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    pub raw: Vec<u8>,
    #[prost(string, tag = "3")]
    pub content_encoding: String,
    #[prost(string, tag = "4")]
    pub content_type: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct TypeMeta {
    #[prost(string, tag = "1")]
    pub api_version: String,
    #[prost(string, tag = "2")]
    pub kind: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub struct Budget {
    #[prost(message, optional, tag = "1")]
    #[serde(serialize_with = "by_value")]
    pub metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    #[serde(serialize_with = "by_value")]
    pub spec: Option<Spec>,
    #[prost(message, optional, tag = "3")]
    #[serde(serialize_with = "by_value")]
    pub status: Option<Status>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_pod_eviction_policy: Option<String>,
    #[prost(string, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_scope: Option<String>,
}

/// The status. Counts in replicas are `Option`s, because most clients do not know them. If a client leaves
/// one out, it must not look like a zero.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    #[prost(int64, tag = "1")]
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    #[prost(btree_map = "string, message", tag = "2")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<String, Time>,
    #[prost(int32, tag = "3")]
    pub disruptions_allowed: i32,
    #[prost(int32, tag = "4")]
    pub current_healthy: i32,
    #[prost(int32, tag = "5")]
    pub desired_healthy: i32,
    #[prost(int32, tag = "6")]
    pub expected_pods: i32,
    #[prost(message, repeated, tag = "7")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[prost(int32, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruptions_allowed_replicas: Option<i32>,
    #[prost(int32, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_healthy_replicas: Option<i32>,
    #[prost(int32, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_healthy_replicas: Option<i32>,
    #[prost(int32, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_replicas: Option<i32>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[prost(string, tag = "1")]
    #[serde(rename = "type")]
    pub kind: String,
    #[prost(string, tag = "2")]
    pub status: String,
    #[prost(int64, tag = "3")]
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    #[prost(message, optional, tag = "4")]
    pub last_transition_time: Option<Time>,
    #[prost(string, tag = "5")]
    pub reason: String,
    #[prost(string, tag = "6")]
    pub message: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    #[prost(int64, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    #[prost(bool, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan_dependents: Option<bool>,
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<String>,
    #[prost(string, repeated, tag = "5")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<String>,
    #[prost(bool, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_store_read_error_with_cluster_breaking_potential: Option<bool>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[prost(string, tag = "4")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub self_link: String,
    #[prost(string, tag = "5")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[prost(string, tag = "6")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[prost(int64, tag = "7")]
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "is_unset")]
    pub creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    #[prost(int64, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[prost(btree_map = "string, string", tag = "11")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    #[prost(string, repeated, tag = "14")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    #[prost(message, repeated, tag = "17")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_fields: Vec<ManagedFields>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub uid: String,
    #[prost(string, tag = "5")]
    pub api_version: String,
    #[prost(bool, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedFields {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manager: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operation: String,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    #[prost(string, tag = "6")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fields_type: String,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields_v1: Option<FieldsV1>,
    #[prost(string, tag = "8")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

/// A set of field paths, which is JSON even in protobuf.
#[derive(Clone, PartialEq, Message)]
pub struct FieldsV1 {
    #[prost(bytes = "vec", tag = "1")]
    pub raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    #[prost(btree_map = "string, string", tag = "1")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub struct Requirement {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub operator: String,
    #[prost(string, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct IntOrString {
    #[prost(int64, tag = "1")]
    pub kind: i64,
    #[prost(int32, tag = "2")]
    pub int: i32,
    #[prost(string, tag = "3")]
    pub string: String,
}

/// Presence matters: Go writes its zero time as an empty message and the epoch as two zeros.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Time {
    #[prost(int64, optional, tag = "1")]
    pub seconds: Option<i64>,
    #[prost(int32, optional, tag = "2")]
    pub nanos: Option<i32>,
}

/// The fields of [`Budget`] that the gate reads.
#[derive(Clone, PartialEq, Message)]
pub struct GateBudget {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<GateMeta>,
    #[prost(message, optional, tag = "3")]
    pub status: Option<GateStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GateMeta {
    #[prost(string, tag = "5")]
    pub uid: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct GateStatus {
    #[prost(message, repeated, tag = "2")]
    pub disrupted_pods: Vec<GatePod>,
}

/// One entry of a map whose values are not needed.
#[derive(Clone, PartialEq, Message)]
pub struct GatePod {
    #[prost(string, tag = "1")]
    pub key: String,
}

impl Time {
    /// 0001-01-01T00:00:00Z, which Go uses as "no time".
    const GO_ZERO_SECS: i64 = -62_135_596_800;

    fn set_secs(self) -> Option<i64> {
        let present = self.seconds.is_some() || self.nanos.is_some();
        Some(self.seconds.unwrap_or(0)).filter(|secs| present && *secs != Self::GO_ZERO_SECS)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.set_secs() {
            None => serializer.serialize_none(),
            Some(secs) => {
                serializer.serialize_str(&time::format(Timestamp(secs.saturating_mul(1000))))
            }
        }
    }
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.kind {
            0 => serializer.serialize_i32(self.int),
            1 => serializer.serialize_str(&self.string),
            other => {
                Err(S::Error::custom(format!("{other} is no type of an IntOrString, 0 and 1 are")))
            }
        }
    }
}

impl Serialize for FieldsV1 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.raw.is_empty() {
            return serializer.serialize_none();
        }
        serde_json::from_slice::<Value>(&self.raw)
            .map_err(|error| S::Error::custom(format!("fieldsV1 is not JSON: {error}")))?
            .serialize(serializer)
    }
}

#[expect(clippy::ref_option, reason = "serde passes references")]
fn by_value<T, S>(message: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Default + Serialize,
    S: Serializer,
{
    match message {
        Some(message) => message.serialize(serializer),
        None => T::default().serialize(serializer),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(n: &i64) -> bool {
    *n == 0
}

#[expect(clippy::ref_option, reason = "serde passes references")]
fn is_unset(time: &Option<Time>) -> bool {
    time.and_then(Time::set_secs).is_none()
}
