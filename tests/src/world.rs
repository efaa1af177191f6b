//! The objects of one test: a namespace, nodes, and the objects on them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast_audit::cluster::{every_pod, every_replica, healthy, is_healthy};
use holdfast_audit::json::items;
use holdfast_audit::objects::Budget;
use serde_json::{Value, json};

use crate::client::Client;
use crate::drain::Drain;
use crate::evict::{Eviction, Outcome};
use crate::fixture::{Fixture, fixture};
use crate::gang::Shape;
use crate::object;
use crate::observer::{Counted, Observer};
use crate::pod::{FINALIZER, Pod};
use crate::wait::{until, until_within};
use crate::why::assert_foretold;

/// A label of the nodes for a test's pods. Its value is the namespace.
pub const WORLD: &str = "e2e.holdfast.dev/world";

/// Dropping it deletes the objects.
#[derive(Debug)]
pub struct World {
    pub namespace: String,
    pub admin: Client,
    pub drainer: Client,
    nodes: Mutex<Vec<String>>,
}

impl World {
    /// Creates an empty namespace. The name only helps to find it in logs.
    #[track_caller]
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let fixture = fixture();
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("e2e-{name}-{}-{n}", std::process::id());
        let manifest = json!({"metadata": {"name": namespace}});
        let _ = fixture.admin.post("/api/v1/namespaces", &manifest).ok();
        let world = Self {
            namespace,
            admin: fixture.admin.clone(),
            drainer: fixture.drainer.clone(),
            nodes: Mutex::default(),
        };
        // Pods are refused without it.
        until("the namespace has its ServiceAccount", || {
            let answer = world.admin.get(&world.path("api/v1", "serviceaccounts", "default"));
            if answer.is_success() { Ok(()) } else { Err(answer.message().to_owned()) }
        });
        world
    }

    /// Creates a Ready node with room for everything.
    #[track_caller]
    pub fn node(&self, name: &str) -> String {
        self.node_of(name, Value::Null)
    }

    /// Creates a node with this many CPUs.
    #[track_caller]
    pub fn small_node(&self, name: &str, cpus: usize) -> String {
        let room = json!({"cpu": cpus.to_string(), "memory": "64Gi", "pods": "110"});
        self.node_of(name, json!({"capacity": room, "allocatable": room}))
    }

    #[track_caller]
    fn node_of(&self, name: &str, status: Value) -> String {
        let name = format!("{}-{name}", self.namespace);
        let mut manifest = node(&name);
        manifest["metadata"]["labels"][WORLD] = json!(self.namespace);
        if !status.is_null() {
            manifest["status"] = status;
        }
        let _ = self.admin.post("/api/v1/nodes", &manifest).ok();
        self.nodes.lock().expect("not poisoned").push(name.clone());
        // New nodes have a taint until the controllers have processed them.
        until("the node is Ready", || {
            let node = self.admin.get(&format!("/api/v1/nodes/{name}")).ok().body;
            let ready = object::is_condition(&node, "Ready") && node["spec"]["taints"].is_null();
            if ready { Ok(()) } else { Err(node.to_string()) }
        });
        name
    }

    /// Returns true if a created node becomes Ready on this cluster.
    pub(crate) fn try_node(fixture: &Fixture) -> bool {
        let name = format!("e2e-probe-{}", std::process::id());
        let path = format!("/api/v1/nodes/{name}");
        if !fixture.admin.post("/api/v1/nodes", &node(&name)).is_success() {
            return false;
        }
        let is_ready = || object::is_condition(&fixture.admin.get(&path).body, "Ready");
        let ready = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            is_ready()
        });
        fixture.admin.delete(&path);
        ready
    }

    /// Creates a gang that needs `min_count` pods.
    #[track_caller]
    pub fn group(&self, name: &str, min_count: usize) {
        let policy = json!({"gang": {"minCount": min_count}});
        self.group_of(name, &json!({"schedulingPolicy": policy}));
    }

    /// Creates a `PodGroup` with this spec.
    #[track_caller]
    pub fn group_of(&self, name: &str, spec: &Value) {
        let api = Shape::of_cluster().api();
        let manifest = json!({
            "apiVersion": api,
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": spec,
        });
        let path = self.path(&format!("apis/{api}"), "podgroups", "");
        let _ = self.admin.post(&path, &manifest).ok();
    }

    #[track_caller]
    pub fn pod(&self, pod: &Pod) {
        let _ = self.admin.post(&self.path("api/v1", "pods", ""), &pod.manifest()).ok();
    }

    /// Creates pods by several clients at the same time.
    pub fn pods_at_once(&self, pods: &[Pod]) {
        std::thread::scope(|scope| {
            for part in pods.chunks(pods.len().div_ceil(8).max(1)) {
                scope.spawn(move || part.iter().for_each(|pod| self.pod(pod)));
            }
        });
    }

    /// Creates a group and its pods `<name>-0` and so on, all Ready, distributed over the nodes.
    #[track_caller]
    pub fn replica(
        &self,
        name: &str,
        pods: usize,
        min_count: usize,
        nodes: &[&str],
    ) -> Vec<String> {
        self.group(name, min_count);
        let names: Vec<String> = (0..pods).map(|i| format!("{name}-{i}")).collect();
        for (name_of_pod, node) in names.iter().zip(nodes.iter().cycle()) {
            self.pod(&Pod::new(name_of_pod).of(name).on(node));
        }
        for pod in &names {
            self.wait_ready(pod);
        }
        names
    }

    #[track_caller]
    pub fn wait_ready(&self, pod: &str) {
        self.wait_pod(pod, "is Ready", is_healthy);
    }

    #[track_caller]
    pub fn wait_pod(&self, pod: &str, what: &str, is: impl Fn(&Value) -> bool) {
        until(&format!("pod {pod} {what}"), || {
            let object = self.admin.get(&self.path("api/v1", "pods", pod)).body;
            if is(&object) { Ok(()) } else { Err(object.to_string()) }
        });
    }

    #[track_caller]
    pub fn wait_gone(&self, pod: &str) {
        self.wait_pod(pod, "is gone", |object| object["code"] == 404);
    }

    #[track_caller]
    pub fn annotate(&self, pod: &str, key: &str, value: &str) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        let _ = self.admin.patch(&self.path("api/v1", "pods", pod), &patch).ok();
    }

    #[track_caller]
    pub fn delete_pod(&self, pod: &str) {
        let _ = self.admin.delete(&self.path("api/v1", "pods", pod)).ok();
    }

    /// Creates a budget over the pods with the label `app: job`, and waits until it is processed.
    #[track_caller]
    pub fn budget(&self, name: &str, spec: Value) -> Value {
        let _ = self.try_budget(name, spec).ok();
        self.wait_status(name, "is processed", |_| true)
    }

    /// Creates a budget and returns the API server's answer.
    #[track_caller]
    pub fn try_budget(&self, name: &str, mut spec: Value) -> crate::client::Answer {
        if spec.get("selector").is_none() {
            spec["selector"] = json!({"matchLabels": {"app": "job"}});
        }
        let manifest = json!({
            "apiVersion": fixture().mode.api_version(),
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": spec,
        });
        self.admin.post(&self.budget_path(""), &manifest)
    }

    /// Returns the path of one budget, or of all if the name is empty.
    pub fn budget_path(&self, name: &str) -> String {
        let group = format!("apis/{}", fixture().mode.api_version());
        self.path(&group, "poddisruptionbudgets", name)
    }

    /// Applies a merge patch to the spec, without waiting.
    #[track_caller]
    pub fn edit_budget(&self, name: &str, spec: &Value) {
        let path = self.budget_path(name);
        let _ = self.admin.patch(&path, &json!({"spec": spec})).ok();
    }

    #[track_caller]
    pub fn annotate_budget(&self, name: &str, key: &str, value: &str) {
        let path = self.budget_path(name);
        let patch = json!({"metadata": {"annotations": {key: value}}});
        let _ = self.admin.patch(&path, &patch).ok();
    }

    #[track_caller]
    pub fn status(&self, budget: &str) -> Value {
        let path = self.budget_path(budget);
        self.admin.get(&path).ok().body["status"].take()
    }

    /// Waits until the status is of the current spec and `is` returns true.
    #[track_caller]
    pub fn wait_status(&self, budget: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let path = self.budget_path(budget);
        until(&format!("the status of budget {budget} {what}"), || self.processed(&path, &is))
    }

    /// Returns the status if it is of the current spec and `is` returns true.
    pub fn processed(&self, path: &str, is: impl Fn(&Value) -> bool) -> Result<Value, String> {
        let mut object = self.admin.get(path).ok().body;
        let processed = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        let status = object["status"].take();
        if processed && is(&status) { Ok(status) } else { Err(format!("{status:#}")) }
    }

    /// Evicts a pod as the drainer.
    #[track_caller]
    pub fn evict(&self, pod: &str) -> Outcome {
        let foretold = self.foretell(pod);
        let outcome = self.send(&Eviction::of(pod));
        assert_foretold(pod, foretold, &outcome);
        outcome
    }

    #[track_caller]
    pub fn send(&self, eviction: &Eviction) -> Outcome {
        eviction.send(&self.drainer, &self.namespace)
    }

    /// Leaves a recorded grant with its pod: an eviction in flight.
    #[track_caller]
    pub fn evict_in_vain(&self, pod: &str) {
        self.send(&Eviction::of(pod).that_comes_to_nothing()).assert_came_to_nothing();
    }

    /// Repeats the eviction until it succeeds, for changes that take effect soon but not at once.
    #[track_caller]
    pub fn evict_soon(&self, pod: &str) {
        let soon = std::time::Duration::from_secs(5);
        until_within(soon, &format!("pod {pod} may be evicted"), || {
            let outcome = self.evict(pod);
            if outcome.is_evicted() { Ok(()) } else { Err(format!("{outcome:#?}")) }
        });
    }

    pub fn drain(&self, node: &str) -> Drain {
        Drain::start(node, &[])
    }

    /// Returns the names of the pods that are not terminating.
    #[track_caller]
    pub fn pods(&self) -> Vec<String> {
        let pods = self.admin.list(&self.path("api/v1", "pods", ""));
        names(pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()))
    }

    #[track_caller]
    pub fn healthy_pods(&self) -> Vec<String> {
        let pods = self.admin.list(&self.path("api/v1", "pods", ""));
        names(pods.iter().filter(|pod| is_healthy(pod)))
    }

    /// Counts the healthy replicas from the pods.
    #[track_caller]
    pub fn healthy_replicas(&self) -> usize {
        let pods = self.admin.list(&self.path("api/v1", "pods", ""));
        let objects = self.groups().into_iter().chain(pods);
        healthy(&objects.collect::<Vec<_>>(), &every_replica(&self.namespace))
    }

    #[track_caller]
    pub fn observe(&self) -> Observer {
        self.observe_budgets(vec![every_replica(&self.namespace)])
    }

    /// Like [`Self::observe`], for single pods.
    #[track_caller]
    pub fn observe_pods(&self) -> Observer {
        self.observe_budgets(vec![every_pod(&self.namespace)])
    }

    /// Like [`Self::observe`], for these budgets. The budget with the fewest units counts.
    #[track_caller]
    pub fn observe_budgets(&self, budgets: Vec<Budget>) -> Observer {
        let counted = Counted { others: self.groups(), budgets, counts: |_| true };
        Observer::start(&self.admin, &self.namespace, counted)
    }

    /// Returns the groups, and the Workloads with their policies.
    #[track_caller]
    fn groups(&self) -> Vec<Value> {
        let api = Shape::of_cluster().api();
        let mut found = Vec::new();
        for plural in ["podgroups", "workloads"] {
            let list = self.admin.get(&self.path(&format!("apis/{api}"), plural, ""));
            let objects = if list.code == 404 { Vec::new() } else { items(list.ok().body) };
            found.extend(objects);
        }
        found
    }

    pub fn path(&self, api: &str, plural: &str, name: &str) -> String {
        let path = format!("/{api}/namespaces/{}/{plural}", self.namespace);
        if name.is_empty() { path } else { format!("{path}/{name}") }
    }

    /// Removes the finalizer of [`Pod::held_when_deleted`].
    #[track_caller]
    pub fn release(&self, pod: &str) {
        let patch = json!({"metadata": {"finalizers": null}});
        self.admin.patch(&self.path("api/v1", "pods", pod), &patch);
    }

    fn clean_up(&self) {
        let held = |pod: &Value| {
            let finalizers = pod["metadata"]["finalizers"].as_array();
            finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == FINALIZER))
        };
        for pod in self.admin.list(&self.path("api/v1", "pods", "")).iter().filter(|p| held(p)) {
            self.release(pod["metadata"]["name"].as_str().unwrap_or_default());
        }
        self.admin.delete(&format!("/api/v1/namespaces/{}", self.namespace));
        for node in self.nodes.lock().expect("not poisoned").iter() {
            self.admin.delete(&format!("/api/v1/nodes/{node}"));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A second panic during the unwinding of a failed test would abort the process and its cleanup.
        let cleaned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.clean_up()));
        if cleaned.is_err() {
            eprintln!("namespace {} and its nodes may be left behind", self.namespace);
        }
    }
}

/// Returns status and reason of the condition of this type.
pub fn condition(status: &Value, kind: &str) -> Option<(String, String)> {
    let conditions = status["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason")))
}

pub fn is_condition(status: &Value, kind: &str, value: &str, reason: &str) -> bool {
    condition(status, kind) == Some((value.to_owned(), reason.to_owned()))
}

/// Returns the recorded grants, as pod and cost.
pub fn grants(status: &Value) -> Vec<(String, i64)> {
    let grants = status["grants"].as_array().cloned().unwrap_or_default();
    let entry = |grant: &Value| {
        (grant["pod"].as_str().unwrap_or_default().to_owned(), grant["cost"].as_i64().unwrap_or(0))
    };
    grants.iter().map(entry).collect()
}

fn names<'a>(objects: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    objects.map(name).collect()
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
    })
}
