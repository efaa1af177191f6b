//! `PodUnavailableBudgets`: Kruise's arithmetic, and who may pass (semantics 9).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Namespace;
use super::assess::{Basis, Opinion, ReplicaState, deny};
use super::budgets::BudgetEntry;
use super::evaluate::{Evaluation, Failure, SyncError};
use super::units::Health;
use crate::cache::Found;
use crate::cache::PodEntry;
use crate::model::{ControllerRef, Operation, Owner, Scope, Target, UnavailableSpec};
use crate::replicas::{LabelGroup, ReplicaKey, UNKNOWN_SIZE, label_group, unreadable_size};
use crate::verdict::DenyReason;

impl Namespace {
    pub(super) fn evaluate_available(
        &self,
        budget: &BudgetEntry,
        spec: &UnavailableSpec,
    ) -> Evaluation {
        match budget.scope {
            Scope::Pod => self.evaluate_available_pods(budget, spec),
            Scope::Workload => self.evaluate_groups(budget, spec),
        }
    }

    fn evaluate_available_pods(&self, budget: &BudgetEntry, spec: &UnavailableSpec) -> Evaluation {
        let tally = &budget.tally;
        let total = match (spec.total, &spec.target) {
            (Some(total), _) => Ok(total),
            (None, Some(target)) => self.target_pods(budget, target),
            (None, None) => self.workload_pods(budget),
        };
        match total {
            Ok(expected) => {
                // Kruise looks at no pod of a target that should have none.
                let none = spec.target.is_some() && spec.total.is_none() && expected == 0;
                Evaluation::available(budget, expected, if none { 0 } else { tally.healthy_pods })
            }
            Err(None) => {
                Evaluation { failure: Some(Failure::Processing), ..Evaluation::empty(budget) }
            }
            Err(Some(why)) => Evaluation::available(budget, tally.pods, tally.healthy_pods)
                .without_total(budget, why),
        }
    }

    fn evaluate_groups(&self, budget: &BudgetEntry, spec: &UnavailableSpec) -> Evaluation {
        let tally = &budget.tally;
        let live = tally.live_replicas;
        let healthy = tally.healthy_replicas - self.leaderless_healthy(budget);
        let total = spec.total.map_or_else(|| self.expected_replicas(budget), Ok);
        match (total, spec.total) {
            (Ok(total), given) => {
                let expected = if given.is_some() { total } else { live.max(total) };
                Evaluation::available(budget, expected, healthy)
            }
            (Err(why), _) => {
                Evaluation::available(budget, live, healthy).without_total(budget, why)
            }
        }
    }

    /// Pods without the label that groups go by: a pool of their own, under the same thresholds.
    pub(super) fn evaluate_pool(&self, budget: &BudgetEntry) -> Evaluation {
        let (mut there, mut healthy) = (0, 0);
        let mut controllers = BTreeSet::new();
        for pod in self.pool(budget).filter(|pod| !pod.pod.is_terminal()) {
            there += 1;
            healthy += i64::from(pod.is_sound(Health::Available) && pod.granted == 0);
            controllers.extend(&pod.pod.controller);
        }
        let evaluation = match self.sum_of_scales(controllers.into_iter()) {
            Ok(sum) => Evaluation::available(budget, sum.max(there), healthy),
            Err(None) => {
                Evaluation { failure: Some(Failure::Processing), ..Evaluation::empty(budget) }
            }
            Err(Some(why)) => {
                Evaluation::available(budget, there, healthy).without_total(budget, why)
            }
        };
        Evaluation { scope: Scope::Pod, ..evaluation }
    }

    pub(super) fn pool(&self, budget: &BudgetEntry) -> impl Iterator<Item = &PodEntry> {
        budget.tally.unreferenced.iter().filter_map(|name| self.cache.pod(name))
    }

    /// What a disruption of this pod is measured by.
    pub(super) fn evaluation_of(&self, budget: &BudgetEntry, pod: &str) -> Evaluation {
        let in_pool = budget.groups().is_some() && budget.tally.unreferenced.contains(pod);
        if in_pool && budget.unreadable.is_none() {
            self.evaluate_pool(budget)
        } else {
            self.evaluate(budget)
        }
    }

    /// The rules for an operation on a pod that holds no grant yet.
    pub(super) fn assess_available(
        &self,
        budget: &BudgetEntry,
        spec: &UnavailableSpec,
        pod: &PodEntry,
        operation: Operation,
        exempt: bool,
    ) -> Opinion {
        let value = |key: &str| self.cache.known().label(pod, key).map(|value| &**value);
        let ignored = spec.ignored.as_ref().is_some_and(|ignored| ignored.matches(value));
        let protected = spec.operations.contains(&operation) && !pod.pod.facts.no_protect();
        if exempt || ignored || !protected {
            return Opinion::Allow { cost: 0, basis: Basis::ROOM };
        }
        let mut evaluation = self.evaluation_of(budget, &pod.name);
        if evaluation.failure == Some(Failure::Processing) {
            return deny(DenyReason::BeingProcessed, evaluation, None);
        }
        let managed = pod.pod.controller.is_some();
        let none_expected = evaluation.failure.is_none() && evaluation.expected <= 0 && managed;
        if none_expected || self.is_abandoned_by_owner(pod) {
            return Opinion::Pass;
        }
        let groups = spec.groups.as_ref();
        let group = groups.and_then(|g| label_group(self.cache.known(), g, pod));
        // A pod above its LeaderWorkerSet's scale does not count in its group.
        let surplus = group.as_ref().is_some_and(|group| group.facts.is_surplus);
        let is_unsized = |group: &&LabelGroup| group.facts.whole_size == UNKNOWN_SIZE && !surplus;
        if let Some(group) = group.as_ref().filter(is_unsized) {
            let label = &group.resolution.label;
            evaluation.failure = Some(Failure::Unresolved(unreadable_size(label)));
            return deny(DenyReason::FailedClosed, evaluation, None);
        }
        let sound = pod.is_sound(Health::Available) && !surplus;
        let evicts = operation == Operation::Evict;
        let alone = surplus || group.as_ref().is_none_or(|group| group.facts.whole_size == 0);
        // It is not what keeps the budget, and may be Ready before this lands: recorded.
        if !sound && alone && (group.is_none() || !evicts) {
            return Opinion::Allow { cost: 0, basis: Basis::POD };
        }
        if evaluation.failure.is_some() {
            return deny(DenyReason::FailedClosed, evaluation, None);
        }
        // Sound but granted elsewhere: counted as unavailable; put it back for this decision.
        let put_back = i64::from(sound && pod.granted > 0);
        let Some(LabelGroup { key, resolution, .. }) = group else {
            evaluation.change_available(put_back);
            if evaluation.allowed >= 1 {
                return Opinion::Allow { cost: 1, basis: Basis::ROOM };
            }
            return deny(DenyReason::BudgetExhausted, evaluation, None);
        };
        let Some((tally, min)) =
            budget.tally.replica(&key).and_then(|tally| Some((tally, tally.summary.min?)))
        else {
            return deny(DenyReason::BeingProcessed, evaluation, None);
        };
        let healthy_pods = tally.healthy_pods + put_back;
        let intact = tally.intact + i64::from(pod.granted > 0 && !surplus);
        let (leaving, whole) = (tally.summary.leaving, tally.whole());
        let is_unled = self.leaderless(budget, |_| true).contains(&key);
        let stays_unled =
            is_unled && self.leaderless(budget, |leader| leader.name != pod.name).contains(&key);
        let healthy = !leaving && healthy_pods >= min && intact >= whole && !stays_unled;
        let counted = tally.summary.healthy && !is_unled;
        evaluation.change_available(i64::from(healthy) - i64::from(counted));
        let enough = evaluation.healthy >= evaluation.desired;
        let takes_group = !alone || self.is_leader(pod);
        let breaks = healthy && (takes_group || (sound && healthy_pods <= min));
        // What only grants make look broken may be whole again, if these come to nothing.
        let broken = || leaving || self.is_broken(budget, &key, whole, min);
        let broken = || planted!(SpareGranted) || broken();
        if !breaks && ((healthy && sound) || enough) {
            Opinion::Allow { cost: 0, basis: Basis::ROOM }
        } else if !breaks && !evicts && healthy {
            Opinion::Allow { cost: 0, basis: Basis::POD }
        } else if !breaks && !evicts && broken() {
            Opinion::Allow { cost: 0, basis: Basis::GROUP }
        } else if breaks && evaluation.allowed >= 1 {
            Opinion::Allow { cost: 1, basis: Basis::ROOM }
        } else {
            let (label, selected_pods) = (resolution.label.clone(), tally.pods);
            let state = ReplicaState { label, min, healthy_pods, selected_pods, healthy };
            deny(DenyReason::BudgetExhausted, evaluation, Some(state))
        }
    }

    /// Whether the group is no whole one, whatever becomes of the grants.
    fn is_broken(&self, budget: &BudgetEntry, key: &ReplicaKey, whole: i64, min: i64) -> bool {
        let Some(groups) = budget.groups() else { return false };
        let (mut sound, mut live) = (0, 0);
        for pod in self.cache.selected_by(&budget.id) {
            let group = label_group(self.cache.known(), groups, pod);
            // Not `is_doomed`: a StatefulSet that the watch has not shown yet would let a whole group go.
            if group.is_some_and(|group| *group.key == *key) && !self.is_abandoned_by_owner(pod) {
                sound += i64::from(pod.is_sound(Health::Available));
                live += i64::from(pod.is_running());
            }
        }
        sound < min || live < whole
    }

    /// The scales of the workloads that the pods belong to. Err(None) while one is being read.
    fn workload_pods(&self, budget: &BudgetEntry) -> Result<i64, Option<String>> {
        let tally = &budget.tally;
        if tally.controllers.is_empty() && tally.unmanaged_pods > 0 {
            let why = "no controller of the selected pods tells how many there should be; set \
                       spec.protectTotalReplicas or an integer minAvailable";
            return Err(Some(why.to_owned()));
        }
        self.sum_of_scales(tally.controllers.keys())
    }

    /// Controllers that are gone or going count 0. Err(None) while a scale is being read.
    fn sum_of_scales<'a>(
        &'a self,
        controllers: impl Iterator<Item = &'a Arc<ControllerRef>>,
    ) -> Result<i64, Option<String>> {
        let mut scales: BTreeMap<&str, i64> = BTreeMap::new();
        for controller in controllers {
            if let Some(owner) = self.cache.objects.scaled_owner(controller) {
                let replicas = owner.replicas.unwrap_or(0);
                scales.insert(&owner.uid, if owner.terminating { 0 } else { replicas });
                continue;
            }
            match self.cache.find_scale(controller) {
                Found::Scale { uid, replicas } => {
                    scales.insert(uid, replicas);
                }
                Found::Nothing => {}
                Found::Failed(why) => return Err(Some(unknown(controller, &why))),
                Found::Pending => return Err(None),
            }
        }
        Ok(scales.values().sum())
    }

    pub(super) fn target_pods(
        &self,
        budget: &BudgetEntry,
        target: &Target,
    ) -> Result<i64, Option<String>> {
        let Target { group_kind, name } = target;
        if Owner::is_watched(group_kind) {
            let owner = self.cache.objects.owner(&group_kind.group, &group_kind.kind, name);
            let Some(owner) = owner.filter(|owner| !owner.terminating) else { return Ok(0) };
            let Some(replicas) = owner.replicas else {
                let why = format!("{} {name} has no scale", group_kind.kind);
                return Err(Some(why + "; set spec.protectTotalReplicas"));
            };
            let is_lws = group_kind.is(Owner::LWS_GROUP, "LeaderWorkerSet");
            return if is_lws { self.lws_pods(budget, replicas) } else { Ok(replicas) };
        }
        match self.cache.find_scale(&target.reference()) {
            Found::Scale { replicas, .. } => Ok(replicas),
            Found::Nothing => Ok(0),
            Found::Failed(why) => Err(Some(unknown(&target.reference(), &why))),
            Found::Pending => Err(None),
        }
    }

    /// Its scale counts groups.
    fn lws_pods(&self, budget: &BudgetEntry, groups: i64) -> Result<i64, Option<String>> {
        if groups == 0 {
            return Ok(0);
        }
        let pods = self.cache.selected_by(&budget.id);
        let sizes = pods.filter_map(|pod| pod.pod.member.as_ref()?.lws.as_ref()?.size);
        let size = sizes.max().ok_or_else(|| {
            Some("no pod of the LeaderWorkerSet says how many pods make a group".to_owned())
        })?;
        Ok(groups.saturating_mul(size))
    }
}

/// Why the total cannot be told, and what would help.
fn unknown(controller: &ControllerRef, why: &str) -> String {
    let kind = &controller.group_kind.kind;
    format!(
        "the scale of {kind} {} is unknown: {why}; set spec.protectTotalReplicas",
        controller.name
    )
}

impl Target {
    /// As a reference without a uid: whoever has the name.
    pub(super) fn reference(&self) -> ControllerRef {
        ControllerRef {
            group_kind: self.group_kind.clone(),
            version: String::new(),
            name: self.name.clone(),
            uid: String::new(),
        }
    }
}

impl Evaluation {
    /// Kruise's numbers. Both thresholds, where both are set, hold.
    fn available(budget: &BudgetEntry, expected: i64, healthy: i64) -> Self {
        let spec = &budget.object.spec;
        let max = spec.max_unavailable.as_ref().map(|max| max.of(expected));
        let from_max = max.map(|max| max.map(|max| (expected - max).max(0)));
        let from_min = spec.min_available.as_ref().map(|min| min.of(expected));
        let mut desired = [from_max, from_min].into_iter().flatten();
        let desired = desired.try_fold(0, |desired, next| next.map(|next| desired.max(next)));
        match desired {
            Ok(desired) => Self {
                expected,
                desired,
                healthy,
                allowed: (healthy - desired).max(0),
                desired_pods: desired,
                ..Self::empty(budget)
            },
            Err(why) => Self::failed(budget, SyncError::ExpectedCount(why)),
        }
    }

    /// The expected number is what is there, for want of a better one.
    fn without_total(mut self, budget: &BudgetEntry, why: String) -> Self {
        self.sourced = false;
        if budget.object.spec.needs_total() && self.failure.is_none() {
            self.failure = Some(Failure::UnknownTotal(why));
            self.allowed = 0;
        }
        self
    }

    fn change_available(&mut self, by: i64) {
        self.healthy += by;
        self.allowed = (self.healthy - self.desired).max(0);
    }
}
