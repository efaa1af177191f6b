//! The `CustomResourceDefinition` of the budget.

use serde_json::Value;

/// The manifest as it is applied to a cluster. It is the only source of the schema.
pub const YAML: &str = include_str!("../crds/poddisruptionbudgets.policy.holdfast.dev.yaml");

/// The manifest as JSON, for server-side apply.
pub fn crd() -> Value {
    serde_saphyr::from_str(YAML).expect("the manifest is part of this build and tested")
}
