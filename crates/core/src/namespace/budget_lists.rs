//! Which budgets cover a pod is decided on a recent list of the namespace's budgets (semantics 6).
//!
//! A watch cannot prove that it is current: a lagging watch delivers old events, and an API server whose watch
//! cache is stuck goes on sending bookmarks. A consistent list can.
//!
//! ```text
//! request --> list at most 5 s old? --yes--> decide; past 2.5 s, send the next list beside the requests
//!                 \--no--> wait for the list --answer--> decide
//!                                 \--failure, deadline--> deny
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use super::explain::refuse;
use super::requests::Stage;
use super::{Context, Namespace};
use crate::io::{Change, Command, Kind};
use crate::model::{Budget, Operation, ResourceVersion, Timestamp};
use crate::verdict::DenyReason;

/// An allow rests on a list of the budgets that was sent at most this long ago.
const AGE_MAX: Duration = Duration::from_secs(5);

/// Requests that come while the list is older than this make the engine send the next one. A steady flow of
/// requests then never waits for a list.
const RENEWED_AFTER: Duration = Duration::from_millis(2500);

#[derive(Clone, Debug, Default)]
pub(super) struct BudgetLists {
    /// When the newest list of each kind that has been answered was sent.
    sent: BTreeMap<Kind, Timestamp>,
    /// The version of that list. Watch events up to it bring no budget back.
    versions: BTreeMap<Kind, ResourceVersion>,
    /// Kinds of which a list is under way, and whether a budget went since the list was sent.
    under_way: BTreeMap<Kind, bool>,
    /// Requests that wait for a list, in the order in which they came.
    waiting: Vec<String>,
}

impl BudgetLists {
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    fn is_younger(&self, kind: &Kind, age: Duration, now: Timestamp) -> bool {
        self.sent.get(kind).is_some_and(|sent| now <= *sent + age)
    }

    /// A budget of this kind is gone. Its successor may exist already, which no list shows that was sent before.
    pub(super) fn expire(&mut self, kind: &Kind) {
        if planted!(KeepOldLists) {
            return;
        }
        self.sent.remove(kind);
        self.under_way.entry(kind.clone()).and_modify(|is_old| *is_old = true);
    }
}

impl Namespace {
    /// Whether the budgets that this request may concern were listed a short time ago. If not, the request
    /// waits for the list, and starts again when the list is there.
    pub(super) fn has_recent_budgets(&mut self, cx: &mut Context<'_>, id: &str) -> bool {
        let Some(request) = self.requests.get_mut(id) else { return false };
        let operation = request.eviction.operation;
        // PodUnavailableBudgets never stop the system at work (semantics 9).
        if request.eviction.exempt && operation != Operation::Evict {
            return true;
        }
        if planted!(StaleCoverage) {
            return true;
        }
        if planted!(ServeUnsynced) && cx.unsynced.is_some() {
            return true;
        }
        let mut recent = true;
        for kind in kinds_for(operation).iter().filter(|kind| cx.config.kinds.contains(kind)) {
            recent &= self.budget_lists.is_younger(kind, AGE_MAX, cx.now);
            let renew = !self.budget_lists.is_younger(kind, RENEWED_AFTER, cx.now);
            if renew && !self.budget_lists.under_way.contains_key(kind) {
                self.budget_lists.under_way.insert(kind.clone(), false);
                let (kind, namespace) = (kind.clone(), self.name.to_string());
                cx.commands.push_back(Command::ListNamespace { kind, namespace });
            }
        }
        if !recent {
            request.stage = Stage::Listing;
            if !self.budget_lists.waiting.iter().any(|waiting| waiting == id) {
                self.budget_lists.waiting.push(id.to_owned());
            }
        }
        recent
    }

    /// A list of the namespace's budgets that was sent at this time is in the cache.
    pub(crate) fn budgets_listed(
        &mut self,
        cx: &mut Context<'_>,
        kind: &Kind,
        sent: Timestamp,
        version: Option<ResourceVersion>,
    ) {
        let lists = &mut self.budget_lists;
        if lists.under_way.remove(kind) == Some(false) {
            lists.sent.insert(kind.clone(), sent);
        }
        if let Some(version) = version {
            lists.versions.insert(kind.clone(), version);
        }
        // A request that needs the list of the other kind too waits again.
        for id in std::mem::take(&mut lists.waiting) {
            self.start(cx, &id);
        }
    }

    pub(crate) fn budgets_not_listed(&mut self, cx: &mut Context<'_>, kind: &Kind, why: &str) {
        self.budget_lists.under_way.remove(kind);
        let why = format!(
            "Holdfast cannot tell which budgets cover the pod, because the API server did not list the {kind} of \
             namespace {}: {why}; try again once the API server answers",
            self.name
        );
        for id in std::mem::take(&mut self.budget_lists.waiting) {
            let operation = self.requests.get(&id).map(|r| r.eviction.operation);
            if operation.is_some_and(|operation| !kinds_for(operation).contains(kind)) {
                self.budget_lists.waiting.push(id);
                continue;
            }
            self.deny(cx, &id, refuse(DenyReason::BeingProcessed, &why));
        }
    }

    /// The cache of this kind was emptied or rebuilt: earlier lists prove nothing any more.
    pub(crate) fn forget_budget_lists(&mut self, kind: &Kind) {
        self.budget_lists.sent.remove(kind);
        self.budget_lists.versions.remove(kind);
    }

    /// Returns whether a list of budgets has shown that this budget is gone, or shown it in a newer state. Later states
    /// of a budget that the cache has are news: they show what the budget granted last. So is a successor of that
    /// budget: a list that the watch begins anew with shows no deletion.
    pub(crate) fn is_listed(&self, change: &Change<Budget>) -> bool {
        let Change::Applied(budget) = change else { return false };
        let known =
            self.budgets.contains_key(&budget.key) || self.successors.contains_key(&budget.key);
        let listed = self.budget_lists.versions.get(&budget.key.kind.watched());
        !known && listed.is_some_and(|listed| !listed.is_older_than(&budget.version))
    }
}

/// The kinds of budgets that an operation asks.
fn kinds_for(operation: Operation) -> &'static [Kind] {
    match operation {
        Operation::Evict => &[Kind::Budget, Kind::UnavailableBudget],
        Operation::Delete | Operation::Update | Operation::Resize => &[Kind::UnavailableBudget],
    }
}
