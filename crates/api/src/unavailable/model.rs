//! Converts `PodUnavailableBudget`s to and from [`holdfast_core::model`].

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::model::{
    self, BudgetKey, BudgetKind, BudgetSpec, BudgetStatus, GroupKind, LabelGroups, Operation,
    Scope, Target, Threshold, UnavailableSpec,
};

use super::{
    PodUnavailableBudget, PodUnavailableBudgetSpec, PodUnavailableBudgetStatus, TargetReference,
    annotation, convert,
};
use crate::budget::LabelSelector;
use crate::meta::Annotations;
use crate::time::Time;

impl From<PodUnavailableBudget> for model::Budget {
    fn from(budget: PodUnavailableBudget) -> Self {
        let meta = budget.metadata;
        Self {
            key: BudgetKey { kind: BudgetKind::PodUnavailableBudget, object: meta.key() },
            version: meta.version(),
            generation: meta.generation,
            spec: spec(budget.spec, &meta.annotations),
            status: budget.status.into(),
            uid: meta.uid,
        }
    }
}

fn spec(spec: PodUnavailableBudgetSpec, annotations: &Annotations) -> BudgetSpec {
    let mut min_available = spec.min_available.as_ref().map(Threshold::from);
    let mut max_unavailable = spec.max_unavailable.as_ref().map(Threshold::from);
    let unavailable = match unavailable(&spec, annotations) {
        Ok(unavailable) => unavailable,
        Err(why) => {
            // The protected operations are unknown, so the budget protects from all of them and allows
            // nothing.
            min_available = Some(Threshold::Invalid(why));
            max_unavailable = None;
            UnavailableSpec {
                target: spec.target_ref.as_ref().map(Into::into),
                ..UnavailableSpec::default()
            }
        }
    };
    BudgetSpec {
        min_available,
        max_unavailable,
        selector: spec.selector.filter(|_| spec.target_ref.is_none()).and_then(not_empty),
        // The unit does not depend on whether the other fields can be read.
        scope: if spec.pod_group_policy.is_some() { Scope::Workload } else { Scope::Pod },
        unavailable: Some(Box::new(unavailable)),
        ..BudgetSpec::default()
    }
}

fn unavailable(
    spec: &PodUnavailableBudgetSpec,
    annotations: &Annotations,
) -> Result<UnavailableSpec, String> {
    if let Some(text) = &annotations.beta_fields {
        convert::carried(text)?;
    }
    let groups = match &spec.pod_group_policy {
        None => None,
        Some(policy) if policy.group_label_key.is_empty() => {
            return Err("podGroupPolicy.groupLabelKey is required".to_owned());
        }
        Some(policy) => Some(LabelGroups {
            label: policy.group_label_key.clone(),
            min_ready: at_least_one(
                "spec.podGroupPolicy.minReadyReplicas",
                policy.min_ready_replicas.unwrap_or(1),
            )?,
        }),
    };
    Ok(UnavailableSpec {
        target: spec.target_ref.as_ref().map(Into::into),
        operations: operations(spec, annotations)?,
        total: total(spec, annotations)?,
        ignored: spec.ignored_pod_selector.clone().and_then(not_empty),
        groups,
    })
}

fn operations(
    spec: &PodUnavailableBudgetSpec,
    annotations: &Annotations,
) -> Result<BTreeSet<Operation>, String> {
    let mut listed: BTreeSet<_> = (spec.protect_operations.iter())
        .map(|name| {
            Operation::from_name(name)
                .ok_or_else(|| format!("unknown spec.protectOperations {name:?}"))
        })
        .collect::<Result<_, _>>()?;
    if let (true, Some(text)) = (listed.is_empty(), &annotations.protect_operations) {
        listed.extend(annotation::operations(text)?);
    }
    if listed.is_empty() {
        return Ok(UnavailableSpec::default().operations);
    }
    // When most of these lists were written, a resize was an update.
    if listed.contains(&Operation::Update) {
        listed.insert(Operation::Resize);
    }
    Ok(listed)
}

fn total(
    spec: &PodUnavailableBudgetSpec,
    annotations: &Annotations,
) -> Result<Option<i64>, String> {
    match (spec.protect_total_replicas, &annotations.protect_total_replicas) {
        (Some(total), _) => at_least_one("spec.protectTotalReplicas", total).map(Some),
        (None, Some(text)) => {
            let total = annotation::total_replicas(text)?;
            at_least_one(annotation::PROTECT_TOTAL_REPLICAS, total).map(Some)
        }
        (None, None) => Ok(None),
    }
}

fn at_least_one(field: &str, n: i64) -> Result<i64, String> {
    if n < 1 {
        return Err(format!("{field} is {n} and must be at least 1"));
    }
    Ok(n)
}

/// In Kruise, the empty selector selects nothing.
fn not_empty(selector: LabelSelector) -> Option<model::LabelSelector> {
    (selector != LabelSelector::default()).then(|| selector.into())
}

impl From<&TargetReference> for Target {
    fn from(target: &TargetReference) -> Self {
        let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
        Self { group_kind: GroupKind::new(group, &target.kind), name: target.name.clone() }
    }
}

impl From<PodUnavailableBudgetStatus> for BudgetStatus {
    fn from(status: PodUnavailableBudgetStatus) -> Self {
        let mut disrupted_pods = BTreeMap::new();
        for (pod, time) in status.disrupted_pods.into_iter().chain(status.unavailable_pods) {
            let latest = disrupted_pods.entry(pod).or_insert(time.0);
            *latest = time.0.max(*latest);
        }
        Self {
            observed_generation: status.observed_generation,
            disrupted_pods,
            disruptions_allowed: status.unavailable_allowed,
            current_healthy: status.current_available,
            desired_healthy: status.desired_available,
            expected_pods: status.total_replicas,
            disruptions_allowed_replicas: status.unavailable_allowed,
            current_healthy_replicas: status.current_available,
            desired_healthy_replicas: status.desired_available,
            expected_replicas: status.total_replicas,
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

impl From<&BudgetStatus> for PodUnavailableBudgetStatus {
    fn from(status: &BudgetStatus) -> Self {
        let pods_of = |keeps: bool| -> BTreeSet<&str> {
            let grants = status.grants.iter().filter(|grant| grant.operation.keeps_pod() == keeps);
            grants.map(|grant| grant.pod.as_str()).collect()
        };
        let (staying, going) = (pods_of(true), pods_of(false));
        let map = |belongs: &dyn Fn(&str) -> bool| -> BTreeMap<String, Time> {
            let pods = status.disrupted_pods.iter().filter(|(pod, _)| belongs(pod));
            pods.map(|(pod, time)| (pod.clone(), (*time).into())).collect()
        };
        Self {
            observed_generation: status.observed_generation,
            disrupted_pods: map(&|pod| going.contains(pod) || !staying.contains(pod)),
            unavailable_pods: map(&|pod| staying.contains(pod)),
            unavailable_allowed: status.disruptions_allowed,
            current_available: status.current_healthy_replicas,
            desired_available: status.desired_healthy_replicas,
            total_replicas: status.expected_replicas,
            conditions: status.conditions.iter().map(Into::into).collect(),
            grants: status.grants.iter().map(Into::into).collect(),
            watermarks: (status.watermarks.iter())
                .map(|(kind, version)| (kind.clone(), version.to_string()))
                .collect(),
            pending_replacements: status.pending_replacements.iter().map(Into::into).collect(),
        }
    }
}
