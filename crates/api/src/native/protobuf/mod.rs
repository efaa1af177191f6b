//! Request bodies in Kubernetes' protobuf. Typed Go clients send it by default, and the built-in eviction handler
//! always does. Answers can be JSON, which every client accepts.
//!
//! ```text
//!   "k8s\0" | Unknown { typeMeta, raw } --raw by kind--> PodDisruptionBudget | DeleteOptions --> JSON
//! ```

pub mod messages;

use prost::Message;
use serde_json::Value;

use messages::{Budget, DeleteOptions, GateBudget, Unknown};

const MAGIC: &[u8] = b"k8s\0";
const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const API_VERSION: &str = "policy/v1";

#[derive(Debug, thiserror::Error)]
pub enum ProtobufError {
    #[error(
        "the body is not Kubernetes protobuf: it begins with \"{}\" instead of \"k8s\\x00\"",
        .0.escape_ascii()
    )]
    Magic(Vec<u8>),
    #[error("the protobuf of {what} is malformed: {error}")]
    Malformed { what: &'static str, error: prost::DecodeError },
    #[error("the protobuf envelope holds {0:?} instead of plain {MEDIA_TYPE}")]
    Content(String),
    #[error(
        "the protobuf envelope holds kind {kind:?} of apiVersion {api_version:?}; \
         PodDisruptionBudget of {API_VERSION} and DeleteOptions can be read"
    )]
    Kind { api_version: String, kind: String },
    #[error("the {what} has no form in JSON: {error}")]
    Json { what: &'static str, error: serde_json::Error },
}

/// Returns the JSON that the same client would have sent.
pub fn to_json(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = open(body)?;
    let what = envelope.kind()?;
    let value = match what {
        Kind::Budget => serde_json::to_value(read::<Budget>(what.name(), &envelope.raw)?),
        Kind::DeleteOptions => {
            serde_json::to_value(read::<DeleteOptions>(what.name(), &envelope.raw)?)
        }
    };
    let mut value = value.map_err(|error| ProtobufError::Json { what: what.name(), error })?;
    let types = envelope.type_meta.unwrap_or_default();
    value["apiVersion"] = types.api_version.into();
    value["kind"] = types.kind.into();
    Ok(value)
}

/// The fields of the eviction handler's status update that the gate reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatePut {
    /// The uid of the budget, not of a pod.
    pub uid: String,
    /// The names in `status.disruptedPods`, sorted.
    pub pods: Vec<String>,
}

/// Reads the status update of the gate. Every eviction waits for this, so it skips all other fields.
pub fn gate_put(body: &[u8]) -> Result<GatePut, ProtobufError> {
    let envelope = open(body)?;
    if envelope.kind()? != Kind::Budget {
        return Err(envelope.wrong_kind());
    }
    let budget = read::<GateBudget>(Kind::Budget.name(), &envelope.raw)?;
    let disrupted = budget.status.unwrap_or_default().disrupted_pods;
    let mut pods: Vec<_> = disrupted.into_iter().map(|entry| entry.key).collect();
    pods.sort_unstable();
    pods.dedup();
    Ok(GatePut { uid: budget.metadata.unwrap_or_default().uid, pods })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Budget,
    DeleteOptions,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Budget => "PodDisruptionBudget",
            Self::DeleteOptions => "DeleteOptions",
        }
    }
}

impl Unknown {
    fn kind(&self) -> Result<Kind, ProtobufError> {
        let types = self.type_meta.as_ref().ok_or_else(|| self.wrong_kind())?;
        match (types.kind.as_str(), types.api_version.as_str()) {
            ("PodDisruptionBudget", API_VERSION) => Ok(Kind::Budget),
            // Every group has this kind. Clients name the group of the request, or none.
            ("DeleteOptions", _) => Ok(Kind::DeleteOptions),
            _ => Err(self.wrong_kind()),
        }
    }

    fn wrong_kind(&self) -> ProtobufError {
        let types = self.type_meta.clone().unwrap_or_default();
        ProtobufError::Kind { api_version: types.api_version, kind: types.kind }
    }
}

fn open(body: &[u8]) -> Result<Unknown, ProtobufError> {
    let message = body
        .strip_prefix(MAGIC)
        .ok_or_else(|| ProtobufError::Magic(body.iter().take(MAGIC.len()).copied().collect()))?;
    let envelope: Unknown = read("the envelope", message)?;
    if !envelope.content_encoding.is_empty() {
        return Err(ProtobufError::Content(envelope.content_encoding));
    }
    if !matches!(envelope.content_type.as_str(), "" | MEDIA_TYPE) {
        return Err(ProtobufError::Content(envelope.content_type));
    }
    Ok(envelope)
}

fn read<T: Message + Default>(what: &'static str, bytes: &[u8]) -> Result<T, ProtobufError> {
    T::decode(bytes).map_err(|error| ProtobufError::Malformed { what, error })
}

#[cfg(test)]
mod tests;
