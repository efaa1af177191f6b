//! Workloads that ask for pod groups, and their groups.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::Answer;
use crate::object::name;
use crate::wait::until;
use crate::world::{WORLD, World};

/// The annotation on a workload or its namespace.
pub const ASKS: &str = "holdfast.dev/pod-groups";

const SLOT: &str = "holdfast.dev/slot";

/// The annotation on a `StatefulSet`.
pub const GROUP_SIZE: &str = "holdfast.dev/group-size";

impl World {
    /// Returns the template of a pod of one CPU on this test's nodes.
    pub fn pod_template(&self) -> Value {
        json!({
            "metadata": {"labels": {"app": "job"}, "annotations": {"localkube/lingers": "1s"}},
            "spec": {
                "nodeSelector": {WORLD: self.namespace},
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "main",
                    "image": "example.com/main",
                    "resources": {"requests": {"cpu": 1}},
                }],
            },
        })
    }

    /// Returns a Job that asks for groups. It is Indexed, so that it can be scaled.
    pub fn job(&self, name: &str, workers: usize) -> Value {
        let mut template = self.pod_template();
        template["spec"]["restartPolicy"] = json!("Never");
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "annotations": {ASKS: "true"}},
            "spec": {
                "completionMode": "Indexed",
                "parallelism": workers,
                "completions": workers,
                "template": template,
            },
        })
    }

    /// Returns a `JobSet` of `jobs` Jobs with `workers` workers each that asks for groups.
    pub fn job_set(&self, name: &str, jobs: usize, workers: usize) -> Value {
        json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": name, "annotations": {ASKS: "true"}},
            "spec": {"replicatedJobs": [self.replicated_job("worker", jobs, workers)]},
        })
    }

    pub fn replicated_job(&self, name: &str, jobs: usize, workers: usize) -> Value {
        let mut template = self.job("", workers);
        template["spec"]["backoffLimit"] = json!(1000);
        json!({"name": name, "replicas": jobs, "template": {"spec": template["spec"]}})
    }

    /// Returns a `StatefulSet` with groups of `group_size` consecutive ordinals that asks for groups. It
    /// creates all pods at once.
    pub fn stateful_set(&self, name: &str, replicas: usize, group_size: usize) -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {
                "name": name,
                "annotations": {ASKS: "true", GROUP_SIZE: group_size.to_string()},
            },
            "spec": {
                "replicas": replicas,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": "job"}},
                "template": self.pod_template(),
            },
        })
    }

    /// Creates the object and returns the answer of the API server.
    #[track_caller]
    pub fn try_create(&self, manifest: &Value) -> Answer {
        self.admin.post(&self.collection(manifest), manifest)
    }

    #[track_caller]
    pub fn create(&self, manifest: &Value) {
        let _ = self.try_create(manifest).ok();
    }

    /// Applies a merge patch.
    #[track_caller]
    pub fn edit(&self, manifest: &Value, patch: &Value) {
        let path = format!("{}/{}", self.collection(manifest), name(manifest));
        let _ = self.admin.patch(&path, patch).ok();
    }

    /// Deletes the object with all its dependents, as kubectl does.
    #[track_caller]
    pub fn remove(&self, manifest: &Value) {
        let path = format!("{}/{}", self.collection(manifest), name(manifest));
        let _ = self.admin.delete(&format!("{path}?propagationPolicy=Background")).ok();
    }

    fn collection(&self, manifest: &Value) -> String {
        let text = |key: &str| manifest[key].as_str().unwrap_or_default();
        let plural = format!("{}s", text("kind").to_lowercase());
        self.path(&format!("apis/{}", text("apiVersion")), &plural, "")
    }

    /// Waits until the workload has `n` groups, each with its own slot. Returns them by slot.
    #[track_caller]
    pub fn wait_groups(&self, owner: &str, n: usize) -> BTreeMap<String, Value> {
        until(&format!("{owner} has {n} groups"), || {
            let mut groups = self.pod_groups();
            groups.retain(|group| controller(group) == owner);
            let slot = |group: &Value| group["metadata"]["annotations"][SLOT].to_string();
            let slots: BTreeMap<_, _> = groups.iter().map(|g| (slot(g), g.clone())).collect();
            if (slots.len(), groups.len()) == (n, n) {
                Ok(slots)
            } else {
                Err(format!("{groups:#?}"))
            }
        })
    }

    /// Waits until no groups and no Workloads are left.
    #[track_caller]
    pub fn wait_no_groups(&self) {
        until("all groups are gone", || {
            let mut left = self.admin.list(&self.pod_group_path(""));
            left.extend(self.admin.list(&self.workload_path("")));
            if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
        });
    }
}

/// Returns the name of the owner, or an empty text.
pub fn controller(object: &Value) -> &str {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
    controller.and_then(|owner| owner["name"].as_str()).unwrap_or_default()
}

pub fn min_count(group: &Value) -> Option<u64> {
    group["spec"]["schedulingPolicy"]["gang"]["minCount"].as_u64()
}
