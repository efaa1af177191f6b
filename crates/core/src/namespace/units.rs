//! What a budget counts: which pods it is about, when one of them is healthy, and which unit it
//! belongs to. `PodUnavailableBudgets` have their own idea of each (semantics 9).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::budgets::BudgetEntry;
use super::{BudgetId, Covering, Namespace};
use crate::cache::{Known, Labels, PodEntry, PodState, owner_kind};
use crate::model::{
    BudgetKind, BudgetSpec, ControllerRef, GroupKind, LabelGroups, Operation, Owner, Phase, Scope,
    Target,
};
use crate::replicas::{GroupFacts, LWS, LWS_NAME, Replica, ReplicaKey, Source, label_group};
use crate::tally::{Counted, Part, Tally};

/// When a pod counts, but for grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// Ready, whatever its phase: upstream's rule for single pods.
    Ready,
    /// Ready and Running.
    Running,
    /// Ready, Running, and nothing about it is half done: Kruise's rule.
    Available,
}

/// What a budget goes by when it counts.
#[derive(Clone, Copy)]
pub(super) struct Rule<'a> {
    scope: Scope,
    spec: &'a BudgetSpec,
}

impl<'a> Rule<'a> {
    fn new(scope: Scope, spec: &'a BudgetSpec) -> Self {
        Self { scope, spec }
    }

    fn health(self) -> Health {
        match (self.spec.unavailable.is_some(), self.scope) {
            (true, _) => Health::Available,
            (false, Scope::Pod) => Health::Ready,
            (false, Scope::Workload) => Health::Running,
        }
    }

    fn groups(self) -> Option<&'a LabelGroups> {
        self.spec.unavailable.as_ref()?.groups.as_ref()
    }
}

impl BudgetEntry {
    pub(super) fn rule(&self) -> Rule<'_> {
        Rule::new(self.scope, &self.object.spec)
    }

    /// What it goes by, and what it has counted.
    pub(super) fn counting(&mut self) -> (Rule<'_>, &mut Tally) {
        (Rule::new(self.scope, &self.object.spec), &mut self.tally)
    }

    pub(super) fn health(&self) -> Health {
        self.rule().health()
    }

    pub(super) fn groups(&self) -> Option<&LabelGroups> {
        self.rule().groups()
    }

    pub(super) fn target(&self) -> Option<&Target> {
        self.object.spec.unavailable.as_ref()?.target.as_ref()
    }

    /// Whether an owner's coming and going changes which pods it counts, or into which groups.
    pub(super) fn follows_owners(&self) -> bool {
        self.groups().is_some() || self.target().is_some()
    }
}

impl PodState {
    fn is_sound(self, health: Health) -> bool {
        let running = || self.phase == Phase::Running;
        let going = self.terminating && !planted!(TerminatingHealthy);
        let enough = match health {
            Health::Ready => true,
            Health::Running => running(),
            Health::Available => running() && self.facts.settled(),
        };
        self.ready && !going && enough
    }

    /// `doomed`: see [`is_doomed`].
    fn counted(self, health: Health, doomed: bool) -> Counted {
        let unfinished = !self.phase.is_terminal();
        let live = unfinished && !self.terminating;
        Counted {
            healthy: self.is_sound(health) && !self.granted && !doomed,
            unfinished,
            live,
            // A group with a pod that has not begun to run is none yet, and such a pod may go unasked.
            intact: live && !self.granted && self.phase != Phase::Pending && !doomed,
            running: self.phase == Phase::Running && !self.terminating,
        }
    }
}

impl PodEntry {
    /// Healthy but for grants (semantics 5).
    pub(super) fn is_sound(&self, health: Health) -> bool {
        self.state().is_sound(health)
    }

    /// What it contributes to a budget, as a member of this unit.
    fn part<'a>(
        &'a self,
        rule: Rule<'_>,
        replica: Option<&'a Arc<ReplicaKey>>,
        group: GroupFacts,
        counted: Counted,
    ) -> Part<'a> {
        let is_pub = rule.spec.unavailable.is_some();
        // Kruise looks at no pod that has ended.
        let counts = !is_pub || !self.pod.is_terminal();
        let controller = self.pod.controller.as_ref().filter(|_| counts);
        let several =
            is_pub && self.budgets.iter().filter(|id| is_unavailable(id)).nth(1).is_some();
        let unmanaged = counts && controller.is_none();
        Part {
            name: &self.name,
            scope: rule.scope,
            replica,
            controller,
            unmanaged,
            several,
            group,
            counted,
        }
    }
}

/// What is to be done to a pod's part in a tally.
#[derive(Clone, Copy)]
pub(super) enum Step {
    PutIn,
    /// As it was put in.
    TakeOut,
    /// It was in this state until now.
    Change(PodState),
}

/// `replica` is the pod's own, for whoever puts in.
pub(super) fn contribute(
    known: Known<'_>,
    (pod, replica): (&PodEntry, Option<&Replica>),
    (rule, tally): (Rule<'_>, &mut Tally),
    step: Step,
) {
    // The replica that it names, or the group that this budget puts it in.
    let group = rule.groups().and_then(|groups| label_group(known, groups, pod));
    let (unit, resolution) = match &group {
        Some(group) => (Some(&group.key), Some(&group.resolution)),
        None if rule.groups().is_some() => (None, None),
        None => (pod.replica.as_ref(), replica.map(Replica::resolution)),
    };
    let doomed = is_doomed(known, rule, pod);
    let facts = group.as_ref().map(|group| group.facts).unwrap_or_default();
    // A pod above its LeaderWorkerSet's scale is about to be deleted.
    let doomed = doomed || facts.is_surplus;
    // Pods that are about to be deleted contribute no group size.
    let facts = GroupFacts { whole_size: if doomed { 0 } else { facts.whole_size }, ..facts };
    let counted = |state: PodState| state.counted(rule.health(), doomed);
    let part = pod.part(rule, unit, facts, counted(pod.state()));
    let basic = &rule.spec.basic_min_count;
    match step {
        Step::PutIn => tally.add(&part, resolution, basic),
        Step::TakeOut => tally.remove(&part, basic),
        Step::Change(was) => tally.recount(counted(was), &part, basic),
    }
}

pub(super) fn is_unavailable(id: &BudgetId) -> bool {
    id.kind == BudgetKind::PodUnavailableBudget
}

/// The budgets that have a say in the operation: all in an eviction, those of the other kind in
/// everything else.
pub(super) fn concerned(budgets: &[BudgetId], operation: Operation) -> Covering {
    let asked = |id: &&BudgetId| operation == Operation::Evict || is_unavailable(id);
    budgets.iter().filter(asked).cloned().collect()
}

/// A worker of a `LeaderWorkerSet` group whose `StatefulSet` went with its leader. It is Ready and may stand
/// beside the next leader for a while, and will be collected without anybody's leave: no part of a
/// whole group. One whose `StatefulSet` was not seen yet looks the same for a moment, which is safe.
/// So it is with a pod of a group by label whose owner was deleted and made again under its name.
fn is_doomed(known: Known<'_>, rule: Rule<'_>, pod: &PodEntry) -> bool {
    let objects = known.objects;
    let controller = pod.pod.controller.as_deref();
    let is_another_now =
        |link: &ControllerRef| objects.named(link).is_some_and(|owner| owner.uid != link.uid);
    if rule.groups().is_some() && controller.is_some_and(|c| objects.chain(c).any(is_another_now)) {
        return true;
    }
    if rule.scope == Scope::Pod && rule.groups().is_none() || known.label(pod, LWS_NAME).is_none() {
        return false;
    }
    let set = controller.filter(|c| c.group_kind.is("apps", "StatefulSet"));
    set.is_some_and(|set| objects.controller(set).is_none_or(|set| set.terminating))
}

impl Namespace {
    /// Budgets that are about a pod with these labels and this controller, in reservation order.
    pub(super) fn covering(&self, labels: &Labels, controller: Option<&ControllerRef>) -> Covering {
        let matches = |id: &&BudgetId| {
            self.budgets.get(*id).is_some_and(|b| {
                b.selector.as_ref().is_ok_and(|s| s.as_ref().is_some_and(|s| s.matches(labels)))
            })
        };
        let mut budgets: Covering =
            self.budget_index.candidates(labels).filter(matches).cloned().collect();
        if !self.targets.is_empty() {
            let targets = self.targets_of(labels, controller);
            budgets.extend(targets.iter().filter_map(|t| self.targets.get(t)).flatten().cloned());
        }
        budgets.sort_unstable();
        budgets.dedup();
        // Kept with every pod.
        budgets.shrink_to_fit();
        budgets
    }

    /// As [`Self::covering`], for a pod that is kept.
    pub(super) fn covering_kept(&self, pod: &PodEntry) -> Covering {
        self.covering(&pod.labels, pod.pod.controller.as_deref())
    }

    /// All that a `targetRef` could name to mean this pod.
    fn targets_of(&self, labels: &Labels, controller: Option<&ControllerRef>) -> Vec<Target> {
        let lws = self.cache.known().value(labels, LWS_NAME);
        let links = controller.into_iter().flat_map(|c| self.cache.objects.chain(c));
        let links = links.map(|c| Target {
            group_kind: owner_kind(&c.group_kind).into_owned(),
            name: c.name.clone(),
        });
        let lws = lws.map(|name| Target {
            group_kind: GroupKind::new(Owner::LWS_GROUP, LWS),
            name: name.to_string(),
        });
        links.chain(lws).collect()
    }

    /// Returns groups of `LeaderWorkerSets` whose workers end, or may end, with their leader: the leader owns their
    /// `StatefulSet`, so the garbage collector deletes the workers of a leader that is gone. Until then they may be
    /// Ready beside the next leader. `counts` says whether the grants of a leader count. Computed afresh, because it
    /// depends on other pods.
    pub(super) fn leaderless(
        &self,
        budget: &BudgetEntry,
        counts: impl Fn(&PodEntry) -> bool,
    ) -> BTreeSet<Arc<ReplicaKey>> {
        let mut groups = BTreeSet::new();
        if !budget.tally.sources.keys().any(|source| matches!(source, Source::Lws { .. })) {
            return groups;
        }
        let group = |pod: &PodEntry| self.unit_of(budget, pod);
        let mut orphaned = BTreeSet::new();
        for (leader, set) in self.worker_sets() {
            match self.cache.pod(leader.name.as_str()) {
                Some(pod) if pod.pod.uid == *leader.uid && !pod.pod.terminating => {
                    let stays = pod.granted == 0 || !counts(pod);
                    if !stays || !pod.is_sound(budget.health()) {
                        groups.extend(group(pod));
                    }
                }
                _ => {
                    orphaned.insert(set.uid.as_str());
                }
            }
        }
        // There are such sets for moments only.
        if !orphaned.is_empty() {
            let workers = self.cache.selected_by(&budget.id).filter(|pod| {
                let controller = pod.pod.controller.as_ref();
                controller.is_some_and(|c| orphaned.contains(c.uid.as_str()))
            });
            groups.extend(workers.filter_map(group));
        }
        groups
    }

    /// How many groups count as healthy by their pods alone, and are [`Self::leaderless`].
    pub(super) fn leaderless_healthy(&self, budget: &BudgetEntry) -> i64 {
        let groups = self.leaderless(budget, |_| true);
        let healthy = groups
            .iter()
            .filter(|key| budget.tally.replica(key).is_some_and(|group| group.summary.healthy));
        i64::try_from(healthy.count()).unwrap_or(i64::MAX)
    }

    /// Whether workers of a `LeaderWorkerSet` end with this pod, whatever its restartPolicy.
    pub(super) fn is_leader(&self, pod: &PodEntry) -> bool {
        self.worker_sets().any(|(leader, _)| pod.pod.uid == *leader.uid)
    }

    /// `StatefulSets` that a pod owns, with that pod.
    fn worker_sets(&self) -> impl Iterator<Item = (&ControllerRef, &Owner)> {
        let sets = self.cache.objects.owners_of("apps", "StatefulSet");
        let owned = sets.filter_map(|set| Some((set.controller.as_ref()?, set)));
        owned.filter(|(controller, _)| controller.group_kind.is("", "Pod"))
    }

    /// Pods that a budget with a `targetRef` is about.
    pub(super) fn is_targeted(&self, target: &Target, pod: &PodEntry) -> bool {
        self.targets_of(&pod.labels, pod.pod.controller.as_deref()).contains(target)
    }

    /// The `LeaderWorkerSet` that the pod's label names.
    pub(super) fn set_by_label(&self, pod: &PodEntry) -> Option<&Owner> {
        let name = self.cache.known().label(pod, LWS_NAME)?;
        self.cache.objects.owner(Owner::LWS_GROUP, LWS, name)
    }

    /// Whether a workload that the pod belongs to is going: what is left of it goes too, and nothing is to
    /// stand in its way. That one is gone the cache cannot prove: its watch may be behind that of the pods.
    pub(super) fn is_abandoned_by_owner(&self, pod: &PodEntry) -> bool {
        let Some(controller) = pod.pod.controller.as_deref() else { return false };
        let lws = self.set_by_label(pod);
        let links = self.cache.objects.chain(controller);
        let mut owners = links.filter_map(|link| self.cache.objects.controller(link)).chain(lws);
        owners.any(|owner| owner.terminating)
    }
}
