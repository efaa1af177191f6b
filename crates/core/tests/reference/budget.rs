//! Semantics 5 and 8: a budget's numbers and conditions.

use holdfast_core::model::ConditionStatus::{False, True};
use holdfast_core::model::{Budget, ConditionStatus, Phase, Pod, Scope, Threshold};

use super::expected::{pods_by_controllers, replicas_by_sources};
use super::replica::{Replica, is_leaving, members, min_count, replica_of, workload_name};
use super::{Snapshot, is_valid};

/// A budget, worked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// In units: pods or replicas.
    pub healthy: i64,
    pub desired: i64,
    pub expected: i64,
    pub allowed: i64,
    /// In pods, whatever the unit.
    pub healthy_pods: i64,
    pub desired_pods: i64,
    pub expected_pods: i64,
    pub failure: Option<Failure>,
    /// Condition `DisruptionAllowed`.
    pub disruption_allowed: (ConditionStatus, &'static str),
    /// Condition `BudgetConfigured`; None where there must be none.
    pub budget_configured: Option<(ConditionStatus, &'static str)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Not computable at all: the numbers are those last written, with nothing allowed.
    Sync,
    /// Computable in part, and closed (semantics 6.4).
    Resolution,
}

pub fn evaluate(world: &Snapshot, budget: &Budget) -> Evaluation {
    let mut evaluation = match unit(world, budget) {
        Scope::Pod => count_pods(world, budget),
        Scope::Workload => count_replicas(world, budget),
    };
    if !world.config.multi_pod_pdbs && budget.spec.scope == Scope::Workload {
        evaluation.budget_configured = Some((False, "FeatureDisabled"));
    }
    if world.config.excluded_namespaces.contains(&budget.key.object.namespace) {
        evaluation.budget_configured = Some((False, "NotEnforced"));
    }
    evaluation
}

/// What the budget counts: with the feature gate off, always pods.
pub fn unit(world: &Snapshot, budget: &Budget) -> Scope {
    if world.config.multi_pod_pdbs { budget.spec.scope } else { Scope::Pod }
}

fn count_pods(world: &Snapshot, budget: &Budget) -> Evaluation {
    if has_invalid_spec(budget) {
        return sync_failed(budget, None);
    }
    let pods = world.selected(budget);
    let healthy = len(pods.iter().filter(|pod| is_healthy(world, budget, pod)));
    let is_count = matches!(budget.spec.min_available, Some(Threshold::Count(_)));
    let expected = match threshold(budget) {
        None => 0,
        // All selected pods, in every phase, as upstream 1.4.
        Some(_) if budget.spec.max_unavailable.is_none() && is_count => len(pods.iter()),
        Some(_) => match pods_by_controllers(world, &pods) {
            Ok(expected) => expected,
            Err(()) => return sync_failed(budget, None),
        },
    };
    let desired = desired(budget, expected);
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let disruption_allowed =
        if allowed > 0 { (True, "SufficientPods") } else { (False, "InsufficientPods") };
    Evaluation {
        healthy,
        desired,
        expected,
        allowed,
        healthy_pods: healthy,
        desired_pods: desired,
        expected_pods: expected,
        failure: None,
        disruption_allowed,
        budget_configured: None,
    }
}

fn count_replicas(world: &Snapshot, budget: &Budget) -> Evaluation {
    let configured = Some(configuration(world, budget));
    if has_invalid_spec(budget) {
        return sync_failed(budget, configured);
    }
    let namespace = budget.key.object.namespace.as_str();
    let pods = world.selected(budget);
    let replicas = replicas_with(world, &pods, |_| true);
    let unfinished = replicas_with(world, &pods, |pod| !pod.is_terminal());
    let alive = replicas_with(world, &pods, |pod| !pod.is_terminal() && !pod.terminating);

    let alive = len(alive.iter().filter(|replica| !is_leaving(world, namespace, replica)));
    let source = replicas_by_sources(world, budget, &unfinished);
    let is_needed = budget.spec.max_unavailable.is_some()
        || matches!(budget.spec.min_available, Some(Threshold::Percent(_)));
    let expected = match (threshold(budget), source) {
        (None, _) => 0,
        (Some(_), Some(source)) => source.max(alive),
        (Some(_), None) => alive,
    };
    let desired = desired(budget, expected);
    let healthy = len(replicas.iter().filter(|r| is_healthy_replica(world, budget, r)));

    let is_closed = (is_needed && source.is_none())
        || pods.iter().any(|pod| {
            pod.phase == Phase::Running
                && !pod.terminating
                && replica_of(world, pod).is_some_and(|r| min_count(world, budget, &r).is_none())
        });
    let allowed = if is_closed || expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let disruption_allowed = if is_closed {
        (False, "WorkloadResolutionFailed")
    } else if allowed > 0 {
        (True, "SufficientReplicas")
    } else {
        (False, "InsufficientReplicas")
    };
    Evaluation {
        healthy,
        desired,
        expected,
        allowed,
        healthy_pods: len(pods.iter().filter(|pod| is_healthy(world, budget, pod))),
        desired_pods: fewest_pods(world, budget, &replicas, desired, expected),
        expected_pods: len(pods.iter()),
        failure: is_closed.then_some(Failure::Resolution),
        disruption_allowed,
        budget_configured: configured,
    }
}

/// Upstream's failSafe: nothing is allowed and everything else stays as it was last written.
fn sync_failed(
    budget: &Budget,
    budget_configured: Option<(ConditionStatus, &'static str)>,
) -> Evaluation {
    let last = &budget.status;
    Evaluation {
        healthy: last.current_healthy_replicas,
        desired: last.desired_healthy_replicas,
        expected: last.expected_replicas,
        allowed: 0,
        healthy_pods: last.current_healthy,
        desired_pods: last.desired_healthy,
        expected_pods: last.expected_pods,
        failure: Some(Failure::Sync),
        disruption_allowed: (False, "SyncFailed"),
        budget_configured,
    }
}

fn has_invalid_spec(budget: &Budget) -> bool {
    budget.spec.selector.as_ref().is_some_and(|selector| !is_valid(selector))
        || matches!(threshold(budget), Some(Threshold::Invalid(_)))
}

/// maxUnavailable goes first, as upstream 1.5; both set never gets past validation.
fn threshold(budget: &Budget) -> Option<&Threshold> {
    budget.spec.max_unavailable.as_ref().or(budget.spec.min_available.as_ref())
}

fn desired(budget: &Budget, expected: i64) -> i64 {
    let of_expected = |threshold: &Threshold| match threshold {
        Threshold::Count(n) => *n,
        Threshold::Percent(percent) => (percent * expected + 99) / 100,
        Threshold::Invalid(text) => unreachable!("{text}: refused before"),
    };
    match (&budget.spec.max_unavailable, &budget.spec.min_available) {
        (Some(max), _) => (expected - of_expected(max)).max(0),
        (None, Some(min)) => of_expected(min),
        (None, None) => 0,
    }
}

/// Semantics 5. Scope Pod ignores the phase, as upstream does.
pub fn is_healthy(world: &Snapshot, budget: &Budget, pod: &Pod) -> bool {
    pod.ready
        && !pod.terminating
        && !world.granted_anywhere(pod)
        && (unit(world, budget) == Scope::Pod || pod.phase == Phase::Running)
}

pub fn is_healthy_replica(world: &Snapshot, budget: &Budget, replica: &Replica) -> bool {
    let needed = min_count(world, budget, replica);
    needed.is_some_and(|needed| healthy_selected(world, budget, replica) >= needed)
        && !is_leaving(world, &budget.key.object.namespace, replica)
}

pub fn healthy_selected(world: &Snapshot, budget: &Budget, replica: &Replica) -> i64 {
    let pods = members(world, &budget.key.object.namespace, replica);
    len(pods
        .into_iter()
        .filter(|pod| super::selects(budget, pod) && is_healthy(world, budget, pod)))
}

fn replicas_with(world: &Snapshot, pods: &[&Pod], keep: impl Fn(&Pod) -> bool) -> Vec<Replica> {
    let mut replicas = Vec::new();
    for pod in pods {
        if let Some(replica) = replica_of(world, pod)
            && keep(pod)
            && !replicas.contains(&replica)
        {
            replicas.push(replica);
        }
    }
    replicas
}

/// Semantics 2, `desiredHealthy`: the sum of the `desired` smallest minCounts, where replicas that
/// nobody knows are taken to be as small as the smallest known.
fn fewest_pods(
    world: &Snapshot,
    budget: &Budget,
    replicas: &[Replica],
    desired: i64,
    expected: i64,
) -> i64 {
    let mut counts: Vec<i64> = replicas
        .iter()
        .filter(|replica| !is_leaving(world, &budget.key.object.namespace, replica))
        .filter_map(|replica| min_count(world, budget, replica))
        .collect();
    let Some(smallest) = counts.iter().copied().min() else { return 0 };
    while len(counts.iter()) < expected.max(desired) {
        counts.push(smallest);
    }
    counts.sort_unstable();
    counts.iter().take(usize::try_from(desired).unwrap()).sum()
}

/// Semantics 8, `BudgetConfigured`, over all selected pods in every phase.
fn configuration(world: &Snapshot, budget: &Budget) -> (ConditionStatus, &'static str) {
    let pods = world.selected(budget);
    let is_resolved = |pod: &&Pod| {
        replica_of(world, pod).is_some_and(|replica| min_count(world, budget, &replica).is_some())
    };
    if !pods.iter().all(is_resolved) {
        return (False, "MissingWorkloadReference");
    }
    let mut workloads: Vec<String> = Vec::new();
    for replica in replicas_with(world, &pods, |_| true) {
        if let Some(name) = workload_name(world, &budget.key.object.namespace, &replica)
            && !workloads.contains(&name)
        {
            workloads.push(name);
        }
    }
    if workloads.len() > 1 { (False, "MultipleWorkloadsDetected") } else { (True, "ValidConfig") }
}

fn len(items: impl Iterator) -> i64 {
    i64::try_from(items.count()).unwrap()
}
