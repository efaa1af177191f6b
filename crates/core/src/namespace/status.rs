//! A budget's status as it should stand (upstream 1.7, semantics 2 and 8).

use std::sync::Arc;

use super::Namespace;
use super::budgets::BudgetEntry;
use super::evaluate::{Evaluation, Failure};
use super::explain::never;
use super::units::is_unavailable;
use crate::cache::PodEntry;
use crate::engine::Config;
use crate::model::{
    BudgetKey, BudgetStatus, Condition, ConditionStatus, Scope, Timestamp, UnavailableSpec,
};
use crate::replicas::{Replica, ReplicaKey};
use crate::stats::BudgetStates;

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
const ENFORCED: &str = "Enforced";
const BUDGET_CONFIGURED: &str = "BudgetConfigured";
const MISSING_REFERENCE: &str = "MissingWorkloadReference";
const SEVERAL_WORKLOADS: &str = "MultipleWorkloadsDetected";
const SEVERAL_BUDGETS: &str = "SeveralBudgets";
const MISSING_LABEL: &str = "MissingGroupLabel";
const IMPOSSIBLE_MIN: &str = "ImpossibleMinReadyReplicas";
/// How many pods or replicas a message names before it only counts.
const NAMED_MAX: usize = 3;

impl Namespace {
    /// While a first scale read is under way, the counters stay as they are.
    pub(super) fn status(
        &self,
        config: &Config,
        now: Timestamp,
        budget: &BudgetEntry,
    ) -> BudgetStatus {
        let evaluation = self.evaluate(budget);
        let generation = budget.object.generation;
        let mut status = budget.object.status.clone();
        self.grants.ledger(&budget.id).write_into(&mut status, now);
        self.catch_up.drop_impossible(&budget.object.uid, &mut status);
        budget.seen.write_into(&mut status.watermarks);
        status.pending_replacements = budget.aged_replacements(now).collect();
        match &evaluation.failure {
            Some(Failure::Processing) => return status,
            Some(Failure::SyncFailed(error)) => {
                // Upstream's failSafe: the counters and observedGeneration stay as they were.
                status.disruptions_allowed = 0;
                status.disruptions_allowed_replicas = 0;
                let observed = status.observed_generation;
                let failed = ("SyncFailed", error.text().to_owned());
                set(&mut status, DISRUPTION_ALLOWED, false, failed, observed, now);
            }
            Some(Failure::Unresolved(_) | Failure::UnknownTotal(_)) | None => {
                fill(&mut status, budget, &evaluation);
                let (allowed, reason) = disruption_allowed(budget, &evaluation);
                set(&mut status, DISRUPTION_ALLOWED, allowed, reason, generation, now);
            }
        }
        if budget.object.spec.unavailable.is_some() {
            let (enforced, reason) = self.enforced(config);
            let observed = status.observed_generation;
            set(&mut status, ENFORCED, enforced, reason, observed, now);
        }
        match self.configured(config, budget) {
            Some((ok, reason)) => {
                let observed = status.observed_generation;
                set(&mut status, BUDGET_CONFIGURED, ok, reason, observed, now);
            }
            None => status.conditions.retain(|c| c.kind != BUDGET_CONFIGURED),
        }
        status
    }

    pub(crate) fn computed_status(
        &self,
        config: &Config,
        now: Timestamp,
        budget: &BudgetKey,
    ) -> Option<BudgetStatus> {
        self.budgets.get(budget).map(|entry| self.status(config, now, entry))
    }

    /// What an operator should know of a budget.
    pub(super) fn judge(&self, budget: &BudgetEntry, states: &mut BudgetStates) {
        let evaluation = self.evaluate(budget);
        let ceiling = self.ceiling(budget, &evaluation);
        let uncountable =
            evaluation.failure.as_ref().is_some_and(|failure| *failure != Failure::Processing);
        // As it is told: to find out anew takes a look at every pod.
        let mut conditions = budget.object.status.conditions.iter();
        let misconfigured =
            conditions.any(|c| c.kind == BUDGET_CONFIGURED && c.status == ConditionStatus::False);
        states.all += 1;
        states.impossible += usize::from(never(&evaluation, ceiling).is_some());
        states.misconfigured += usize::from(misconfigured);
        states.uncountable += usize::from(uncountable);
        states.unreadable += usize::from(budget.unreadable.is_some());
    }

    /// The condition `BudgetConfigured`; absent for a pod-counted budget that is in force.
    fn configured(&self, config: &Config, budget: &BudgetEntry) -> Option<(bool, Reason)> {
        let wrong = |reason, message| Some((false, (reason, message)));
        if let Some(spec) = &budget.object.spec.unavailable {
            return Some(match self.flaws(budget, spec) {
                Some(flaw) => (false, flaw),
                None => (true, ("ValidConfig", String::new())),
            });
        }
        if config.excluded_namespaces.contains(&*self.name) {
            return wrong(
                "NotEnforced",
                format!(
                    "Evictions in namespace {} do not reach Holdfast, so this budget is not enforced; move the \
                     workload to another namespace",
                    self.name
                ),
            );
        }
        if budget.object.spec.scope == Scope::Pod {
            return None;
        }
        if budget.scope == Scope::Pod {
            return wrong(
                "FeatureDisabled",
                "Feature gate MultiPodPDBs is off, so this budget counts single pods".to_owned(),
            );
        }
        let tally = &budget.tally;
        if !tally.unreferenced.is_empty() || !tally.unresolved.is_empty() {
            return wrong(MISSING_REFERENCE, self.missing_references(budget));
        }
        if tally.workloads.len() > 1 {
            let names: Vec<&str> = tally.workloads.keys().map(String::as_str).collect();
            return wrong(
                SEVERAL_WORKLOADS,
                format!(
                    "The selected pods belong to replicas of {} workloads ({}); the budget is enforced over their \
                     sum; one budget per workload is easier to reason about",
                    names.len(),
                    name_some(&names)
                ),
            );
        }
        Some((true, ("ValidConfig", String::new())))
    }

    /// Whether deletes and updates of pods here reach us.
    fn enforced(&self, config: &Config) -> (bool, Reason) {
        let name = &self.name;
        if config.unguarded_namespaces.contains(&**name) {
            let message = format!(
                "Requests in namespace {name} do not reach Holdfast, so this budget is not enforced; move the \
                 workload to another namespace"
            );
            return (false, ("NamespaceExcluded", message));
        }
        if config.intercepted.contains(&**name) {
            return (true, ("Intercepted", String::new()));
        }
        let message = format!(
            "The API server does not ask Holdfast about deletes and updates of pods in namespace {name} yet"
        );
        (false, ("NotIntercepted", message))
    }

    /// What is wrong with a `PodUnavailableBudget`, all of it; the first gives the reason.
    fn flaws(&self, budget: &BudgetEntry, spec: &UnavailableSpec) -> Option<Reason> {
        let tally = &budget.tally;
        let mut flaws: Vec<Reason> = Vec::new();
        if let Some(groups) = &spec.groups {
            let label = &groups.label;
            if !tally.unreferenced.is_empty() {
                let names: Vec<&str> = tally.unreferenced.iter().map(|n| &**n).collect();
                let message = format!(
                    "{} of {} selected pods lack label {label} ({}); they are protected one by one, apart from the \
                     groups",
                    names.len(),
                    tally.pods,
                    name_some(&names)
                );
                flaws.push((MISSING_LABEL, message));
            }
            let largest = tally.replicas().map(|(_, group)| group.unfinished).max();
            if let Some(largest) = largest.filter(|largest| *largest < groups.min_ready) {
                let message = format!(
                    "podGroupPolicy.minReadyReplicas is {}, and no group has more than {}, so none can be available",
                    groups.min_ready,
                    count(usize::try_from(largest).unwrap_or_default(), "pod")
                );
                flaws.push((IMPOSSIBLE_MIN, message));
            }
        }
        if tally.several > 0 {
            flaws.push((SEVERAL_BUDGETS, self.shared_pods(budget)));
        }
        let (reason, _) = flaws.first()?;
        let messages: Vec<&str> = flaws.iter().map(|(_, message)| message.as_str()).collect();
        Some((*reason, messages.join("; ")))
    }

    fn shared_pods(&self, budget: &BudgetEntry) -> String {
        let others = |pod: &PodEntry| {
            let pubs = pod.budgets.iter().filter(|id| is_unavailable(id) && **id != budget.id);
            pubs.map(|id| id.object.name.clone()).next()
        };
        let mut pods = self.cache.selected_by(&budget.id);
        let example = pods.find_map(|pod| Some((pod.name.clone(), others(pod)?)));
        let example = example.map(|(pod, other)| format!(", such as {pod} with {other}"));
        format!(
            "{} also under another PodUnavailableBudget{}; every one of them has to allow what happens to such a pod",
            count(usize::try_from(budget.tally.several).unwrap_or_default(), "selected pod"),
            example.unwrap_or_default()
        )
    }

    fn missing_references(&self, budget: &BudgetEntry) -> String {
        let tally = &budget.tally;
        let mut sentences = Vec::new();
        if !tally.unreferenced.is_empty() {
            let names: Vec<&str> = tally.unreferenced.iter().map(|n| &**n).collect();
            let verb = if names.len() == 1 { "names" } else { "name" };
            sentences.push(format!(
                "{} of {} selected pods {verb} no replica ({}); set spec.schedulingGroup.podGroupName or annotation \
                 holdfast.dev/pod-group",
                names.len(),
                tally.pods,
                name_some(&names)
            ));
        }
        if let Some(key) = tally.unresolved.first() {
            let pods: i64 =
                tally.unresolved.iter().filter_map(|k| tally.replica(k)).map(|r| r.pods).sum();
            sentences.push(format!(
                "{pods} of {} selected pods belong to {} that cannot be resolved; {}",
                tally.pods,
                count(tally.unresolved.len(), "replica"),
                self.name_unresolved(budget, key)
            ));
        }
        sentences.join("; ")
    }

    /// Which pod suffers from what is missing.
    pub(super) fn name_unresolved(&self, budget: &BudgetEntry, key: &Arc<ReplicaKey>) -> String {
        let why = budget.tally.replica(key).and_then(|r| r.summary.unresolved.as_deref());
        let names = self.replicas.get(key).into_iter().flat_map(Replica::names);
        let pod = names
            .filter(|name| self.cache.pod(name).is_some_and(|e| e.budgets.contains(&budget.id)))
            .map(|name| &**name)
            .next()
            .unwrap_or("");
        format!("pod {pod}: {}", why.unwrap_or("its replica is unknown"))
    }
}

/// KEP-5682's misconfiguration: the selected pods are not replicas of one workload.
pub(super) fn is_misconfigured(status: &BudgetStatus) -> bool {
    status.conditions.iter().any(|condition| {
        condition.kind == BUDGET_CONFIGURED
            && [MISSING_REFERENCE, SEVERAL_WORKLOADS].contains(&condition.reason.as_str())
    })
}

type Reason = (&'static str, String);

fn fill(status: &mut BudgetStatus, budget: &BudgetEntry, evaluation: &Evaluation) {
    let tally = &budget.tally;
    status.observed_generation = budget.object.generation;
    status.disruptions_allowed_replicas = int32(evaluation.allowed);
    status.current_healthy_replicas = int32(evaluation.healthy);
    status.desired_healthy_replicas = int32(evaluation.desired);
    status.expected_replicas = int32(evaluation.expected);
    status.disruptions_allowed = status.disruptions_allowed_replicas;
    // A PodUnavailableBudget has one number for each, in its unit.
    let is_twin = evaluation.scope == Scope::Pod || budget.object.spec.unavailable.is_some();
    (status.current_healthy, status.expected_pods) = if is_twin {
        (status.current_healthy_replicas, status.expected_replicas)
    } else {
        (int32(tally.healthy_pods), int32(tally.pods))
    };
    status.desired_healthy =
        if is_twin { status.desired_healthy_replicas } else { int32(evaluation.desired_pods) };
}

/// The range that the schema allows and that Go clients can read. A status that holds another number would differ from
/// the one that is stored, and be written again and again. A desired number beyond the range (a large minAvailable
/// times a large minCount) is as unreachable as its limit.
fn int32(n: i64) -> i64 {
    n.clamp(0, i32::MAX.into())
}

fn disruption_allowed(budget: &BudgetEntry, evaluation: &Evaluation) -> (bool, Reason) {
    if let Some(Failure::Unresolved(why) | Failure::UnknownTotal(why)) = &evaluation.failure {
        let message = format!("Nothing is allowed until everything can be counted: {why}");
        return (false, ("WorkloadResolutionFailed", message));
    }
    let Evaluation { allowed, healthy, desired, expected, .. } = evaluation;
    match (evaluation.scope, *allowed > 0) {
        // Upstream's messages are empty.
        (Scope::Pod, true) => (true, ("SufficientPods", String::new())),
        (Scope::Pod, false) => (false, ("InsufficientPods", String::new())),
        (Scope::Workload, sufficient) => {
            let reason = if sufficient { "SufficientReplicas" } else { "InsufficientReplicas" };
            let is_pub = budget.object.spec.unavailable.is_some();
            let (units, sound) =
                if is_pub { ("groups", "available") } else { ("replicas", "healthy") };
            let message = format!(
                "{healthy} of {expected} {units} are {sound} and {desired} are needed, so {allowed} may be disrupted"
            );
            (sufficient, (reason, message))
        }
    }
}

/// As apimachinery's `SetStatusCondition`: the transition time changes with the status only.
fn set(
    status: &mut BudgetStatus,
    kind: &str,
    value: bool,
    (reason, message): Reason,
    observed_generation: i64,
    now: Timestamp,
) {
    let value = if value { ConditionStatus::True } else { ConditionStatus::False };
    let old = status.conditions.iter().position(|c| c.kind == kind);
    let last_transition = old
        .map(|i| &status.conditions[i])
        .filter(|c| c.status == value)
        .map_or_else(|| now.truncated(), |c| c.last_transition);
    let condition = Condition {
        kind: kind.to_owned(),
        status: value,
        reason: reason.to_owned(),
        message,
        observed_generation,
        last_transition,
    };
    match old {
        Some(i) => status.conditions[i] = condition,
        None => status.conditions.push(condition),
    }
}

/// `1 replica`, `3 replicas`.
pub(super) fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// `a, b, c and 4 more`.
pub(super) fn name_some(names: &[&str]) -> String {
    let shown = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
