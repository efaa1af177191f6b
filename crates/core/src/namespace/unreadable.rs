//! Pods and budgets that exist and cannot be decoded: both fail closed (semantics 6).

use super::budgets::{Shown, Unreadable};
use super::explain::refuse;
use super::{BudgetId, Context, Namespace};
use crate::io::{Command, Event, Kind, Regarding, Salvaged};
use crate::model::{
    Budget, BudgetKey, BudgetKind, BudgetSpec, BudgetStatus, LabelSelector, ObjectKey, Phase, Pod,
    ResourceVersion, UnavailableSpec,
};
use crate::verdict::{Denial, DenyReason};

impl Namespace {
    /// `listed`: a list that is ahead of the watch shows the object.
    pub(crate) fn unreadable(
        &mut self,
        cx: &mut Context<'_>,
        kind: &Kind,
        key: ObjectKey,
        why: String,
        salvaged: Option<Box<Salvaged>>,
        listed: bool,
    ) {
        let kind = match (kind, salvaged.map(|salvaged| *salvaged)) {
            (Kind::Pod, Some(Salvaged::Pod(pod))) => {
                return self.pod_unreadable(cx, &key, &why, Some(pod));
            }
            (Kind::Pod, _) => return self.pod_unreadable(cx, &key, &why, None),
            (Kind::Budget, salvaged) => (BudgetKind::PodDisruptionBudget, salvaged),
            (Kind::UnavailableBudget, salvaged) => (BudgetKind::PodUnavailableBudget, salvaged),
            _ => return,
        };
        let (kind, salvaged) = kind;
        let key = BudgetKey { kind, object: key };
        let salvaged = match salvaged {
            Some(Salvaged::Budget(budget)) if budget.key == key => Some(budget),
            _ => None,
        };
        let salvaged = salvaged.unwrap_or_else(|| selects_all(key));
        let salvaged = Budget { status: BudgetStatus::default(), ..salvaged };
        self.budget_unreadable(cx, why, salvaged, listed);
    }

    /// The budget denies every eviction of the pods that it may select. Its last known grants stay.
    fn budget_unreadable(
        &mut self,
        cx: &mut Context<'_>,
        why: String,
        salvaged: Budget,
        listed: bool,
    ) {
        let id = self.budget_id(&salvaged.key);
        let unreadable = Some(Unreadable { why, version: salvaged.version.clone() });
        // Its predecessor may have grants that only the watch shows. They count when it can be read again.
        if listed && !salvaged.uid.is_empty() && !self.is_shown(&id, &salvaged) {
            return self.note_successor(id, Shown { budget: salvaged, unreadable });
        }
        let known = self.budgets.get(&id).map(|entry| entry.object.clone());
        match known {
            // News of a state before the one that is known.
            Some(known) if is_older(&salvaged.version, &known.version) => return,
            Some(known) if salvaged.uid.is_empty() || salvaged.uid == known.uid => {
                if let Some(entry) = self.budgets.get_mut(&id) {
                    entry.unreadable = None;
                }
                self.take_in(cx, &id, Budget { spec: salvaged.spec, ..known }, None);
            }
            _ => {
                return self.replace_budget(cx, &id, Shown { budget: salvaged, unreadable });
            }
        }
        if let Some(entry) = self.budgets.get_mut(&id) {
            entry.unreadable = unreadable;
            self.touch(cx, &id);
        }
    }

    /// Nothing is written to a budget that cannot be read: that would replace grants that nobody has seen.
    pub(super) fn refuse_unreadable(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        for eviction in self.take_reservations(id) {
            let denial = self.unreadable_denial(id);
            self.deny(cx, &eviction, denial);
        }
    }

    fn unreadable_denial(&self, id: &BudgetId) -> Denial {
        let why = self
            .budgets
            .get(id)
            .and_then(|b| b.unreadable.as_ref())
            .map(|u| u.why.as_str())
            .unwrap_or_default();
        let why = format!("budget {} cannot be read, so it allows nothing: {why}", id.object.name);
        refuse(DenyReason::FailedClosed, &why)
    }

    /// A denial, if one of these budgets cannot be read.
    pub(super) fn unreadable_among(&self, budgets: &[BudgetId]) -> Option<Denial> {
        let is_unreadable =
            |id: &&BudgetId| self.budgets.get(*id).is_some_and(|b| b.unreadable.is_some());
        budgets.iter().find(is_unreadable).map(|id| self.unreadable_denial(id))
    }

    /// The pod is there and not healthy, whatever it was before.
    fn pod_unreadable(
        &mut self,
        cx: &mut Context<'_>,
        key: &ObjectKey,
        why: &str,
        salvaged: Option<Pod>,
    ) {
        let known = self.cache.pod(key.name.as_str());
        let known = known.map(|entry| (entry.pod.uid.to_string(), entry.pod.version.clone()));
        match (salvaged, known) {
            (Some(pod), Some((_, version))) if is_older(&pod.version, &version) => return,
            (Some(pod), None) if self.is_superseded(&Kind::Pod, &pod.version) => return,
            (Some(pod), _) => {
                self.apply_pod(cx, Pod { ready: false, phase: Phase::Unknown, ..pod });
            }
            (None, Some(_)) => self.set_unready(cx, &key.name),
            // Nothing tells which budgets would select it.
            (None, None) => return,
        }
        let Some(uid) = self.cache.pod(&key.name).map(|entry| entry.pod.uid.to_string()) else {
            return;
        };
        if self.cache.mark_unreadable(&key.name) && cx.leads {
            cx.send(Command::Event(Event {
                regarding: Regarding::Pod { key: key.clone(), uid },
                warning: true,
                reason: "Unreadable",
                message: format!("Holdfast cannot read this pod and counts it as unhealthy: {why}"),
            }));
        }
    }

    fn set_unready(&mut self, cx: &mut Context<'_>, name: &str) {
        let Some(was) = self.cache.set_unready(name) else { return };
        for id in self.recount_pod(name, was) {
            self.touch(cx, &id);
        }
    }
}

/// A version that could not be read is the newest.
fn is_older(version: &ResourceVersion, known: &ResourceVersion) -> bool {
    !version.is_empty() && version.is_older_than(known)
}

/// A budget of which only the name is known.
fn selects_all(key: BudgetKey) -> Budget {
    let is_pub = key.kind == BudgetKind::PodUnavailableBudget;
    Budget {
        key,
        uid: String::new(),
        version: ResourceVersion::default(),
        generation: 0,
        spec: BudgetSpec {
            selector: Some(LabelSelector::default()),
            unavailable: is_pub.then(|| Box::new(UnavailableSpec::default())),
            ..BudgetSpec::default()
        },
        status: BudgetStatus::default(),
    }
}
