//! What an [`Auditor`] says about the history that it has followed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::auditor::{Auditor, Finding, Recent, Rule, Standing, same_spec};
use crate::count::{Count, Lost, count};
use crate::objects::{Budget, Grant, Millis, Name, Operation, Pod};
use crate::rules::allows;
use crate::state::State;

/// How old the data may be by which no budget covers a pod (semantics 6).
const COVERAGE_AGE_MS: Millis = 5000;

impl Auditor {
    /// S3: evictions, seen by the pod's condition alone, of which a covering budget has no record.
    pub fn unrecorded(&self) -> Vec<Finding> {
        self.unrecorded.clone()
    }

    pub fn count(&self, budget: &Budget, lost: Lost<'_>) -> Count {
        count(budget, &self.state, &self.memory, lost)
    }

    /// S1, exact. For histories in which pods are lost by allowed operations, or by controllers that
    /// clean up after them. A budget that is edited, created, or hit by a loss that it has no record of
    /// starts anew at what it has then: from there on every loss is one that it granted. `told` says
    /// whether every process knows the pods as of a version; until then a loss without a record in the
    /// budget is not counted against it.
    pub fn look(
        &mut self,
        told: &dyn Fn(u64) -> bool,
        asks: &dyn Fn(&Budget) -> bool,
    ) -> Vec<Finding> {
        let (known, recent): (Vec<Recent>, Vec<Recent>) =
            std::mem::take(&mut self.recent).into_iter().partition(|r| told(r.version));
        self.recent = recent;
        let mut findings = Vec::new();
        let mut standings = BTreeMap::new();
        let memory = self.memory.sure(self.now);
        for (key, budget) in self.state.budgets.iter().filter(|(_, budget)| asks(budget)) {
            let (state, unknown) = self.with_unknown_losses(budget);
            let lost = |pod: &Pod| self.is_lost_to(key, pod);
            let now = count(budget, &state, &memory, &lost);
            // A loss without a record in this budget counts from now on.
            let is_hit = known.iter().any(|recent| self.is_unrecorded(budget, recent));
            let before = self.standings.get(key).filter(|before| {
                !is_hit && before.unknown.is_subset(&unknown) && same_spec(&before.spec, budget)
            });
            let falls = before.is_some_and(|before| before.kept || now.healthy < before.healthy);
            if !now.is_kept() && now.closed.is_none() && falls {
                findings.push(Finding {
                    rule: Rule::S1,
                    budget: key.clone(),
                    message: format!(
                        "has {} of {} healthy when everything is done that was allowed, of {} expected; before: {:?}",
                        now.healthy,
                        now.desired,
                        now.expected,
                        before.map(|before| (before.kept, before.healthy)),
                    ),
                });
            }
            let (kept, healthy) = (now.is_kept() || now.closed.is_some(), now.healthy);
            let spec = budget.clone();
            standings.insert(key.clone(), Standing { spec, kept, healthy, unknown });
        }
        drop(memory);
        self.standings = standings;
        findings
    }

    /// The state with the pods put back that this budget has no record of losing and that some process
    /// does not know of yet, and the uids of these.
    fn with_unknown_losses(&self, budget: &Budget) -> (Cow<'_, State>, BTreeSet<String>) {
        let unknown: Vec<&Recent> =
            self.recent.iter().filter(|recent| self.is_unrecorded(budget, recent)).collect();
        if unknown.is_empty() {
            return (Cow::Borrowed(&self.state), BTreeSet::new());
        }
        let mut state = self.state.clone();
        // The last loss first: the fewest pods were created after it.
        for Recent { pod, version } in unknown.iter().rev() {
            // What the controller created instead is not there for a process that does not know of the loss. Once it is
            // ready it counts, beside the pod that is put back.
            let replaces = |other: &Pod| {
                let created = self.created.get(&other.uid);
                let same =
                    (&other.controller, &other.reference) == (&pod.controller, &pod.reference);
                same && !other.ready && created.is_some_and(|created| created >= version)
            };
            // By the names that they have here: a pod that is put back may have another than its own.
            let mut others = state.pods.iter().filter(|(_, other)| other.uid != pod.uid);
            let has_successor = others.clone().any(|(_, other)| other.key == pod.key);
            // A pod that was lost before it was ready gives way to its predecessor, even if its successor is ready.
            let replacement = others.find(|(_, other)| {
                if has_successor { other.key == pod.key && !other.ready } else { replaces(other) }
            });
            if let Some(name) = replacement.map(|(name, _)| name.clone()) {
                state.pods.remove(&name);
            }
            let suffix = match state.pods.get(&pod.key).filter(|stored| stored.uid != pod.uid) {
                Some(_) => format!("#{}", pod.uid),
                None => String::new(),
            };
            let name = Name::new(&pod.key.namespace, format!("{}{suffix}", pod.key.name));
            state.pods.insert(name, pod.clone());
        }
        let uids = unknown.iter().map(|recent| recent.pod.uid.clone()).collect();
        (Cow::Owned(state), uids)
    }

    /// Whether the budget covered the lost pod and has no record of the loss.
    fn is_unrecorded(&self, budget: &Budget, Recent { pod, .. }: &Recent) -> bool {
        let loss = self.losses.get(&pod.uid);
        budget.covers(pod) && !loss.is_some_and(|loss| loss.budgets.contains(&budget.key))
    }

    /// S3 for an operation that [`Auditor::allow`] has noted: every budget that covers the pod has a
    /// grant. A pod that is gone or on its way out has nothing left to lose. That no budget covers a pod
    /// may be known as of five seconds ago, so a budget counts that existed then, or whose predecessor did.
    pub fn judge_allow(&self, id: &str) -> Option<Finding> {
        let allow = self.in_flight.iter().find(|allow| allow.id == id)?;
        let pod = self.state.pods.get(&allow.pod)?;
        let at_stake = allow.hits(pod) && !pod.is_finished() && !pod.terminating;
        let is_known = |budget: &&Budget| {
            let since = self.covers_since(&budget.key);
            allow.recorded || since.is_none_or(|since| since + COVERAGE_AGE_MS < self.now)
        };
        let mut covering = self.covering(pod).filter(|_| at_stake).filter(is_known);
        let budget = covering.find(|budget| !allow.budgets.contains(&budget.key))?;
        Some(Finding {
            rule: Rule::S3,
            budget: budget.key.clone(),
            message: format!("covers {} and has no grant for {id}, which was allowed", pod.key),
        })
    }

    /// The grants of a status write that its budget did not have before, neither in the object that
    /// the write replaces nor when the budget was deleted last. A grant that is not pinned passes to the next pod of
    /// the name.
    pub fn new_grants(&self, before: &Budget, after: &Budget) -> Vec<Grant> {
        let orphans = self.orphans.get(&after.key).map(|(_, grants)| grants);
        let earlier = || before.status.grants.iter().chain(orphans.into_iter().flatten());
        let same =
            |old: &Grant, new: &Grant| old.pod == new.pod && (old.uid == new.uid || !old.pinned);
        let is_new = |grant: &&Grant| !earlier().any(|old| same(old, grant));
        after.status.grants.iter().filter(is_new).cloned().collect()
    }

    /// S1 and S7 for a status write: with the new grants of the write, are enough units left by what
    /// its writer knew, less every pod that this budget's grants took or may take? Scales that the known pods exceed
    /// count as of these pods.
    pub fn judge_grants(
        &self,
        budget: &Budget,
        (old, new): (&[Grant], &[Grant]),
        known: &State,
    ) -> Option<Finding> {
        let known = &*self.scales.complete(budget, known);
        let lost = |pod: &Pod| {
            // A grant that this write ends counts no more, however old it is.
            self.may_be_taken_by(&budget.key, pod) || old.iter().any(|g| g.pod == pod.key.name)
        };
        // By uid: a live read may show a successor that the watch has not told of.
        let is_new = |pod: &Pod| new.iter().any(|g| g.uid == pod.uid);
        // Evictions that were allowed before may still be refused, and then the pods of this write are all that goes.
        let taken = |pod: &Pod| self.is_taken_by(&budget.key, pod);
        let memory = self.memory.sure(self.now);
        for lost in [&lost as Lost<'_>, &taken] {
            let before = count(budget, known, &memory, lost);
            let after = count(budget, known, &memory, &|pod| lost(pod) || is_new(pod));
            let costs = after.healthy < before.healthy;
            let finding =
                |rule, message| Some(Finding { rule, budget: budget.key.clone(), message });
            if costs && let Some(why) = &before.closed {
                return finding(Rule::S7, format!("has failed closed ({why}) and granted {new:?}"));
            }
            if costs && !after.is_kept() {
                let (has, needs, leaves) = (before.healthy, after.desired, after.healthy);
                let message = format!("had {has} and needs {needs}, and {new:?} leaves {leaves}");
                return finding(Rule::S1, message);
            }
        }
        None
    }

    /// S7: why the budget has failed closed, by what a process knows.
    pub fn closed(&self, budget: &Budget, known: &State) -> Option<String> {
        if budget.unavailable.is_some() {
            return None;
        }
        let unresolved = count(budget, known, &self.memory, &|_| false);
        unresolved.closed
    }

    /// Whether the budget refuses a pod that has no grant in it. Grants that may have passed to the
    /// next pod of their name, those of a deleted budget, and doubtful memories may count or not.
    pub fn blocks(&self, budget: &Budget, pod: &Pod, operation: Operation) -> bool {
        let stored = || self.state.budgets.values().flat_map(|b| &b.status.grants);
        let orphans = || self.orphans.values().flat_map(|(_, grants)| grants);
        let by_uid = |g: &Grant, p: &Pod| g.pod == p.key.name && g.uid == p.uid;
        let by_name = |g: &Grant, p: &Pod| g.pod == p.key.name;
        let variants: [&dyn Fn(&Pod) -> bool; 3] =
            [&|p| stored().any(|g| by_uid(g, p)), &|p| stored().any(|g| by_name(g, p)), &|p| {
                stored().chain(orphans()).any(|g| by_name(g, p))
            }];
        let sure = self.memory.sure(self.now);
        [&self.memory, &*sure].into_iter().any(|memory| {
            variants
                .iter()
                .any(|granted| !allows(budget, &self.state, memory, pod, operation, granted))
        })
    }

    /// L1: whether the status shows what the objects come to. Only where no grant is left.
    pub fn judge_status(&self, budget: &Budget) -> Option<Finding> {
        let status = &budget.status;
        let shown = (status.allowed, status.healthy, status.desired, status.expected);
        let now = count(budget, &self.state, &self.memory, &|_| false);
        let variants = self.memory.variants(&budget.key, self.now);
        let mut variants =
            variants.iter().map(|memory| count(budget, &self.state, memory, &|_| false));
        let counted = |now: &Count| (now.allowed(budget), now.healthy, now.desired, now.expected);
        let is_shown = |now: &Count| match &now.closed {
            Some(_) => status.allowed == 0,
            None => shown == counted(now),
        };
        let same = variants.any(|count| is_shown(&count));
        let counted = counted(&now);
        (!same).then(|| Finding {
            rule: Rule::L1,
            budget: budget.key.clone(),
            message: format!(
                "shows allowed, healthy, desired, expected {shown:?} and has {counted:?} ({:?})",
                now.closed
            ),
        })
    }
}
