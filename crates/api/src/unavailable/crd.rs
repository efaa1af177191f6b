//! The `CustomResourceDefinition` as it is installed.

use serde_json::{Value, json};

use crate::crd;

/// The manifest with the webhook that converts between its versions. The API server refuses it
/// without one, and with no conversion at all an old client's write would drop what it does not know.
pub fn with_conversion(url: &str, ca_bundle_base64: &str) -> Value {
    let mut crd = crd::unavailable();
    crd["spec"]["conversion"]["webhook"]["clientConfig"] =
        json!({"url": url, "caBundle": ca_bundle_base64});
    crd
}
