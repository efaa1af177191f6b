//! Upstream's events about a budget (upstream 1.4).

use super::budgets::BudgetEntry;
use super::evaluate::{Failure, SyncError};
use super::{BudgetId, Context, Namespace};
use crate::cache::display;
use crate::io::{Command, Event, Regarding};
use crate::model::Scope;

impl Namespace {
    /// Each when its state begins.
    pub(super) fn announce(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(entry) = self.budgets.get(id) else { return };
        let evaluation = self.evaluate(entry);
        let error = match evaluation.failure {
            Some(Failure::SyncFailed(error)) => Some(error),
            Some(Failure::UnknownTotal(why)) if entry.object.spec.unavailable.is_some() => {
                Some(SyncError::ExpectedCount(why))
            }
            _ => None,
        };
        let no_pods = entry.tally.pods == 0 && entry.selector.is_ok();
        let unmanaged = entry.scope == Scope::Pod
            && entry.object.spec.needs_total()
            && entry.object.spec.unavailable.is_none()
            && entry.tally.unmanaged_pods > 0;
        let mut events = Vec::new();
        if no_pods && !entry.announced.no_pods {
            events.push((false, "NoPods", "No matching pods found".to_owned()));
        }
        if unmanaged && !entry.announced.unmanaged_pods {
            events.push((true, "UnmanagedPods", unmanaged_message(entry)));
        }
        let text = error.as_ref().map(|e| e.text().to_owned());
        if entry.announced.sync_error != text {
            match &error {
                Some(error) if entry.unreadable.is_some() => events.push((
                    true,
                    "Unreadable",
                    format!(
                        "Holdfast cannot read this budget, so it allows nothing: {}",
                        error.text()
                    ),
                )),
                Some(SyncError::Selector(why)) => {
                    events.push((true, "NoPods", format!("Failed to get pods: {why}")));
                }
                Some(SyncError::ExpectedCount(why)) => events.push((
                    true,
                    "CalculateExpectedPodCountFailed",
                    format!("Failed to calculate the number of expected pods: {why}"),
                )),
                None => {}
            }
        }
        let uid = entry.object.uid.clone();
        for (warning, reason, message) in events {
            let regarding = Regarding::Budget { key: (**id).clone(), uid: uid.clone() };
            cx.send(Command::Event(Event { regarding, warning, reason, message }));
        }
        if let Some(entry) = self.budgets.get_mut(id) {
            entry.announced.no_pods = no_pods;
            entry.announced.unmanaged_pods = unmanaged;
            entry.announced.sync_error = text;
        }
    }
}

fn unmanaged_message(budget: &BudgetEntry) -> String {
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the \
         status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account \
         for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
        display(budget.object.spec.selector.as_ref())
    )
}
