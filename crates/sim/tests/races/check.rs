//! What must hold: see the head of `main.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_core::model::{Budget, BudgetStatus, Grant, Pod};
use holdfast_sim::Written;

use crate::count::{Count, count, selects};
use crate::driver::{Allowed, Driver, hits};

impl Driver {
    pub fn check_step(&mut self) {
        for written in self.world.take_writes() {
            self.check_write(&written);
            self.note_grants(&written);
        }
        if !self.params.involuntary {
            self.check_truth();
        }
        self.check_deadlines();
        // A recount of everything: dear, and what it finds does not go away.
        if self.random.chance(4) {
            for index in self.instances_up() {
                self.world.instance(index).engine().verify();
            }
        }
    }

    /// Exact: no budget is below desired, come what may of what is allowed.
    fn check_truth(&self) {
        let truth = self.world.true_view();
        let lost = |pod: &Pod| self.allowed.iter().any(|a| hits(a, pod));
        for budget in truth.budgets.values() {
            let Count { healthy, desired } = count(budget, &truth, &lost);
            assert!(
                healthy >= desired,
                "{} has {healthy} of {desired} when all is done that was allowed",
                budget.key
            );
        }
    }

    /// By what was known: new grants that cost units leave enough.
    fn check_write(&self, written: &Written) {
        let Written { before, after, view, by } = written;
        let known = |grant: &&Grant| {
            let same = |old: &Grant| old.pod == grant.pod;
            // A budget that was deleted and came back takes its grants along.
            let record = (after.key.clone(), grant.pod.clone(), grant.eviction.clone());
            before.status.grants.iter().any(same) || self.recorded.contains(&record)
        };
        let (old, new): (Vec<&Grant>, Vec<&Grant>) = after.status.grants.iter().partition(known);
        for grant in &new {
            assert!(!self.dry_runs.contains(&grant.eviction), "{} is recorded", grant.eviction);
        }
        let of_this = |budgets: &BTreeSet<String>| budgets.contains(&after.uid);
        let lost = |pod: &Pod| {
            self.taken.get(&pod.uid).is_some_and(of_this)
                || self.allowed.iter().any(|a| of_this(&a.budgets) && hits(a, pod))
                || old.iter().any(|grant| grant.pod == pod.key.name)
        };
        // By uid: what was read live may be a successor of the pod that the watch has told of.
        let lost_by_this = |pod: &Pod| lost(pod) || new.iter().any(|g| g.uid == pod.uid);
        let without = count(after, view, &lost);
        let with = count(after, view, &lost_by_this);
        let costs = with.healthy < without.healthy;
        assert!(
            !costs || with.healthy >= with.desired,
            "instance {by} knew that {} has {} and needs {}, and granted {new:?}, which leaves {}",
            after.key,
            without.healthy,
            with.desired,
            with.healthy
        );
    }

    /// A renewed grant may stand for an earlier request that was allowed, so a denial does not take
    /// it back.
    fn note_grants(&mut self, Written { before, after, .. }: &Written) {
        for grant in &after.status.grants {
            let record = (after.key.clone(), grant.pod.clone(), grant.eviction.clone());
            self.recorded.insert(record);
            let earlier = before.status.grants.iter().find(|old| old.pod == grant.pod);
            if earlier.is_some_and(|old| old.eviction != grant.eviction) {
                self.renewals.insert(grant.eviction.clone());
            }
        }
    }

    /// The answer is an allow: the grant is there.
    pub fn check_recorded(&self, instance: usize, allowed: &Allowed) {
        if self.taken.contains_key(&allowed.uid) {
            return;
        }
        let truth = self.world.true_view();
        let told = self.world.view_of(instance);
        let Some(pod) = told.pods.get(&allowed.pod) else { return };
        let covering = told.budgets.values().filter(|budget| selects(budget, pod));
        for budget in covering.filter_map(|told| truth.budgets.get(&told.key)) {
            let known = told.budgets[&budget.key].uid == budget.uid && selects(budget, pod);
            let recorded = budget.status.grants.iter().any(|grant| grant.pod == pod.key.name);
            assert!(!known || recorded, "{} has no grant in {}", allowed.eviction, budget.key);
        }
    }

    fn check_deadlines(&mut self) {
        let asked: Vec<_> = self.asked.clone().into_iter().collect();
        for (id, asked) in asked {
            let now = self.world.instance(asked.instance).now();
            assert!(now <= asked.deadline, "{id} is not answered by its deadline");
        }
    }

    /// The faults end, and everything comes to rest.
    pub fn check_end(&mut self) {
        self.log("the faults end");
        while self.world.late_calls() > 0 {
            self.world.drop_late(0);
        }
        for index in 0..self.params.instances {
            if !self.world.instance(index).is_up() {
                self.restart(index);
            }
            self.world.instance(index).lead(index == 0);
        }
        self.catch_up();
        self.advance(Duration::from_secs(20));
        self.observe();
        self.check_step();
        assert!(self.asked.is_empty(), "not answered: {:?}", self.asked);
        for budget in self.world.true_view().budgets.values() {
            for grant in &budget.status.grants {
                let denied = self.denied.contains_key(&grant.eviction)
                    && !self.renewals.contains(&grant.eviction);
                assert!(
                    !denied,
                    "{} was denied and left a grant in {}",
                    grant.eviction, budget.key
                );
            }
        }
        self.advance(Duration::from_mins(5));
        self.check_step();
        self.check_rest();
        self.world.advance(Duration::from_mins(5));
        let writes: Vec<_> = self.world.take_writes().into_iter().map(|w| w.after.key).collect();
        assert!(writes.is_empty(), "still writing: {writes:?}");
    }

    /// What waits is answered and delivered, one by one, so that each answer is looked at in time.
    fn catch_up(&mut self) {
        for index in 0..self.params.instances {
            for step in 0.. {
                assert!(step < 1000, "instance {index} keeps the API server busy without end");
                let mut instance = self.world.instance(index);
                let kind = instance.kinds_waiting().into_iter().next();
                if let Some(kind) = kind {
                    instance.deliver(&kind);
                } else if instance.answers_waiting() > 0 {
                    instance.deliver_answer(0);
                } else if !instance.calls_waiting().is_empty() {
                    instance.execute_call(0);
                } else {
                    break;
                }
                self.observe();
                self.check_step();
            }
        }
        for index in 0..self.params.instances {
            self.world.instance(index).release_calls();
            self.world.instance(index).release_watch();
        }
    }

    fn check_rest(&self) {
        let fresh = self.world.fresh_engine();
        for budget in self.world.true_view().budgets.values() {
            let Budget { key, status, .. } = budget;
            let grants = (&status.grants, &status.disrupted_pods);
            assert!(status.grants.is_empty() && status.disrupted_pods.is_empty(), "{grants:?}");
            let mut computed = fresh.status(key).expect("it is listed");
            // They only ever rise, and a fresh engine has seen no deletion.
            computed.watermarks.clone_from(&status.watermarks);
            assert_eq!(*status, BudgetStatus { ..computed }, "{key} is not what a recount shows");
        }
    }
}
