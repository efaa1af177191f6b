//! The `CustomResourceDefinition` as it is installed.

use serde_json::Value;

use crate::crd;

/// The manifest with the webhook that converts between its versions. The API server refuses it
/// without one, and with no conversion at all an old client's write would drop what it does not know.
pub fn with_conversion(client_config: Value) -> Value {
    let mut crd = crd::unavailable();
    crd["spec"]["conversion"]["webhook"]["clientConfig"] = client_config;
    crd
}
