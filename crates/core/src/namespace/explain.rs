//! Denials in words: the arithmetic, and what would help (semantics 7).

use super::assess::{Objection, ReplicaState};
use super::budgets::BudgetEntry;
use super::evaluate::{Evaluation, Failure};
use super::status::{count, name_some};
use super::{BudgetId, Namespace};
use crate::cache::PodEntry;
use crate::model::{Operation, Scope};
use crate::verdict::{Cause, Denial, DenyReason};

impl Namespace {
    /// The denial for a pod that these budgets object to.
    pub(super) fn explain(
        &self,
        pod: &PodEntry,
        operation: Operation,
        objections: &[(BudgetId, Objection)],
    ) -> Denial {
        let explained: Vec<(String, Cause)> = objections
            .iter()
            .filter_map(|(id, objection)| {
                let budget = self.budgets.get(id)?;
                let (sentence, detail) = self.explain_one(budget, pod, operation, objection);
                Some((sentence, Cause { budget: Some((**id).clone()), message: detail }))
            })
            .collect();
        let (sentences, causes): (Vec<String>, Vec<Cause>) = explained.into_iter().unzip();
        let reason = objections.first().map_or(DenyReason::BeingProcessed, |(_, o)| o.reason);
        let sentence = sentences.first().map_or("", String::as_str);
        Denial { reason, message: sentence.to_owned(), causes }
    }

    /// One sentence for the message, which is all that kubectl drain prints, and the whole story
    /// for the cause, which opens with upstream's words.
    fn explain_one(
        &self,
        budget: &BudgetEntry,
        pod: &PodEntry,
        operation: Operation,
        objection: &Objection,
    ) -> (String, String) {
        let name = &budget.id.object.name;
        let Objection { evaluation, replica, .. } = objection;
        let failure = evaluation.failure.as_ref();
        let Words { budget: kind, long, .. } = Words::of(budget, evaluation);
        let doing = disrupting(operation);
        match (objection.reason, failure) {
            (DenyReason::MissingReference, _) => {
                let what = format!(
                    "pod {} names no replica, and budget {name} counts replicas; set \
                     spec.schedulingGroup.podGroupName or annotation holdfast.dev/pod-group on the pod",
                    pod.name
                );
                (
                    sentence(&what),
                    format!("The {long} {name} does not allow {doing} pods currently: {what}"),
                )
            }
            (_, Some(Failure::SyncFailed(error))) => {
                let why = error.text();
                (
                    format!("{kind} {name} cannot be computed: {why}."),
                    format!(
                        "The {long} {name} does not allow {doing} pods currently because it failed \
                         sync: {why}"
                    ),
                )
            }
            (_, Some(Failure::UnknownTotal(why))) => (
                format!("{kind} {name} cannot be computed: {why}."),
                format!(
                    "The {long} {name} does not allow {doing} pods currently \
                     (WorkloadResolutionFailed): {why}"
                ),
            ),
            (_, Some(Failure::Unresolved(why))) => (
                format!("{kind} {name} counts replicas and cannot resolve one: {why}."),
                format!(
                    "The {long} {name} does not allow {doing} pods currently \
                     (WorkloadResolutionFailed): {why}"
                ),
            ),
            (DenyReason::BeingProcessed, _) | (_, Some(Failure::Processing)) => (
                format!("{kind} {name} is still being processed; try again in a moment."),
                format!("The {long} {name} is still being processed by the server."),
            ),
            (DenyReason::TooManyGrants, _) => (
                format!("{kind} {name} has too many evictions in flight; wait for them to finish."),
                format!(
                    "The {long} {name} does not allow {doing} pods currently: too many pending \
                     evictions not confirmed yet"
                ),
            ),
            (DenyReason::NotDeleted, _) => {
                let what = not_deleted(&pod.name, name);
                (
                    sentence(&what),
                    format!("The {long} {name} does not allow {doing} pods currently: {what}"),
                )
            }
            _ => self.explain_arithmetic(budget, pod, operation, evaluation, replica.as_ref()),
        }
    }

    fn explain_arithmetic(
        &self,
        budget: &BudgetEntry,
        pod: &PodEntry,
        operation: Operation,
        evaluation: &Evaluation,
        replica: Option<&ReplicaState>,
    ) -> (String, String) {
        let Evaluation { desired, healthy, expected, .. } = *evaluation;
        let name = &budget.id.object.name;
        let words = Words::of(budget, evaluation);
        // Upstream's sentence says "pods" for any number.
        let plural = if evaluation.scope == Scope::Workload && desired == 1 { "" } else { "s" };
        let Words { healthy: healthy_word, unit, disruption, .. } = words;
        let disrupting = disrupting(operation);
        let numbers = format!("needs {desired} {healthy_word} {unit}{plural} and has {healthy}");
        let breaks = replica.map(|replica| {
            let ReplicaState { label, min, healthy_pods, selected_pods, .. } = replica;
            let is_sound = replica.healthy && pod.is_sound(budget.health());
            let state = if is_sound && healthy_pods > min && self.is_leader(pod) {
                format!(
                    "{disrupting} pod {} would break {label}, because its workers end with their leader",
                    pod.name
                )
            } else if is_sound {
                format!("{disrupting} pod {} would break {label}, which needs {min} {healthy_word} pods and has {healthy_pods}", pod.name)
            } else if replica.healthy {
                format!("pod {} is not {healthy_word} and its {unit} {label} is; no pod goes while {unit}s are missing", pod.name)
            } else {
                format!("pod {} belongs to {label}, which needs {min} {healthy_word} pods, has {healthy_pods} and may recover", pod.name)
            };
            if selected_pods < min {
                format!("{state} (the budget selects only {selected_pods} of its pods)")
            } else {
                state
            }
        });
        let ledger = self.grants.ledger(&budget.id);
        let in_flight: Vec<&str> = ledger.live().map(|g| g.pod.as_str()).collect();
        let grants = if in_flight.is_empty() {
            format!("no {disruption}s in flight")
        } else {
            format!("{} in flight ({})", count(in_flight.len(), disruption), name_some(&in_flight))
        };
        let breaks_clause = breaks.map(|b| format!("; {b}")).unwrap_or_default();
        let hint = hint(budget, evaluation, self.ceiling(budget, evaluation));
        (
            format!("{} {name} {numbers} of {expected}{breaks_clause}{hint}.", words.budget),
            format!(
                "The {} {name} {numbers} currently; {expected} expected{breaks_clause}; \
                 {grants}{hint}",
                words.long
            ),
        )
    }

    /// The most units that there will ever be, if a source tells.
    pub(super) fn ceiling(&self, budget: &BudgetEntry, evaluation: &Evaluation) -> Option<i64> {
        let is_pub = budget.object.spec.unavailable.is_some();
        if evaluation.scope == Scope::Workload || budget.object.spec.needs_total() || is_pub {
            return evaluation.sourced.then_some(evaluation.expected);
        }
        // An integer minAvailable counts the pods that are there; their controllers know better.
        let managed = budget.tally.unmanaged_pods == 0;
        self.expected_pods(budget).ok().filter(|_| managed)
    }
}

/// How the two kinds of budgets speak.
struct Words {
    /// As a sentence begins with it.
    budget: &'static str,
    long: &'static str,
    healthy: &'static str,
    unit: &'static str,
    disruption: &'static str,
}

impl Words {
    fn of(budget: &BudgetEntry, evaluation: &Evaluation) -> Self {
        let of_pods = evaluation.scope == Scope::Pod;
        if budget.object.spec.unavailable.is_some() {
            Self {
                budget: "PodUnavailableBudget",
                long: "pod unavailable budget",
                healthy: "available",
                unit: if of_pods { "pod" } else { "group" },
                disruption: "disruption",
            }
        } else {
            Self {
                budget: "Budget",
                long: "disruption budget",
                healthy: "healthy",
                unit: if of_pods { "pod" } else { "replica" },
                disruption: "eviction",
            }
        }
    }
}

fn disrupting(operation: Operation) -> &'static str {
    match operation {
        Operation::Evict => "evicting",
        Operation::Delete => "deleting",
        Operation::Update => "updating",
        Operation::Resize => "resizing",
    }
}

/// A denial that is not one budget's.
pub(super) fn refuse(reason: DenyReason, why: &str) -> Denial {
    Denial {
        reason,
        message: sentence(why),
        causes: vec![Cause { budget: None, message: sentence(why) }],
    }
}

/// What would help: nothing but another threshold, or patience.
fn hint(budget: &BudgetEntry, evaluation: &Evaluation, ceiling: Option<i64>) -> String {
    let Evaluation { desired, healthy, .. } = *evaluation;
    let spec = &budget.object.spec;
    let Words { healthy: healthy_word, unit, .. } = Words::of(budget, evaluation);
    if spec.min_available.is_none() && spec.max_unavailable.is_none() {
        return "; it can never allow one, because it has neither minAvailable nor maxUnavailable"
            .to_owned();
    }
    if let Some(ceiling) = never(evaluation, ceiling) {
        let fewer = ceiling - 1;
        return format!(
            "; it can never allow one, because it needs {desired} and there are never more than {}: \
             minAvailable {fewer} or maxUnavailable 1 would",
            count(usize::try_from(ceiling).unwrap_or_default(), unit)
        );
    }
    match desired + 1 - healthy {
        missing if missing <= 0 => String::new(),
        1 => format!("; it will allow one when 1 more {unit} is {healthy_word}"),
        missing => format!("; it will allow one when {missing} more {unit}s are {healthy_word}"),
    }
}

/// The most units that there will ever be, if that is not more than are needed.
pub(super) fn never(evaluation: &Evaluation, ceiling: Option<i64>) -> Option<i64> {
    ceiling.filter(|ceiling| *ceiling > 0 && evaluation.desired >= *ceiling)
}

/// Why a pod whose evictions were allowed before, and did not delete it, is not evicted again yet.
pub(super) fn not_deleted(pod: &str, budget: &str) -> String {
    format!(
        "evictions of pod {pod} were allowed by budget {budget} and did not delete it, so the API server or another \
         admission check refuses them; the grant expires two minutes after the first one"
    )
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let stop = if text.ends_with('.') { "" } else { "." };
    format!("{first}{}{stop}", chars.as_str())
}
