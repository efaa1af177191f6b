//! Scales of controllers that are not watched, read through their `/scale` subresource.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use super::budgets::BudgetEntry;
use super::{BudgetId, Context, Namespace};
use crate::io::{Command, ScaleOutcome};
use crate::model::{ControllerRef, GroupKind, Owner, Scope};
use crate::replica::owner_kind;
use crate::timer::Due;

/// Nothing tells when such a scale changes, so it is read again now and then.
const REFRESH: Duration = Duration::from_secs(30);
/// Upstream forgets a failed sync until the next event (upstream 7.1.4); this is the mending.
const RETRY: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct ScaleEntry {
    reference: ControllerRef,
    /// None until the owner of the reference was read.
    pub(super) outcome: Option<ScaleOutcome>,
    /// Uids of the owners of this name that pods have named.
    named: BTreeSet<String>,
    /// Reads under way. Only the answer to the last one shows the newest owner of the name.
    under_way: usize,
}

/// How upstream's finders answer for one controller reference (upstream 1.5).
pub(super) enum Found<'a> {
    Scale {
        uid: &'a str,
        replicas: i64,
    },
    Nothing,
    Failed(String),
    /// The scale has not been read yet.
    Pending,
}

impl Namespace {
    /// The finders in upstream's order; the first that finds something wins.
    pub(super) fn find_scale(&self, reference: &ControllerRef) -> Found<'_> {
        if let Some(owner) = self.watched_scale(reference) {
            return Found::Scale { uid: &owner.uid, replicas: owner.replicas.unwrap_or(0) };
        }
        match self.scales.get(&scale_key(reference)).and_then(|entry| entry.outcome.as_ref()) {
            None => Found::Pending,
            // A targetRef has none.
            Some(ScaleOutcome::Found { uid, replicas })
                if *uid == reference.uid || reference.uid.is_empty() =>
            {
                Found::Scale { uid, replicas: *replicas }
            }
            Some(ScaleOutcome::Found { .. } | ScaleOutcome::NotFound) => Found::Nothing,
            Some(ScaleOutcome::NotImplemented(resource)) => {
                Found::Failed(format!("{resource} does not implement the scale subresource"))
            }
            Some(ScaleOutcome::Failed(why)) => Found::Failed(why.clone()),
        }
    }

    /// Ask for the scales that this budget needs and nobody has read.
    pub(super) fn ensure_scales(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(budget) = self.budgets.get(id) else { return };
        let missing: Vec<ControllerRef> = scaled_by(budget)
            .filter(|c| self.watched_scale(c).is_none() && !self.is_scale_known(c))
            .map(Cow::into_owned)
            .collect();
        for reference in missing {
            let entry = self.scales.entry(scale_key(&reference)).or_insert_with(|| ScaleEntry {
                reference: reference.clone(),
                outcome: None,
                named: BTreeSet::new(),
                under_way: 0,
            });
            // What was read of another owner of the name says nothing of this one.
            entry.outcome = None;
            entry.named.insert(reference.uid.clone());
            entry.under_way += 1;
            entry.reference = reference.clone();
            let namespace = self.name.to_string();
            cx.send(Command::ReadScale { namespace, owner: reference });
        }
    }

    /// Returns whether the scale was read, or is being read, since a pod named this very owner.
    fn is_scale_known(&self, reference: &ControllerRef) -> bool {
        let entry = self.scales.get(&scale_key(reference));
        entry.is_some_and(|entry| entry.named.contains(&reference.uid))
    }

    pub(crate) fn scale_read(
        &mut self,
        cx: &mut Context<'_>,
        owner: &ControllerRef,
        outcome: ScaleOutcome,
    ) {
        let key = scale_key(owner);
        let Some(entry) = self.scales.get_mut(&key) else { return };
        entry.under_way = entry.under_way.saturating_sub(1);
        if entry.under_way > 0 {
            return;
        }
        let again = if matches!(outcome, ScaleOutcome::Failed(_)) { RETRY } else { REFRESH };
        let changed = entry.outcome.as_ref() != Some(&outcome);
        entry.outcome = Some(outcome);
        cx.timers.at(
            cx.now + again,
            &self.name,
            Due::Scale { kind: key.0.clone(), name: key.1.clone() },
        );
        if changed {
            for id in self.budgets_scaled_by(&key) {
                self.touch(cx, &id);
            }
        }
    }

    pub(super) fn refresh_scale(&mut self, cx: &mut Context<'_>, kind: &GroupKind, name: &str) {
        let key = (kind.clone(), name.to_owned());
        let Some(entry) = self.scales.get(&key) else { return };
        let reference = entry.reference.clone();
        let unused =
            self.budgets_scaled_by(&key).is_empty() || self.watched_scale(&reference).is_some();
        if unused {
            self.scales.remove(&key);
        } else {
            // A same-named successor of the owner has another uid.
            let used = self.current_reference(&key).unwrap_or(reference);
            if let Some(entry) = self.scales.get_mut(&key) {
                entry.reference = used.clone();
                entry.under_way += 1;
            }
            cx.send(Command::ReadScale { namespace: self.name.to_string(), owner: used });
        }
    }

    fn current_reference(&self, key: &(GroupKind, String)) -> Option<ControllerRef> {
        let controllers = self.budgets.values().flat_map(scaled_by);
        controllers.filter(|c| scale_key(c) == *key).last().map(Cow::into_owned)
    }

    fn budgets_scaled_by(&self, key: &(GroupKind, String)) -> Vec<BudgetId> {
        let uses = |id: &&BudgetId| scaled_by(&self.budgets[*id]).any(|c| scale_key(&c) == *key);
        self.budgets.keys().filter(uses).cloned().collect()
    }

    /// `ReplicationController`, Deployment, `ReplicaSet`, `StatefulSet` and Kruise's come from the cache.
    pub(super) fn watched_scale(&self, reference: &ControllerRef) -> Option<&Owner> {
        let kind = &*owner_kind(&reference.group_kind);
        let direct = kind.is("", "ReplicationController")
            || kind.is("apps", "StatefulSet")
            || kind.group == Owner::KRUISE_GROUP;
        if direct {
            return self.objects.controller(reference);
        }
        if !kind.is("apps", "ReplicaSet") {
            return None;
        }
        let set = self.objects.controller(reference)?;
        match &set.controller {
            Some(parent) if owner_kind(&parent.group_kind).is("apps", "Deployment") => {
                self.objects.controller(parent)
            }
            // Another group's Deployment is nobody's that we know; its ReplicaSet does not count.
            Some(parent) if parent.group_kind.kind == "Deployment" => None,
            _ => Some(set),
        }
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

fn scale_key(reference: &ControllerRef) -> (GroupKind, String) {
    (reference.group_kind.clone(), reference.name.clone())
}
