//! Reviews of deletions, updates and resizes of pods that a `PodUnavailableBudget` may protect.

use std::collections::BTreeMap;

use holdfast_core::io::Eviction;
use holdfast_core::model::{self, ControllerRef, ObjectKey, Operation, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Request, ReviewError, agree, change, request};
use crate::lenient::null_default;
use crate::pod;
use crate::pod::in_place::marks;

/// A request about a pod as `AdmissionReview` of `admission.k8s.io/v1` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodReview {
    /// The request disrupts nothing, so no budget is checked.
    Passes {
        /// The answer must repeat it.
        uid: String,
    },
    Disrupts(Box<PodDisruption>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDisruption {
    /// The answer must repeat it.
    pub uid: String,
    pub operation: Operation,
    pub requester: String,
    pub dry_run: bool,
    /// The pod before the request.
    pub pod: model::Pod,
    /// The generation of the pod after the request.
    pub generation: i64,
    pub circumstances: Circumstances,
}

/// Facts that show whether the system must be able to make this request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// Empty while the pod has no node.
    pub node: String,
    pub tolerations: Vec<Toleration>,
    pub controller: Option<ControllerRef>,
}

/// A toleration. An absent field and an empty field are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    #[serde(default, deserialize_with = "null_default")]
    pub key: String,
    #[serde(default, deserialize_with = "null_default")]
    pub operator: String,
    #[serde(default, deserialize_with = "null_default")]
    pub value: String,
    #[serde(default, deserialize_with = "null_default")]
    pub effect: String,
    pub toleration_seconds: Option<i64>,
}

impl PodReview {
    pub fn parse(body: &[u8]) -> Result<Self, ReviewError> {
        let request = request::<&RawValue, &RawValue>(body)?;
        if request.resource.resource != "pods" || request.sub_resource == "eviction" {
            let found = format!("{}/{}", request.resource.resource, request.sub_resource);
            let message = format!("{found:?} is not pods or pods/resize");
            return Err(request.wrong("request.resource", message));
        }
        Ok(match disruption(&request)? {
            None => Self::Passes { uid: request.uid },
            Some(disruption) => Self::Disrupts(Box::new(disruption)),
        })
    }
}

impl PodDisruption {
    pub fn into_eviction(self, deadline: Timestamp) -> Eviction {
        Eviction {
            id: self.uid,
            pod: self.pod.key.clone(),
            operation: self.operation,
            uid: Some(self.pod.uid.clone()),
            object: Some(Box::new(self.pod)),
            generation: self.generation,
            exempt: false,
            requester: self.requester,
            dry_run: self.dry_run,
            by_name: false,
            deadline,
        }
    }
}

fn disruption(
    request: &Request<&RawValue, &RawValue>,
) -> Result<Option<PodDisruption>, ReviewError> {
    let is_deletion = match (request.operation.as_str(), request.sub_resource.as_str()) {
        ("DELETE", "") => true,
        ("UPDATE", "" | "resize") => false,
        _ => return Ok(None),
    };
    let old = Before::parse(request)?;
    // The pod is terminating, so no operation on it is a disruption.
    if old.pod.terminating {
        return Ok(None);
    }
    let (operation, generation) = if is_deletion {
        (Operation::Delete, old.pod.generation)
    } else {
        let new = After::parse(request)?;
        match update(request, &old, &new) {
            None => return Ok(None),
            Some(operation) => (operation, new.metadata.generation),
        }
    };
    Ok(Some(PodDisruption {
        uid: request.uid.clone(),
        operation,
        requester: request.user_info.username.clone(),
        dry_run: request.dry_run || request.options.is_dry_run(),
        circumstances: Circumstances {
            node: old.spec.node_name,
            tolerations: old.spec.tolerations,
            controller: old.pod.controller.clone(),
        },
        pod: old.pod,
        generation,
    }))
}

/// Returns the disruption of an update, or None if it disrupts nothing.
fn update(
    request: &Request<&RawValue, &RawValue>,
    old: &Before<'_>,
    new: &After<'_>,
) -> Option<Operation> {
    let marked = marks(&new.metadata.labels).any(|label| !old.pod.labels.contains_key(label));
    let changed = change::spec(old.raw_spec, new.spec);
    match changed {
        None if marked => Some(Operation::Update),
        None => None,
        Some(_) if request.sub_resource == "resize" => Some(Operation::Resize),
        Some(change) => {
            let resize = !marked && !old.is_static && change.is_resize();
            Some(if resize { Operation::Resize } else { Operation::Update })
        }
    }
}

struct Before<'a> {
    pod: model::Pod,
    spec: Spec,
    raw_spec: Option<&'a RawValue>,
    /// True for a static pod, which the kubelet creates from a file.
    is_static: bool,
}

impl<'a> Before<'a> {
    fn parse(request: &Request<&'a RawValue, &'a RawValue>) -> Result<Self, ReviewError> {
        let old =
            request.old_object.ok_or_else(|| request.wrong("request.oldObject", "is missing"))?;
        let wrong =
            |error: &dyn std::fmt::Display| request.wrong("request.oldObject", error.to_string());
        let read: pod::Pod<'_> = serde_json::from_str(old.get()).map_err(|e| wrong(&e))?;
        let rest: Rest<'_> = serde_json::from_str(old.get()).map_err(|e| wrong(&e))?;
        let spec = match rest.spec {
            Some(spec) => serde_json::from_str(spec.get()).map_err(|e| wrong(&e))?,
            None => Spec::default(),
        };
        let mut pod = model::Pod::from(read);
        // The deletion of a collection has no name, but the pod has one.
        let agreed = |field: &str, request_says: &str, pod_says: &str| {
            agree(request_says, pod_says)
                .map(str::to_owned)
                .map_err(|problem| request.wrong(field, problem))
        };
        let name = agreed("request.oldObject.metadata.name", &request.name, &pod.key.name)?;
        let namespace =
            agreed("request.oldObject.metadata.namespace", &request.namespace, &pod.key.namespace)?;
        if namespace.is_empty() {
            return Err(request.wrong("request.namespace", "is missing"));
        }
        pod.key = ObjectKey::new(namespace, name);
        let annotations = rest.metadata.annotations;
        Ok(Self { pod, spec, raw_spec: rest.spec, is_static: annotations.is_static() })
    }
}

/// Fields of a pod that the engine does not read.
#[derive(Deserialize)]
struct Rest<'a> {
    #[serde(default, deserialize_with = "null_default")]
    metadata: RestMeta,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct RestMeta {
    #[serde(default, deserialize_with = "null_default")]
    annotations: Source,
}

#[derive(Default, Deserialize)]
struct Source {
    #[serde(rename = "kubernetes.io/config.source")]
    source: Option<String>,
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<String>,
}

impl Source {
    fn is_static(&self) -> bool {
        self.mirror.is_some() || self.source.as_ref().is_some_and(|source| source != "api")
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default, deserialize_with = "null_default")]
    node_name: String,
    #[serde(default, deserialize_with = "null_default")]
    tolerations: Vec<Toleration>,
}

#[derive(Deserialize)]
struct After<'a> {
    #[serde(default, deserialize_with = "null_default")]
    metadata: AfterMeta,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct AfterMeta {
    #[serde(default, deserialize_with = "null_default")]
    generation: i64,
    #[serde(default, deserialize_with = "null_default")]
    labels: BTreeMap<String, String>,
}

impl<'a> After<'a> {
    fn parse(request: &Request<&'a RawValue, &'a RawValue>) -> Result<Self, ReviewError> {
        let new = request.object.ok_or_else(|| request.wrong("request.object", "is missing"))?;
        serde_json::from_str(new.get())
            .map_err(|error| request.wrong("request.object", error.to_string()))
    }
}
