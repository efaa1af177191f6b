//! A budget that cannot be computed allows nothing, and says why.

use holdfast_core::invariant::Invariant;
use holdfast_core::model::ConditionStatus;

use crate::chaos::count::unresolved;
use crate::chaos::run::Run;
use crate::world::Written;

pub fn after_write(run: &mut Run, Written { after, view, by, .. }: &Written) {
    let status = &after.status;
    let condition = status.conditions.iter().find(|c| c.kind == "DisruptionAllowed");
    let says = condition.is_some_and(|c| c.status == ConditionStatus::True);
    run.require(Invariant::S7, says == (status.disruptions_allowed > 0), || {
        format!("{} allows {} and says {condition:?}", after.key, status.disruptions_allowed)
    });
    let Some(pod) = unresolved(after, view) else { return };
    run.checked(Invariant::S7);
    let why = condition.is_some_and(|c| !c.message.is_empty());
    run.require(Invariant::S7, status.disruptions_allowed == 0 && why, || {
        format!(
            "instance {by} cannot know the replica of {} and lets {} allow {}: {condition:?}",
            pod.key.name, after.key, status.disruptions_allowed
        )
    });
}
