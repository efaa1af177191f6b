//! KEP-5682's job of ten replicas of eight pods, in the shape of its draft, from JSON to a verdict.
//!
//! This is not an end-to-end test, because no API server keeps these pod fields any more: 1.37 drops them.

use holdfast_api::decode::{Decoded, decode};
use holdfast_core::io::{Change, Command, Input, Kind, SnapshotOutcome, WriteOutcome};
use holdfast_core::model::{
    Budget, BudgetStatus, GroupApi, ObjectKey, Operation, Pod, ResourceVersion, Timestamp,
};
use holdfast_core::verdict::{DenyReason, Verdict};
use holdfast_core::{Config, Engine, Eviction};
use serde_json::{Value, json};

const WORKLOADS: Kind = Kind::Workload(GroupApi::Kubernetes);

/// Eighty pods that name only their pod group could be one replica or eighty, so none may be evicted.
#[test]
fn without_replica_keys_the_job_fails_closed() {
    let (verdict, status) = evict_one_of(|_| json!({"workload": {"name": "w", "podGroup": "t"}}));
    let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
    assert_eq!(denial.reason, DenyReason::FailedClosed, "{denial:#?}");
    assert_eq!(reason(&status, "DisruptionAllowed"), "WorkloadResolutionFailed");
    assert_eq!(reason(&status, "BudgetConfigured"), "MissingWorkloadReference");
    assert_eq!(status.disruptions_allowed, 0);
    assert_eq!(status.expected_pods, 80);
}

/// The same job with the keys of 1.35: ten replicas, of which one may be missing.
#[test]
fn with_replica_keys_it_counts_ten_replicas() {
    let (verdict, status) = evict_one_of(|replica| {
        let key = replica.to_string();
        json!({"workloadRef": {"name": "w", "podGroup": "t", "podGroupReplicaKey": key}})
    });
    assert!(verdict.is_allow(), "{verdict:?}");
    assert_eq!(status.expected_replicas, 10);
    assert_eq!(status.current_healthy_replicas, 9, "the granted one is gone");
    assert_eq!(status.disruptions_allowed, 0);
}

/// Returns the answer for the first pod, and the budget's last status.
fn evict_one_of(reference: impl Fn(usize) -> Value) -> (Verdict, BudgetStatus) {
    let mut cluster = Cluster {
        engine: Engine::new(Config::default()),
        now: 1000,
        budget: None,
        pods: Vec::new(),
    };
    for kind in Config::default().kinds {
        cluster.tell(Input::NotServed(kind));
    }
    cluster.apply(
        &WORKLOADS,
        "w",
        &json!({"spec": {"podGroups": [
        {"name": "t", "replicas": 10, "policy": {"gang": {"minCount": 8}}}]}}),
    );
    for n in 0..80 {
        let status =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        cluster.apply(
            &Kind::Pod,
            &format!("p{n}"),
            &json!({"spec": reference(n / 8), "status": status}),
        );
    }
    cluster.apply(
        &Kind::Budget,
        "b",
        &json!({"spec":
        {"minAvailable": 9, "budgetScope": "Workload", "selector": {}}}),
    );
    let deadline = cluster.time() + std::time::Duration::from_secs(9);
    let verdict = cluster.tell(Input::Evict(Eviction {
        id: "e".into(),
        pod: ObjectKey::new("n", "p0"),
        uid: None,
        requester: "drainer".into(),
        dry_run: false,
        operation: Operation::Evict,
        object: None,
        generation: 0,
        exempt: false,
        by_name: false,
        deadline,
    }));
    let status = cluster.budget.map(|budget| budget.status).unwrap_or_default();
    (verdict.expect("it is answered"), status)
}

/// The parts of an API server that the engine needs here. It accepts every status.
struct Cluster {
    engine: Engine,
    now: i64,
    budget: Option<Budget>,
    pods: Vec<Pod>,
}

impl Cluster {
    fn apply(&mut self, kind: &Kind, name: &str, object: &Value) {
        let mut object = object.clone();
        object["metadata"] = json!({"namespace": "n", "name": name, "uid": name,
            "resourceVersion": self.now.to_string(), "generation": 1});
        let decoded = decode(kind, object.to_string().as_bytes()).expect("it can be read");
        match &decoded {
            Decoded::Budget(budget) => self.budget = Some(budget.clone()),
            Decoded::Pod(pod) => self.pods.push(pod.clone()),
            _ => {}
        }
        self.tell(decoded.applied());
    }

    fn tell(&mut self, input: Input) -> Option<Verdict> {
        let mut answer = None;
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.now += 1;
            self.engine.handle(self.time(), input);
            while let Some(command) = self.engine.poll() {
                match command {
                    Command::Reply { verdict, .. } => answer = Some(verdict),
                    Command::WriteStatus { budget, uid, status, .. } => {
                        let stored = self.budget.as_mut().expect("it writes what it was given");
                        stored.status = std::sync::Arc::unwrap_or_clone(status);
                        stored.version = ResourceVersion::from(self.now.to_string().as_str());
                        let outcome = WriteOutcome::Current(Box::new(stored.clone()));
                        inputs.push(Input::StatusWritten { budget, uid, outcome });
                    }
                    Command::ListNamespace { kind, namespace } => {
                        let version = ResourceVersion::from(self.now.to_string().as_str());
                        let objects = self.listed(&kind);
                        let outcome = SnapshotOutcome::Listed { version, objects };
                        inputs.push(Input::Snapshot { kind, namespace, outcome });
                    }
                    _ => {}
                }
            }
        }
        answer
    }

    fn listed(&self, kind: &Kind) -> Vec<Input> {
        if *kind == Kind::Pod {
            return self.pods.iter().map(|p| Input::Pod(Change::Applied(p.clone()))).collect();
        }
        let budgets = self.budget.iter().filter(|b| b.key.kind.watched() == *kind);
        budgets.map(|b| Input::Budget(Change::Applied(b.clone()))).collect()
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_secs(self.now)
    }
}

fn reason(status: &BudgetStatus, kind: &str) -> String {
    let found = status.conditions.iter().find(|condition| condition.kind == kind);
    found.map(|condition| condition.reason.clone()).unwrap_or_default()
}
