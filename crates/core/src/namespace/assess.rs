//! May this pod be evicted, as far as this budget goes? (semantics 6, upstream 2.1)

use super::Namespace;
use super::budgets::BudgetEntry;
use super::evaluate::{Evaluation, Failure};
use crate::cache::PodEntry;
use crate::grants::LiveGrant;
use crate::model::{BuiltinBudget, Grant, Operation, Scope, UnhealthyPolicy};
use crate::replicas::Replica;
use crate::verdict::DenyReason;

/// One budget's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Opinion {
    /// It needs a grant of this cost.
    Allow {
        cost: i64,
        basis: Basis,
    },
    /// The pod holds a grant already; it is renewed.
    Renew {
        cost: i64,
        basis: Basis,
    },
    /// It has nothing against it, and nothing needs recording.
    Pass,
    Deny(Objection),
}

/// Why an eviction is allowed although the numbers may not permit it. A late cache may show a pod or a group as worse than
/// it is. So Holdfast checks the newest state before it allows an eviction for such a reason (semantics 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Basis {
    /// The pod itself is not healthy.
    pub(super) pod: bool,
    /// Pods of its group are not healthy.
    pub(super) group: bool,
}

impl Basis {
    /// The budget has room, whatever the pod is like.
    pub(super) const ROOM: Self = Self { pod: false, group: false };
    pub(super) const POD: Self = Self { pod: true, group: false };
    pub(super) const GROUP: Self = Self { pod: false, group: true };

    pub(super) fn and(self, other: Self) -> Self {
        Self { pod: self.pod || other.pod, group: self.group || other.group }
    }
}

/// Why a budget says no, with everything that the explanation needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Objection {
    pub(super) reason: DenyReason,
    pub(super) evaluation: Evaluation,
    /// The replica that would break, or that is broken: minCount and healthy pods.
    pub(super) replica: Option<ReplicaState>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplicaState {
    pub(super) label: String,
    pub(super) min: i64,
    pub(super) healthy_pods: i64,
    pub(super) selected_pods: i64,
    pub(super) healthy: bool,
}

impl Namespace {
    /// The rules, in their order. The pod's own grants in other budgets are left out of the
    /// account: they stand for this very disruption, which must not be charged twice.
    pub(super) fn assess(
        &self,
        budget: &BudgetEntry,
        pod: &PodEntry,
        operation: Operation,
        exempt: bool,
    ) -> Opinion {
        if budget.unreadable.is_some() {
            return self.assess_unreadable(budget, pod, operation, exempt);
        }
        let by_name = |g: &Grant| *g.pod == *pod.name;
        if planted!(GrantByName) && budget.object.status.grants.iter().any(by_name) {
            return Opinion::Renew { cost: 0, basis: Basis::ROOM };
        }
        let held = self.grants.ledger(&budget.id).get(&pod.name, &pod.pod.uid.to_string());
        let held = held.map(LiveGrant::grant).filter(|grant| grant.stands_for(operation));
        match (held, self.assess_without_grant(budget, pod, operation, exempt)) {
            (Some(grant), Opinion::Allow { cost, basis }) => {
                Opinion::Renew { cost: cost.max(grant.cost), basis }
            }
            (Some(grant), Opinion::Pass) => Opinion::Renew { cost: grant.cost, basis: Basis::ROOM },
            (_, opinion) => opinion,
        }
    }

    /// As if the pod held no grant, in this budget or in others. A grant may be older than the last edit of its budget,
    /// and than losses that no grant caused, so holding one is no reason to allow.
    fn assess_without_grant(
        &self,
        budget: &BudgetEntry,
        pod: &PodEntry,
        operation: Operation,
        exempt: bool,
    ) -> Opinion {
        if let Some(spec) = &budget.object.spec.unavailable {
            return self.assess_available(budget, spec, pod, operation, exempt);
        }
        let mut evaluation = self.evaluate(budget);
        let not_ready = !pod.pod.ready;
        let always = budget.object.spec.unhealthy_policy == UnhealthyPolicy::AlwaysAllow;
        if evaluation.failure == Some(Failure::Processing) {
            return deny(DenyReason::BeingProcessed, evaluation, None);
        }
        if not_ready && always {
            return Opinion::Allow { cost: 0, basis: Basis::POD };
        }
        if evaluation.scope == Scope::Workload && pod.replica.is_none() {
            return deny(DenyReason::MissingReference, evaluation, None);
        }
        if evaluation.failure.is_some() && !planted!(FailOpen) {
            return deny(DenyReason::FailedClosed, evaluation, None);
        }
        let sound = pod.is_sound(budget.health());
        // Sound but granted elsewhere: counted as unhealthy; put it back for this decision.
        let put_back = i64::from(sound && pod.granted > 0);
        match evaluation.scope {
            Scope::Pod => {
                evaluation.change_healthy(put_back);
                assess_pod(evaluation, not_ready)
            }
            Scope::Workload => {
                assess_replica(budget, pod, evaluation, sound, put_back, always, self)
            }
        }
    }

    /// A budget that cannot be read denies every eviction. Other operations that it would let go need no record,
    /// because nothing can be written to it.
    fn assess_unreadable(
        &self,
        budget: &BudgetEntry,
        pod: &PodEntry,
        operation: Operation,
        exempt: bool,
    ) -> Opinion {
        let spec = budget.object.spec.unavailable.as_ref();
        match spec.filter(|_| operation != Operation::Evict) {
            Some(spec) => match self.assess_available(budget, spec, pod, operation, exempt) {
                Opinion::Allow { .. } | Opinion::Renew { .. } => Opinion::Pass,
                opinion => opinion,
            },
            None => deny(DenyReason::FailedClosed, self.evaluate(budget), None),
        }
    }

    /// Pods of the pod's replica that would be healthy if nothing were granted.
    fn sound_pods(&self, budget: &BudgetEntry, pod: &PodEntry) -> i64 {
        let replica = pod.replica.as_ref().and_then(|key| self.replicas.get(key));
        let names = replica.into_iter().flat_map(Replica::names);
        let sound = names
            .filter_map(|name| self.cache.pod(name))
            .filter(|entry| entry.budgets.contains(&budget.id) && entry.is_sound(budget.health()));
        i64::try_from(sound.count()).unwrap_or(i64::MAX)
    }

    /// What the built-in eviction handler behind us would refuse (upstream 2.1 steps 8 to 10).
    pub(super) fn builtin_objection(&self, pod: &PodEntry) -> Option<String> {
        let covering: Vec<&BuiltinBudget> = self.cache.builtins_of(pod).collect();
        let [b] = covering[..] else {
            let mut names: Vec<&str> = covering.iter().map(|b| b.key.name.as_str()).collect();
            names.sort_unstable();
            return (!names.is_empty()).then(|| {
                format!(
                    "{} built-in policy/v1 budgets select this pod ({}), and the API server evicts no pod that has \
                     more than one; keep one of them",
                    names.len(),
                    names.join(", ")
                )
            });
        };
        let name = &b.key.name;
        if !pod.pod.ready {
            let healthy_budget = b.current_healthy >= b.desired_healthy && b.desired_healthy > 0;
            if b.unhealthy_policy == UnhealthyPolicy::AlwaysAllow || healthy_budget {
                return None;
            }
        }
        if b.observed_generation < b.generation {
            return Some(format!("the built-in policy/v1 budget {name} is still being processed"));
        }
        // The handler's own bound (upstream 2): MaxDisruptedPodSize.
        if b.disrupted_pods > 2000 {
            return Some(format!(
                "the built-in policy/v1 budget {name} has too many evictions in flight"
            ));
        }
        (b.disruptions_allowed <= 0).then(|| {
            format!(
                "the built-in policy/v1 budget {name} needs {} healthy pods and has {}, so the API server would \
                 refuse the eviction",
                b.desired_healthy, b.current_healthy
            )
        })
    }
}

impl Evaluation {
    pub(super) fn change_healthy(&mut self, by: i64) {
        self.healthy += by;
        self.allowed = if self.expected <= 0 { 0 } else { (self.healthy - self.desired).max(0) };
    }
}

/// Upstream's rule for single pods.
fn assess_pod(evaluation: Evaluation, not_ready: bool) -> Opinion {
    let healthy_budget = evaluation.healthy >= evaluation.desired && evaluation.desired > 0;
    if not_ready && healthy_budget {
        return Opinion::Allow { cost: 0, basis: Basis::ROOM };
    }
    if evaluation.allowed >= 1 {
        return Opinion::Allow { cost: 1, basis: Basis::ROOM };
    }
    deny(DenyReason::BudgetExhausted, evaluation, None)
}

/// Rules 5 to 7.
fn assess_replica(
    budget: &BudgetEntry,
    pod: &PodEntry,
    mut evaluation: Evaluation,
    sound: bool,
    put_back: i64,
    always: bool,
    namespace: &Namespace,
) -> Opinion {
    let key = pod.replica.as_ref();
    let tally = key.and_then(|key| budget.tally.replica(key));
    let label =
        key.and_then(|key| namespace.replicas.get(key)).map(|r| r.resolution().label.clone());
    let Some((tally, label)) = tally.zip(label) else {
        return deny(DenyReason::MissingReference, evaluation, None);
    };
    // A replica that cannot be resolved has closed the budget, unless none of its pods runs.
    let Some(min) = tally.summary.min else {
        evaluation.failure =
            key.map(|key| Failure::Unresolved(namespace.name_unresolved(budget, key)));
        return deny(DenyReason::FailedClosed, evaluation, None);
    };
    let healthy_pods = tally.healthy_pods + put_back;
    let is_leaderless = |counts: &dyn Fn(&PodEntry) -> bool| {
        key.is_some_and(|key| namespace.leaderless(budget, counts).contains(key))
    };
    let is_unled = is_leaderless(&|_| true);
    let stays_unled = is_unled && is_leaderless(&|leader| leader.name != pod.name);
    let healthy = !tally.summary.leaving && healthy_pods >= min && !stays_unled;
    let counted = tally.summary.healthy && !is_unled;
    evaluation.change_healthy(i64::from(healthy) - i64::from(counted));
    let enough = evaluation.healthy >= evaluation.desired;
    let state = ReplicaState { label, min, healthy_pods, selected_pods: tally.pods, healthy };
    // AlwaysAllow is for replicas that are broken, not for one that only grants make look so: these may
    // be refunded, and then this eviction would be what breaks it.
    let broken =
        || namespace.sound_pods(budget, pod) < min || (is_unled && is_leaderless(&|_| false));
    let has_room =
        if healthy && sound { healthy_pods > min && !namespace.is_leader(pod) } else { enough };
    if has_room {
        Opinion::Allow { cost: 0, basis: Basis::ROOM }
    } else if !healthy && always && (tally.summary.leaving || broken()) {
        Opinion::Allow { cost: 0, basis: Basis::GROUP }
    } else if healthy && sound && evaluation.allowed >= 1 {
        Opinion::Allow { cost: 1, basis: Basis::ROOM }
    } else {
        deny(DenyReason::BudgetExhausted, evaluation, Some(state))
    }
}

pub(super) fn deny(
    reason: DenyReason,
    evaluation: Evaluation,
    replica: Option<ReplicaState>,
) -> Opinion {
    Opinion::Deny(Objection { reason, evaluation, replica })
}
