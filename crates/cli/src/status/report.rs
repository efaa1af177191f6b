//! What `-o json` has: fields are added, never changed.

use holdfast_core::model::{ConditionStatus, Grant, ObjectKey, Timestamp};
use holdfast_core::view::{BudgetView, PodView, ReplicaState, ReplicaView};
use serde::Serialize;

use crate::ask::{Cluster, Given, Selector, kind_name, natural, threshold};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub schema_version: u32,
    pub budgets: Vec<BudgetReport>,
    /// Objects that cannot be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
    #[serde(skip)]
    pub now: Timestamp,
}

/// That time has passed is no change.
impl PartialEq for Report {
    fn eq(&self, other: &Self) -> bool {
        self.budgets == other.budgets && self.unreadable == other.unreadable
    }
}

/// Numbers are in the budget's unit.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetReport {
    pub api_version: String,
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub threshold: String,
    pub unit: &'static str,
    pub desired: i64,
    pub healthy: i64,
    pub expected: i64,
    pub disruptions_allowed: i64,
    /// Why it allows nothing, whatever the numbers say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    pub can_never_allow: bool,
    pub conditions: Vec<ConditionReport>,
    pub grants: Vec<GrantReport>,
    pub replicas: Vec<ReplicaReport>,
    /// Those that are counted one by one.
    pub pods: Vec<PodReport>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionReport {
    pub r#type: String,
    pub status: &'static str,
    pub reason: String,
    pub message: String,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantReport {
    pub pod: String,
    pub by: String,
    pub replica: String,
    pub cost: i64,
    pub granted_at: String,
    #[serde(skip)]
    pub since: Timestamp,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaReport {
    pub name: String,
    pub state: &'static str,
    /// Why it cannot be resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Healthy pods that it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<i64>,
    pub healthy: i64,
    pub pods: Vec<PodReport>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub state: String,
    pub healthy: bool,
    /// Its disruption is granted.
    pub granted: bool,
}

impl Report {
    pub fn of(cluster: &Cluster, name: Option<&str>, selector: Option<&Selector>) -> Self {
        let is_asked = |given: &&Given| {
            name.is_none_or(|name| is_named(given, name))
                && selector.is_none_or(|selector| selector.matches(&given.labels))
        };
        let budgets = cluster.budgets().filter(is_asked);
        let budgets = budgets.filter_map(|given| {
            let view = cluster.view(&given.budget.key)?;
            Some(BudgetReport::of(cluster, given, view))
        });
        Self {
            schema_version: 1,
            budgets: budgets.collect(),
            unreadable: cluster.unreadable.clone(),
            now: cluster.now(),
        }
    }

    pub fn names(&self) -> Vec<String> {
        let name = |b: &BudgetReport| format!("{}/{}", b.kind.to_ascii_lowercase(), b.name);
        self.budgets.iter().map(name).collect()
    }
}

/// `llama`, `pdb/llama`, `podunavailablebudget/llama`.
fn is_named(given: &Given, name: &str) -> bool {
    let key = &given.budget.key;
    let (kind, name) = name.split_once('/').unwrap_or(("", name));
    let kinds = [kind_name(key), key.kind.short()];
    let is_kind = kind.is_empty() || kinds.iter().any(|known| known.eq_ignore_ascii_case(kind));
    // A namesake of another API says so in its name.
    is_kind && key.object.name.split(' ').next() == Some(name)
}

impl BudgetReport {
    fn of(cluster: &Cluster, given: &Given, mut view: BudgetView) -> Self {
        view.replicas.sort_by_cached_key(|replica| natural(&replica.label));
        let namespace = &view.key.object.namespace;
        let pod = |pod: &PodView| {
            let facts = cluster.facts(&ObjectKey::new(namespace, &pod.name));
            PodReport {
                name: pod.name.clone(),
                node: facts.node,
                state: facts.state,
                healthy: pod.healthy,
                granted: pod.granted,
            }
        };
        let replica = |replica: &ReplicaView| ReplicaReport {
            name: replica.label.clone(),
            state: replica.state.name(),
            why: match &replica.state {
                ReplicaState::Unresolved(why) => Some(why.clone()),
                _ => None,
            },
            needs: replica.min,
            healthy: replica.healthy_pods,
            pods: replica.pods.iter().map(pod).collect(),
        };
        let conditions = view.status.conditions.iter().map(|condition| ConditionReport {
            r#type: condition.kind.clone(),
            status: match condition.status {
                ConditionStatus::True => "True",
                ConditionStatus::False => "False",
                ConditionStatus::Unknown => "Unknown",
            },
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        });
        Self {
            api_version: given.api_version.clone(),
            kind: kind_name(&view.key),
            namespace: namespace.clone(),
            name: view.key.object.name.clone(),
            threshold: threshold(&view.spec),
            unit: view.unit.name(),
            desired: view.desired,
            healthy: view.healthy,
            expected: view.expected,
            disruptions_allowed: view.allowed,
            can_never_allow: view.never.is_some(),
            conditions: conditions.collect(),
            grants: view.grants.iter().map(GrantReport::of).collect(),
            replicas: view.replicas.iter().map(replica).collect(),
            pods: view.pods.iter().map(pod).collect(),
            failure: view.failure,
        }
    }

    /// What is wrong with it: the reasons of conditions that are not as they should be.
    pub fn troubles(&self) -> Vec<&str> {
        let bad = self.conditions.iter().filter(|condition| condition.status == "False");
        bad.map(|condition| condition.reason.as_str()).collect()
    }
}

impl GrantReport {
    fn of(grant: &Grant) -> Self {
        Self {
            pod: grant.pod.clone(),
            by: grant.requester.clone(),
            replica: grant.replica.clone(),
            cost: grant.cost,
            granted_at: holdfast_api::time::format(grant.granted_at),
            since: grant.granted_at,
        }
    }
}
