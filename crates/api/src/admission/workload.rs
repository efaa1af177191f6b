//! Reviews of workloads that ask for pod groups, when they are created or changed.

use holdfast_core::gang::{ASKS, GROUP_SIZE};
use serde::Deserialize;

use super::budget::{causes, rejection};
use super::{ReviewAnswer, ReviewError, request};
use crate::lenient::null_default;
use crate::meta::{Annotations, positive};
use crate::native::validate::{FieldError, aggregate, quote};

/// A workload to be validated, as `AdmissionReview` of `admission.k8s.io/v1` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadReview {
    /// The answer must repeat it.
    pub uid: String,
    pub namespace: String,
    pub dry_run: bool,
    /// True if the workload asks for pod groups and did not before. Its pods must not be created before the
    /// webhook for pods is registered.
    pub begins: bool,
    errors: Vec<FieldError>,
}

impl WorkloadReview {
    pub fn parse(body: &[u8]) -> Result<Self, ReviewError> {
        let mut request = request::<Object, Object>(body)?;
        let is_update = match (request.operation.as_str(), request.sub_resource.as_str()) {
            ("CREATE", "") => false,
            ("UPDATE", "") => true,
            (operation, sub_resource) => {
                let found = format!("{operation} {}/{sub_resource}", request.resource.resource);
                let message = format!("{found:?} is not CREATE or UPDATE of a workload");
                return Err(request.wrong("request.operation", message));
            }
        };
        let Some(new) = request.object.take() else {
            return Err(request.wrong("request.object", "is missing"));
        };
        let old = request.old_object.take().filter(|_| is_update).unwrap_or_default();
        let (is, was) = (new.metadata.annotations, old.metadata.annotations);
        // The removal of the last finalizer must always be possible.
        let goes = new.metadata.deletion_timestamp.is_some();
        Ok(Self {
            begins: !goes && asks(&is) && !asks(&was),
            errors: if goes { Vec::new() } else { errors(&is, &was, old.spec.replicas) },
            uid: request.uid,
            namespace: request.namespace,
            dry_run: request.dry_run,
        })
    }

    /// Returns true if the workload will be refused anyway.
    pub fn is_wrong(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Returns the answer, with warnings for the user who sent the request.
    pub fn answer(&self, warnings: Vec<String>) -> ReviewAnswer {
        let mut answer = ReviewAnswer::allow(&*self.uid);
        let response = &mut answer.response;
        response.warnings = warnings;
        if self.is_wrong() {
            response.allowed = false;
            response.status = Some(rejection(aggregate(&self.errors), causes(&self.errors)));
        }
        answer
    }
}

fn asks(annotations: &Annotations) -> bool {
    annotations.asks.as_deref() == Some("true")
}

/// Returns the errors that are new. Existing errors may stay, otherwise the workload could not be changed at
/// all. `replicas` is the scale before the change.
fn errors(is: &Annotations, was: &Annotations, replicas: Option<i64>) -> Vec<FieldError> {
    let check = |key: &str, is: &Option<String>, was: &Option<String>, well: bool, detail: &str| {
        let value = is.as_deref().filter(|_| !well && is != was)?;
        let field = format!("metadata.annotations[{key}]");
        Some(FieldError::invalid(field, &quote(value), detail))
    };
    let readable = matches!(is.asks.as_deref(), Some("true" | "false"));
    let sized = is.group_size.as_deref().and_then(positive).is_some();
    let asks = check(ASKS, &is.asks, &was.asks, readable, r#"must be "true" or "false""#);
    let detail = "must be a whole number greater than or equal to 1";
    let size = check(GROUP_SIZE, &is.group_size, &was.group_size, sized, detail);
    // Existing pods would be in one group, and their replacements in another.
    let stays = was.group_size.as_deref().and_then(positive).is_none() || replicas == Some(0);
    let detail = "cannot be changed while there are pods: scale to 0 first";
    let size = size.or_else(|| check(GROUP_SIZE, &is.group_size, &was.group_size, stays, detail));
    asks.into_iter().chain(size).collect()
}

#[derive(Default, Deserialize)]
struct Object {
    #[serde(default, deserialize_with = "null_default")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "null_default")]
    spec: Spec,
}

#[derive(Default, Deserialize)]
struct Spec {
    replicas: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectMeta {
    #[serde(default, deserialize_with = "null_default")]
    annotations: Annotations,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}
