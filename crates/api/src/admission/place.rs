//! Reviews of pods that are created. The answer puts a pod into its group.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_core::gang::{self, GATE, POD_GROUP, Placement};
use holdfast_core::model::GroupApi;
use serde::Deserialize as _;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::budget::{causes, rejection};
use super::{ReviewAnswer, ReviewError, Status, StatusDetails, request};
use crate::gang::Pod;
use crate::native::validate::{FieldError, aggregate, quote, subdomain};

/// A pod to be created, as `AdmissionReview` of `admission.k8s.io/v1` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceReview {
    /// The answer must repeat it. The API server creates a new one for every call.
    pub uid: String,
    pub dry_run: bool,
    /// The pod. It has no uid yet, and its name may be empty.
    pub pod: gang::Pod,
    api: GroupApi,
    /// True if a patch can add to the annotations.
    has_annotations: bool,
    has_gates: bool,
}

impl PlaceReview {
    pub fn parse(body: &[u8], api: GroupApi) -> Result<Self, ReviewError> {
        let mut request = request::<Value, IgnoredAny>(body)?;
        let asked = (request.operation.as_str(), request.sub_resource.as_str());
        if request.resource.resource != "pods" || asked != ("CREATE", "") {
            let (operation, sub_resource) = asked;
            let found = format!("{operation} {}/{sub_resource}", request.resource.resource);
            return Err(request.wrong("request.resource", format!("{found:?} is not CREATE pods/")));
        }
        let Some(mut object) = request.object.take() else {
            return Err(request.wrong("request.object", "is missing"));
        };
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return Err(request.wrong("request.object.metadata", "is missing"));
        };
        if metadata.get("name").is_none_or(Value::is_null) {
            metadata.insert("name".to_owned(), json!(request.name));
        }
        metadata.insert("namespace".to_owned(), json!(request.namespace));
        let pod = Pod::deserialize(&object)
            .map_err(|error| request.wrong("request.object", error.to_string()))?;
        Ok(Self {
            pod: pod.into_model(api),
            api,
            has_annotations: object["metadata"]["annotations"].is_object(),
            has_gates: object["spec"]["schedulingGates"].is_array(),
            dry_run: request.dry_run,
            uid: request.uid,
        })
    }

    pub fn answer(&self, placement: &Placement) -> ReviewAnswer {
        match placement {
            Placement::Alone(_) => ReviewAnswer::allow(&*self.uid),
            Placement::Into { group, gate, .. } => {
                self.misnamed().unwrap_or_else(|| self.place(group, *gate))
            }
            Placement::Unseen(what) => self.refuse(format!(
                "Holdfast cannot tell yet which PodGroup the pod belongs to: {what} has not been seen; \
                 controllers try again"
            )),
        }
    }

    /// Refuses a pod with an invalid group name, because the pod would wait for ever.
    fn misnamed(&self) -> Option<ReviewAnswer> {
        let name = self.pod.group.as_deref()?;
        let field = format!("metadata.annotations[{POD_GROUP}]");
        let error = |detail: &String| FieldError::invalid(field.clone(), &quote(name), detail);
        let errors: Vec<FieldError> = subdomain(name).iter().map(error).collect();
        if errors.is_empty() {
            return None;
        }
        let mut answer = ReviewAnswer::allow(&*self.uid);
        answer.response.allowed = false;
        answer.response.status = Some(rejection(aggregate(&errors), causes(&errors)));
        Some(answer)
    }

    /// Refuses the pod for now. Its controller tries again.
    pub fn refuse(&self, message: String) -> ReviewAnswer {
        let mut answer = ReviewAnswer::allow(&*self.uid);
        answer.response.allowed = false;
        answer.response.status = Some(Status {
            api_version: "v1",
            kind: "Status",
            status: "Failure",
            code: 503,
            reason: "ServiceUnavailable",
            message,
            details: StatusDetails { causes: Vec::new() },
        });
        answer
    }

    /// Returns the patches. It leaves out what is already there, because the API server may ask again about a
    /// patched pod.
    fn place(&self, group: &str, gate: bool) -> ReviewAnswer {
        let mut patch = Vec::new();
        let mut add =
            |path: &str, value| patch.push(json!({"op": "add", "path": path, "value": value}));
        if self.pod.group.as_deref() != Some(group) {
            match self.api {
                GroupApi::Kubernetes => {
                    add("/spec/schedulingGroup", json!({ "podGroupName": group }));
                }
                GroupApi::Holdfast if self.has_annotations => {
                    let key = POD_GROUP.replace('/', "~1");
                    add(&format!("/metadata/annotations/{key}"), json!(group));
                }
                GroupApi::Holdfast => add("/metadata/annotations", json!({ POD_GROUP: group })),
            }
        }
        if gate && !self.pod.gated {
            let value = json!({ "name": GATE });
            if self.has_gates {
                add("/spec/schedulingGates/-", value);
            } else {
                add("/spec/schedulingGates", json!([value]));
            }
        }
        let mut answer = ReviewAnswer::allow(&*self.uid);
        if !patch.is_empty() {
            answer.response.patch_type = Some("JSONPatch");
            answer.response.patch = Some(STANDARD.encode(Value::from(patch).to_string()));
        }
        answer
    }
}
