//! Histories written by hand, each with the finding that it must lead to. No engine takes part.

mod allows;
mod cluster;
mod count;
mod history;
mod independent;
mod replicas;
mod rules;

use holdfast_audit::objects::{Budget, Grant, Name, Object, Operation, Pod};
use holdfast_audit::{Allow, Auditor, Count, Finding, json};
use serde_json::{Value, json};

/// A history with one namespace, `ns`.
#[derive(Default)]
struct History {
    auditor: Auditor,
    version: u64,
    allows: usize,
}

impl History {
    fn store(&mut self, mut object: Value) {
        self.version += 1;
        let name = object["metadata"]["name"].as_str().expect("named").to_owned();
        let meta = &mut object["metadata"];
        meta["namespace"] = json!("ns");
        meta["resourceVersion"] = json!(self.version.to_string());
        if meta["uid"].is_null() {
            meta["uid"] = json!(format!("uid-{name}"));
        }
        self.auditor.stored(json::object(&object).expect("a kind that is read"));
    }

    fn pod(&self, name: &str) -> Pod {
        (*self.auditor.state().pods[&Name::new("ns", name)]).clone()
    }

    fn budget(&self, name: &str) -> Budget {
        let mut budgets = self.auditor.state().budgets.values();
        let found = budgets.rfind(|b| b.key.key.name == name);
        (**found.expect("it exists")).clone()
    }

    fn edit_pod(&mut self, name: &str, edit: impl FnOnce(&mut Pod)) {
        self.version += 1;
        let mut pod = Pod { version: self.version, ..self.pod(name) };
        edit(&mut pod);
        self.auditor.stored(Object::Pod(pod));
    }

    fn remove(&mut self, name: &str) {
        self.version += 1;
        let pod = Pod { version: self.version, ..self.pod(name) };
        self.auditor.deleted(&Object::Pod(pod));
    }

    fn edit_budget(&mut self, name: &str, edit: impl FnOnce(&mut Budget)) {
        let mut budget = self.budget(name);
        edit(&mut budget);
        self.auditor.stored(Object::Budget(budget));
    }

    /// The budget records a grant for the pod.
    fn grant(&mut self, budget: &str, pod: &str) {
        let uid = self.pod(pod).uid;
        self.edit_budget(budget, |budget| {
            let (pod, eviction) = (pod.to_owned(), format!("of {uid}"));
            let operation = Operation::Evict;
            budget.status.grants.push(Grant { pod, uid, eviction, operation, pinned: true });
        });
    }

    fn drop_grants(&mut self, budget: &str) {
        self.edit_budget(budget, |budget| budget.status.grants.clear());
    }

    /// An eviction is allowed and waits in the API server.
    fn allow(&mut self, pod: &str) -> String {
        self.allows += 1;
        let id = format!("eviction-{}", self.allows);
        let Pod { key, uid, version, .. } = self.pod(pod);
        self.auditor.allow(Allow {
            id: id.clone(),
            pod: key,
            uid,
            by_name: false,
            operation: Operation::Evict,
            version,
            recorded: true,
            budgets: [].into(),
        });
        id
    }

    /// Recorded in the budget, allowed, executed, gone, and the grant is dropped.
    fn evict(&mut self, budget: &str, pod: &str) {
        self.grant(budget, pod);
        self.take(pod);
        self.drop_grants(budget);
    }

    /// Allowed, executed and gone.
    fn take(&mut self, pod: &str) {
        let id = self.allow(pod);
        let allow = self.auditor.end(&id).expect("in flight");
        self.auditor.take(&allow, &Name::new("ns", pod));
        self.edit_pod(pod, |pod| (pod.evicted, pod.terminating) = (true, true));
        self.remove(pod);
    }

    fn count(&self, budget: &str) -> Count {
        self.auditor.count(&self.budget(budget), &|_| false)
    }

    /// Healthy, desired, expected.
    fn numbers(&self, budget: &str) -> (i64, i64, i64) {
        let count = self.count(budget);
        assert_eq!(count.closed, None);
        (count.healthy, count.desired, count.expected)
    }

    /// Every process knows everything.
    fn look(&mut self) -> Vec<Finding> {
        self.auditor.look(&|_| true, &|_| true)
    }

    /// No process knows of what happened last.
    fn look_untold(&mut self) -> Vec<Finding> {
        self.auditor.look(&|_| false, &|_| true)
    }

    fn blocks(&self, budget: &str, pod: &str) -> bool {
        self.auditor.blocks(&self.budget(budget), &self.pod(pod), Operation::Evict)
    }
}

fn ready_pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn member(name: &str, group: &str) -> Value {
    with(ready_pod(name), "/spec", json!({"schedulingGroup": {"podGroupName": group}}))
}

fn lws_pod(set: &str, index: usize, name: &str, size: usize) -> Value {
    let lws = "leaderworkerset.sigs.k8s.io";
    let mut pod = ready_pod(name);
    pod["metadata"]["labels"] = json!({
        "app": "a", format!("{lws}/name"): set, format!("{lws}/group-index"): index.to_string(),
        format!("{lws}/group-key"): format!("{set}-{index}"),
    });
    pod["metadata"]["annotations"] = json!({format!("{lws}/size"): size.to_string()});
    pod
}

fn lws(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": {
            "workerTemplate": {"metadata": {"labels": {"app": "a"}}}}},
    })
}

fn gang(name: &str, min_count: i64) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "ownerReferences": [
            {"apiVersion": "example.com/v1", "kind": "Train", "name": "t", "uid": "t", "controller": true}]},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    })
}

/// A budget of replicas over all pods.
fn replicas(name: &str, thresholds: &Value) -> Value {
    let mut budget = pods(name, thresholds);
    budget["spec"]["budgetScope"] = json!("Workload");
    budget
}

/// A budget of single pods over all pods.
fn pods(name: &str, thresholds: &Value) -> Value {
    let mut budget = json!({
        "apiVersion": "policy.holdfast.dev/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name}, "spec": thresholds,
    });
    budget["spec"]["selector"] = json!({});
    budget
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
    let parent = object.pointer_mut(parent).expect("the parent exists");
    parent[field] = value;
    object
}

/// Groups `a`, `b`, ... of two pods that need both.
fn pairs(names: &[&str]) -> History {
    let mut history = History::default();
    for name in names {
        history.store(gang(name, 2));
        for n in 0..2 {
            history.store(member(&format!("{name}-{n}"), name));
        }
    }
    history
}
