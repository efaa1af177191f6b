//! Converts between the versions for the API server: `ConversionReview` of `apiextensions.k8s.io/v1`.
//!
//! ```text
//!   v1alpha1                                           v1beta1
//!   kruise.io/pub-protect-operations            <-->   spec.protectOperations
//!   pub.kruise.io/protect-total-replicas        <-->   spec.protectTotalReplicas
//!   pub.kruise.io/v1beta1-fields (JSON)         <-->   spec.ignoredPodSelector, spec.podGroupPolicy
//!   spec.podGroupPolicy, if it exists           --->   spec.podGroupPolicy
//! ```
//!
//! Clients that only know Kruise's `v1alpha1` read an object, change it and write it back without the fields that
//! they do not know. They keep annotations.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ALPHA_API_VERSION, API_VERSION, KIND, PodUnavailableBudgetSpec, annotation};
use crate::lenient::null_default;

/// The fields that `v1alpha1` lacks or that its clients may lose.
pub const BETA_FIELDS: &str = "pub.kruise.io/v1beta1-fields";

/// Answers a review: all objects in the requested version, or the reason why one of them cannot be converted.
pub fn convert(review: &[u8]) -> Value {
    let (uid, result) = match serde_json::from_slice::<Review>(review) {
        Err(error) => (String::new(), Err(format!("cannot read ConversionReview: {error}"))),
        Ok(Review { request }) => {
            let objects = request.objects.into_iter();
            let wanted = request.desired_api_version;
            (request.uid, objects.map(|object| into_version(object, &wanted)).collect())
        }
    };
    let response = match result {
        Ok(objects) => {
            let objects: Vec<Value> = objects;
            json!({"uid": uid, "convertedObjects": objects, "result": {"status": "Success"}})
        }
        Err(message) => {
            json!({"uid": uid, "result": {"status": "Failure", "message": message}})
        }
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "response": response,
    })
}

#[derive(Deserialize)]
struct Review {
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default, deserialize_with = "null_default")]
    uid: String,
    #[serde(rename = "desiredAPIVersion", default, deserialize_with = "null_default")]
    desired_api_version: String,
    #[serde(default, deserialize_with = "null_default")]
    objects: Vec<Value>,
}

fn into_version(mut object: Value, wanted: &str) -> Result<Value, String> {
    let found = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    match (found.as_str(), wanted) {
        (same, wanted) if same == wanted => return Ok(object),
        (ALPHA_API_VERSION, API_VERSION) => {
            let mut converted = object.clone();
            match to_beta(&mut converted) {
                Ok(()) => return Ok(converted),
                // The object may be older than Holdfast. An error would make all lists fail, and Holdfast
                // could decide nothing. So it becomes a budget that allows nothing. The validating webhook
                // refuses new objects of this kind.
                Err(_) => object["apiVersion"] = json!(API_VERSION),
            }
        }
        (API_VERSION, ALPHA_API_VERSION) => to_alpha(&mut object),
        _ => return Err(format!("cannot convert {KIND} from {found:?} to {wanted:?}")),
    }
    Ok(object)
}

/// Converts from `v1alpha1`. The annotations of Kruise stay, as in Kruise.
pub(crate) fn to_beta(object: &mut Value) -> Result<(), String> {
    let mut parts = Parts::take(object);
    if let Some(text) = parts.annotation(annotation::PROTECT_OPERATIONS) {
        let names: Vec<_> = annotation::operations(text)?.iter().map(|o| o.name()).collect();
        if !names.is_empty() {
            parts.set("protectOperations", json!(names));
        }
    }
    if let Some(text) = parts.annotation(annotation::PROTECT_TOTAL_REPLICAS) {
        let total = annotation::total_replicas(text)?;
        parts.set("protectTotalReplicas", json!(total));
    }
    if let Some(text) = parts.annotation(BETA_FIELDS) {
        for (field, value) in carried(text)? {
            if CARRIED.contains(&field.as_str()) && parts.field(&field).is_none() {
                parts.set(&field, value);
            }
        }
    }
    parts.annotate(BETA_FIELDS, None);
    parts.put_back(object, API_VERSION);
    Ok(())
}

/// Reads the annotation. No schema checks its content: a value of a wrong type would be stored, and the
/// object could not be read as a budget.
pub(super) fn carried(text: &str) -> Result<Map<String, Value>, String> {
    let failed = |error: serde_json::Error| format!("failed to parse {BETA_FIELDS}: {error}");
    serde_json::from_str::<PodUnavailableBudgetSpec>(text).map_err(failed)?;
    serde_json::from_str(text).map_err(failed)
}

fn to_alpha(object: &mut Value) {
    let mut parts = Parts::take(object);
    let carried: Map<_, _> = (CARRIED.iter())
        .filter_map(|field| Some(((*field).to_owned(), parts.field(field)?.clone())))
        .collect();
    let carried = (!carried.is_empty()).then(|| Value::Object(carried).to_string());
    parts.annotate(BETA_FIELDS, carried);
    // Without the field, the annotation also counts in v1beta1. If it were dropped, as Kruise does, the
    // budget would protect from other operations.
    if let Some(Value::Array(names)) = parts.spec.remove("protectOperations") {
        let names: Vec<_> = names.iter().filter_map(Value::as_str).collect();
        let listed = parts.annotation(annotation::PROTECT_OPERATIONS).unwrap_or_default();
        let is_same = annotation::operations(listed)
            .is_ok_and(|listed| listed.iter().map(|o| o.name()).eq(names.iter().copied()));
        // An annotation with the same meaning keeps its text.
        if !is_same {
            parts.annotate(annotation::PROTECT_OPERATIONS, Some(names.join(",")));
        }
    }
    if let Some(total) = parts.spec.remove("protectTotalReplicas").and_then(|n| n.as_i64()) {
        let written = parts.annotation(annotation::PROTECT_TOTAL_REPLICAS).unwrap_or_default();
        if annotation::total_replicas(written) != Ok(total) {
            parts.annotate(annotation::PROTECT_TOTAL_REPLICAS, Some(total.to_string()));
        }
    }
    parts.spec.remove("ignoredPodSelector");
    parts.put_back(object, ALPHA_API_VERSION);
}

const CARRIED: &[&str] = &["ignoredPodSelector", "podGroupPolicy"];

/// Spec and annotations of an object: the parts that differ between the versions.
struct Parts {
    spec: Map<String, Value>,
    annotations: Map<String, Value>,
}

impl Parts {
    fn take(object: &mut Value) -> Self {
        let take = |value: Option<&mut Value>| match value.map(Value::take) {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        Self {
            spec: take(object.get_mut("spec")),
            annotations: take(object.pointer_mut("/metadata/annotations")),
        }
    }

    fn put_back(self, object: &mut Value, version: &str) {
        let Some(object) = object.as_object_mut() else { return };
        object.insert("apiVersion".to_owned(), json!(version));
        object.insert("spec".to_owned(), Value::Object(self.spec));
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("annotations".to_owned(), Value::Object(self.annotations));
        }
    }

    fn field(&self, name: &str) -> Option<&Value> {
        self.spec.get(name).filter(|value| !value.is_null())
    }

    fn set(&mut self, field: &str, value: Value) {
        self.spec.insert(field.to_owned(), value);
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key)?.as_str()
    }

    fn annotate(&mut self, key: &str, value: Option<String>) {
        match value {
            Some(value) => self.annotations.insert(key.to_owned(), json!(value)),
            None => self.annotations.remove(key),
        };
    }
}
