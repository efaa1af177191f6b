//! Detects incomplete updates in place. Kruise changes the image of a running container and records this in
//! annotations.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

use serde::Deserialize;
use serde_json::Value;

use super::Pod;
use super::container::{Container, ContainerStatus, digest, same_image};
use crate::lenient::null_default;

/// Labels with this prefix make the pod unavailable, whatever its conditions are.
pub(crate) const UNAVAILABLE_LABEL: &str = "unavailable-pod.kruise.io/";

/// Returns true if no update in place is in progress, and no label makes the pod unavailable.
pub(super) fn is_settled(pod: &Pod<'_>) -> bool {
    let annotations = &pod.metadata.annotations;
    let state = annotations.in_place_state.as_ref().or(annotations.in_place_state_old.as_ref());
    !is_marked(&pod.metadata.labels)
        && annotations.in_place_grace.is_none()
        && annotations.in_place_grace_old.is_none()
        && pod.containers().all(|(container, status)| runs_digest(container, status))
        && state.is_none_or(|json| is_done(pod, json))
        && annotations.sidecars_state.as_ref().is_none_or(|json| are_sidecars_done(pod, json))
}

pub(crate) fn is_marked(labels: &BTreeMap<String, String>) -> bool {
    marks(labels).next().is_some()
}

/// Returns the keys of these labels.
pub(crate) fn marks(labels: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    let from = labels.range::<str, _>((Included(UNAVAILABLE_LABEL), Unbounded));
    from.map(|(key, _)| key.as_str()).take_while(|key| key.starts_with(UNAVAILABLE_LABEL))
}

/// Returns true if the container runs the digest of its image, or if that cannot be known. Some runtimes report another
/// kind of id (containerd reports that of the image's configuration). Kruise then never counts the pod as available,
/// so the pod is not protected (openkruise/kruise#2570). Only the digest is compared, because a mirror has another
/// repository.
fn runs_digest(container: &Container<'_>, status: Option<&ContainerStatus<'_>>) -> bool {
    let Some(wanted) = digest(&container.image) else { return true };
    status.is_some_and(|status| digest(&status.image_id).is_none_or(|runs| runs == wanted))
}

/// Kruise's `InPlaceUpdateState`.
///
/// It also lists hashes for environment variables from metadata. They are hashes of the Go struct of a container,
/// which Holdfast cannot compute. Only the pod's readiness gate shows such an update.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    #[serde(default, deserialize_with = "null_default")]
    last_container_statuses: BTreeMap<String, LastStatus>,
    #[serde(default, deserialize_with = "null_default")]
    next_container_images: BTreeMap<String, Value>,
    #[serde(default, deserialize_with = "null_default")]
    next_container_ref_metadata: BTreeMap<String, Value>,
    #[serde(default, deserialize_with = "null_default")]
    next_container_resources: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct LastStatus {
    #[serde(rename = "imageID", default, deserialize_with = "null_default")]
    image_id: String,
}

/// A record that cannot be read counts as incomplete.
fn is_done(pod: &Pod<'_>, json: &str) -> bool {
    let Ok(state) = serde_json::from_str::<State>(json) else { return false };
    state.next_container_images.is_empty()
        && state.next_container_ref_metadata.is_empty()
        && state.next_container_resources.is_empty()
        && are_new(pod, &state, Absent::Wait)
}

fn are_sidecars_done(pod: &Pod<'_>, json: &str) -> bool {
    let Ok(states) = serde_json::from_str::<BTreeMap<String, State>>(json) else { return false };
    states.values().all(|state| are_new(pod, state, Absent::Skip))
}

/// How to treat a container that is not in the status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    Wait,
    Skip,
}

/// Returns true if no container still runs its image from before the update.
fn are_new(pod: &Pod<'_>, state: &State, absent: Absent) -> bool {
    state.last_container_statuses.iter().all(|(name, last)| {
        let found = pod.containers().find(|(container, _)| *container.name == **name);
        match found {
            Some((container, Some(status))) => {
                *status.image_id != last.image_id
                    || same_image(&container.image, &status.image)
                    // Images with a digest were already compared.
                    || (digest(&container.image).is_some() && digest(&status.image_id).is_some())
            }
            Some((_, None)) | None => absent == Absent::Skip,
        }
    })
}
