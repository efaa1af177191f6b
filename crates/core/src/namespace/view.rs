//! Budgets, replicas and pods as they are, for people to look at.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::assess::Opinion;
use super::budgets::BudgetEntry;
use super::evaluate::Failure;
use super::explain::never;
use super::{BudgetId, Namespace};
use crate::cache::PodEntry;
use crate::engine::Config;
use crate::model::{BudgetKey, Operation, Scope, Timestamp};
use crate::replicas::{MinCount, Replica, ReplicaKey, label_group};
use crate::verdict::DenyReason;
use crate::view::{Answer, BudgetView, OpinionView, PodView, ReplicaState, ReplicaView, Unit};

impl Namespace {
    pub(crate) fn budget_keys(&self) -> impl Iterator<Item = &BudgetKey> {
        self.budgets.keys().map(|id| &**id)
    }

    pub(crate) fn view(
        &self,
        config: &Config,
        now: Timestamp,
        key: &BudgetKey,
    ) -> Option<BudgetView> {
        let budget = self.budgets.get(key)?;
        let evaluation = self.evaluate(budget);
        let mut members: BTreeMap<Arc<ReplicaKey>, Vec<PodView>> = BTreeMap::new();
        let mut pods = Vec::new();
        for pod in self.cache.selected_by(&budget.id) {
            match self.unit_of(budget, pod) {
                Some(unit) => members.entry(unit).or_default().push(self.pod_view(budget, pod)),
                None => pods.push(self.pod_view(budget, pod)),
            }
        }
        let replicas = members.into_iter().map(|(key, pods)| self.replica_view(budget, &key, pods));
        let replicas = replicas.collect();
        Some(BudgetView {
            key: key.clone(),
            spec: budget.object.spec.clone(),
            unit: match (budget.scope, budget.groups()) {
                (Scope::Pod, _) => Unit::Pod,
                (Scope::Workload, None) => Unit::Replica,
                (Scope::Workload, Some(_)) => Unit::Group,
            },
            desired: evaluation.desired,
            healthy: evaluation.healthy,
            expected: evaluation.expected,
            allowed: evaluation.allowed,
            failure: evaluation.failure.as_ref().map(Failure::text).map(str::to_owned),
            never: never(&evaluation, self.ceiling(budget, &evaluation)),
            status: self.status(config, now, budget),
            grants: self.grants.ledger(key).live().cloned().collect(),
            replicas,
            pods,
        })
    }

    /// What every covering budget says to the eviction of a pod, and after them the built-in ones.
    pub(crate) fn opinions(
        &self,
        now: Timestamp,
        name: &str,
    ) -> (Vec<OpinionView>, Option<String>) {
        let Some(pod) = self.cache.pod(name) else { return (Vec::new(), None) };
        let views = pod
            .budgets
            .iter()
            .map(|id| OpinionView { budget: (**id).clone(), answer: self.answer(now, id, pod) });
        (views.collect(), self.builtin_objection(pod))
    }

    fn answer(&self, now: Timestamp, id: &BudgetId, pod: &PodEntry) -> Answer {
        let objection = match self.opinion(now, id, pod, Operation::Evict, false) {
            Opinion::Allow { cost, .. } => return Answer::Allow { cost },
            Opinion::Renew { cost, .. } => return Answer::Granted { cost },
            Opinion::Pass => return Answer::Pass,
            Opinion::Deny(objection) => objection,
        };
        let replica = objection.replica.as_ref();
        // A pod that breaks nothing needs no unit to spare (semantics 6.5b and 6.6).
        let sound = self.budgets.get(id).is_some_and(|budget| pod.is_sound(budget.health()));
        let breaks = replica.is_none_or(|replica| replica.healthy && sound);
        let missing =
            objection.evaluation.desired + i64::from(breaks) - objection.evaluation.healthy;
        let exhausted = objection.reason == DenyReason::BudgetExhausted;
        let replica = replica.map(|replica| replica.label.clone());
        let reason = objection.reason;
        let denial = self.explain(pod, Operation::Evict, &[(id.clone(), objection)]);
        Answer::Deny {
            reason,
            message: denial.message,
            missing: Some(missing).filter(|missing| exhausted && *missing > 0),
            replica,
        }
    }

    /// The replica or group that the budget counts the pod in.
    pub(super) fn unit_of(&self, budget: &BudgetEntry, pod: &PodEntry) -> Option<Arc<ReplicaKey>> {
        if budget.scope == Scope::Pod {
            return None;
        }
        match budget.groups() {
            Some(groups) => label_group(self.cache.known(), groups, pod).map(|group| group.key),
            None => pod.replica.clone(),
        }
    }

    fn replica_view(
        &self,
        budget: &BudgetEntry,
        key: &Arc<ReplicaKey>,
        pods: Vec<PodView>,
    ) -> ReplicaView {
        let resolution = self.replicas.get(key).map(Replica::resolution);
        let tally = budget.tally.replica(key);
        let state = match tally.map(|tally| &tally.summary) {
            Some(summary) if summary.unresolved.is_some() => {
                ReplicaState::Unresolved(summary.unresolved.clone().unwrap_or_default())
            }
            Some(summary) if summary.leaving => ReplicaState::Leaving,
            Some(summary) if summary.healthy => ReplicaState::Healthy,
            _ => ReplicaState::Broken,
        };
        ReplicaView {
            label: resolution.map_or_else(|| key.to_string(), |known| known.label.clone()),
            state,
            basic: resolution.is_some_and(|known| matches!(known.min, MinCount::Basic { .. })),
            min: tally.and_then(|tally| tally.summary.min),
            healthy_pods: tally.map_or(0, |tally| tally.healthy_pods),
            pods,
        }
    }

    fn pod_view(&self, budget: &BudgetEntry, pod: &PodEntry) -> PodView {
        let replica = pod.replica.as_ref().and_then(|key| self.replicas.get(key));
        PodView {
            name: pod.name.to_string(),
            healthy: pod.is_sound(budget.health()) && pod.granted == 0,
            ready: pod.pod.ready,
            terminating: pod.pod.terminating,
            phase: pod.pod.phase,
            granted: pod.granted > 0,
            replica: replica.map(|replica| replica.resolution().label.clone()),
            budgets: pod.budgets.len(),
        }
    }
}
