//! Keeps an instance from deciding by less than another instance has seen, or by less than a new budget demands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::budgets::BudgetEntry;
use super::explain::refuse;
use super::{BudgetId, Context, Namespace};
use crate::io::{Command, Kind};
use crate::model::{BudgetStatus, ResourceVersion, Timestamp};
use crate::verdict::DenyReason;

#[derive(Clone, Debug, Default)]
pub(super) struct Behind {
    /// Lists of this namespace that are in transit, with the claims that existed when each was sent.
    listing: BTreeMap<Kind, Vec<Claim>>,
    /// Versions of lists that were ahead of the watch. Events up to there say nothing new, and an
    /// old one could bring back what is gone.
    snapshots: BTreeMap<Kind, ResourceVersion>,
    /// Claims that a consistent list has shown to be impossible: the claim existed before the list was sent, and
    /// exceeds it. Such a claim is of an etcd that was restored since, or of another etcd.
    impossible: Vec<Claim>,
    /// When the API server said, upon a list, that it does not serve a kind of which nothing is cached.
    not_served: BTreeMap<Kind, Timestamp>,
    /// Requests that wait until this instance has seen what the claims demand.
    waiting: BTreeSet<String>,
}

/// How long an instance goes by the answer that a kind is not served. Then it asks again.
const NOT_SERVED_FOR: Duration = Duration::from_secs(5);

/// A budget demands that whoever decides by it has seen this version of this kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    /// The budget's uid.
    budget: String,
    kind: Kind,
    version: ResourceVersion,
}

impl Behind {
    /// Returns whether this instance has seen the pods that the budget's status was computed from.
    pub(super) fn has_seen_pods(&self, cx: &Context<'_>, budget: &BudgetEntry) -> bool {
        let mut pods = watermarks(cx, budget).filter(|(kind, _)| **kind == Kind::Pod);
        pods.all(|(kind, version)| self.has_seen(cx, &budget.object.uid, kind, version))
    }

    /// Returns the version up to which this instance has seen the pods of this namespace.
    pub(super) fn pods_seen(&self, cx: &Context<'_>) -> Option<ResourceVersion> {
        let listed = self.snapshots.get(&Kind::Pod);
        let reached = cx.progress.reached(&Kind::Pod);
        let newest = match (listed, reached) {
            (Some(listed), Some(reached)) if reached.is_older_than(listed) => Some(listed),
            (listed, reached) => reached.or(listed),
        };
        newest.cloned()
    }

    /// Removes watermarks that are impossible, so that the next write replaces them by true ones.
    pub(super) fn drop_impossible(&self, uid: &str, status: &mut BudgetStatus) {
        for claim in self.impossible.iter().filter(|claim| claim.budget == uid) {
            let name = claim.kind.to_string();
            if status.watermarks.get(&name) == Some(&claim.version) {
                status.watermarks.remove(&name);
            }
        }
    }

    /// Returns whether this instance has seen what the budget of this uid claims, or need not see it.
    pub(super) fn has_seen(
        &self,
        cx: &Context<'_>,
        budget: &str,
        kind: &Kind,
        version: &ResourceVersion,
    ) -> bool {
        let listed = self.snapshots.get(kind);
        let is_claim = |c: &Claim| c.budget == budget && c.kind == *kind && c.version == *version;
        cx.progress.has_reached(kind, version)
            || listed.is_some_and(|listed| !listed.is_older_than(version))
            || self.impossible.iter().any(is_claim)
    }
}

impl Namespace {
    /// Returns whether this instance may decide by the budget: it has seen everything that the budget's status was
    /// computed from, and the pods as of the version at which it learned of the budget. If not, asks for a list.
    pub(super) fn is_current(&mut self, cx: &mut Context<'_>, id: &BudgetId) -> bool {
        self.catch_up(cx, id, true)
    }

    /// Returns whether this instance may write the budget's status: its caches are complete, and it has seen everything
    /// that the status was computed from. If it has seen less, asks for a list.
    pub(super) fn may_write_status(&mut self, cx: &mut Context<'_>, id: &BudgetId) -> bool {
        cx.unsynced.is_none() && self.catch_up(cx, id, false)
    }

    fn catch_up(&mut self, cx: &mut Context<'_>, id: &BudgetId, decides: bool) -> bool {
        let Some(budget) = self.budgets.get(id) else { return true };
        if planted!(SkipWatermark) || cx.unsynced.is_some_and(|_| planted!(ServeUnsynced)) {
            return true;
        }
        let unseen = |(kind, version): (&Kind, &ResourceVersion)| {
            (!self.behind.has_seen(cx, &budget.object.uid, kind, version)).then(|| kind.clone())
        };
        let mut behind: BTreeSet<Kind> = watermarks(cx, budget).filter_map(unseen).collect();
        if decides && !planted!(SkipCreation) {
            behind.extend(unseen(first_seen(budget)));
        }
        let current = behind.is_empty();
        if current && self.grants.ledger(id).has_held_back() {
            self.bind_held_back(cx, id);
        }
        for kind in behind {
            if !self.behind.listing.contains_key(&kind) {
                let sent = self.claims(cx, &kind);
                self.behind.listing.insert(kind.clone(), sent);
                cx.send(Command::ListNamespace { kind, namespace: self.name.to_string() });
            }
        }
        current
    }

    /// Returns whether a budget may name the pod's workload by an owner that this instance has not seen. If so, asks for
    /// a list.
    pub(super) fn needs_owners(&mut self, cx: &mut Context<'_>, pod: &str) -> bool {
        let Some(kind) = self.unseen_owner(cx, pod) else { return false };
        let not_served = self.behind.not_served.get(&kind);
        if not_served.is_some_and(|since| cx.now < *since + NOT_SERVED_FOR) {
            return false;
        }
        if !self.behind.listing.contains_key(&kind) {
            let sent = self.claims(cx, &kind);
            self.behind.listing.insert(kind.clone(), sent);
            cx.send(Command::ListNamespace { kind, namespace: self.name.to_string() });
        }
        true
    }

    /// Returns what the budgets of this namespace demand of one kind.
    fn claims(&self, cx: &Context<'_>, kind: &Kind) -> Vec<Claim> {
        let mut claims = Vec::new();
        for budget in self.budgets.values() {
            let all = watermarks(cx, budget).chain([first_seen(budget)]);
            claims.extend(all.filter(|(of, _)| *of == kind).map(|(_, version)| Claim {
                budget: budget.object.uid.clone(),
                kind: kind.clone(),
                version: version.clone(),
            }));
        }
        claims
    }

    /// The request goes on when the watch or the lists in transit have shown what it waits for.
    pub(super) fn wait_for_lists(&mut self, eviction: &str) {
        self.behind.waiting.insert(eviction.to_owned());
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.behind.waiting.is_empty()
    }

    /// The watches have come further. Requests go on if the watches have shown what the lists were asked for.
    pub(crate) fn watch_progressed(&mut self, cx: &mut Context<'_>) {
        let kinds = self.behind.listing.keys();
        let has_seen = |c: &Claim| self.behind.has_seen(cx, &c.budget, &c.kind, &c.version);
        let is_seen = |kind: &Kind| self.claims(cx, kind).iter().all(has_seen);
        // Requests also wait here until the watch has shown the budgets that an answer has shown.
        if self.successors.is_empty() && kinds.into_iter().all(is_seen) {
            self.start_waiting(cx);
        }
    }

    fn start_waiting(&mut self, cx: &mut Context<'_>) {
        for id in std::mem::take(&mut self.behind.waiting) {
            self.start(cx, &id);
        }
    }

    pub(crate) fn caught_up(
        &mut self,
        cx: &mut Context<'_>,
        kind: &Kind,
        version: ResourceVersion,
    ) {
        let mut sent = self.behind.listing.remove(kind).unwrap_or_default();
        if planted!(IgnoreRisen) {
            sent = self.claims(cx, kind);
        }
        // A claim that was made while the list was in transit may well exceed it.
        let impossible = sent.into_iter().filter(|claim| version.is_older_than(&claim.version));
        let impossible: Vec<Claim> = impossible.collect();
        let budgets = &self.budgets;
        let exists = |uid: &str| budgets.values().any(|b| b.object.uid == uid);
        let known = &mut self.behind.impossible;
        known.retain(|claim| exists(&claim.budget) && !impossible.contains(claim));
        known.extend(impossible);
        self.behind.snapshots.insert(kind.clone(), version);
        let passed = |(kind, version): (&Kind, &ResourceVersion)| {
            cx.progress.has_reached(kind, version).then(|| kind.clone())
        };
        for kind in self.behind.snapshots.iter().filter_map(passed).collect::<Vec<_>>() {
            self.behind.snapshots.remove(&kind);
        }
        self.touch_all(cx);
        if self.behind.listing.is_empty() {
            self.start_waiting(cx);
        }
    }

    /// The kind is not served, and the cache holds nothing of it. The claims of the list cannot be met.
    pub(crate) fn nothing_to_list(&mut self, cx: &mut Context<'_>, kind: &Kind) {
        self.behind.not_served.insert(kind.clone(), cx.now);
        let claims = self.behind.listing.remove(kind).unwrap_or_default();
        self.behind.impossible.retain(|claim| !claims.contains(claim));
        self.behind.impossible.extend(claims);
        self.touch_all(cx);
        if self.behind.listing.is_empty() {
            self.start_waiting(cx);
        }
    }

    pub(crate) fn snapshot_failed(&mut self, cx: &mut Context<'_>, kind: &Kind, why: &str) {
        self.behind.listing.remove(kind);
        let why = format!(
            "this instance of Holdfast has seen less of {kind} than the decision needs, and could not list them: {why}"
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

    /// Lists of this kind prove nothing any more: etcd was restored, or the kind is not served.
    pub(crate) fn forget_snapshot(&mut self, kind: &Kind) {
        self.behind.snapshots.remove(kind);
        self.behind.impossible.retain(|claim| claim.kind != *kind);
    }

    pub(crate) fn touch_all(&mut self, cx: &mut Context<'_>) {
        for id in self.budgets.keys().cloned().collect::<Vec<_>>() {
            self.touch(cx, &id);
        }
    }
}

/// What the budget's status was computed from, of kinds that this instance reads.
fn watermarks<'a>(
    cx: &'a Context<'_>,
    budget: &'a BudgetEntry,
) -> impl Iterator<Item = (&'a Kind, &'a ResourceVersion)> {
    let watermarks = budget.object.status.watermarks.iter();
    watermarks.filter_map(|(name, version)| Some((cx.progress.kind(name)?, version)))
}

/// The pods as of the version at which this instance learned of the budget. The budget may have a predecessor whose
/// grants took pods, and its own watermarks say nothing of that.
fn first_seen(budget: &BudgetEntry) -> (&Kind, &ResourceVersion) {
    (&Kind::Pod, &budget.first_version)
}
