//! Request bodies: whatever a client sends, as JSON that the CRD takes.

use std::collections::BTreeMap;

use axum::response::Response;
use holdfast_api::budget::{API_VERSION as STORED, KIND};
use holdfast_api::native::protobuf;
use http::{HeaderMap, StatusCode, header};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::Call;
use super::status::{self, Refusal};
use super::words::{self, SERVED};

/// An object. Fields at the top can be changed; what is below them stays as the client wrote it, for
/// kube-apiserver to judge: fields that are unknown or there twice.
#[derive(Clone, Debug)]
pub struct Document(BTreeMap<String, Box<RawValue>>);

impl Document {
    pub fn read(call: &Call) -> Result<Self, Refusal> {
        let wrong = |why: String| Refusal::from(status::bad_request(&why));
        let text = match content_type(&call.headers) {
            "" | "application/json" => call.body.to_vec(),
            "application/vnd.kubernetes.protobuf" => {
                let object = protobuf::to_json(&call.body).map_err(|e| wrong(e.to_string()))?;
                object.to_string().into_bytes()
            }
            "application/yaml" | "application/apply-patch+yaml" => yaml(&call.body)?,
            other => return Err(unsupported(other).into()),
        };
        let fields = serde_json::from_slice(&text)
            .map_err(|e| wrong(format!("the object provided is unrecognized: {e}")))?;
        Ok(Self(fields))
    }

    pub fn value(&self) -> Value {
        // Raw values are JSON.
        serde_json::to_value(&self.0).unwrap_or_default()
    }

    pub fn set(&mut self, field: &str, value: &Value) {
        if let Ok(raw) = to_raw_value(value) {
            self.0.insert(field.to_owned(), raw);
        }
    }

    /// For the CRD. Unlike it, `policy/v1` takes an object that does not say what it is.
    pub fn stored(mut self) -> Vec<u8> {
        let text = |raw: Option<&Box<RawValue>>| {
            raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok()).unwrap_or_default()
        };
        if matches!(text(self.0.get("apiVersion")).as_str(), "" | SERVED) {
            self.set("apiVersion", &json!(STORED));
        }
        if text(self.0.get("kind")).is_empty() {
            self.set("kind", &json!(KIND));
        }
        let mut metadata = json!({"metadata": self.field("metadata")});
        let before = metadata.clone();
        words::stored(&mut metadata);
        if metadata != before {
            self.set("metadata", &metadata["metadata"]);
        }
        // A map of raw values always has a JSON.
        serde_json::to_vec(&self.0).unwrap_or_default()
    }

    pub fn field(&self, name: &str) -> Value {
        let raw = self.0.get(name);
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}

/// The options of a DELETE, if it has any.
pub fn delete_options(call: &Call) -> Result<Option<Vec<u8>>, Refusal> {
    if call.body.is_empty() {
        return Ok(None);
    }
    let mut options = Document::read(call)?;
    // They are registered in every group, in ours under its own name.
    if options.field("apiVersion") == SERVED {
        options.set("apiVersion", &json!("v1"));
    }
    Ok(Some(options.value().to_string().into_bytes()))
}

/// Without parameters such as `charset`.
pub fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

pub fn unsupported(content_type: &str) -> Response {
    let message = format!(
        "the body of the request was in an unknown format ({content_type}) - accepted media types \
         include: application/json, application/yaml, application/vnd.kubernetes.protobuf"
    );
    status::failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", &message)
}

/// The value of a query parameter; none that we look at has characters to decode.
pub fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// JSON is YAML, and is left as it is: a YAML reader would not see the same duplicates.
fn yaml(body: &[u8]) -> Result<Vec<u8>, Refusal> {
    if body.trim_ascii_start().starts_with(b"{") {
        return Ok(body.to_vec());
    }
    let wrong = |why: &dyn std::fmt::Display| {
        Refusal::from(status::bad_request(&format!("error decoding YAML: {why}")))
    };
    let text = std::str::from_utf8(body).map_err(|e| wrong(&e))?;
    let value: Value = serde_saphyr::from_str(text).map_err(|e| wrong(&e))?;
    Ok(value.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse as _;

    fn call(content_type: &'static str, body: &str) -> Call {
        crate::native::fuzzed::call(content_type, body.as_bytes())
    }

    #[test]
    fn what_the_client_wrote_below_the_top_stays() {
        let body = r#"{"apiVersion":"policy/v1","spec":{"minAvailable":1,"minAvailable":2}}"#;
        let document = Document::read(&call("application/json; charset=utf-8", body)).unwrap();
        let stored = String::from_utf8(document.stored()).unwrap();
        assert!(stored.contains(r#"{"minAvailable":1,"minAvailable":2}"#), "{stored}");
        assert!(stored.contains(r#""apiVersion":"policy.holdfast.dev/v1""#), "{stored}");
        assert!(stored.contains(r#""kind":"PodDisruptionBudget""#), "{stored}");
    }

    #[test]
    fn yaml_is_read_too() {
        let body = "kind: PodDisruptionBudget\nspec:\n  minAvailable: 50%\n";
        let document = Document::read(&call("application/yaml", body)).unwrap();
        assert_eq!(document.field("spec"), json!({"minAvailable": "50%"}));
    }

    #[test]
    fn aliases_that_grow_out_of_bounds_are_refused() {
        let nine = |of: &str| [of; 9].join(",");
        let mut lines = vec![format!("a0: &a0 [{}]", nine("x"))];
        lines.extend((1..12).map(|i| format!("a{i}: &a{i} [{}]", nine(&format!("*a{}", i - 1)))));
        let mut bomb = call("application/yaml", "");
        bomb.body = lines.join("\n").into();
        let refused = Document::read(&bomb).unwrap_err().into_response();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn other_formats_are_refused() {
        let code = |content, body| {
            Document::read(&call(content, body)).unwrap_err().into_response().status()
        };
        assert_eq!(code("application/cbor", "x"), StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert_eq!(code("application/json", "[]"), StatusCode::BAD_REQUEST);
        assert_eq!(code("application/yaml", "- a"), StatusCode::BAD_REQUEST);
        assert_eq!(code("application/vnd.kubernetes.protobuf", "k8s"), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn parameters_are_found() {
        assert_eq!(parameter("a=1&watch=true", "watch"), Some("true"));
        assert_eq!(parameter("watch&a=1", "watch"), Some(""));
        assert_eq!(parameter("rewatch=1", "watch"), None);
    }
}
