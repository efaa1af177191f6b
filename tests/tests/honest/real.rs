//! Operations of users and controllers on the real API server.

use std::collections::BTreeMap;

use holdfast_api::decode::decode;
use holdfast_core::model::{BudgetSpec, GroupReference, Phase, Pod, Scope, Threshold};
use holdfast_core::{Command, Input, Kind};
use holdfast_e2e::client::RUNTIME;
use holdfast_e2e::evict::Eviction;
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::history::{Event, History};
use holdfast_e2e::world::World;
use holdfast_server::{Caller, ClusterOptions};
use serde_json::{Value, json};

const BUDGETS: &str = "apis/policy.holdfast.dev/v1";

pub struct Real {
    pub world: World,
    caller: Caller,
    history: Option<History>,
}

impl Real {
    pub fn new() -> Self {
        let kubeconfig = Some(fixture().admin_kubeconfig.clone());
        let options = ClusterOptions { kubeconfig, ..ClusterOptions::default() };
        let caller = RUNTIME.block_on(Caller::connect(&options)).expect("the cluster answers");
        let world = World::new("honest");
        let paths =
            [world.path("api/v1", "pods", ""), world.path(BUDGETS, "poddisruptionbudgets", "")];
        let history = Some(History::of(&world.admin, &paths));
        Self { world, caller, history }
    }

    /// Executes a call of the engine and returns the answer.
    pub fn call(&self, command: Command) -> Option<Input> {
        RUNTIME.block_on(self.caller.clone().call(command))
    }

    /// Returns every watch event since the beginning.
    pub fn events(&mut self) -> Vec<Input> {
        let history = self.history.take().expect("the history ends once");
        history.end().iter().map(input).collect()
    }

    pub fn create_pod(&self, pod: &Pod) {
        let mut annotations = BTreeMap::new();
        if let Some(GroupReference::Annotation { name }) = &pod.reference {
            annotations.insert("holdfast.dev/pod-group", name);
        }
        // No program simulates this node, so deleted pods stay until they are removed.
        let body = json!({
            "metadata": {"name": pod.key.name, "labels": pod.labels, "annotations": annotations},
            "spec": {"nodeName": "nowhere", "containers": [{"name": "c", "image": "none"}]},
        });
        let _ = self.world.admin.post(&self.world.path("api/v1", "pods", ""), &body).ok();
    }

    pub fn set_pod_status(&self, name: &str, phase: Phase, ready: bool) {
        let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" }});
        let status = json!({"phase": format!("{phase:?}"), "conditions": [condition]});
        let path = format!("{}/status", self.pod_path(name));
        let _ = self.world.admin.patch(&path, &json!({"status": status})).ok();
    }

    pub fn label_pod(&self, name: &str, value: &str) {
        let body = json!({"metadata": {"labels": {"app": value}}});
        let _ = self.world.admin.patch(&self.pod_path(name), &body).ok();
    }

    pub fn remove_pod(&self, name: &str) {
        let path = format!("{}?gracePeriodSeconds=0", self.pod_path(name));
        let _ = self.world.admin.delete(&path).ok();
    }

    pub fn evict_pod(&self, name: &str) {
        Eviction::of(name).send(&self.world.drainer, &self.world.namespace).assert_evicted();
    }

    pub fn create_budget(&self, name: &str, spec: &BudgetSpec) {
        let body = json!({
            "apiVersion": "policy.holdfast.dev/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": spec_of(spec),
        });
        let path = self.world.path(BUDGETS, "poddisruptionbudgets", "");
        let _ = self.world.admin.post(&path, &body).ok();
    }

    pub fn edit_budget(&self, name: &str, spec: &BudgetSpec) {
        let path = self.budget_path(name);
        let body = json!([{"op": "replace", "path": "/spec", "value": spec_of(spec)}]);
        let _ = self.world.admin.json_patch(&path, &body).ok();
    }

    /// Writes the status as a client other than Holdfast.
    pub fn edit_status(&self, name: &str, current_healthy: i64) {
        let path = format!("{}/status", self.budget_path(name));
        let body = json!({"status": {"currentHealthy": current_healthy}});
        let _ = self.world.admin.patch(&path, &body).ok();
    }

    pub fn delete_budget(&self, name: &str) {
        let _ = self.world.admin.delete(&self.budget_path(name)).ok();
    }

    /// Creates the `StatefulSet`, or scales it.
    pub fn scale(&self, name: &str, replicas: i64) {
        let path = self.world.path("apis/apps/v1", "statefulsets", name);
        let scaled = self.world.admin.patch(&path, &json!({"spec": {"replicas": replicas}}));
        if scaled.is_success() {
            return;
        }
        let labels = json!({"app": name});
        let body = json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "serviceName": name,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "none"}]},
                },
            },
        });
        let path = self.world.path("apis/apps/v1", "statefulsets", "");
        let _ = self.world.admin.post(&path, &body).ok();
    }

    pub fn delete_stateful_set(&self, name: &str) {
        // It may not exist.
        self.world.admin.delete(&self.world.path("apis/apps/v1", "statefulsets", name));
    }

    fn pod_path(&self, name: &str) -> String {
        self.world.path("api/v1", "pods", name)
    }

    fn budget_path(&self, name: &str) -> String {
        self.world.path(BUDGETS, "poddisruptionbudgets", name)
    }
}

fn input(event: &Event) -> Input {
    let kind = if event.path.ends_with("/pods") { Kind::Pod } else { Kind::Budget };
    let object = event.object.to_string();
    let decoded = decode(&kind, object.as_bytes()).expect("as the API server writes it");
    if event.gone { decoded.deleted() } else { decoded.applied() }
}

fn spec_of(spec: &BudgetSpec) -> Value {
    let threshold = |threshold: &Option<Threshold>| match threshold {
        Some(Threshold::Count(count)) => json!(count),
        Some(Threshold::Percent(percent)) => json!(format!("{percent}%")),
        Some(Threshold::Invalid(text)) => panic!("{text}"),
        None => Value::Null,
    };
    let mut value = json!({
        "selector": spec.selector.as_ref().map(|s| json!({"matchLabels": s.match_labels})),
        "minAvailable": threshold(&spec.min_available),
        "maxUnavailable": threshold(&spec.max_unavailable),
        "budgetScope": if spec.scope == Scope::Pod { "Pod" } else { "Workload" },
    });
    value.as_object_mut().expect("an object").retain(|_, field| !field.is_null());
    value
}
