//! No grant takes a budget below what it desires.
//!
//! * **Exact**, where pods are lost by evictions alone. Whatever is lost, a grant took it, so no budget
//!   is ever below what it desires, with every pod counted as lost that an allowed eviction may still
//!   hit.
//! * **By what was known**, everywhere. Nobody can be blamed for what the watch had not told, so every
//!   write that records a new grant is held against what its writer had been told when it decided,
//!   less every pod that a grant of this budget has taken or may still take, whether the writer was
//!   told of that or not. If the new grants of the write cost units, then enough are left.

use std::collections::BTreeSet;

use holdfast_core::invariant::Invariant;
use holdfast_core::model::Operation::Delete;
use holdfast_core::model::{Budget, Pod};

use super::partition;
use crate::chaos::count::{Count, concerns, count};
use crate::chaos::params::Profile;
use crate::chaos::run::Run;
use crate::world::Written;

pub fn after_step(run: &mut Run) {
    let look = (run.world.revision(), run.allowed.len());
    if !run.params.quiet || run.history.looked.replace(look) == Some(look) {
        return;
    }
    run.checked(Invariant::S1);
    let truth = run.world.true_view();
    let lost = |pod: &Pod| run.allowed.iter().any(|a| a.hits(pod));
    // Deletes and updates do not ask a budget that is about evictions.
    let asked = |b: &&Budget| run.params.profile != Profile::Unavailable || concerns(b, Delete);
    for budget in truth.budgets.values().filter(asked) {
        let Count { healthy, desired } = count(budget, truth, &lost);
        run.require(Invariant::S1, healthy >= desired, || {
            format!("{} has {healthy} of {desired} when all is done that was allowed", budget.key)
        });
    }
}

pub fn after_write(run: &mut Run, written: &Written) {
    let (new, old) = partition(run, written);
    if new.is_empty() {
        return;
    }
    run.checked(Invariant::S1);
    let Written { after, view, by, .. } = written;
    let of_this = |budgets: &BTreeSet<String>| budgets.contains(&after.uid);
    let lost = |pod: &Pod| {
        run.taken.get(&pod.uid).is_some_and(|t| of_this(&t.budgets) && t.is_lost(pod))
            || run.allowed.iter().any(|a| of_this(&a.budgets) && a.hits(pod))
            || old.iter().any(|grant| grant.pod == pod.key.name)
    };
    // By uid: what was read live may be a successor of the pod that the watch has told of.
    let lost_by_this = |pod: &Pod| lost(pod) || new.iter().any(|g| g.uid == pod.uid);
    let without = count(after, view, &lost);
    let with = count(after, view, &lost_by_this);
    let costs = with.healthy < without.healthy;
    run.require(Invariant::S1, !costs || with.healthy >= with.desired, || {
        format!(
            "instance {by} knew that {} has {} and needs {}, and granted {new:?}, which leaves {}",
            after.key, without.healthy, with.desired, with.healthy
        )
    });
}
