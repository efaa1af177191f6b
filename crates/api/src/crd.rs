//! The `CustomResourceDefinition`s.

use serde_json::Value;

/// The manifest for a cluster. It is the only source of the schema.
pub const YAML: &str = include_str!("../crds/poddisruptionbudgets.policy.holdfast.dev.yaml");

/// The manifest of `PodUnavailableBudget`s, without the address of the conversion webhook.
pub const UNAVAILABLE_YAML: &str =
    include_str!("../crds/podunavailablebudgets.policy.kruise.io.yaml");

/// The manifests of the pod groups in shape Holdfast.
pub const WORKLOADS_YAML: &str = include_str!("../crds/workloads.scheduling.holdfast.dev.yaml");
pub const POD_GROUPS_YAML: &str = include_str!("../crds/podgroups.scheduling.holdfast.dev.yaml");

/// Returns the manifest as JSON, for server-side apply.
pub fn crd() -> Value {
    read(YAML)
}

pub fn unavailable() -> Value {
    read(UNAVAILABLE_YAML)
}

pub fn workloads() -> Value {
    read(WORKLOADS_YAML)
}

pub fn pod_groups() -> Value {
    read(POD_GROUPS_YAML)
}

fn read(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).expect("the manifest is part of this build and tested")
}
