//! What must hold, one file each, and when it is looked at.
//!
//! By the world's own objects, and by what the world knows that each instance was told; never by an
//! engine's cache.

mod l1_converges;
mod l2_silent;
mod l3_drains_finish;
mod l4_reported;
mod l5_grants_end;
mod s01_kept;
mod s02_counted_once;
mod s03_recorded;
mod s04_name_reused;
mod s05_not_older;
mod s06_leaders;
mod s07_fails_closed;
mod s08_dry_run;
mod s09_denial_true;
mod s10_incremental;
mod s11_answered;

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::invariant::Invariant;
use holdfast_core::model::{Budget, Grant};
use holdfast_core::verdict::Denial;

use super::clients::{Allowed, Asked};
use super::run::Run;
use crate::audited;
use crate::world::Written;

/// What the checks remember of the past.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Every grant that ever was: by the budget's key, the pod's name and the eviction, with the uids
    /// of the budgets that had it.
    recorded: BTreeMap<(String, String, String), BTreeSet<String>>,
    /// Grants, by the budget's uid, the pod's uid and the eviction, that were there and are not.
    ended: BTreeSet<(String, String, String)>,
    /// The requests that a grant stands for, by the budget's uid and the pod's name.
    standing: BTreeMap<(String, String), BTreeSet<String>>,
    /// Requests that renewed a grant of an earlier one.
    renewals: BTreeSet<String>,
    /// The version and the number of allowed evictions at the last look at all budgets.
    looked: Option<(u64, usize)>,
}

/// After everything that happens.
pub(super) fn after_step(run: &mut Run) {
    look_at_writes(run);
    s01_kept::after_step(run);
    s10_incremental::after_step(run);
    s11_answered::after_step(run);
    ask_engines(run);
}

/// To be called before answers are looked at, for these come after the writes that they rest on.
pub(super) fn look_at_writes(run: &mut Run) {
    run.sync_auditor();
    for written in run.world.take_writes() {
        after_write(run, &written);
    }
}

/// After a status write that the API server has applied.
fn after_write(run: &mut Run, written: &Written) {
    let (before, after) = (&written.before.status.grants, &written.after.status.grants);
    let is_new = |grant: &&Grant| {
        let same = |old: &Grant| old.uid == grant.uid && old.eviction == grant.eviction;
        !before.iter().any(same)
    };
    let new: Vec<_> = after.iter().filter(is_new).map(audited::grant).collect();
    run.auditor.learn(&audited::budget(&written.after), &new, &written.view.state);
    s01_kept::after_write(run, written);
    s02_counted_once::after_write(run, written);
    s04_name_reused::after_write(run, written);
    s05_not_older::after_write(run, written);
    s06_leaders::after_write(run, written);
    s07_fails_closed::after_write(run, written);
    s08_dry_run::after_write(run, written);
    remember(run, written);
}

/// After an eviction was allowed by a grant.
pub(super) fn after_allow(run: &mut Run, asked: &Asked, allowed: &Allowed) {
    s03_recorded::after_allow(run, asked, allowed);
}

/// After an eviction was allowed because no budget covers the pod.
pub(super) fn after_pass(run: &mut Run, asked: &Asked) {
    s03_recorded::after_pass(run, asked);
}

pub(super) fn after_denial(run: &mut Run, asked: &Asked, denial: &Denial) {
    s09_denial_true::after_denial(run, asked, denial);
}

/// The faults are over for as long as refunds take.
pub(super) fn after_refunds(run: &mut Run) {
    l5_grants_end::after_refunds(run);
    s11_answered::after_refunds(run);
}

/// The drains have ended, or do not move any more.
pub(super) fn after_drains(run: &mut Run) {
    l3_drains_finish::after_drains(run);
    l4_reported::after_drains(run);
}

/// Nothing has happened for as long as a grant lives.
pub(super) fn at_rest(run: &mut Run) {
    l1_converges::at_rest(run);
    l5_grants_end::at_rest(run);
}

/// Nothing has happened for as long as the size of a group is kept.
pub(super) fn after_sizes(run: &mut Run) {
    l5_grants_end::after_sizes(run);
}

/// Nothing has happened since `at_rest`.
pub(super) fn after_rest(run: &mut Run) {
    l2_silent::after_rest(run);
}

/// Grants of a write that its budget did not have before, and those that it had.
fn partition<'a>(run: &Run, written: &'a Written) -> (Vec<&'a Grant>, Vec<&'a Grant>) {
    let Written { before, after, .. } = written;
    after.status.grants.iter().partition(|grant| {
        let had = before.status.grants.iter().any(|old| old.pod == grant.pod);
        !had && !came_along(run, after, grant)
    })
}

/// A budget that was deleted and came back takes its grants along, renewed or not.
fn came_along(run: &Run, budget: &Budget, grant: &Grant) -> bool {
    let (key, pod) = (budget.key.to_string(), grant.pod.clone());
    let earlier = run.history.recorded.range((key.clone(), pod.clone(), String::new())..);
    let mut earlier = earlier.take_while(|((k, p, _), _)| *k == key && *p == pod);
    earlier.any(|((_, _, eviction), budgets)| {
        // What was on record when it was deleted.
        let orphaned = |uid: &String| {
            let standing = run.history.standing.get(&(uid.clone(), pod.clone()));
            *uid != budget.uid && standing.is_some_and(|ids| ids.contains(eviction))
        };
        *eviction == grant.eviction || budgets.iter().any(orphaned)
    })
}

/// A renewed grant may stand for an earlier request that was allowed, so a denial does not take it
/// back.
fn remember(run: &mut Run, Written { before, after, .. }: &Written) {
    for grant in &after.status.grants {
        let record = (after.key.to_string(), grant.pod.clone(), grant.eviction.clone());
        if !run.history.recorded.contains_key(&record) && came_along(run, after, grant) {
            run.history.renewals.insert(grant.eviction.clone());
        }
        run.history.recorded.entry(record).or_default().insert(after.uid.clone());
        let standing = (after.uid.clone(), grant.pod.clone());
        run.history.standing.entry(standing).or_default().insert(grant.eviction.clone());
        // The earlier one is there no more: it goes on as this one.
        let goes_on = |old: &Grant| after.status.grants.iter().any(|g| g.eviction == old.eviction);
        let mut earlier = before.status.grants.iter().filter(|old| old.pod == grant.pod);
        if earlier.any(|old| old.eviction != grant.eviction && !goes_on(old)) {
            run.history.renewals.insert(grant.eviction.clone());
        }
    }
    for grant in &before.status.grants {
        if after.status.grants.iter().any(|new| new.pod == grant.pod) {
            continue;
        }
        run.history.standing.remove(&(after.uid.clone(), grant.pod.clone()));
        let record = (after.uid.clone(), grant.uid.clone(), grant.eviction.clone());
        run.history.ended.insert(record);
    }
}

/// What an engine found wrong with itself is as wrong as what we find.
fn ask_engines(run: &mut Run) {
    for index in 0..run.params.instances {
        let mut instance = run.world.instance(index);
        if !instance.is_up() {
            continue;
        }
        let violations = instance.engine().violations();
        for id in Invariant::ALL {
            run.require(*id, violations.of(*id) == 0, || format!("instance {index} says so"));
        }
    }
}
