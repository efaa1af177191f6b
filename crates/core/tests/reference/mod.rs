//! A second mind on the engine: what a budget's status and an eviction's verdict must be, written
//! straight from the ruling with plain loops over everything. It remembers nothing, saves no work and
//! shares no code with the engine beyond the model's types, so that the two can only agree by both
//! being right (or by both having misread the same sentence).
//!
//! Read it beside semantics 3 to 8, in this order: `replica` (3), `expected` (4), `budget` (5 and 8),
//! `verdict` (6).

mod absent;
mod budget;
mod expected;
mod replica;
mod verdict;

use std::collections::BTreeMap;

use holdfast_core::Config;
use holdfast_core::model::{
    Budget, BudgetKey, BuiltinBudget, GroupApi, GroupKind, LabelSelector, ObjectKey, Operator,
    Owner, Pod, PodGroup, Workload,
};

pub use absent::{may_forget, replacement};
pub use budget::{Evaluation, Failure, evaluate};
pub use expected::Scales;
pub use verdict::{Answer, answer};

/// Everything that is true at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub config: Config,
    pub pods: Vec<Pod>,
    pub budgets: Vec<Budget>,
    pub builtin: Vec<BuiltinBudget>,
    pub groups: Vec<PodGroup>,
    pub workloads: Vec<Workload>,
    pub owners: Vec<Owner>,
    pub scales: Scales,
    pub grants: Vec<LiveGrant>,
}

/// A grant that has not ended (semantics 5). `uid` is the pod that it makes unhealthy: the one it was
/// given for, or the successor that it passed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveGrant {
    pub budget: BudgetKey,
    pub uid: String,
    pub cost: i64,
}

impl Snapshot {
    pub fn pod(&self, key: &ObjectKey) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.key == *key)
    }

    pub fn budget(&self, key: &BudgetKey) -> Option<&Budget> {
        self.budgets.iter().find(|budget| budget.key == *key)
    }

    fn pods_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.iter().filter(move |pod| pod.key.namespace == namespace)
    }

    fn selected<'a>(&'a self, budget: &'a Budget) -> Vec<&'a Pod> {
        self.pods_in(&budget.key.object.namespace).filter(|pod| selects(budget, pod)).collect()
    }

    fn group(&self, api: GroupApi, namespace: &str, name: &str) -> Option<&PodGroup> {
        self.groups.iter().find(|group| {
            group.api == api && group.key.namespace == namespace && group.key.name == name
        })
    }

    fn workload(&self, api: GroupApi, namespace: &str, name: &str) -> Option<&Workload> {
        self.workloads.iter().find(|workload| {
            workload.api == api && workload.key.namespace == namespace && workload.key.name == name
        })
    }

    fn owner(&self, kind: &GroupKind, namespace: &str, name: &str) -> Option<&Owner> {
        self.owners.iter().find(|owner| {
            owner.group_kind == *kind && owner.key.namespace == namespace && owner.key.name == name
        })
    }

    /// Semantics 5: a grant in any budget takes the pod out of the healthy ones of every budget.
    fn granted_anywhere(&self, pod: &Pod) -> bool {
        self.grants.iter().any(|grant| grant.uid == pod.uid)
    }
}

pub fn selects(budget: &Budget, pod: &Pod) -> bool {
    budget.key.object.namespace == pod.key.namespace
        && budget.spec.selector.as_ref().is_some_and(|s| is_valid(s) && matches(s, pod))
}

/// What `LabelSelectorAsSelector` refuses, of the things that the API server lets through or that an
/// old object may still hold.
fn is_valid(selector: &LabelSelector) -> bool {
    selector.match_expressions.iter().all(|requirement| match requirement.operator {
        Operator::In | Operator::NotIn => !requirement.values.is_empty(),
        Operator::Exists | Operator::DoesNotExist => requirement.values.is_empty(),
        Operator::Other(_) => false,
    })
}

fn matches(selector: &LabelSelector, pod: &Pod) -> bool {
    matches_labels(selector, &pod.labels)
}

fn matches_labels(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    for (key, value) in &selector.match_labels {
        if labels.get(key) != Some(value) {
            return false;
        }
    }
    for requirement in &selector.match_expressions {
        let value = labels.get(&requirement.key);
        let listed = value.is_some_and(|value| requirement.values.contains(value));
        let holds = match requirement.operator {
            Operator::In => listed,
            Operator::NotIn => !listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Other(_) => false,
        };
        if !holds {
            return false;
        }
    }
    true
}
