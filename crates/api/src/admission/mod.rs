//! The messages of the admission webhooks: a request to decide (an eviction or another disruption of a pod)
//! and the answer.

mod budget;
mod change;
mod place;
mod pod;
mod workload;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_core::io::Eviction;
use holdfast_core::model::{ObjectKey, Operation, Timestamp};
use holdfast_core::verdict::{Denial, Verdict};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use budget::BudgetReview;
pub use place::PlaceReview;
pub use pod::{Circumstances, PodDisruption, PodReview, Toleration};
pub use workload::WorkloadReview;

use crate::lenient::{non_empty, null_default};
use crate::printable;

/// An eviction as `AdmissionReview` of `admission.k8s.io/v1` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionReview {
    /// The answer must repeat it. The API server creates a new one for every call.
    pub uid: String,
    pub pod: ObjectKey,
    pub requester: String,
    pub dry_run: bool,
    /// `deleteOptions.preconditions.uid`.
    pub precondition_uid: Option<String>,
    /// Where to add that field if it is missing.
    pub pin: Pin,
}

/// How the answer can pin the eviction to the pod that was decided about.
///
/// An eviction names a pod. When it reaches the API server's store, that name may belong to a successor, and
/// no budget has a grant for that pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// The request has a uid precondition of its own.
    Given,
    /// Add the field to the first of these that exists: `preconditions`, `deleteOptions`, or the Eviction.
    Preconditions,
    DeleteOptions,
    Eviction,
}

impl Pin {
    /// Returns the JSON patch in base64, as the API server expects it.
    fn patch(self, uid: &str) -> Option<String> {
        let (path, value) = match self {
            Self::Given => return None,
            Self::Preconditions => ("/deleteOptions/preconditions/uid", json!(uid)),
            Self::DeleteOptions => ("/deleteOptions/preconditions", json!({ "uid": uid })),
            Self::Eviction => ("/deleteOptions", json!({ "preconditions": { "uid": uid } })),
        };
        let patch = json!([{ "op": "add", "path": path, "value": value }]);
        Some(STANDARD.encode(patch.to_string()))
    }
}

impl EvictionReview {
    pub fn parse(body: &[u8]) -> Result<Self, ReviewError> {
        request::<EvictionObject, IgnoredAny>(body)?.try_into()
    }

    pub fn into_eviction(self, deadline: Timestamp) -> Eviction {
        Eviction {
            id: self.uid,
            pod: self.pod,
            uid: self.precondition_uid,
            requester: self.requester,
            dry_run: self.dry_run,
            operation: Operation::Evict,
            object: None,
            generation: 0,
            exempt: false,
            by_name: false,
            deadline,
        }
    }
}

/// The body is not an eviction to decide. Answer with HTTP 400: the API server then applies the
/// webhook's failure policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read AdmissionReview: {field}: {message}")]
pub struct ReviewError {
    /// `request.uid`, if it could be read.
    pub uid: Option<String>,
    /// The path of the wrong field, such as `request.namespace`.
    pub field: String,
    pub message: String,
}

impl ReviewError {
    fn new(uid: Option<String>, field: &str, message: impl Into<String>) -> Self {
        Self { uid, field: field.to_owned(), message: message.into() }
    }
}

impl TryFrom<Request<EvictionObject, IgnoredAny>> for EvictionReview {
    type Error = ReviewError;

    fn try_from(request: Request<EvictionObject, IgnoredAny>) -> Result<Self, ReviewError> {
        let wrong = |field: &str, message: String| request.wrong(field, message);
        // Fail for other requests, so that a wrong webhook configuration is noticed.
        if request.resource.resource != "pods" || request.sub_resource != "eviction" {
            let found = format!("{}/{}", request.resource.resource, request.sub_resource);
            return Err(wrong("request.subResource", format!("{found:?} is not pods/eviction")));
        }
        let Some(object) = &request.object else {
            return Err(wrong("request.object", "is missing".to_owned()));
        };
        if !matches!(object.kind.as_str(), "" | "Eviction") {
            return Err(wrong("request.object.kind", format!("{:?} is not Eviction", object.kind)));
        }
        let name = agree(&request.name, &object.metadata.name)
            .map_err(|problem| wrong("request.object.metadata.name", problem))?;
        let namespace = agree(&request.namespace, &object.metadata.namespace)
            .map_err(|problem| wrong("request.object.metadata.namespace", problem))?;
        if name.is_empty() {
            return Err(wrong("request.name", "is missing".to_owned()));
        }
        if namespace.is_empty() {
            return Err(wrong("request.namespace", "is missing".to_owned()));
        }
        let options = object.delete_options.as_ref();
        let preconditions = options.and_then(|options| options.preconditions.as_ref());
        let precondition_uid = preconditions.and_then(|p| non_empty(p.uid.clone()));
        let pin = match (&precondition_uid, preconditions, options) {
            (Some(_), ..) => Pin::Given,
            (None, Some(_), _) => Pin::Preconditions,
            (None, None, Some(_)) => Pin::DeleteOptions,
            (None, None, None) => Pin::Eviction,
        };
        let dry_run = options.is_some_and(DeleteOptions::is_dry_run);
        Ok(Self {
            pod: ObjectKey::new(namespace, name),
            // kubectl sets dry run in the body, and the API server does not copy it to the request.
            // `?dryRun=All` arrives in the request.
            dry_run: request.dry_run || dry_run,
            precondition_uid,
            pin,
            requester: request.user_info.username,
            uid: request.uid,
        })
    }
}

/// Either name may be empty. Two different names would mean two different pods.
fn agree<'a>(request: &'a str, body: &'a str) -> Result<&'a str, String> {
    match (request, body) {
        ("", other) | (other, "") => Ok(other),
        (one, other) if one == other => Ok(one),
        (one, other) => Err(format!("{other:?} does not match the request's {one:?}")),
    }
}

fn uid_of(body: &[u8]) -> Option<String> {
    let review: serde_json::Value = serde_json::from_slice(body).ok()?;
    non_empty(Some(review.pointer("/request/uid")?.as_str()?.to_owned()))
}

/// Reads the request, which has a uid. Tracking the path of a wrong field takes time, so this happens only
/// after an error.
fn request<'a, N, O>(body: &'a [u8]) -> Result<Request<N, O>, ReviewError>
where
    N: Deserialize<'a>,
    O: Deserialize<'a>,
{
    let review = serde_json::from_slice::<Review<N, O>>(body).or_else(|_| {
        let mut parser = serde_json::Deserializer::from_slice(body);
        serde_path_to_error::deserialize(&mut parser).map_err(|error| {
            let field = error.path().to_string();
            ReviewError { uid: uid_of(body), field, message: error.into_inner().to_string() }
        })
    })?;
    match review.request {
        None => Err(ReviewError::new(None, "request", "is missing")),
        Some(request) if request.uid.is_empty() => Err(request.wrong("request.uid", "is missing")),
        // The uid is written to logs without escaping. API servers only send uids of such characters.
        Some(request) if !request.uid.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(ReviewError::new(None, "request.uid", "has characters that are not to be seen"))
        }
        Some(request) => Ok(request),
    }
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "N: Deserialize<'de>, O: Deserialize<'de>"))]
struct Review<N, O> {
    request: Option<Request<N, O>>,
}

/// A request with the new object and the old object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "N: Deserialize<'de>, O: Deserialize<'de>"))]
struct Request<N, O> {
    #[serde(default, deserialize_with = "null_default")]
    uid: String,
    #[serde(default, deserialize_with = "null_default")]
    operation: String,
    #[serde(default, deserialize_with = "null_default")]
    resource: Resource,
    #[serde(default, deserialize_with = "null_default")]
    sub_resource: String,
    #[serde(default, deserialize_with = "null_default")]
    namespace: String,
    #[serde(default, deserialize_with = "null_default")]
    name: String,
    #[serde(default, deserialize_with = "null_default")]
    user_info: UserInfo,
    #[serde(default, deserialize_with = "null_default")]
    dry_run: bool,
    object: Option<N>,
    old_object: Option<O>,
    #[serde(default, deserialize_with = "null_default")]
    options: DeleteOptions,
}

impl<N, O> Request<N, O> {
    fn wrong(&self, field: &str, message: impl Into<String>) -> ReviewError {
        ReviewError::new(non_empty(Some(self.uid.clone())), field, message)
    }
}

#[derive(Default, Deserialize)]
struct Resource {
    #[serde(default)]
    resource: String,
}

#[derive(Default, Deserialize)]
struct UserInfo {
    #[serde(default, deserialize_with = "null_default")]
    username: String,
}

/// `policy/v1` or `policy/v1beta1` Eviction: the two have the same fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EvictionObject {
    #[serde(default, deserialize_with = "null_default")]
    kind: String,
    #[serde(default, deserialize_with = "null_default")]
    metadata: EvictionMeta,
    delete_options: Option<DeleteOptions>,
}

#[derive(Default, Deserialize)]
struct EvictionMeta {
    #[serde(default, deserialize_with = "null_default")]
    name: String,
    #[serde(default, deserialize_with = "null_default")]
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions {
    #[serde(default, deserialize_with = "null_default")]
    dry_run: Vec<String>,
    preconditions: Option<Preconditions>,
}

impl DeleteOptions {
    fn is_dry_run(&self) -> bool {
        self.dry_run.iter().any(|value| value == "All")
    }
}

#[derive(Default, Deserialize)]
struct Preconditions {
    uid: Option<String>,
}

/// The answer, as `AdmissionReview` of `admission.k8s.io/v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewAnswer {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub response: Response,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    pub uid: String,
    pub allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl ReviewAnswer {
    pub fn new(uid: impl Into<String>, verdict: &Verdict, pin: Pin) -> Self {
        let mut answer = Self::allow(uid);
        match verdict {
            Verdict::Allow(allowed) => match &allowed.uid {
                Some(uid) => answer.response.patch = pin.patch(uid),
                // The API server will find out itself that the pod does not exist, or that it is another pod.
                None if pin == Pin::Given => {}
                // Without a pin the API server could find the next pod of that name and answer 409, and
                // drains give up on 409.
                None => answer.deny(Status::not_found()),
            },
            Verdict::Deny(denial) => answer.deny(denial.into()),
        }
        answer.response.patch_type = answer.response.patch.as_ref().map(|_| "JSONPatch");
        answer
    }

    fn deny(&mut self, status: Status) {
        self.response.allowed = false;
        self.response.status = Some(status);
    }

    /// Allows a request that disrupts nothing.
    pub fn allow(uid: impl Into<String>) -> Self {
        Self {
            api_version: "admission.k8s.io/v1",
            kind: "AdmissionReview",
            response: Response {
                uid: uid.into(),
                allowed: true,
                status: None,
                patch_type: None,
                patch: None,
                warnings: Vec::new(),
            },
        }
    }
}

/// A denial as the client of the eviction gets it. It has no `retryAfterSeconds`: client-go would wait
/// silently, up to ten times, and a drain would not print why it waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub status: &'static str,
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    pub details: StatusDetails,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusDetails {
    pub causes: Vec<StatusCause>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusCause {
    pub reason: &'static str,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl Status {
    fn failure(code: u16, reason: &'static str, message: &str, causes: Vec<StatusCause>) -> Self {
        Self {
            api_version: "v1",
            kind: "Status",
            status: "Failure",
            code,
            reason,
            message: printable(message).into_owned(),
            details: StatusDetails { causes },
        }
    }

    fn not_found() -> Self {
        Self::failure(404, "NotFound", "the pod was not found", Vec::new())
    }
}

impl From<&Denial> for Status {
    fn from(denial: &Denial) -> Self {
        let cause = |message: &str| StatusCause {
            reason: "DisruptionBudget",
            message: printable(message).into_owned(),
            field: None,
        };
        let mut causes: Vec<_> = denial.causes.iter().map(|c| cause(&c.message)).collect();
        if causes.is_empty() {
            // Clients use this cause to distinguish the denial of a budget from other 429s.
            causes.push(cause(&denial.message));
        }
        Self::failure(429, "TooManyRequests", &denial.message, causes)
    }
}
