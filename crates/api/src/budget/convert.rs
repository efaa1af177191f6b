//! Converts budgets to and from [`holdfast_core::model`].

use holdfast_core::model::{
    self, BasicMinCount, BudgetKey, BudgetKind, BudgetSpec, BudgetStatus, BuiltinBudget,
    ConditionStatus, Operation, ResourceVersion, Scope, Threshold, UnhealthyPolicy,
};
use serde::Serialize;

use super::{
    API_VERSION, Condition, Grant, KIND, PendingReplacement, PodDisruptionBudget,
    PodDisruptionBudgetSpec, PodDisruptionBudgetStatus,
};
use crate::meta::positive;
use crate::unavailable::{self, PodUnavailableBudgetStatus};

impl From<PodDisruptionBudget> for model::Budget {
    fn from(budget: PodDisruptionBudget) -> Self {
        let meta = budget.metadata;
        Self {
            key: BudgetKey { kind: BudgetKind::PodDisruptionBudget, object: meta.key() },
            version: meta.version(),
            generation: meta.generation,
            spec: spec(budget.spec, meta.annotations.basic_group_min_count),
            status: budget.status.into(),
            uid: meta.uid,
        }
    }
}

impl From<PodDisruptionBudget> for BuiltinBudget {
    fn from(budget: PodDisruptionBudget) -> Self {
        Self {
            key: budget.metadata.key(),
            version: budget.metadata.version(),
            generation: budget.metadata.generation,
            selector: budget.spec.selector.map(Into::into),
            unhealthy_policy: unhealthy(budget.spec.unhealthy_pod_eviction_policy.as_deref()),
            observed_generation: budget.status.observed_generation,
            disruptions_allowed: budget.status.disruptions_allowed,
            current_healthy: budget.status.current_healthy,
            desired_healthy: budget.status.desired_healthy,
            disrupted_pods: budget.status.disrupted_pods.len(),
        }
    }
}

fn spec(spec: PodDisruptionBudgetSpec, basic_min_count: Option<String>) -> BudgetSpec {
    let mut min_available = spec.min_available.as_ref().map(Threshold::from);
    let mut max_unavailable = spec.max_unavailable.as_ref().map(Threshold::from);
    let scope = match spec.budget_scope.as_deref() {
        None | Some("" | "Pod") => Scope::Pod,
        Some("Workload" | "PodGroup") => Scope::Workload,
        Some(other) => {
            // A later release may have other scopes. Holdfast cannot count their units, so the budget allows
            // nothing.
            let unknown = Threshold::Invalid(format!("unknown spec.budgetScope {other:?}"));
            min_available = Some(unknown);
            max_unavailable = None;
            Scope::Workload
        }
    };
    BudgetSpec {
        min_available,
        max_unavailable,
        selector: spec.selector.map(Into::into),
        unhealthy_policy: unhealthy(spec.unhealthy_pod_eviction_policy.as_deref()),
        scope,
        basic_min_count: match basic_min_count {
            None => BasicMinCount::Absent,
            Some(text) => {
                positive(&text).map_or(BasicMinCount::Unreadable(text), BasicMinCount::Count)
            }
        },
        unavailable: None,
    }
}

/// Takes any unknown value as the stricter policy, as the eviction handler of Kubernetes does.
fn unhealthy(policy: Option<&str>) -> UnhealthyPolicy {
    match policy {
        Some("AlwaysAllow") => UnhealthyPolicy::AlwaysAllow,
        _ => UnhealthyPolicy::IfHealthyBudget,
    }
}

impl From<PodDisruptionBudgetStatus> for BudgetStatus {
    fn from(status: PodDisruptionBudgetStatus) -> Self {
        Self {
            observed_generation: status.observed_generation,
            disrupted_pods: status.disrupted_pods.into_iter().map(|(p, t)| (p, t.into())).collect(),
            disruptions_allowed: status.disruptions_allowed,
            current_healthy: status.current_healthy,
            desired_healthy: status.desired_healthy,
            expected_pods: status.expected_pods,
            disruptions_allowed_replicas: status.disruptions_allowed_replicas,
            current_healthy_replicas: status.current_healthy_replicas,
            desired_healthy_replicas: status.desired_healthy_replicas,
            expected_replicas: status.expected_replicas,
            conditions: status.conditions.into_iter().map(Into::into).collect(),
            grants: status.grants.into_iter().map(Into::into).collect(),
            watermarks: (status.watermarks.into_iter())
                .map(|(kind, version)| (kind, version.as_str().into()))
                .collect(),
            pending_replacements: (status.pending_replacements.into_iter())
                .map(Into::into)
                .collect(),
        }
    }
}

impl From<&BudgetStatus> for PodDisruptionBudgetStatus {
    fn from(status: &BudgetStatus) -> Self {
        Self {
            observed_generation: status.observed_generation,
            disrupted_pods: (status.disrupted_pods.iter())
                .map(|(pod, time)| (pod.clone(), (*time).into()))
                .collect(),
            disruptions_allowed: status.disruptions_allowed,
            current_healthy: status.current_healthy,
            desired_healthy: status.desired_healthy,
            expected_pods: status.expected_pods,
            disruptions_allowed_replicas: status.disruptions_allowed_replicas,
            current_healthy_replicas: status.current_healthy_replicas,
            desired_healthy_replicas: status.desired_healthy_replicas,
            expected_replicas: status.expected_replicas,
            conditions: status.conditions.iter().map(Into::into).collect(),
            grants: status.grants.iter().map(Into::into).collect(),
            watermarks: (status.watermarks.iter())
                .map(|(kind, version)| (kind.clone(), version.to_string()))
                .collect(),
            pending_replacements: status.pending_replacements.iter().map(Into::into).collect(),
        }
    }
}

impl From<Condition> for model::Condition {
    fn from(condition: Condition) -> Self {
        Self {
            status: match condition.status.as_str() {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            },
            kind: condition.kind,
            reason: condition.reason,
            message: condition.message,
            observed_generation: condition.observed_generation,
            last_transition: condition.last_transition_time.into(),
        }
    }
}

impl From<&model::Condition> for Condition {
    fn from(condition: &model::Condition) -> Self {
        let status = match condition.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        Self {
            kind: condition.kind.clone(),
            status: status.to_owned(),
            observed_generation: condition.observed_generation,
            last_transition_time: condition.last_transition.into(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        }
    }
}

impl From<Grant> for model::Grant {
    fn from(grant: Grant) -> Self {
        Self {
            pod: grant.pod,
            uid: grant.uid,
            replica: grant.replica,
            cost: grant.cost,
            requester: grant.requester,
            granted_at: grant.time.into(),
            eviction: grant.eviction,
            budgets: grant.budgets,
            operation: Operation::from_name(&grant.operation).unwrap_or_default(),
            generation: grant.generation,
            shared: grant.shared,
            age_seconds: grant.age_seconds,
            pinned: grant.pinned,
            targeted_before: grant.targeted_before,
        }
    }
}

impl From<&model::Grant> for Grant {
    fn from(grant: &model::Grant) -> Self {
        Self {
            pod: grant.pod.clone(),
            uid: grant.uid.clone(),
            replica: grant.replica.clone(),
            cost: grant.cost,
            requester: grant.requester.clone(),
            time: grant.granted_at.into(),
            eviction: grant.eviction.clone(),
            budgets: grant.budgets.clone(),
            operation: match grant.operation {
                Operation::Evict => String::new(),
                operation => operation.name().to_owned(),
            },
            generation: grant.generation,
            shared: grant.shared,
            age_seconds: grant.age_seconds,
            pinned: grant.pinned,
            targeted_before: grant.targeted_before,
        }
    }
}

impl From<PendingReplacement> for model::PendingReplacement {
    fn from(pending: PendingReplacement) -> Self {
        Self {
            pod: pending.pod,
            uid: pending.uid,
            replica: pending.replica,
            size: pending.size,
            controller: pending.controller,
            sources: pending.sources,
            labels: pending.labels,
            age_seconds: pending.age_seconds,
        }
    }
}

impl From<&model::PendingReplacement> for PendingReplacement {
    fn from(pending: &model::PendingReplacement) -> Self {
        Self {
            pod: pending.pod.clone(),
            uid: pending.uid.clone(),
            replica: pending.replica.clone(),
            size: pending.size,
            controller: pending.controller.clone(),
            sources: pending.sources.clone(),
            labels: pending.labels.clone(),
            age_seconds: pending.age_seconds,
        }
    }
}

/// The body of `PUT .../<budgets>/<name>/status`, for both kinds of budgets. The API server takes only the
/// status from it. uid and resourceVersion are the preconditions of the compare-and-swap.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdate<'a> {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub metadata: StatusUpdateMeta<'a>,
    pub status: StatusBody,
}

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum StatusBody {
    Disruption(PodDisruptionBudgetStatus),
    Unavailable(PodUnavailableBudgetStatus),
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdateMeta<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub resource_version: String,
}

impl<'a> StatusUpdate<'a> {
    pub fn new(
        budget: &'a BudgetKey,
        uid: &'a str,
        version: &ResourceVersion,
        status: &BudgetStatus,
    ) -> Self {
        let (api_version, kind, status) = match budget.kind {
            BudgetKind::PodDisruptionBudget => {
                (API_VERSION, KIND, StatusBody::Disruption(status.into()))
            }
            BudgetKind::PodUnavailableBudget => (
                unavailable::API_VERSION,
                unavailable::KIND,
                StatusBody::Unavailable(status.into()),
            ),
        };
        Self {
            api_version,
            kind,
            metadata: StatusUpdateMeta {
                namespace: &budget.object.namespace,
                name: &budget.object.name,
                uid,
                resource_version: version.to_string(),
            },
            status,
        }
    }
}
