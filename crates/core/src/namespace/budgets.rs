//! Budgets come, change and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::owners::ExpectedOwners;
use super::replacements::Unwritten;
use super::units::is_unavailable;
use super::writer::Writer;
use super::{BudgetId, Context, Namespace};
use crate::cache::PodEntry;
use crate::cache::Seen;
use crate::cache::Selector;
use crate::io::Kind;
use crate::model::{Budget, BudgetKey, BudgetStatus, ResourceVersion, Scope, Timestamp};
use crate::tally::Tally;

#[derive(Clone, Debug)]
pub(super) struct BudgetEntry {
    pub(super) id: BudgetId,
    /// As it stands on the API server, as far as we know.
    pub(super) object: Budget,
    /// The scope in force: with the feature gate off, everything is counted in pods.
    pub(super) scope: Scope,
    /// Ok(None) selects nothing.
    pub(super) selector: Result<Option<Selector>, String>,
    pub(super) tally: Tally,
    pub(super) writer: Writer,
    /// What its numbers were computed from.
    pub(super) seen: Seen,
    /// The version at which this instance learned of the budget.
    pub(super) first_version: ResourceVersion,
    pub(super) announced: Announced,
    /// Owners whose pods it will select.
    pub(super) owners: ExpectedOwners,
    /// Whether pods of a `LeaderWorkerSet` are told into replicas by its groups.
    pub(super) lws_groups: bool,
    /// Replacements that `object` does not hold.
    pub(super) unwritten: Unwritten,
    /// Since when groups keep the size that was recorded with the grant of a pod, by its uid.
    pub(super) sizes_since: BTreeMap<String, Timestamp>,
    /// Its newest state cannot be decoded. `object` has the selector of this state, and the last status that could be
    /// decoded.
    pub(super) unreadable: Option<Unreadable>,
}

/// A state of a budget that the API server has shown.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) budget: Budget,
    pub(super) unreadable: Option<Unreadable>,
}

/// Says why this state of a budget cannot be decoded.
#[derive(Clone, Debug)]
pub(super) struct Unreadable {
    pub(super) why: String,
    pub(super) version: ResourceVersion,
}

/// Events that were published already, so that each is published once per change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) no_pods: bool,
    pub(super) unmanaged_pods: bool,
    pub(super) sync_error: Option<String>,
}

impl BudgetEntry {
    /// Returns whether the status names the pods that it was computed from.
    pub(super) fn has_pod_watermark(&self) -> bool {
        self.object.status.watermarks.contains_key(&Kind::Pod.to_string())
    }
}

impl Namespace {
    pub(crate) fn apply_budget(&mut self, cx: &mut Context<'_>, budget: Budget) {
        let id = self.budget_id(&budget.key);
        match self.budgets.get(&id) {
            Some(entry) if entry.object.uid == budget.uid => {
                // Not again what a write of ours was answered with. A state in between that could not be read may have
                // been told of since; and who asks "what if" gives another spec the same version.
                let is_known = budget.version == entry.object.version
                    && budget.spec == entry.object.spec
                    && entry.unreadable.is_none();
                // It was never decoded, so its status is not known.
                let is_first =
                    entry.unreadable.as_ref().is_some_and(|u| u.version == entry.object.version);
                let is_older = budget.version.is_older_than(&entry.object.version);
                if !is_known && (is_first || !is_older) {
                    let writing = entry.writer.writing();
                    self.take_in(cx, &id, budget, writing.as_deref());
                    // A write of ours that was given up for lost may have landed: that is taken back at once.
                    self.pump(cx, &id);
                }
            }
            _ => self.replace_budget(cx, &id, Shown { budget, unreadable: None }),
        }
    }

    /// The API server has shown a budget that this instance does not have, or that has another uid.
    pub(super) fn replace_budget(&mut self, cx: &mut Context<'_>, id: &BudgetId, shown: Shown) {
        match self.budgets.get(id) {
            // An answer that was long on its way must not bring back what is gone.
            Some(entry) if shown.budget.version.is_older_than(&entry.object.version) => {}
            Some(_) => {
                let shown = self.newest_of(id, shown);
                // The successor is in force before anybody who waited for the old one starts over.
                let writer = self.remove_budget(cx, id);
                self.create_budget(cx, id, shown);
                self.budget_gone(cx, id, writer);
            }
            None => {
                let shown = self.newest_of(id, shown);
                self.create_budget(cx, id, shown);
            }
        }
    }

    /// Returns the state of a recreated budget that is to be in force: the one that the watch shows, or a newer one of
    /// the same budget that an answer has shown. A budget that was recreated once more goes on waiting for the watch.
    fn newest_of(&mut self, id: &BudgetId, watched: Shown) -> Shown {
        let version = &watched.budget.version;
        match self.successors.remove(id) {
            Some(answered) if !version.is_older_than(&answered.budget.version) => watched,
            Some(answered) if answered.budget.uid == watched.budget.uid => {
                match answered.unreadable {
                    None => *answered,
                    // The status is known by what the watch shows.
                    unreadable => {
                        let budget = Budget { spec: answered.budget.spec, ..watched.budget };
                        Shown { budget, unreadable }
                    }
                }
            }
            Some(answered) => {
                self.successors.insert(id.clone(), answered);
                watched
            }
            None => watched,
        }
    }

    /// A list that is ahead of the watch shows this budget. If the watch has not shown it, the watch may still have to
    /// show what a predecessor of the same name granted last. Until then nothing is allowed in this namespace.
    pub(crate) fn apply_listed_budget(&mut self, cx: &mut Context<'_>, budget: Budget) {
        let id = self.budget_id(&budget.key);
        if self.is_shown(&id, &budget) {
            self.apply_budget(cx, budget);
        } else {
            self.note_successor(id, Shown { budget, unreadable: None });
        }
    }

    /// Returns whether the watch has shown this budget, or a later one of its name.
    pub(super) fn is_shown(&self, id: &BudgetId, budget: &Budget) -> bool {
        self.budgets.get(id).is_some_and(|entry| {
            let known = &entry.object;
            known.uid.is_empty()
                || known.uid == budget.uid
                || budget.version.is_older_than(&known.version)
        })
    }

    /// An answer shows a budget that the watch has not shown. Answers overtake each other: a budget that was recreated
    /// twice is the newest that any answer has shown.
    pub(super) fn note_successor(&mut self, id: BudgetId, shown: Shown) {
        let known = self.successors.get(&id);
        let version = &shown.budget.version;
        if known.is_none_or(|known| !version.is_older_than(&known.budget.version)) {
            self.successors.insert(id, Box::new(shown));
        }
    }

    /// A newer state of a budget that we know: from the watch, or from our own write or read. If its status is
    /// what we have written, or are writing, nothing needs to be looked at because of it.
    pub(super) fn take_in(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        mut budget: Budget,
        written: Option<&BudgetStatus>,
    ) {
        if Some(&budget.status) != written {
            self.keep_what_is_reset(cx, id, &budget.status);
        }
        let Some(entry) = self.budgets.get_mut(id) else { return };
        // A late watch or answer shows grants. It does not undo that the newest state cannot be decoded.
        let is_late = |u: &Unreadable| budget.version.is_older_than(&u.version);
        if entry.unreadable.as_ref().is_some_and(is_late) {
            budget.spec = entry.object.spec.clone();
        }
        let is_readable_again =
            entry.unreadable.take_if(|u| !budget.version.is_older_than(&u.version)).is_some();
        let respec = entry.object.spec != budget.spec;
        let target = |budget: &Budget| budget.spec.unavailable.as_ref()?.target.clone();
        let reselect = entry.object.spec.selector != budget.spec.selector
            || target(&entry.object) != target(&budget);
        if !respec {
            let is_news = is_readable_again
                || budget.generation != entry.object.generation
                || (budget.status != entry.object.status && Some(&budget.status) != written);
            entry.object = budget;
            self.take_in_grants(cx, id);
            if is_news {
                self.touch(cx, id);
            }
            return;
        }
        // Anything about the spec may bear on what each pod contributes: count anew.
        let selected = self.deselect_all(id);
        if reselect {
            self.unindex(id);
        }
        let Some(entry) = self.budgets.get_mut(id) else { return };
        entry.object = budget;
        let scope = std::mem::replace(&mut entry.scope, effective_scope(cx, &entry.object));
        let counts_replicas = scope == Scope::Pod && entry.scope == Scope::Workload;
        if reselect {
            // Other budgets may have granted pods that this budget selects from now on.
            let version = entry.object.version.clone();
            entry.first_version = version;
            self.index(id);
            self.select_all(id);
            self.note_objects(id);
        } else {
            for name in &selected {
                self.select(id, name, true);
            }
        }
        self.expect_owners(id);
        self.take_in_grants(cx, id);
        if counts_replicas {
            self.expect_replacements(cx, id);
        }
        self.touch(cx, id);
        self.touch_sharers(cx, id);
    }

    /// Instances do not lower watermarks, except after a restore of etcd. So another client has written a status that does.
    /// The grants and replacements that such a status lacks are written again.
    fn keep_what_is_reset(&mut self, cx: &mut Context<'_>, id: &BudgetId, shown: &BudgetStatus) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        let mut known = entry.object.status.watermarks.iter();
        let is_lower = |(kind, version): (&String, &ResourceVersion)| {
            shown.watermarks.get(kind).is_none_or(|shown| shown.is_older_than(version))
        };
        if !known.any(is_lower) {
            return;
        }
        let ledger = self.grants.ledger(id);
        let waiting = entry.aged_replacements(cx.now).filter(|p| entry.has_recorded(p, ledger));
        entry.unwritten.adopted = waiting.collect();
        let changes = self.grants.keep_unrecorded(id, cx.now);
        self.apply_changes(cx, changes);
        self.touch_now(cx, id);
    }

    /// The watch shows the last state of a budget that is gone.
    pub(crate) fn delete_budget_of(&mut self, cx: &mut Context<'_>, last: Budget) {
        let id = self.budget_id(&last.key);
        self.successors.retain(|of, successor| *of != id || successor.budget.uid != last.uid);
        let own = self.budgets.get(&id).map(|entry| &entry.object);
        // The uid of a budget that was never decoded may be unknown.
        let is_it = own.is_some_and(|own| own.uid == last.uid || own.uid.is_empty());
        let is_unseen = if let Some(own) = own {
            !is_it && own.version.is_older_than(&last.version)
        } else {
            // Of a budget that came and went only what it granted is left, and the deletion that a successor waits for.
            let BudgetStatus { grants, pending_replacements, .. } = &last.status;
            let left = !grants.is_empty() || !pending_replacements.is_empty();
            left || self.successors.contains_key(&id)
        };
        if is_unseen {
            // The watch has not shown this budget before. It may have had grants.
            let writer = self.remove_budget(cx, &id);
            self.create_budget(cx, &id, Shown { budget: last, unreadable: None });
            self.budget_gone(cx, &id, writer);
        }
        if is_it || is_unseen {
            self.delete_budget(cx, &id);
        }
    }

    pub(crate) fn delete_budget(&mut self, cx: &mut Context<'_>, key: &BudgetKey) {
        let id = self.budget_id(key);
        self.budget_lists.expire(&id.kind.watched());
        let successor = self.successors.remove(&id);
        let writer = self.remove_budget(cx, &id);
        if let Some(successor) = successor {
            self.create_budget(cx, &id, *successor);
        }
        self.budget_gone(cx, &id, writer);
    }

    /// The shared name, if the budget is known.
    pub(super) fn budget_id(&self, key: &BudgetKey) -> BudgetId {
        self.budgets.get_key_value(key).map_or_else(|| Arc::new(key.clone()), |(id, _)| id.clone())
    }

    /// What its writer was about is for the caller to settle.
    fn remove_budget(&mut self, cx: &mut Context<'_>, id: &BudgetId) -> Writer {
        self.deselect_all(id);
        self.unindex(id);
        let Some(entry) = self.budgets.remove(id) else { return Writer::default() };
        let ledger = self.grants.ledger(id);
        let replacements = entry.aged_replacements(cx.now);
        let waiting = replacements.filter(|p| entry.has_recorded(p, ledger)).collect();
        let changes = self.grants.close(id, waiting, cx.now);
        self.apply_changes(cx, changes);
        self.forget_reservations(id);
        self.touch_sharers(cx, id);
        entry.writer
    }

    fn create_budget(&mut self, cx: &mut Context<'_>, id: &BudgetId, shown: Shown) {
        let Shown { budget, unreadable } = shown;
        let entry = BudgetEntry {
            id: id.clone(),
            scope: effective_scope(cx, &budget),
            first_version: budget.version.clone(),
            object: budget,
            selector: Ok(None),
            tally: Tally::default(),
            writer: Writer::default(),
            seen: Seen::default(),
            announced: Announced::default(),
            owners: ExpectedOwners::default(),
            lws_groups: cx.config.lws,
            unwritten: Unwritten::default(),
            sizes_since: BTreeMap::new(),
            unreadable,
        };
        self.budgets.insert(id.clone(), entry);
        self.grants.open(id);
        self.index(id);
        self.select_all(id);
        self.note_objects(id);
        self.expect_owners(id);
        self.take_in_grants(cx, id);
        let (grants, replacements) = self.grants.take_orphans(id);
        self.adopt_grants(cx, id, grants);
        self.adopt_replacements(cx, id, replacements);
        // The predecessor may have counted pods.
        self.expect_replacements(cx, id);
        self.touch(cx, id);
        self.touch_sharers(cx, id);
    }

    /// `PodUnavailableBudgets` say when they share pods.
    fn touch_sharers(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        if is_unavailable(id) {
            let others = self.budgets.keys().filter(|other| is_unavailable(other));
            for other in others.cloned().collect::<Vec<_>>() {
                self.touch(cx, &other);
            }
            for pod in self.selected(id) {
                self.relate_soon(cx, &pod);
            }
        }
    }

    /// Compile the selector and enter it into the index.
    fn index(&mut self, id: &BudgetId) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        if let Some(target) = entry.target() {
            self.targets.entry(target.clone()).or_default().insert(id.clone());
            entry.selector = Ok(None);
            return;
        }
        let selector = entry.object.spec.selector.as_ref();
        entry.selector = match selector.map(|s| self.cache.compile(s)) {
            Some(Ok(selector)) => {
                self.budget_index.insert(id, &selector);
                Ok(Some(selector))
            }
            Some(Err(why)) => Err(why),
            None => Ok(None),
        };
    }

    fn unindex(&mut self, id: &BudgetId) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        if let Some(target) = entry.target()
            && let Some(ids) = self.targets.get_mut(target)
        {
            ids.remove(id);
            if ids.is_empty() {
                let target = target.clone();
                self.targets.remove(&target);
            }
        }
        if let Ok(Some(selector)) = std::mem::replace(&mut entry.selector, Ok(None)) {
            self.budget_index.remove(id, &selector);
            self.cache.forget(&selector);
        }
    }

    /// A new selector is the one occasion to look at every pod of the namespace, and owners that come
    /// and go while a budget names one.
    pub(super) fn select_all(&mut self, id: &BudgetId) {
        let Some(budget) = self.budgets.get(id) else { return };
        let selects = |entry: &PodEntry| match (budget.target(), &budget.selector) {
            (Some(target), _) => self.is_targeted(target, entry),
            (None, Ok(Some(selector))) => selector.matches(&entry.labels),
            (None, _) => false,
        };
        let matching: Vec<(Arc<str>, ResourceVersion)> = self
            .cache
            .pods()
            .filter(|entry| selects(entry))
            .map(|entry| (entry.name.clone(), entry.pod.version.clone()))
            .collect();
        for (name, version) in matching {
            self.select(id, &name, true);
            if let Some(budget) = self.budgets.get_mut(id) {
                budget.seen.note(&Kind::Pod, &version);
            }
        }
    }

    /// The budget's numbers rest on the groups, Workloads and owners of the namespace.
    fn note_objects(&mut self, id: &BudgetId) {
        if let Some(budget) = self.budgets.get_mut(id) {
            for (kind, version) in self.cache.objects.versions() {
                budget.seen.note(&kind, version);
            }
        }
    }

    /// The budget counts none of its pods any more; they are returned.
    pub(super) fn deselect_all(&mut self, id: &BudgetId) -> Vec<Arc<str>> {
        let selected = self.selected(id);
        for name in &selected {
            self.select(id, name, false);
        }
        selected
    }

    fn selected(&self, id: &BudgetId) -> Vec<Arc<str>> {
        self.cache.selected_by(id).map(|e| e.name.clone()).collect()
    }
}

fn effective_scope(cx: &Context<'_>, budget: &Budget) -> Scope {
    let in_force = cx.config.multi_pod_pdbs || budget.spec.unavailable.is_some();
    if in_force { budget.spec.scope } else { Scope::Pod }
}
