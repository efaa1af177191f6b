//! Another instance has decided by more than we have seen: see as much before deciding too.

use std::collections::{BTreeMap, BTreeSet};

use super::explain::refuse;
use super::{BudgetId, Context, Namespace};
use crate::io::{Command, Kind};
use crate::model::ResourceVersion;
use crate::verdict::DenyReason;

#[derive(Debug, Default)]
pub(super) struct Behind {
    /// Lists of this namespace that are under way.
    listing: BTreeSet<Kind>,
    /// Versions of lists that were ahead of the watch. Events up to there say nothing new, and an
    /// old one could bring back what is gone.
    snapshots: BTreeMap<Kind, ResourceVersion>,
    /// Requests that wait for a list.
    waiting: BTreeSet<String>,
}

impl Namespace {
    /// Whether we have seen all that the budget's status was computed from. If not, asks for it.
    pub(super) fn is_current(&mut self, cx: &mut Context<'_>, id: &BudgetId) -> bool {
        let Some(budget) = self.budgets.get(id) else { return true };
        let mut behind = BTreeSet::new();
        for (name, version) in &budget.object.status.watermarks {
            let Some(kind) = cx.progress.kind(name) else { continue };
            let listed = self.behind.snapshots.get(kind);
            let reached = cx.progress.has_reached(kind, version)
                || listed.is_some_and(|listed| !listed.is_older_than(version));
            if !reached {
                behind.insert(kind.clone());
            }
        }
        let current = behind.is_empty();
        for kind in behind {
            if self.behind.listing.insert(kind.clone()) {
                cx.send(Command::ListNamespace { kind, namespace: self.name.to_string() });
            }
        }
        current
    }

    /// The request goes on when the lists that are under way have come.
    pub(super) fn wait_for_lists(&mut self, eviction: &str) {
        self.behind.waiting.insert(eviction.to_owned());
    }

    pub(crate) fn caught_up(
        &mut self,
        cx: &mut Context<'_>,
        kind: &Kind,
        version: ResourceVersion,
    ) {
        self.behind.listing.remove(kind);
        self.behind.snapshots.insert(kind.clone(), version);
        let passed = |(kind, version): (&Kind, &ResourceVersion)| {
            cx.progress.has_reached(kind, version).then(|| kind.clone())
        };
        for kind in self.behind.snapshots.iter().filter_map(passed).collect::<Vec<_>>() {
            self.behind.snapshots.remove(&kind);
        }
        self.touch_all(cx);
        if self.behind.listing.is_empty() {
            for id in std::mem::take(&mut self.behind.waiting) {
                self.start(cx, &id);
            }
        }
    }

    pub(crate) fn snapshot_failed(&mut self, cx: &mut Context<'_>, kind: &Kind, why: &str) {
        self.behind.listing.remove(kind);
        let why = format!(
            "another instance of Holdfast has seen newer {kind} than this one, and they could not be listed: {why}"
        );
        for id in std::mem::take(&mut self.behind.waiting) {
            self.deny(cx, &id, refuse(DenyReason::BeingProcessed, &why));
        }
        self.touch_all(cx);
    }

    /// Whether a list has shown all of this kind up to this version.
    pub(crate) fn is_superseded(&self, kind: &Kind, version: &ResourceVersion) -> bool {
        self.behind.snapshots.get(kind).is_some_and(|listed| !listed.is_older_than(version))
    }

    pub(crate) fn touch_all(&mut self, cx: &mut Context<'_>) {
        for id in self.budgets.keys().cloned().collect::<Vec<_>>() {
            self.touch(cx, &id);
        }
    }
}
