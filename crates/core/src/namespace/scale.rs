//! Reads the scales of controllers that are not watched, through their `/scale` subresource.

use std::borrow::Cow;

use super::budgets::BudgetEntry;
use super::{BudgetId, Context, Namespace};
use crate::cache::{ScaleKey, scale_key};
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
            self.cache.scales.begin(&reference);
            let namespace = self.name.to_string();
            cx.send(Command::ReadScale { namespace, owner: reference });
        }
    }

    pub(crate) fn scale_read(
        &mut self,
        cx: &mut Context<'_>,
        owner: &ControllerRef,
        outcome: ScaleOutcome,
    ) {
        let Some(answered) = self.cache.scales.answer(owner, outcome) else { return };
        let (kind, name) = scale_key(owner);
        cx.timers.at(cx.now + answered.again_after, &self.name, Due::Scale { kind, name });
        if answered.has_changed {
            for id in self.budgets_scaled_by(&scale_key(owner)) {
                self.touch(cx, &id);
            }
        }
    }

    pub(super) fn refresh_scale(&mut self, cx: &mut Context<'_>, kind: &GroupKind, name: &str) {
        let key = (kind.clone(), name.to_owned());
        let Some(reference) = self.cache.scales.reference(&key).cloned() else { return };
        let is_watched = self.cache.objects.scaled_owner(&reference).is_some();
        if is_watched || self.budgets_scaled_by(&key).is_empty() {
            return self.cache.scales.forget(&key);
        }
        // A same-named successor of the owner has another uid.
        let owner = self.current_reference(&key).unwrap_or(reference);
        self.cache.scales.refresh(&key, &owner);
        cx.send(Command::ReadScale { namespace: self.name.to_string(), owner });
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

/// The controllers whose scales a budget of single pods goes by.
fn scaled_by(budget: &BudgetEntry) -> impl Iterator<Item = Cow<'_, ControllerRef>> {
    let of_pods = budget.scope == Scope::Pod;
    let is_pub = budget.object.spec.unavailable.is_some();
    let target = budget.target().filter(|t| of_pods && !Owner::is_watched(&t.group_kind));
    let pods = of_pods && budget.target().is_none();
    let pods = pods && (is_pub || budget.object.spec.needs_total());
    let controllers = pods.then_some(budget.tally.controllers.keys()).into_iter().flatten();
    let target = target.map(|target| Cow::Owned(target.reference()));
    controllers.map(|c| Cow::Borrowed(&**c)).chain(target)
}
