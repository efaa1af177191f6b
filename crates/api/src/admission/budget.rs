//! Reviews of `PodUnavailableBudget`s that are created or changed.

use holdfast_core::model;
use serde_json::Value;

use super::{ReviewAnswer, ReviewError, Status, StatusCause, StatusDetails, request};
use crate::native::validate::{FieldError, aggregate};
use crate::unavailable::convert::{self, BETA_FIELDS};
use crate::unavailable::{ALPHA_API_VERSION, API_VERSION, GROUP, PLURAL, validate};

/// A budget to be validated, as `AdmissionReview` of `admission.k8s.io/v1` describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetReview {
    /// The answer must repeat it.
    pub uid: String,
    /// The namespace of the budget. The answer needs the other budgets of this namespace.
    pub namespace: String,
    pub name: String,
    /// None if there is nothing to validate.
    object: Option<Value>,
    errors: Vec<FieldError>,
    /// Why the object cannot be read in the version that the rules expect.
    unreadable: Option<String>,
}

impl BudgetReview {
    pub fn parse(body: &[u8]) -> Result<Self, ReviewError> {
        let request = request::<Value, Value>(body)?;
        if request.resource.resource != PLURAL {
            let message = format!("{:?} is not {PLURAL}", request.resource.resource);
            return Err(request.wrong("request.resource", message));
        }
        let mut review = Self {
            uid: request.uid.clone(),
            namespace: request.namespace.clone(),
            name: request.name.clone(),
            object: None,
            errors: Vec::new(),
            unreadable: None,
        };
        let is_update = match (request.operation.as_str(), request.sub_resource.as_str()) {
            ("CREATE", "") => false,
            ("UPDATE", "") => true,
            _ => return Ok(review),
        };
        let Some(new) = request.object else {
            return Err(request.wrong("request.object", "is missing"));
        };
        // The removal of the last finalizer must always be possible.
        if !new["metadata"]["deletionTimestamp"].is_null() {
            return Ok(review);
        }
        let old = request.old_object.filter(|_| is_update);
        let dropped = old.as_ref().map(|old| dropped(&new, old)).unwrap_or_default();
        match stored(new) {
            Ok(new) => {
                // The compared fields are the same in all versions. A budget that cannot be converted can be
                // corrected in any version.
                review.errors = match &old {
                    Some(old) => validate::update(&new, old),
                    None => validate::create(&new),
                };
                review.errors.extend(dropped);
                review.object = Some(new);
            }
            Err(why) => review.unreadable = Some(why),
        }
        Ok(review)
    }

    /// Validates the budget. `others` are the budgets of the namespace. They may include this budget.
    pub fn answer<'a>(&self, others: impl IntoIterator<Item = &'a model::Budget>) -> ReviewAnswer {
        let mut answer = ReviewAnswer::allow(self.uid.clone());
        let mut errors = self.errors.clone();
        if let Some(object) = &self.object {
            errors.extend(validate::overlap(object, others));
        }
        answer.response.status = match &self.unreadable {
            Some(why) => Some(rejection(why.clone(), Vec::new())),
            None if errors.is_empty() => None,
            None => Some(rejection(aggregate(&errors), causes(&errors))),
        };
        answer.response.allowed = answer.response.status.is_none();
        answer
    }
}

/// Finds fields that a client of `v1alpha1` would lose. That version lacks them, and an annotation carries
/// them. If the client sends the object without the annotation, the fields would be deleted by accident.
fn dropped(new: &Value, old: &Value) -> Vec<FieldError> {
    let carried = |object: &Value| {
        let text = object["metadata"]["annotations"][BETA_FIELDS].as_str()?.to_owned();
        serde_json::from_str::<Value>(&text).ok()
    };
    if new["apiVersion"] != ALPHA_API_VERSION || carried(new).is_some() {
        return Vec::new();
    }
    let carried = carried(old).unwrap_or_default();
    let fields = carried.as_object().into_iter().flatten().map(|(field, _)| field);
    let fields = fields.filter(|field| new["spec"][field.as_str()].is_null());
    let detail =
        format!("v1alpha1 would drop it: use v1beta1, or keep the annotation {BETA_FIELDS}");
    fields.map(|field| FieldError::forbidden(format!("spec.{field}"), &detail)).collect()
}

/// Converts the object to the stored version.
fn stored(mut object: Value) -> Result<Value, String> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    match version {
        API_VERSION => Ok(object),
        ALPHA_API_VERSION => match convert::to_beta(&mut object) {
            Ok(()) => Ok(object),
            Err(why) => Err(format!("failed to convert v1alpha1 PUB to v1beta1: {why}")),
        },
        other => {
            let version = other.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/'));
            Err(format!("unsupported version: {}", version.unwrap_or(other)))
        }
    }
}

pub(super) fn rejection(message: String, causes: Vec<StatusCause>) -> Status {
    Status {
        api_version: "v1",
        kind: "Status",
        status: "Failure",
        code: 400,
        reason: "BadRequest",
        message,
        details: StatusDetails { causes },
    }
}

pub(super) fn causes(errors: &[FieldError]) -> Vec<StatusCause> {
    let cause = |error: &FieldError| StatusCause {
        reason: error.reason.as_str(),
        message: error.message.clone(),
        field: Some(error.field.clone()),
    };
    errors.iter().map(cause).collect()
}
