//! Builders of pods for tests.

use serde_json::{Value, json};

use crate::gang::Shape;
use crate::world::{WORLD, World};

#[derive(Clone, Debug, Default)]
pub struct Pod {
    name: String,
    node: Option<String>,
    cpus: Option<(String, usize)>,
    group: Option<String>,
    labels: Vec<(String, String)>,
    annotations: Vec<(String, String)>,
    finalizer: bool,
}

/// The finalizer of pods that stay terminating until the test releases them.
pub const FINALIZER: &str = "e2e.holdfast.dev/stay";

impl Pod {
    /// Creates a pod with the label `app: job`, which the budgets of tests select.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }.label("app", "job")
    }

    /// Binds the pod to a node without the scheduler. Without this and [`Self::taking`] it stays Pending.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// Leaves the pod to the scheduler, for the nodes of this test, with this many CPUs.
    #[must_use]
    pub fn taking(mut self, cpus: usize, world: &World) -> Self {
        self.cpus = Some((world.namespace.clone(), cpus));
        self
    }

    /// Sets the `PodGroup`, which need not exist.
    #[must_use]
    pub fn of(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }

    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Running, but not Ready until the annotation changes (localkube/README.md).
    #[must_use]
    pub fn not_ready(self) -> Self {
        self.annotation("localkube/ready", "false")
    }

    #[must_use]
    pub fn held_when_deleted(mut self) -> Self {
        self.finalizer = true;
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn manifest(&self) -> Value {
        let map = |pairs: &[(String, String)]| -> Value {
            pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
        };
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "labels": map(&self.labels),
                "annotations": map(&self.annotations),
                "finalizers": if self.finalizer { vec![FINALIZER] } else { Vec::new() },
            },
            "spec": {
                "containers": [{"name": "main", "image": "example.com/main"}],
                "terminationGracePeriodSeconds": 1,
            },
        });
        match (&self.node, &self.cpus) {
            (Some(node), _) => pod["spec"]["nodeName"] = json!(node),
            (None, Some((world, cpus))) => {
                pod["spec"]["nodeSelector"] = json!({WORLD: world});
                pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpus}});
            }
            (None, None) => {
                pod["spec"]["nodeSelector"] = json!({"e2e.holdfast.dev/no-such-node": "true"});
            }
        }
        if let Some(group) = &self.group {
            Shape::of_cluster().put(&mut pod, group);
        }
        pod
    }
}
