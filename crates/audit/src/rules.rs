//! May this pod be disrupted, as far as one budget goes (semantics 6 and 9)?

use crate::count::{Count, Lost, count, is_healthy};
use crate::memory::Memory;
use crate::objects::{Budget, Operation, Phase, Pod, Scope};
use crate::replica;
use crate::state::State;

/// Rules 1 to 7 for a pod that holds no grant in this budget.
pub fn allows(
    budget: &Budget,
    state: &State,
    memory: &Memory,
    pod: &Pod,
    operation: Operation,
    granted: Lost<'_>,
) -> bool {
    if pod.is_finished() || pod.terminating || pod.phase == Phase::Pending {
        return true;
    }
    if budget.unavailable.is_none() && !pod.ready && budget.always_allow {
        return true;
    }
    let others = |other: &Pod| other.uid != pod.uid && granted(other);
    let before = count(budget, state, memory, &others);
    if before.closed.is_some() {
        return false;
    }
    let without = |other: &Pod| other.uid == pod.uid || others(other);
    let after = count(budget, state, memory, &without);
    let judged = Judged { budget, state, memory, pod, before, after };
    match (budget.unavailable.is_some(), budget.scope) {
        (false, Scope::Pod) => judged.pod(),
        (false, Scope::Replica) => judged.replica(),
        (true, Scope::Pod) => judged.available_pod(),
        (true, Scope::Replica) => judged.available_group(operation),
    }
}

struct Judged<'a> {
    budget: &'a Budget,
    state: &'a State,
    memory: &'a Memory,
    pod: &'a Pod,
    /// With what is granted to other pods.
    before: Count,
    /// Without this pod too.
    after: Count,
}

impl Judged<'_> {
    /// Upstream's rule for single pods.
    fn pod(&self) -> bool {
        let unhealthy = !self.pod.ready && self.before.is_kept() && self.before.desired > 0;
        unhealthy || self.before.allowed(self.budget) >= 1
    }

    /// Rules 5 to 7.
    fn replica(&self) -> bool {
        let Some(replica) = replica::of(self.budget, self.state, self.pod) else { return false };
        let Some(own) = self.before.replicas.get(&replica).filter(|own| own.min.is_ok()) else {
            return false;
        };
        match (own.healthy, is_healthy(self.budget, self.pod)) {
            (true, true) => {
                let surplus = self.after.healthy == self.before.healthy;
                surplus || self.before.allowed(self.budget) >= 1
            }
            (true, false) => self.before.is_kept(),
            (false, _) => self.before.is_kept() || (self.budget.always_allow && self.is_broken()),
        }
    }

    /// Kruise's rule for single pods.
    fn available_pod(&self) -> bool {
        !is_healthy(self.budget, self.pod) || self.before.healthy > self.before.desired
    }

    fn available_group(&self, operation: Operation) -> bool {
        let Some(replica) = replica::of(self.budget, self.state, self.pod) else { return true };
        let whole = self.before.replicas.get(&replica).is_some_and(|own| own.healthy);
        if self.after.healthy < self.before.healthy {
            return self.before.healthy > self.before.desired;
        }
        let sound = is_healthy(self.budget, self.pod);
        let evicts = operation == Operation::Evict;
        let spared = !evicts && (whole || self.is_broken());
        (whole && sound) || self.before.is_kept() || spared
    }

    /// Broken by more than grants, which may be refunded.
    fn is_broken(&self) -> bool {
        let plain = count(self.budget, self.state, self.memory, &|_| false);
        let replica = replica::of(self.budget, self.state, self.pod);
        !replica.and_then(|r| plain.replicas.get(&r).map(|own| own.healthy)).unwrap_or(false)
    }
}
