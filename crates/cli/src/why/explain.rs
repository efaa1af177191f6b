//! What would unblock a pod, for one of the budgets that say no.

use std::time::Duration;

use holdfast_core::model::{Budget, Grant, ObjectKey, Threshold};
use holdfast_core::verdict::DenyReason;
use holdfast_core::view::{Answer, BudgetView, OpinionView, PodView, ReplicaState, Unit};

use super::answer::{Broken, BrokenPod, Unblock};
use crate::ask::{Cluster, threshold};

/// A grant whose pod is not deleted ends after so long (docs/semantics.md 5).
const GRANT_EXPIRES: Duration = Duration::from_mins(2);

pub fn ways_out(cluster: &mut Cluster, pod: &ObjectKey, opinion: &OpinionView) -> Vec<Unblock> {
    let Answer::Deny { reason, missing, .. } = &opinion.answer else { return Vec::new() };
    let Some(view) = cluster.view(&opinion.budget) else { return Vec::new() };
    let name = view.key.object.name.clone();
    if matches!(reason, DenyReason::FailedClosed | DenyReason::MissingReference) {
        let what = view.failure.clone().unwrap_or_else(|| {
            "give the pod spec.schedulingGroup.podGroupName or annotation holdfast.dev/pod-group"
                .to_owned()
        });
        return vec![Unblock::Mend { budget: name, what }];
    }
    let mut ways = Vec::new();
    if let Some(missing) = missing.filter(|_| view.never.is_none()) {
        let units = broken(cluster, &view);
        ways.push(Unblock::Recover {
            budget: name.clone(),
            unit: view.unit.name(),
            missing,
            units,
        });
    }
    let expiry = |grant: &Grant| {
        let age = cluster.now().since(grant.granted_at);
        Unblock::Grant {
            budget: name.clone(),
            pod: grant.pod.clone(),
            by: grant.requester.clone(),
            granted_at: holdfast_api::time::format(grant.granted_at),
            expires_in_seconds: GRANT_EXPIRES.saturating_sub(age).as_secs(),
        }
    };
    ways.extend(view.grants.iter().map(expiry));
    ways.extend(lower(cluster, pod, &view));
    ways
}

/// Units that are not healthy and may become so.
fn broken(cluster: &Cluster, view: &BudgetView) -> Vec<Broken> {
    let namespace = &view.key.object.namespace;
    let describe = |pod: &PodView| {
        let facts = cluster.facts(&ObjectKey::new(namespace, &pod.name));
        let state = if pod.granted {
            format!("{}, and its eviction is granted", facts.state)
        } else {
            facts.state
        };
        BrokenPod { name: pod.name.clone(), node: facts.node, state }
    };
    if view.unit == Unit::Pod {
        let unhealthy = view.pods.iter().filter(|pod| !pod.healthy);
        return unhealthy
            .map(|pod| Broken {
                name: pod.name.clone(),
                needs: None,
                healthy: 0,
                pods: vec![describe(pod)],
            })
            .collect();
    }
    let replicas = view.replicas.iter().filter(|replica| replica.state == ReplicaState::Broken);
    replicas
        .map(|replica| Broken {
            name: replica.label.clone(),
            needs: replica.min,
            healthy: replica.healthy_pods,
            pods: replica.pods.iter().filter(|pod| !pod.healthy).map(describe).collect(),
        })
        .collect()
}

/// The threshold nearest to the one in force that allows it, tried on the engine.
fn lower(cluster: &mut Cluster, pod: &ObjectKey, view: &BudgetView) -> Option<Unblock> {
    let before = cluster.budget(&view.key)?.clone();
    // A pod that breaks nothing needs no unit to spare.
    for desired in [view.healthy, view.healthy - 1] {
        let Some(budget) = needing(&before, desired, view.expected) else { continue };
        let instead = threshold(&budget.spec);
        let allows = cluster.what_if(budget, |cluster| {
            let (opinions, _) = cluster.opinions(pod);
            let own = opinions.into_iter().find(|opinion| opinion.budget == view.key);
            own.is_some_and(|own| !matches!(own.answer, Answer::Deny { .. }))
        });
        if allows {
            let (budget, now) = (view.key.object.name.clone(), threshold(&view.spec));
            return Some(Unblock::Threshold { budget, now, instead });
        }
    }
    None
}

/// The budget with its own threshold set so that it needs so many.
fn needing(budget: &Budget, desired: i64, expected: i64) -> Option<Budget> {
    let mut budget = budget.clone();
    let spec = &mut budget.spec;
    if desired < 0 || expected < desired {
        return None;
    }
    match (&mut spec.min_available, &mut spec.max_unavailable) {
        (min, Some(max)) => {
            *max = Threshold::Count(expected - desired);
            if let Some(min) = min {
                *min = Threshold::Count(desired);
            }
        }
        (Some(min), None) => *min = Threshold::Count(desired),
        (None, None) => return None,
    }
    Some(budget)
}
