//! The faults end: drains go on, and everything comes to rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_core::invariant::Invariant;
use holdfast_core::model::{Budget, ObjectKey, Timestamp};

use super::clients::{Outcome, describe};
use super::invariants;
use super::run::Run;

/// How often kubectl asks again for a pod that it was refused.
const RETRY: Duration = Duration::from_secs(5);
/// Longer than a grant lives: what has not moved for so long does not move.
const STUCK_AFTER: Duration = Duration::from_secs(200);
/// Far more than wait for an instance when the faults end.
const STEPS_MAX: usize = 20_000;
/// Two minutes on the slowest clock, and as long again.
const HELD_MAX: Duration = Duration::from_mins(5);
/// Several lives of a grant.
const REFUSED_FOR: Duration = Duration::from_mins(8);
const DRAINS_WITHIN: Duration = Duration::from_hours(2);
/// A status is written within this time, whatever the instance's clock.
const STATUS_FOLLOWS: Duration = Duration::from_secs(10);
const WAITS_MAX: usize = 6;
/// Every process keeps the recorded size of a group for ten minutes (semantics 3), on the slowest clock.
const SIZES_END: Duration = Duration::from_mins(13);

impl Run {
    pub fn come_to_rest(&mut self) {
        self.log(|| "the faults end".to_owned());
        self.end_faults();
        self.catch_up();
        // An incomplete reservation is refunded after 15 s, on a clock that may be slow.
        self.advance(Duration::from_secs(40));
        invariants::after_refunds(self);
        self.refuse_again();
        self.finish_drains();
        invariants::after_drains(self);
        self.advance(Duration::from_mins(5));
        self.wait_for_statuses();
        invariants::at_rest(self);
        if self.world.budgets().any(keeps_a_size) {
            self.advance(SIZES_END);
        }
        invariants::after_sizes(self);
        self.rested_at = self.world.revision();
        self.advance(Duration::from_mins(5));
        invariants::after_rest(self);
    }

    fn end_faults(&mut self) {
        self.params.faults.clear();
        self.lagging.clear();
        self.doomed.clear();
        self.older = None;
        while self.world.late_calls() > 0 {
            self.world.drop_late(0);
        }
        while let Some(pod) = self.stuck.pop_first() {
            self.world.unstick(&pod);
        }
        while let Some(node) = self.dead_nodes.pop_first() {
            self.world.revive_node(&node);
        }
        if self.random.chance(50) {
            self.recreate_groups();
        }
        for index in 0..self.params.instances {
            if self.paused.contains_key(&index) {
                self.resume(index);
            }
            let updated = self.config_of(index);
            let old = self.world.instance(index).own().config.kinds != updated.kinds;
            if self.world.instance(index).is_up() && old {
                self.crash(index);
            }
            if !self.world.instance(index).is_up() {
                self.start(index, self.world.revision());
            }
        }
    }

    /// What waits is answered and delivered, one by one, so that each answer is looked at in time.
    fn catch_up(&mut self) {
        for index in 0..self.params.instances {
            for step in 0.. {
                self.require(Invariant::L2, step < STEPS_MAX, || {
                    format!("instance {index} keeps the API server busy without end")
                });
                let mut instance = self.world.instance(index);
                let kind = instance.kinds_waiting().into_iter().next();
                let answers = instance.answers_waiting();
                let call = instance.calls_waiting().into_iter().next();
                if let Some(kind) = kind {
                    self.log(|| format!("{index} hears of {kind}"));
                    self.world.instance(index).deliver(&kind);
                } else if answers > 0 {
                    self.log(|| format!("{index} answer delivered"));
                    self.world.instance(index).deliver_answer(0);
                } else if let Some(call) = call {
                    self.log(|| format!("{index} {} executed", describe(&call)));
                    self.world.instance(index).execute_call(0);
                } else {
                    break;
                }
                self.observe();
                invariants::after_step(self);
            }
        }
        for index in 0..self.params.instances {
            self.world.instance(index).release_calls();
            self.world.instance(index).release_watch();
        }
    }

    /// An eviction that is refused behind us every five seconds does not hold a budget for ever: its grant
    /// ends for a while, so that others have a turn (semantics 5).
    fn refuse_again(&mut self) {
        let Some(pod) = self.refused.take() else { return };
        let end = self.world.now() + REFUSED_FOR;
        let mut held: BTreeMap<String, Timestamp> = BTreeMap::new();
        while self.world.now() < end && self.world.pod(&pod).is_some() {
            if !self.is_asked(&pod) {
                self.evict(0, &pod);
            }
            self.observe();
            while let Some(allowed) = self.allowed.pop() {
                self.auditor.end(&allowed.eviction);
            }
            self.advance(RETRY);
            let (now, holders) = (self.world.now(), self.holders(&pod));
            held.retain(|budget, _| holders.contains(budget));
            for budget in holders {
                let since = *held.entry(budget.clone()).or_insert(now);
                self.require(Invariant::L5, now <= since + HELD_MAX, || {
                    format!("{budget} holds a grant for {}, which is refused for ever", pod.name)
                });
            }
        }
    }

    /// The budgets that have a grant for this pod.
    fn holders(&self, pod: &ObjectKey) -> BTreeSet<String> {
        let holds = |budget: &&Budget| budget.status.grants.iter().any(|g| g.pod == pod.name);
        self.world.budgets().filter(holds).map(|budget| budget.key.to_string()).collect()
    }

    /// As `kubectl drain` does it: ask for every pod, wait, ask again for those that were refused.
    fn finish_drains(&mut self) {
        let end = self.world.now() + DRAINS_WITHIN;
        let mut moved = (self.world.now(), usize::MAX);
        loop {
            let left: Vec<_> =
                self.drains.iter().flat_map(|node| self.world.pods_on(node)).collect();
            let now = self.world.now();
            if left.len() != moved.1 {
                moved = (now, left.len());
            }
            if left.is_empty() || now >= end || now >= moved.0 + STUCK_AFTER {
                return;
            }
            for (n, pod) in left.into_iter().enumerate() {
                let going = self.world.pod(&pod).is_none_or(|pod| pod.terminating);
                if !going && !self.is_asked(&pod) {
                    self.evict(n % self.params.instances, &pod);
                }
            }
            self.observe();
            while !self.allowed.is_empty() {
                self.execute_or_refuse(0);
            }
            self.advance(RETRY);
        }
    }

    /// Statuses follow within seconds. Something may have ended by time in the very last second, so this waits until
    /// nothing is written any more, or for a minute.
    fn wait_for_statuses(&mut self) {
        for _ in 0..WAITS_MAX {
            let before = self.world.revision();
            self.advance(STATUS_FOLLOWS);
            if self.world.revision() == before {
                return;
            }
        }
    }

    fn is_asked(&self, pod: &ObjectKey) -> bool {
        self.unanswered.iter().any(|id| {
            let asked = &self.requests[id];
            asked.pod == *pod && asked.outcome == Outcome::Waiting
        })
    }
}

/// Whether the budget waits for a group to be refilled. The write that ends the wait is not due yet.
pub(super) fn keeps_a_size(budget: &Budget) -> bool {
    budget.status.pending_replacements.iter().any(|pending| pending.size > 0)
}
