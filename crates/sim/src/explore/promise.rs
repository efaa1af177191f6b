//! The promise: a grant never takes a budget below its desired healthy count.
//!
//! Nothing here asks an engine. Health is counted from the stored pods, from what happened to them,
//! and from the shape that the scope gives its replicas; the desired count comes from the stored
//! budgets. [`State::allowed`] is the only place that judges an allowed eviction, so another check can
//! take its place.
//!
//! Some losses are not an engine's fault: a pod can be deleted, and a budget edited, while a request
//! is under way. The check gives the benefit of the doubt:
//!
//! - A pod that no grant took counts as lost only if the instance had been told before it was asked.
//! - The same holds for a pod whose eviction was allowed while a budget of the scope did not exist.
//! - A budget desires the fewest replicas that it has desired since the request was sent.

use std::time::Duration;

use holdfast_core::model::{BudgetSpec, Threshold};

use super::scope::{Shape, Wants};
use super::state::{Allow, Loss, Open, State};

impl State {
    /// Notes an allowed eviction and judges it: how many replicas of each budget are left, with every
    /// pod counted as lost that an allowed eviction may still take?
    pub(super) fn allowed(&mut self, allow: Allow, open: &Open) {
        let before: Vec<Vec<bool>> = self.healthy_by_budget(open);
        let pod = self.layout.pods[allow.pod].name.clone();
        self.clients.allows.push(allow);
        let after = self.healthy_by_budget(open);
        for (n, (before, after)) in before.iter().zip(&after).enumerate() {
            let left = count(after);
            let desired = open.desired[n];
            if left < count(before) && left < desired && self.violation.is_none() {
                let budget = self.scope.budgets[n].name;
                self.violation = Some(format!(
                    "eviction of {pod} allowed: budget {budget} has {left} healthy replicas left and desires {desired}"
                ));
            }
        }
    }

    /// No grant of a live pod is older than the scope allows: its eviction is refused, and others wait.
    pub(super) fn check_grants(&mut self, secs: u32) {
        let old = |since| self.now.since(since) > Duration::from_secs(secs.into());
        if let Some(grant) = self.clients.grants.iter().find(|grant| old(grant.since)) {
            let budget = self.scope.budgets[grant.budget].name;
            let age = self.now.since(grant.since).as_secs();
            self.violation = Some(format!(
                "budget {budget} has held a grant of a live pod for {age} s, and {secs} s is the most"
            ));
        }
    }

    /// How many healthy replicas the stored budget desires; none if it is not there.
    pub(super) fn desired(&self, budget: usize) -> i64 {
        let Some(stored) = self.objects().budgets.get(&self.layout.budgets[budget]) else {
            return 0;
        };
        let replicas = i64::try_from(self.scope.budgets[budget].covers.len()).expect("few");
        match (&stored.spec.min_available, &stored.spec.max_unavailable) {
            (Some(Threshold::Count(min)), _) => *min,
            (_, Some(Threshold::Count(max))) => (replicas - max).max(0),
            _ => 0,
        }
    }

    /// The budget has just changed.
    pub(super) fn lower_desired(&mut self, budget: usize) {
        let desired = self.desired(budget);
        for asked in &mut self.clients.requests {
            if let Some(open) = &mut asked.open {
                open.desired[budget] = open.desired[budget].min(desired);
            }
        }
    }

    /// For every budget, which of its replicas are healthy.
    fn healthy_by_budget(&self, open: &Open) -> Vec<Vec<bool>> {
        let healthy = |replica: &usize| self.is_healthy(*replica, open);
        self.scope.budgets.iter().map(|b| b.covers.iter().map(healthy).collect()).collect()
    }

    fn is_healthy(&self, replica: usize, open: &Open) -> bool {
        let pods = (0..self.layout.pods.len()).filter(|n| self.layout.replica_of[*n] == replica);
        let healthy = pods.filter(|n| self.is_pod_healthy(*n, open)).count();
        let shape = &self.scope.replicas[replica];
        let needed = match shape.shape {
            Shape::Gang(min) => usize::try_from(min).expect("a small number"),
            Shape::Whole | Shape::LeaderWorkerSet => usize::from(shape.pods),
        };
        healthy >= needed
    }

    fn is_pod_healthy(&self, n: usize, open: &Open) -> bool {
        let lost = match self.clients.lost[n] {
            Loss::Healthy => false,
            Loss::ByGrant => true,
            Loss::Otherwise => open.known_lost & (1 << n) != 0,
        };
        let taken = |allow: &Allow| allow.pod == n && !allow.uncovered;
        !lost && !self.clients.allows.iter().any(taken)
    }
}

fn count(healthy: &[bool]) -> i64 {
    i64::try_from(healthy.iter().filter(|healthy| **healthy).count()).expect("few")
}

impl Wants {
    pub(super) fn write_into(self, spec: &mut BudgetSpec) {
        (spec.min_available, spec.max_unavailable) = match self {
            Self::MinAvailable(min) => (Some(Threshold::Count(min)), None),
            Self::MaxUnavailable(max) => (None, Some(Threshold::Count(max))),
        };
    }

    pub(super) fn is_in(self, spec: &BudgetSpec) -> bool {
        let mut own = spec.clone();
        self.write_into(&mut own);
        own == *spec
    }
}
