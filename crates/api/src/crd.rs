//! The `CustomResourceDefinition`s of the budgets.

use serde_json::Value;

/// The manifest as it is applied to a cluster. It is the only source of the schema.
pub const YAML: &str = include_str!("../crds/poddisruptionbudgets.policy.holdfast.dev.yaml");

/// The manifest of `PodUnavailableBudget`s, without the address of the webhook that converts them.
pub const UNAVAILABLE_YAML: &str =
    include_str!("../crds/podunavailablebudgets.policy.kruise.io.yaml");

/// The manifest as JSON, for server-side apply.
pub fn crd() -> Value {
    read(YAML)
}

pub fn unavailable() -> Value {
    read(UNAVAILABLE_YAML)
}

fn read(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).expect("the manifest is part of this build and tested")
}
