//! Groups of pods that start together. The same objects in two shapes. A cluster has one of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_audit::json::items;
use serde_json::{Value, json};

use crate::fixture::fixture;
use crate::object::{group_of, name};
use crate::pod::Pod;
use crate::wait::until;
use crate::world::{World, condition};

/// The program that starts gangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// kube-scheduler, with the `PodGroups` of Kubernetes.
    Kubernetes,
    /// Holdfast, with its own `PodGroups`.
    Holdfast,
}

impl Shape {
    pub fn of_cluster() -> Self {
        if fixture().has_pod_groups() { Self::Kubernetes } else { Self::Holdfast }
    }

    /// Returns the flag of `holdfast manifests`.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Kubernetes => "--pod-groups=kubernetes",
            Self::Holdfast => "--pod-groups=holdfast",
        }
    }

    /// Returns the API of `PodGroups` and Workloads.
    pub fn api(self) -> &'static str {
        match self {
            Self::Kubernetes => "scheduling.k8s.io/v1beta1",
            Self::Holdfast => "scheduling.holdfast.dev/v1alpha1",
        }
    }

    /// Returns the spec of a group that refers to a template of a Workload with this policy.
    pub fn group_of(self, workload: &str, template: &str, policy: &Value) -> Value {
        match self {
            Self::Kubernetes => json!({
                "workloadRef": {"workloadName": workload, "templateName": template},
                "schedulingPolicy": policy,
            }),
            Self::Holdfast => {
                json!({"workloadRef": {"name": workload}, "podGroupTemplateName": template})
            }
        }
    }

    /// Sets the group of a pod or of a pod template.
    pub fn put(self, pod: &mut Value, group: &str) {
        match self {
            Self::Kubernetes => {
                pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
            }
            Self::Holdfast => {
                pod["metadata"]["annotations"]["holdfast.dev/pod-group"] = json!(group);
            }
        }
    }

    /// Returns the condition that shows whether the gang has started, and its reason if it has.
    fn started(self) -> (&'static str, &'static str) {
        match self {
            Self::Kubernetes => ("PodGroupInitiallyScheduled", "Scheduled"),
            Self::Holdfast => ("PodGroupScheduled", "MinCountSatisfied"),
        }
    }
}

pub fn gang(min_count: usize) -> Value {
    json!({"gang": {"minCount": min_count}})
}

pub fn basic() -> Value {
    json!({"basic": {}})
}

/// The template of every Workload that a test creates itself.
const TEMPLATE: &str = "worker";

/// If nothing happens for this time, the test assumes that nothing will happen.
const CALM: Duration = Duration::from_secs(3);

/// Creates groups as a controller with its own groups would.
impl World {
    /// Returns the path of one group, or of all if the name is empty.
    pub fn pod_group_path(&self, name: &str) -> String {
        self.path(&format!("apis/{}", Shape::of_cluster().api()), "podgroups", name)
    }

    pub fn workload_path(&self, name: &str) -> String {
        self.path(&format!("apis/{}", Shape::of_cluster().api()), "workloads", name)
    }

    /// Creates a `PodGroup` of this name and its Workload.
    #[track_caller]
    pub fn pod_group(&self, name: &str, policy: &Value) {
        self.workload(name, policy);
        self.pod_group_alone(name, policy);
    }

    #[track_caller]
    pub fn workload(&self, group: &str, policy: &Value) {
        let manifest = json!({
            "apiVersion": Shape::of_cluster().api(),
            "kind": "Workload",
            "metadata": {"name": workload_of(group)},
            "spec": {"podGroupTemplates": [{"name": TEMPLATE, "schedulingPolicy": policy}]},
        });
        let _ = self.admin.post(&self.workload_path(""), &manifest).ok();
    }

    /// Creates the group without its Workload. Only Holdfast reads the policy from the Workload.
    #[track_caller]
    pub fn pod_group_alone(&self, name: &str, policy: &Value) {
        let shape = Shape::of_cluster();
        let spec = shape.group_of(&workload_of(name), TEMPLATE, policy);
        let manifest = json!({
            "apiVersion": shape.api(),
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": spec,
        });
        let _ = self.admin.post(&self.pod_group_path(""), &manifest).ok();
    }

    /// Changes minCount in the object from which the gang is started.
    #[track_caller]
    pub fn set_min_count(&self, group: &str, min_count: usize) {
        let (path, at) = match Shape::of_cluster() {
            Shape::Kubernetes => (self.pod_group_path(group), "/spec"),
            Shape::Holdfast => {
                (self.workload_path(&workload_of(group)), "/spec/podGroupTemplates/0")
            }
        };
        let at = format!("{at}/schedulingPolicy/gang/minCount");
        let patch = json!([{"op": "replace", "path": at, "value": min_count}]);
        let _ = self.admin.json_patch(&path, &patch).ok();
    }

    /// Creates pods `<group>-<i>` of one CPU each.
    #[track_caller]
    pub fn members(&self, group: &str, which: impl IntoIterator<Item = usize>) {
        for i in which {
            self.pod(&self.member(group, i));
        }
    }

    pub fn member(&self, group: &str, i: usize) -> Pod {
        Pod::new(format!("{group}-{i}")).of(group).taking(1, self)
    }

    #[track_caller]
    pub fn delete_members(&self, group: &str) {
        for pod in self.all_pods().iter().filter(|pod| group_of(pod) == Some(group)) {
            self.admin.delete(&self.path("api/v1", "pods", &name(pod)));
        }
    }
}

/// Reads the state of groups.
impl World {
    #[track_caller]
    pub fn all_pods(&self) -> Vec<Value> {
        self.admin.list(&self.path("api/v1", "pods", ""))
    }

    /// Returns the groups that are not terminating, in the order of their names.
    #[track_caller]
    pub fn pod_groups(&self) -> Vec<Value> {
        let mut groups = self.admin.list(&self.pod_group_path(""));
        groups.retain(|group| group["metadata"]["deletionTimestamp"].is_null());
        groups
    }

    /// Returns how many pods of each group are on a node, for groups with pods.
    #[track_caller]
    pub fn bound(&self) -> BTreeMap<String, usize> {
        let mut bound = BTreeMap::new();
        for pod in &self.all_pods() {
            let count = bound.entry(group_of(pod).unwrap_or_default().to_owned()).or_default();
            *count += usize::from(is_bound(pod));
        }
        bound
    }

    /// Waits until this many pods of the group are on nodes. Then checks for some time that there are no
    /// more.
    #[track_caller]
    pub fn wait_bound(&self, group: &str, pods: usize) {
        until(&format!("{pods} pods of {group} are on nodes"), || {
            let bound = self.bound();
            if bound.get(group) == Some(&pods) { Ok(()) } else { Err(self.told(&bound)) }
        });
    }

    /// Checks for some time that exactly this many pods of the group are on nodes.
    #[track_caller]
    pub fn stays_bound(&self, group: &str, pods: usize) {
        let began = Instant::now();
        while began.elapsed() < CALM {
            let bound = self.bound();
            assert_eq!(bound.get(group), Some(&pods), "pods of {group}: {}", self.told(&bound));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    #[track_caller]
    pub fn stays_pending(&self, group: &str) {
        self.stays_bound(group, 0);
    }

    /// Waits until the status of the group shows that its gang has started.
    #[track_caller]
    pub fn wait_started(&self, group: &str, pods: usize) {
        let shape = Shape::of_cluster();
        let (kind, reason) = shape.started();
        until(&format!("{group} says that it has started"), || {
            let status = self.pod_group_status(group);
            let started = condition(&status, kind) == Some(("True".to_owned(), reason.to_owned()));
            // The controller of Kubernetes does not write this number.
            let counted = shape == Shape::Kubernetes || status["scheduledPods"] == pods;
            if started && counted { Ok(()) } else { Err(format!("{status:#}")) }
        });
    }

    /// Waits until the status of the group shows that there is no room for it.
    #[track_caller]
    pub fn wait_unschedulable(&self, group: &str) {
        let (kind, _) = Shape::of_cluster().started();
        until(&format!("{group} says that it cannot start"), || {
            let status = self.pod_group_status(group);
            let told = Some(("False".to_owned(), "Unschedulable".to_owned()));
            if condition(&status, kind) == told { Ok(()) } else { Err(format!("{status:#}")) }
        });
    }

    #[track_caller]
    pub fn pod_group_status(&self, name: &str) -> Value {
        self.admin.get(&self.pod_group_path(name)).ok().body["status"].take()
    }

    /// Returns the numbers together with the state of pods and groups, for a failure.
    fn told(&self, bound: &BTreeMap<String, usize>) -> String {
        let pod = |pod: &Value| {
            let told = condition(&pod["status"], "PodScheduled");
            format!("{} {} {told:?}", name(pod), pod["spec"]["schedulingGates"])
        };
        let group = |group: &Value| format!("{} {}", name(group), group["status"]);
        let groups = self.admin.get(&self.pod_group_path("")).body;
        let groups: Vec<String> = items(groups).iter().map(group).collect();
        let pods: Vec<String> = self.all_pods().iter().map(pod).collect();
        format!("{bound:?}\n{}\n{}", pods.join("\n"), groups.join("\n"))
    }
}

/// Returns the name of the Workload of a group that a test creates.
pub fn workload_of(group: &str) -> String {
    format!("{group}-workload")
}

pub fn is_bound(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
}
