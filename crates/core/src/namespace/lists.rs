//! Lists of this namespace that decisions wait for: of what budgets demand, and of the budgets themselves.

use std::collections::BTreeSet;

use super::budgets::BudgetEntry;
use super::explain::refuse;
use super::requests::Stage;
use super::units::is_unavailable;
use super::{BudgetId, Context, Namespace};
use crate::cache::{CatchUp, Claim, Progress, owner_kind};
use crate::io::{Change, Command, Kind};
use crate::model::{Budget, GroupKind, Operation, Owner, ResourceVersion, Timestamp};
use crate::replicas::LWS;
use crate::verdict::DenyReason;

impl Namespace {
    /// Returns what this instance has to see before it may decide by the budget, and asks for it: what the budget was
    /// computed from, and scales that its pods exceed.
    pub(super) fn missing(&mut self, cx: &mut Context<'_>, id: &BudgetId) -> Option<Missing> {
        let claims = self.catch_up_with(cx, id, true);
        let claims = (!claims.is_empty()).then_some(Missing(claims));
        match (claims, self.old_scales(cx, id)) {
            (Some(claims), Some(scales)) => Some(Missing([claims.0, scales.0].concat())),
            (claims, scales) => claims.or(scales),
        }
    }

    /// Returns whether this instance has seen everything that the budget's status was computed from, and the pods as of
    /// the version at which it learned of the budget. If not, asks for a list.
    pub(super) fn is_current(&mut self, cx: &mut Context<'_>, id: &BudgetId) -> bool {
        self.catch_up_with(cx, id, true).is_empty()
    }

    /// Returns whether this instance may write the budget's status: its caches are complete, and it has seen everything
    /// that the status was computed from. If it has seen less, asks for a list.
    pub(super) fn may_write_status(&mut self, cx: &mut Context<'_>, id: &BudgetId) -> bool {
        cx.unsynced.is_none() && self.catch_up_with(cx, id, false).is_empty()
    }

    /// Returns what the budget claims and this instance has not seen, and asks for lists.
    fn catch_up_with(&mut self, cx: &mut Context<'_>, id: &BudgetId, decides: bool) -> Vec<Claim> {
        let Some(budget) = self.budgets.get(id) else { return Vec::new() };
        if planted!(SkipWatermark) || cx.unsynced.is_some_and(|_| planted!(ServeUnsynced)) {
            return Vec::new();
        }
        let uid = &budget.object.uid;
        let has_seen = |(kind, version): &(&Kind, &ResourceVersion)| {
            self.catch_up.has_seen(cx.progress, uid, kind, version)
        };
        let first_seen = (decides && !planted!(SkipCreation)).then(|| budget.first_seen());
        let all = budget.watermarks(cx.progress).chain(first_seen);
        let unseen: Vec<Claim> =
            all.filter(|of| !has_seen(of)).map(|of| budget.claim(of)).collect();
        if unseen.is_empty() && self.grants.ledger(id).has_held_back() {
            self.bind_held_back(cx, id);
        }
        let kinds: BTreeSet<Kind> = unseen.iter().map(|claim| claim.kind.clone()).collect();
        for kind in kinds {
            self.list(cx, kind);
        }
        unseen
    }

    pub(super) fn has_seen(&self, cx: &Context<'_>, claim: &Claim) -> bool {
        self.catch_up.has_seen(cx.progress, &claim.budget, &claim.kind, &claim.version)
    }

    /// Returns what this instance has to see before it may decide, because an owner of the pod bears on the decision and
    /// may be another than it has seen. Asks for a list.
    pub(super) fn needs_owners(&mut self, cx: &mut Context<'_>, pod: &str) -> Option<Claim> {
        let kind = self.unseen_owner(cx, pod)?;
        if self.catch_up.is_not_served(&kind, cx.now) {
            return None;
        }
        let version = self.cache.pod(pod)?.pod.version.clone();
        self.list(cx, kind.clone());
        Some(Claim { budget: String::new(), kind, version })
    }

    /// Returns the kind of an owner of the pod that may exist and that this instance has not seen.
    fn unseen_owner(&self, cx: &Context<'_>, pod: &str) -> Option<Kind> {
        // A LeaderWorkerSet that the pod names by its label: the one that is going may be another of the same name.
        let entry = self.cache.pod(pod)?;
        let lws = entry.budgets.iter().any(is_unavailable).then(|| self.set_by_label(entry));
        if lws.flatten().is_some_and(|lws| lws.terminating) {
            let kind = Kind::Owner(GroupKind::new(Owner::LWS_GROUP, LWS));
            if !self.catch_up.has_seen(cx.progress, "", &kind, &entry.pod.version) {
                return Some(kind);
            }
        }
        if self.targets.is_empty() {
            return None;
        }
        let (objects, pod) = (&self.cache.objects, &self.cache.pod(pod)?.pod);
        let last = objects.root(pod.controller.as_deref()?);
        let kind = owner_kind(&last.group_kind);
        if objects.controller(last).is_some() || !Owner::is_watched(&kind) {
            return None;
        }
        let kind = Kind::Owner(kind.into_owned());
        // An owner exists before its pods.
        (!self.catch_up.has_seen(cx.progress, "", &kind, &pod.version)).then_some(kind)
    }

    pub(super) fn list(&mut self, cx: &mut Context<'_>, kind: Kind) {
        if self.catch_up.is_listing(&kind) {
            return;
        }
        let claims = self.claims(cx.progress, &kind);
        self.catch_up.begin(&kind, claims);
        cx.send(Command::ListNamespace { kind, namespace: self.name.to_string() });
    }

    /// Returns the versions of this kind that decisions need.
    fn claims(&self, progress: &Progress, kind: &Kind) -> Vec<Claim> {
        let of_budgets = self.budgets.values().flat_map(|budget| budget.claims(progress, kind));
        of_budgets.chain(self.scale_claims(kind)).collect()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The watches have come further. Requests go on if the watches have shown what they need.
    pub(crate) fn watch_progressed(&mut self, cx: &mut Context<'_>) {
        // Requests also wait here until the watch has shown the budgets that an answer has shown.
        if !self.successors.is_empty() {
            return;
        }
        let is_awaited = self.cache.scales.is_awaited();
        let has_all = |needs: &[Claim]| {
            let waits_for_scale = needs.is_empty() && is_awaited;
            !waits_for_scale && needs.iter().all(|claim| self.has_seen(cx, claim))
        };
        let ready = self.waiting.iter().filter(|(_, needs)| has_all(needs));
        let ready: Vec<String> = ready.map(|(id, _)| id.clone()).collect();
        for id in ready {
            self.waiting.remove(&id);
            self.start(cx, &id);
        }
    }

    fn start_waiting(&mut self, cx: &mut Context<'_>) {
        for (id, _) in std::mem::take(&mut self.waiting) {
            self.start(cx, &id);
        }
    }

    /// A list that was asked for because a budget demands it is in the cache.
    pub(crate) fn caught_up(
        &mut self,
        cx: &mut Context<'_>,
        kind: &Kind,
        version: ResourceVersion,
    ) {
        if planted!(IgnoreRisen) {
            let claims = self.claims(cx.progress, kind);
            self.catch_up.begin(kind, claims);
        }
        let budgets = &self.budgets;
        let exists = |uid: &str| budgets.values().any(|b| b.object.uid == uid);
        self.catch_up.listed(cx.progress, kind, version, exists);
        self.touch_all(cx);
        self.start_if_all_seen(cx);
    }

    /// The kind is not served, and the cache holds nothing of it.
    pub(crate) fn nothing_to_list(&mut self, cx: &mut Context<'_>, kind: &Kind) {
        self.catch_up.nothing_to_list(kind, cx.now);
        self.touch_all(cx);
        self.start_if_all_seen(cx);
    }

    /// Requests go on if no list is in transit, and no scale is being read, that they wait for.
    pub(super) fn start_if_all_seen(&mut self, cx: &mut Context<'_>) {
        if self.catch_up.listing().next().is_none() && !self.cache.scales.is_awaited() {
            self.start_waiting(cx);
        }
    }

    pub(crate) fn snapshot_failed(&mut self, cx: &mut Context<'_>, kind: &Kind, why: &str) {
        self.catch_up.failed(kind);
        let why = format!(
            "this instance of Holdfast has seen less of {kind} than the decision needs, and could not list them: {why}"
        );
        for (id, _) in std::mem::take(&mut self.waiting) {
            self.deny(cx, &id, refuse(DenyReason::BeingProcessed, &why));
        }
        self.touch_all(cx);
    }

    /// Returns whether a list has shown all of this kind up to this version.
    pub(crate) fn is_superseded(&self, kind: &Kind, version: &ResourceVersion) -> bool {
        self.catch_up.has_listed(kind, version)
    }

    /// Lists of this kind prove nothing any more: the kind is not served.
    pub(crate) fn forget_snapshot(&mut self, kind: &Kind) {
        self.catch_up.forget(kind);
    }

    /// Returns whether the budgets that this request may concern were listed a short time ago. If not, the request
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
            recent &= self.budget_lists.is_recent(kind, cx.now);
            if self.budget_lists.begin(kind, cx.now) {
                let (kind, namespace) = (kind.clone(), self.name.to_string());
                cx.commands.push_back(Command::ListNamespace { kind, namespace });
            }
        }
        if !recent {
            request.stage = Stage::Listing;
            self.budget_lists.wait(id);
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
        for id in self.budget_lists.listed(kind, sent, version) {
            self.start(cx, &id);
        }
    }

    pub(crate) fn budgets_not_listed(&mut self, cx: &mut Context<'_>, kind: &Kind, why: &str) {
        let why = format!(
            "Holdfast cannot tell which budgets cover the pod, because the API server did not list the {kind} of \
             namespace {}: {why}; try again once the API server answers",
            self.name
        );
        let requests = &self.requests;
        let needs = |id: &str| {
            requests.get(id).is_none_or(|r| kinds_for(r.eviction.operation).contains(kind))
        };
        for id in self.budget_lists.failed(kind, needs) {
            self.deny(cx, &id, refuse(DenyReason::BeingProcessed, &why));
        }
    }

    /// The cache of this kind was emptied or rebuilt: earlier lists prove nothing any more.
    pub(crate) fn forget_budget_lists(&mut self, kind: &Kind) {
        self.budget_lists.forget(kind);
    }

    /// Returns whether a list of budgets has shown that this budget is gone, or shown it in a newer state. Later states
    /// of a budget that the cache has are news: they show what the budget granted last. So is a successor of that
    /// budget: a list that the watch begins anew with shows no deletion.
    pub(crate) fn is_listed(&self, change: &Change<Budget>) -> bool {
        let Change::Applied(budget) = change else { return false };
        let known =
            self.budgets.contains_key(&budget.key) || self.successors.contains_key(&budget.key);
        !known && self.budget_lists.has_listed(&budget.key.kind.watched(), &budget.version)
    }

    /// etcd was restored from a backup: objects of the cache may be of a time that never was. Makes every cached object
    /// of this kind older than anything that a list can show, so that the list replaces it or shows that it is gone.
    /// Versions that were remembered beside the objects go too.
    pub(crate) fn forget_versions(&mut self, kind: &Kind) {
        // No object has the first revision of an etcd, so a write that names it conflicts. An empty one might not.
        let none = ResourceVersion::from(1);
        if matches!(kind, Kind::Budget | Kind::UnavailableBudget) {
            let of_kind = self.budgets.values_mut().filter(|b| b.id.kind.watched() == *kind);
            of_kind.for_each(|budget| {
                budget.object.version = none.clone();
                budget.unreadable.iter_mut().for_each(|state| state.version = none.clone());
            });
            self.successors.retain(|id, _| id.kind.watched() != *kind);
        } else {
            self.cache.set_versions(kind, &none);
            self.cache.scales.forget_versions();
        }
        self.budgets.values_mut().for_each(|budget| budget.seen.forget(kind));
        self.catch_up.forget(kind);
        self.budget_lists.forget(kind);
    }

    /// A complete list of this kind, as of a version, holds nothing else of an age to be in it.
    pub(crate) fn retain(
        &mut self,
        cx: &mut Context<'_>,
        kind: &Kind,
        version: Option<&ResourceVersion>,
        held: &BTreeSet<Box<str>>,
    ) {
        let newer =
            |own: &ResourceVersion| version.is_some_and(|version| version.is_older_than(own));
        let gone = |name: &str, own: &ResourceVersion| !held.contains(name) && !newer(own);
        if matches!(kind, Kind::Budget | Kind::UnavailableBudget) {
            let of_kind = self.budgets.values().filter(|b| b.id.kind.watched() == *kind);
            let absent = of_kind.filter(|b| gone(&b.id.object.name, &b.object.version));
            let absent: Vec<BudgetId> = absent.map(|b| b.id.clone()).collect();
            self.successors.retain(|of, successor| {
                of.kind.watched() != *kind || !gone(&of.object.name, &successor.budget.version)
            });
            for id in absent {
                self.delete_budget(cx, &id);
            }
            return;
        }
        let unknown = ResourceVersion::default();
        let version = version.unwrap_or(&unknown);
        for name in self.cache.names_where(kind, gone) {
            match kind {
                Kind::Pod => {
                    self.forget_pod(cx, &name.as_str().into(), version);
                    self.unpark(cx, &name);
                }
                Kind::BuiltinBudget => self.delete_builtin(&name),
                Kind::PodGroup(api) => self.delete_group(cx, *api, &name, version),
                Kind::Workload(api) => self.delete_workload(cx, *api, &name, version),
                Kind::Owner(kind) => self.delete_owner(cx, kind, &name, version),
                Kind::Budget | Kind::UnavailableBudget => {}
            }
        }
    }

    pub(crate) fn touch_all(&mut self, cx: &mut Context<'_>) {
        for id in self.budgets.keys().cloned().collect::<Vec<_>>() {
            self.touch(cx, &id);
        }
    }
}

/// The versions that this instance has to see before it may decide. There are none if it waits for scales alone.
pub(super) struct Missing(pub(super) Vec<Claim>);

impl BudgetEntry {
    /// What the budget demands of one kind.
    fn claims<'a>(&'a self, progress: &'a Progress, kind: &'a Kind) -> impl Iterator<Item = Claim> {
        let all = self.watermarks(progress).chain([self.first_seen()]);
        all.filter(move |(of, _)| *of == kind).map(|of| self.claim(of))
    }

    fn claim(&self, (kind, version): (&Kind, &ResourceVersion)) -> Claim {
        let budget = self.object.uid.clone();
        Claim { budget, kind: kind.clone(), version: version.clone() }
    }

    /// What the budget's status was computed from, of kinds that this instance reads.
    fn watermarks<'a>(
        &'a self,
        progress: &'a Progress,
    ) -> impl Iterator<Item = (&'a Kind, &'a ResourceVersion)> {
        let watermarks = self.object.status.watermarks.iter();
        watermarks.filter_map(|(name, version)| Some((progress.kind(name)?, version)))
    }

    /// Returns whether this instance has seen the pods that the budget's status was computed from.
    pub(super) fn has_seen_pods(&self, catch_up: &CatchUp, progress: &Progress) -> bool {
        let mut pods = self.watermarks(progress).filter(|(kind, _)| **kind == Kind::Pod);
        pods.all(|(kind, version)| catch_up.has_seen(progress, &self.object.uid, kind, version))
    }

    /// The pods as of the version at which this instance learned of the budget. The budget may have a predecessor whose
    /// grants took pods, and its own watermarks say nothing of that.
    fn first_seen(&self) -> (&Kind, &ResourceVersion) {
        (&Kind::Pod, &self.first_version)
    }
}

/// The kinds of budgets that an operation asks.
pub(super) fn kinds_for(operation: Operation) -> &'static [Kind] {
    match operation {
        Operation::Evict => &[Kind::Budget, Kind::UnavailableBudget],
        Operation::Delete | Operation::Update | Operation::Resize => &[Kind::UnavailableBudget],
    }
}
