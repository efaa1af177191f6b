//! Objects for the tests of this module.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{
    BudgetId, BudgetKey, BudgetStatus, Grant, ObjectKey, Operation, Phase, Pod, ResourceVersion,
    Timestamp,
};

pub(super) const START: Timestamp = Timestamp::from_secs(1000);

pub(super) fn after(seconds: i64) -> Timestamp {
    Timestamp::from_secs(START.as_secs() + seconds)
}

pub(super) fn budget(name: &str) -> BudgetId {
    Arc::new(BudgetKey::pdb("n", name))
}

/// A grant by name that has just been recorded.
pub(super) fn grant(pod: &str, uid: &str, eviction: &str) -> Grant {
    Grant {
        pod: pod.to_owned(),
        uid: uid.to_owned(),
        replica: String::new(),
        cost: 1,
        requester: "drain".to_owned(),
        granted_at: START,
        eviction: eviction.to_owned(),
        budgets: vec!["b".to_owned()],
        operation: Operation::Evict,
        generation: 0,
        shared: false,
        age_seconds: 0,
        pinned: false,
        targeted_before: false,
    }
}

/// What an entry of `disruptedPods` that another program wrote becomes.
pub(super) fn foreign(pod: &str) -> Grant {
    Grant { requester: String::new(), budgets: Vec::new(), ..grant(pod, "", "") }
}

pub(super) fn status(grants: &[Grant]) -> BudgetStatus {
    BudgetStatus { grants: grants.to_vec(), ..BudgetStatus::default() }
}

/// A running pod that is Ready.
pub(super) fn pod(name: &str, uid: &str) -> Pod {
    Pod {
        key: ObjectKey::new("n", name),
        uid: uid.to_owned(),
        version: ResourceVersion::from(5),
        labels: BTreeMap::new(),
        controller: None,
        phase: Phase::Running,
        ready: true,
        terminating: false,
        disruption_target: None,
        reference: None,
        lws: None,
        generation: 0,
        settled: true,
        applied: true,
        no_protect: false,
        related: false,
    }
}
