//! Another instance has decided by more than we have seen: see as much before deciding too.

use std::collections::{BTreeMap, BTreeSet};

use super::explain::refuse;
use super::{BudgetId, Context, Namespace};
use crate::io::{Command, Kind};
use crate::model::ResourceVersion;
use crate::verdict::DenyReason;

#[derive(Clone, Debug, Default)]
pub(super) struct Behind {
    /// Lists of this namespace that are under way.
    listing: BTreeSet<Kind>,
    /// Versions of lists that were ahead of the watch. Events up to there say nothing new, and an
    /// old one could bring back what is gone.
    snapshots: BTreeMap<Kind, ResourceVersion>,
    /// Watermarks that a consistent list has shown to be of the future: of an etcd that was restored
    /// since, or nobody's. Nothing can be seen of what has not happened.
    future: BTreeMap<Kind, ResourceVersion>,
    /// Requests that wait for a list.
    waiting: BTreeSet<String>,
}

impl Namespace {
    /// Whether we have seen all that the budget's status was computed from. If not, asks for it.
    pub(super) fn is_current(&mut self, cx: &mut Context<'_>, id: &BudgetId) -> bool {
        let Some(budget) = self.budgets.get(id) else { return true };
        if planted!(SkipWatermark) {
            return true;
        }
        let mut behind = BTreeSet::new();
        for (name, version) in &budget.object.status.watermarks {
            let Some(kind) = cx.progress.kind(name) else { continue };
            if !self.has_seen(cx, kind, version) {
                behind.insert(kind.clone());
            }
        }
        let current = behind.is_empty();
        if current && budget.strays {
            self.bind_strays(cx, id);
        }
        for kind in behind {
            if self.behind.listing.insert(kind.clone()) {
                cx.send(Command::ListNamespace { kind, namespace: self.name.to_string() });
            }
        }
        current
    }

    /// Whether we have seen the pods that the budget's status was computed from.
    pub(super) fn has_seen_pods(&self, cx: &Context<'_>, id: &BudgetId) -> bool {
        let watermarks = self.budgets.get(id).map(|b| &b.object.status.watermarks);
        let pods = watermarks.and_then(|w| w.get(&Kind::Pod.to_string()));
        pods.is_none_or(|version| self.has_seen(cx, &Kind::Pod, version))
    }

    fn has_seen(&self, cx: &Context<'_>, kind: &Kind, version: &ResourceVersion) -> bool {
        let reached = |by: &BTreeMap<Kind, ResourceVersion>| {
            by.get(kind).is_some_and(|reached| !reached.is_older_than(version))
        };
        cx.progress.has_reached(kind, version)
            || reached(&self.behind.snapshots)
            || reached(&self.behind.future)
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
        let name = kind.to_string();
        let claimed = self.budgets.values().filter_map(|b| b.object.status.watermarks.get(&name));
        let future = claimed.filter(|claimed| version.is_older_than(claimed)).cloned();
        for claimed in future.collect::<Vec<_>>() {
            let known = self.behind.future.entry(kind.clone()).or_default();
            if known.is_older_than(&claimed) {
                *known = claimed;
            }
        }
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
