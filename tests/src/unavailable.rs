//! `PodUnavailableBudgets` of tests, and operations on the pods that they protect.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Answer;
use crate::evict::Outcome;
use crate::wait::until_within;
use crate::world::{World, is_condition};

const API: &str = "apis/policy.kruise.io/v1beta1";
const PLURAL: &str = "podunavailablebudgets";

/// A grant whose eviction or delete did not happen ends after two minutes (semantics 5.4).
const EXPIRED: Duration = Duration::from_secs(150);

/// Returns the numbers of Kruise's printer columns: allowed, current, desired, total.
pub fn counts(status: &Value) -> [i64; 4] {
    ["unavailableAllowed", "currentAvailable", "desiredAvailable", "totalReplicas"]
        .map(|count| status[count].as_i64().unwrap_or(-1))
}

impl World {
    /// Returns the path of one budget, or of all if the name is empty.
    pub fn guard_path(&self, name: &str) -> String {
        self.path(API, PLURAL, name)
    }

    /// Creates a budget and returns the API server's answer. Without a selector or a target it protects the
    /// pods with the label `app: job`.
    #[track_caller]
    pub fn try_guard(&self, name: &str, mut spec: Value) -> Answer {
        if spec.get("selector").is_none() && spec.get("targetRef").is_none() {
            spec["selector"] = json!({"matchLabels": {"app": "job"}});
        }
        let manifest = json!({
            "apiVersion": "policy.kruise.io/v1beta1",
            "kind": "PodUnavailableBudget",
            "metadata": {"name": name},
            "spec": spec,
        });
        self.admin.post(&self.guard_path(""), &manifest)
    }

    /// Creates a budget and waits until its status shows that it is enforced.
    #[track_caller]
    pub fn guard(&self, name: &str, spec: Value) -> Value {
        let _ = self.try_guard(name, spec).ok();
        self.wait_guard(name, "is enforced", is_enforced)
    }

    /// Applies a merge patch to the spec, without waiting.
    #[track_caller]
    pub fn edit_guard(&self, name: &str, spec: &Value) {
        let _ = self.admin.patch(&self.guard_path(name), &json!({"spec": spec})).ok();
    }

    #[track_caller]
    pub fn delete_guard(&self, name: &str) {
        let _ = self.admin.delete(&self.guard_path(name)).ok();
    }

    /// Waits until the status is of the current spec and `is` returns true.
    #[track_caller]
    pub fn wait_guard(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let path = self.guard_path(name);
        let what = format!("PodUnavailableBudget {name} {what}");
        until_within(EXPIRED, &what, || self.processed(&path, &is))
    }

    #[track_caller]
    pub fn wait_counts(&self, name: &str, expected: [i64; 4]) -> Value {
        self.wait_guard(name, &format!("counts {expected:?}"), |s| counts(s) == expected)
    }

    /// Deletes a pod as `kubectl delete pod` does.
    #[track_caller]
    pub fn delete(&self, pod: &str) -> Outcome {
        self.delete_with(pod, "")
    }

    #[track_caller]
    pub fn delete_with(&self, pod: &str, query: &str) -> Outcome {
        self.admin.delete(&format!("{}{query}", self.path("api/v1", "pods", pod))).into()
    }

    /// Updates the image in place: the pod stays, and a kubelet would restart its containers.
    #[track_caller]
    pub fn update_image(&self, pod: &str, image: &str) -> Outcome {
        self.update_image_with(pod, image, "")
    }

    #[track_caller]
    pub fn update_image_with(&self, pod: &str, image: &str, query: &str) -> Outcome {
        let path = format!("{}{query}", self.path("api/v1", "pods", pod));
        let change = [json!({"op": "replace", "path": "/spec/containers/0/image", "value": image})];
        self.admin.json_patch(&path, &json!(change)).into()
    }

    /// Writes the status that a kubelet writes when a container runs as specified. kwok does not do this.
    #[track_caller]
    pub fn play_kubelet(&self, pod: &str) {
        let object = self.admin.get(&self.path("api/v1", "pods", pod)).ok().body;
        self.play_container(pod, &json!({"image": object["spec"]["containers"][0]["image"]}));
    }

    /// Merges this into the status of the pod's container.
    #[track_caller]
    pub fn play_container(&self, pod: &str, status: &Value) {
        let path = self.path("api/v1", "pods", pod);
        let object = self.admin.get(&path).ok().body;
        let mut container = object["status"]["containerStatuses"][0].clone();
        for (key, value) in status.as_object().into_iter().flatten() {
            container[key] = value.clone();
        }
        let patch = json!({"status": {"containerStatuses": [container]}});
        let _ = self.admin.patch(&format!("{path}/status"), &patch).ok();
    }
}

pub fn is_enforced(status: &Value) -> bool {
    is_condition(status, "Enforced", "True", "Intercepted")
}

impl Outcome {
    pub fn is_passed(&self) -> bool {
        (200..300).contains(&self.code)
    }

    #[track_caller]
    pub fn assert_passed(&self) {
        assert!(self.is_passed(), "refused: {self:#?}");
    }
}
