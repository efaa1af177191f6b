//! No grant takes a budget below what it desires.
//!
//! * **Exact**, where pods are lost by evictions alone: no budget falls below what it desires, with every
//!   pod counted as lost that an allowed eviction may still hit. Budgets may be edited, deleted and
//!   created meanwhile ([`holdfast_audit::Auditor::look`]).
//! * **By what was known**, everywhere: every write that records a new grant is held against what its
//!   writer had been told when it decided, less every pod that a grant of this budget, by name, has taken
//!   or may still take ([`holdfast_audit::Auditor::judge_grants`]).

use holdfast_audit::objects as audit;
use holdfast_core::invariant::Invariant;

use super::partition;
use crate::audited;
use crate::chaos::params::Profile;
use crate::chaos::run::Run;
use crate::world::Written;

pub fn after_step(run: &mut Run) {
    let look = (run.world.revision(), run.allowed.len());
    if !run.params.quiet || run.history.looked.replace(look) == Some(look) {
        return;
    }
    run.checked(Invariant::S1);
    let mut auditor = std::mem::take(&mut run.auditor);
    // Deletes and updates do not ask a budget that is about evictions.
    let everyone = run.params.profile != Profile::Unavailable;
    let asked = |budget: &audit::Budget| everyone || budget.unavailable.is_some();
    let findings = auditor.look(&|version| run.all_told(version), &asked);
    run.auditor = auditor;
    run.require_none(findings);
}

pub fn after_write(run: &mut Run, written: &Written) {
    let (new, old) = partition(run, written);
    if new.is_empty() {
        return;
    }
    run.checked(Invariant::S1);
    let Written { after, view, by, .. } = written;
    let plain = |grants: &[&_]| grants.iter().map(|g| audited::grant(g)).collect::<Vec<_>>();
    let (old, new) = (plain(&old), plain(&new));
    let budget = audited::budget(after);
    let finding = run.auditor.judge_grants(&budget, (&old, &new), &view.state);
    let finding = finding.map(|mut finding| {
        finding.message = format!("by what instance {by} knew: {}", finding.message);
        finding
    });
    run.require_none(finding);
}
