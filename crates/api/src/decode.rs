//! Decodes one JSON object into one input of the engine.
//!
//! Watches decode each object separately, so one unreadable object does not stop the others. The caller
//! reports the [`DecodeError`] together with the readable parts from [`salvage`](crate::salvage::salvage): if
//! Holdfast forgot an unreadable budget, the budget would not protect anything.

use std::fmt;

use holdfast_core::io::{Change, Input, Kind, ScaleOutcome};
use holdfast_core::model::{self, GroupKind};
use serde::Deserialize;

use crate::budget::PodDisruptionBudget;
use crate::owner::{Owner, Scale};
use crate::unavailable::PodUnavailableBudget;
use crate::{group, pod};

/// An object that [`Input`] has a variant for.
#[derive(Clone, Debug)]
pub enum Decoded {
    Pod(model::Pod),
    Budget(model::Budget),
    BuiltinBudget(model::BuiltinBudget),
    PodGroup(model::PodGroup),
    Workload(model::Workload),
    Owner(model::Owner),
}

impl Decoded {
    pub fn applied(self) -> Input {
        match self {
            Self::Pod(object) => Input::Pod(Change::Applied(object)),
            Self::Budget(object) => Input::Budget(Change::Applied(object)),
            Self::BuiltinBudget(object) => Input::BuiltinBudget(Change::Applied(object)),
            Self::PodGroup(object) => Input::PodGroup(Change::Applied(object)),
            Self::Workload(object) => Input::Workload(Change::Applied(object)),
            Self::Owner(object) => Input::Owner(Change::Applied(object)),
        }
    }

    pub fn deleted(self) -> Input {
        match self {
            Self::Pod(object) => Input::Pod(Change::Deleted(object)),
            Self::Budget(object) => Input::Budget(Change::Deleted(object)),
            Self::BuiltinBudget(object) => Input::BuiltinBudget(Change::Deleted(object)),
            Self::PodGroup(object) => Input::PodGroup(Change::Deleted(object)),
            Self::Workload(object) => Input::Workload(Change::Deleted(object)),
            Self::Owner(object) => Input::Owner(Change::Deleted(object)),
        }
    }
}

/// The error for an object that could not be read, with its identity as far as known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DecodeError {
    pub kind: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// The path of the field, such as `status.conditions[0].lastTransitionTime`.
    pub field: Option<String>,
    pub message: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {}", self.kind)?;
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}")?,
            (None, Some(name)) => write!(f, " {name}")?,
            (Some(namespace), None) => write!(f, " in namespace {namespace}")?,
            (None, None) => {}
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Reads an object of this kind in any API version. It ignores `kind` and `apiVersion`, because items of a
/// list have none.
pub fn decode(kind: &Kind, json: &[u8]) -> Result<Decoded, DecodeError> {
    match kind {
        Kind::Pod => pod(json).map(Decoded::Pod),
        Kind::Budget => budget(json).map(Decoded::Budget),
        Kind::UnavailableBudget => unavailable_budget(json).map(Decoded::Budget),
        Kind::BuiltinBudget => read::<PodDisruptionBudget>("policy/v1 PodDisruptionBudget", json)
            .map(|budget| Decoded::BuiltinBudget(budget.into())),
        Kind::PodGroup(api) => read::<group::PodGroup>("PodGroup", json)
            .map(|group| Decoded::PodGroup(group.into_model(*api))),
        Kind::Workload(api) => read::<group::Workload>("Workload", json)
            .map(|workload| Decoded::Workload(workload.into_model(*api))),
        Kind::Owner(group_kind) => owner(group_kind, json).map(Decoded::Owner),
    }
}

pub fn pod(json: &[u8]) -> Result<model::Pod, DecodeError> {
    read::<pod::Pod>("Pod", json).map(Into::into)
}

pub fn budget(json: &[u8]) -> Result<model::Budget, DecodeError> {
    read::<PodDisruptionBudget>("PodDisruptionBudget", json).map(Into::into)
}

/// Reads a `PodUnavailableBudget` of either version.
pub fn unavailable_budget(json: &[u8]) -> Result<model::Budget, DecodeError> {
    read::<PodUnavailableBudget>("PodUnavailableBudget", json).map(Into::into)
}

/// Reads the answer to a GET of `/scale`.
pub fn scale(json: &[u8]) -> Result<ScaleOutcome, DecodeError> {
    read::<Scale>("Scale", json).map(Into::into)
}

fn owner(group_kind: &GroupKind, json: &[u8]) -> Result<model::Owner, DecodeError> {
    let name = group_kind.to_string();
    if !model::Owner::is_watched(group_kind) {
        return Err(identify(json, name, None, "not a kind that Holdfast reads".to_owned()));
    }
    Ok(read::<Owner>(&name, json)?.into_model(group_kind.clone()))
}

/// Reads JSON. Tracking the path of a wrong field takes time, so this happens only after an error.
pub(crate) fn read<'a, T: Deserialize<'a>>(kind: &str, json: &'a [u8]) -> Result<T, DecodeError> {
    if let Ok(object) = serde_json::from_slice(json) {
        return Ok(object);
    }
    let mut parser = serde_json::Deserializer::from_slice(json);
    let error = match serde_path_to_error::deserialize::<_, T>(&mut parser) {
        Err(error) => {
            let path = Some(error.path().to_string()).filter(|path| path != ".");
            (path, error.into_inner().to_string())
        }
        Ok(_) => (None, "text follows the object".to_owned()),
    };
    Err(identify(json, kind.to_owned(), error.0, error.1))
}

pub(crate) fn identify(
    json: &[u8],
    kind: String,
    field: Option<String>,
    message: String,
) -> DecodeError {
    #[derive(Default, Deserialize)]
    struct Named {
        #[serde(default)]
        metadata: NamedMeta,
    }
    #[derive(Default, Deserialize)]
    struct NamedMeta {
        namespace: Option<String>,
        name: Option<String>,
    }
    let NamedMeta { namespace, name } =
        serde_json::from_slice::<Named>(json).unwrap_or_default().metadata;
    DecodeError { kind, namespace, name, field, message }
}
