//! Reads the scales of controllers that are not watched, through their `/scale` subresource.

use std::borrow::Cow;

use super::budgets::BudgetEntry;
use super::{BudgetId, Context, Namespace};
use crate::cache::{Answered, ScaleKey, scale_key};
use crate::io::{Command, ScaleOutcome};
use crate::model::{ControllerRef, GroupKind, Owner, Scope};
use crate::timer::Due;

impl Namespace {
    /// Ask for the scales that this budget needs and that were not read.
    pub(super) fn ensure_scales(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(budget) = self.budgets.get(id) else { return };
        let cache = &self.cache;
        let missing: Vec<ControllerRef> = scaled_by(budget)
            .filter(|c| cache.objects.scaled_owner(c).is_none() && !cache.scales.is_known(c))
            .map(Cow::into_owned)
            .collect();
        for reference in missing {
            if self.cache.scales.begin(&reference) {
                self.read_scale(cx, reference);
            }
        }
    }

    pub(super) fn read_scale(&self, cx: &mut Context<'_>, owner: ControllerRef) {
        cx.send(Command::ReadScale { namespace: self.name.to_string(), owner });
    }

    pub(crate) fn scale_read(
        &mut self,
        cx: &mut Context<'_>,
        owner: &ControllerRef,
        outcome: ScaleOutcome,
    ) {
        match self.cache.scales.answer(owner, outcome, cx.now) {
            None => {}
            Some(Answered::ReadAgain(owner)) => self.read_scale(cx, owner),
            Some(Answered::Taken { has_changed, due }) => {
                let key = scale_key(owner);
                let (kind, name) = key.clone();
                cx.timers.at(due, &self.name, Due::Scale { kind, name });
                if has_changed {
                    for id in self.budgets_scaled_by(&key) {
                        self.touch(cx, &id);
                    }
                }
                self.start_if_all_seen(cx);
            }
        }
    }

    pub(super) fn refresh_scale(&mut self, cx: &mut Context<'_>, kind: &GroupKind, name: &str) {
        let key = (kind.clone(), name.to_owned());
        let Some(reference) = self.cache.scales.due(&key, cx.now).cloned() else { return };
        let is_watched = self.cache.objects.scaled_owner(&reference).is_some();
        if is_watched || self.budgets_scaled_by(&key).is_empty() {
            return self.cache.scales.forget(&key);
        }
        // A same-named successor of the owner has another uid.
        let owner = self.current_reference(&key).unwrap_or(reference);
        if self.cache.scales.refresh(&key, &owner) {
            self.read_scale(cx, owner);
        }
    }

    fn current_reference(&self, key: &ScaleKey) -> Option<ControllerRef> {
        let controllers = self.budgets.values().flat_map(scaled_by);
        controllers.filter(|c| scale_key(c) == *key).last().map(Cow::into_owned)
    }

    fn budgets_scaled_by(&self, key: &ScaleKey) -> Vec<BudgetId> {
        let uses = |id: &&BudgetId| scaled_by(&self.budgets[*id]).any(|c| scale_key(&c) == *key);
        self.budgets.keys().filter(uses).cloned().collect()
    }
}

/// The controllers whose scales the budget goes by, for single pods and for pods without the label that groups go by.
fn scaled_by(budget: &BudgetEntry) -> impl Iterator<Item = Cow<'_, ControllerRef>> {
    let of_pods = budget.scope == Scope::Pod;
    let has_pool = budget.groups().is_some() && !budget.tally.unreferenced.is_empty();
    let target = budget.target().filter(|t| of_pods && !Owner::is_watched(&t.group_kind));
    let is_pub = budget.object.spec.unavailable.is_some();
    let pods = of_pods && budget.target().is_none();
    let pods = has_pool || (pods && (is_pub || budget.object.spec.needs_total()));
    let controllers = pods.then_some(budget.tally.controllers.keys()).into_iter().flatten();
    let target = target.map(|target| Cow::Owned(target.reference()));
    controllers.map(|c| Cow::Borrowed(&**c)).chain(target)
}
