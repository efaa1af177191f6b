//! The auditor follows the world, and the invariants ask it.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_audit::objects::{Budget, BudgetKey, Object};
use holdfast_audit::{Auditor, Finding, Rule};
use holdfast_core::Kind;
use holdfast_core::invariant::Invariant;

use super::run::Run;
use crate::audited;
use crate::world::World;

impl Run {
    /// Shows the auditor what has happened since the last call.
    pub fn sync_auditor(&mut self) {
        self.auditor.pass_time(self.world.now().0);
        for (_, input) in self.world.history_from(self.audited) {
            self.audited += 1;
            match audited::change(input) {
                Some((object, false)) => {
                    if let Object::Budget(budget) = &object {
                        note_creation(&mut self.missed, &self.auditor, &self.world, budget);
                    }
                    self.auditor.stored(object);
                }
                Some((object, true)) => self.auditor.deleted(&object),
                None => {}
            }
        }
        let views = || self.world.instances.iter().filter(|i| i.engine.is_some()).map(|i| &i.view);
        self.auditor.tell_deletions(&|budget, version| {
            let kind = if budget.unavailable { Kind::UnavailableBudget } else { Kind::Budget };
            views().all(|view| view.has_reached(&kind, version))
        });
    }

    /// Whether every instance that is up has been told of the pods as of this version, and decided since then whatever
    /// it is about to write or answer.
    pub fn all_told(&self, version: u64) -> bool {
        let up = self.world.instances.iter().filter(|instance| instance.engine.is_some());
        up.into_iter().all(|instance| {
            let calls = &instance.calls;
            let decided = calls.waiting.iter().map(|call| &call.view);
            calls.answers.is_empty()
                && decided.chain([&instance.view]).all(|view| view.has_reached(&Kind::Pod, version))
        })
    }

    /// Ends the run at a finding.
    pub fn require_none(&self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            let invariant = match finding.rule {
                Rule::S1 => Invariant::S1,
                Rule::S3 => Invariant::S3,
                Rule::S7 => Invariant::S7,
                Rule::S9 => Invariant::S9,
                Rule::L1 => Invariant::L1,
                Rule::L3 => Invariant::L3,
                Rule::L4 => Invariant::L4,
            };
            self.require(invariant, false, || format!("{} {}", finding.budget, finding.message));
        }
    }
}

/// Notes which running instances had been told of no budget of this name when the budget was created.
fn note_creation(
    missed: &mut BTreeMap<BudgetKey, BTreeSet<usize>>,
    auditor: &Auditor,
    world: &World,
    budget: &Budget,
) {
    let before = auditor.state().budgets.get(&budget.key);
    if before.is_some_and(|before| before.uid == budget.uid) {
        return;
    }
    let instances = world.instances.iter().enumerate().filter(|(_, i)| i.engine.is_some());
    let untold = instances.filter(|(_, i)| !i.view.state.budgets.contains_key(&budget.key));
    missed.insert(budget.key.clone(), untold.map(|(index, _)| index).collect());
}
