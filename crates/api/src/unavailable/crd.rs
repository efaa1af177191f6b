//! The installed `CustomResourceDefinition`.

use serde_json::Value;

use crate::crd;

/// Returns the manifest with the conversion webhook. The API server refuses the manifest without one. Without
/// conversion, a write by an old client would drop the fields that it does not know.
pub fn with_conversion(client_config: Value) -> Value {
    let mut crd = crd::unavailable();
    crd["spec"]["conversion"]["webhook"]["clientConfig"] = client_config;
    crd
}
