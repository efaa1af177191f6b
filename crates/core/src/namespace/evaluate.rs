//! A budget's numbers, from its counters (upstream 1.5 for pods, semantics 4 and 5 for replicas).

use std::collections::{BTreeMap, BTreeSet};

use litemap::LiteMap;

use super::Namespace;
use super::budgets::BudgetEntry;
use crate::cache::{Found, GroupCount};
use crate::model::{ControllerRef, Owner, Scope};
use crate::replicas::Source;
use crate::view::PROCESSING;

/// What a budget comes to, in its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Evaluation {
    pub(super) scope: Scope,
    pub(super) expected: i64,
    pub(super) desired: i64,
    pub(super) healthy: i64,
    pub(super) allowed: i64,
    /// The fewest pods that can carry `desired`.
    pub(super) desired_pods: i64,
    /// Whether a source says how many are expected; else `expected` is what is there.
    pub(super) sourced: bool,
    pub(super) failure: Option<Failure>,
}

/// Why the budget allows nothing, whatever its numbers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// A scale has not been read yet.
    Processing,
    /// Upstream's failSafe.
    SyncFailed(SyncError),
    /// The budget failed closed (semantics 6.4): a replica cannot be resolved.
    Unresolved(String),
    /// The budget failed closed: the thresholds need a number that nothing tells.
    UnknownTotal(String),
}

impl Failure {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Processing => PROCESSING,
            Self::SyncFailed(error) => error.text(),
            Self::Unresolved(why) | Self::UnknownTotal(why) => why,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SyncError {
    Selector(String),
    ExpectedCount(String),
}

impl SyncError {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Selector(why) | Self::ExpectedCount(why) => why,
        }
    }
}

impl Namespace {
    pub(super) fn evaluate(&self, budget: &BudgetEntry) -> Evaluation {
        if let Some(unreadable) = &budget.unreadable {
            let why = unreadable.why.clone();
            return Evaluation::failed(budget, SyncError::ExpectedCount(why));
        }
        if let Err(why) = &budget.selector {
            return Evaluation::failed(budget, SyncError::Selector(why.clone()));
        }
        if let Some(spec) = &budget.object.spec.unavailable {
            return self.evaluate_available(budget, spec);
        }
        match budget.scope {
            Scope::Pod => self.evaluate_pods(budget),
            Scope::Workload => self.evaluate_replicas(budget),
        }
    }

    fn evaluate_pods(&self, budget: &BudgetEntry) -> Evaluation {
        let total = if budget.object.spec.needs_total() {
            self.expected_pods(budget)
        } else {
            Ok(budget.tally.pods)
        };
        let expected = match total {
            Ok(expected) => expected,
            Err(None) => {
                return Evaluation {
                    failure: Some(Failure::Processing),
                    ..Evaluation::empty(budget)
                };
            }
            Err(Some(why)) => return Evaluation::failed(budget, SyncError::ExpectedCount(why)),
        };
        Evaluation::of(budget, expected, budget.tally.healthy_pods)
    }

    fn evaluate_replicas(&self, budget: &BudgetEntry) -> Evaluation {
        let tally = &budget.tally;
        let live = tally.live_replicas;
        let total = self.expected_replicas(budget);
        let expected = total.as_ref().map_or(live, |total| live.max(*total));
        let healthy = tally.healthy_replicas - self.leaderless_healthy(budget);
        let mut evaluation = Evaluation::of(budget, expected, healthy);
        evaluation.sourced = total.is_ok();
        if evaluation.failure.is_some() {
            return evaluation;
        }
        evaluation.failure = if let Some(key) = tally.closing.first() {
            Some(Failure::Unresolved(self.name_unresolved(budget, key)))
        } else if budget.object.spec.needs_total() {
            total.err().map(Failure::UnknownTotal)
        } else {
            None
        };
        if evaluation.failure.is_some() && !planted!(FailOpen) {
            evaluation.allowed = 0;
        }
        evaluation.desired_pods =
            smallest(&tally.min_counts, evaluation.expected, evaluation.desired);
        evaluation
    }

    /// Σ of the scales of the distinct controllers; Err(None) while one is being read.
    pub(super) fn expected_pods(&self, budget: &BudgetEntry) -> Result<i64, Option<String>> {
        let mut scales: BTreeMap<&str, i64> = BTreeMap::new();
        let mut pending = false;
        for controller in budget.tally.controllers.keys() {
            match self.cache.find_scale(controller) {
                Found::Scale { uid, replicas } => {
                    scales.insert(uid, replicas);
                }
                Found::Nothing => {
                    let pod = self.pod_of(budget, controller);
                    return Err(Some(format!("found no controllers for pod \"{pod}\"")));
                }
                Found::Failed(why) => return Err(Some(why)),
                Found::Pending => pending = true,
            }
        }
        if pending {
            return Err(None);
        }
        Ok(scales.values().sum())
    }

    fn pod_of(&self, budget: &BudgetEntry, controller: &ControllerRef) -> String {
        self.cache
            .pods()
            .find(|e| {
                e.pod.controller.as_deref() == Some(controller) && e.budgets.contains(&budget.id)
            })
            .map(|e| e.name.to_string())
            .unwrap_or_default()
    }

    /// The sum over the sources; Err says which one is unknown (semantics 4).
    pub(super) fn expected_replicas(&self, budget: &BudgetEntry) -> Result<i64, String> {
        let mut sum = 0;
        let mut jobsets: BTreeMap<&str, BTreeSet<Option<&GroupCount>>> = BTreeMap::new();
        // Apart from the others, because several ways may lead to the same count.
        let mut counts: BTreeSet<&GroupCount> = BTreeSet::new();
        let absent = self.absent_sources(budget);
        let mut counted_otherwise = 0;
        for source in budget.tally.sources.keys().chain(&absent) {
            match source {
                Source::JobSet { name, otherwise } => {
                    jobsets.entry(name).or_default().insert(otherwise.as_ref());
                }
                Source::Groups(count) => {
                    // An instance that had not seen the owners of single groups remembers all of them.
                    if counts.insert(count) && absent.contains(source) {
                        counted_otherwise += self.counted_otherwise(budget, count);
                    }
                }
                _ => sum += self.source_replicas(source)?,
            }
        }
        for (name, otherwise) in jobsets {
            let jobset = self.cache.objects.owner(Owner::JOBSET_GROUP, "JobSet", name);
            let replicas = jobset.and_then(|jobset| jobset.replicas);
            // Where groups go by label, only labels of Jobs lead here.
            let one_job_each = budget.groups().is_some() || self.one_job_per_replica(budget, name);
            match replicas.filter(|_| one_job_each) {
                Some(replicas) => sum += replicas,
                None => {
                    for count in otherwise {
                        counts.insert(count.ok_or_else(|| {
                            format!(
                                "the number of replicas of JobSet {name} is unknown, because its Jobs and \
                                 replicas do not match one to one"
                            )
                        })?);
                    }
                }
            }
        }
        let groups: i64 = counts.into_iter().map(|count| self.group_count(count)).sum();
        Ok(sum + (groups - counted_otherwise).max(0))
    }

    pub(super) fn source_replicas(&self, source: &Source) -> Result<i64, String> {
        match source {
            Source::Entry { api, workload, entry } => self
                .cache
                .objects
                .workload_entry(*api, workload, entry)
                .and_then(|e| e.replicas)
                .ok_or_else(|| {
                    format!("Workload {workload} says no number of replicas for {entry}")
                }),
            Source::Lws { name } => self
                .cache
                .objects
                .owner(Owner::LWS_GROUP, "LeaderWorkerSet", name)
                .and_then(|lws| lws.replicas)
                .ok_or_else(|| {
                    format!("LeaderWorkerSet {name} does not exist, so its scale is unknown")
                }),
            Source::StatefulSet { name } => self
                .cache
                .objects
                .owner("apps", "StatefulSet", name)
                .and_then(|set| Some((set.replicas?, set.group_size?)))
                .map(|(replicas, size)| (replicas + size - 1).div_euclid(size.max(1)))
                .ok_or_else(|| format!("StatefulSet {name} has no readable scale")),
            Source::Job { .. } => Ok(1),
            Source::Groups(count) => Ok(self.group_count(count)),
            Source::JobSet { name, .. } => Err(format!("JobSet {name} is counted by its jobs")),
            Source::Unknown => {
                Err("the number of expected replicas is unknown: no Workload, scale, Job or \
                                    owner of the PodGroups tells it; use an integer minAvailable"
                    .to_owned())
            }
        }
    }

    fn group_count(&self, count: &GroupCount) -> i64 {
        self.cache.objects.group_count(count).unwrap_or(0)
    }

    /// Whether this budget's replicas of the `JobSet` and its Jobs match one to one.
    fn one_job_per_replica(&self, budget: &BudgetEntry, jobset: &str) -> bool {
        let of_jobset =
            |source: &Source| matches!(source, Source::JobSet { name, .. } if name == jobset);
        let mut jobs = BTreeSet::new();
        budget.tally.replicas().all(|(key, tally)| {
            let Some(replica) = self.replicas.get(key) else { return true };
            if !tally.has_source(of_jobset) {
                return true;
            }
            let own: Vec<_> =
                replica.resolution().jobs.iter().filter(|(set, _)| set == jobset).collect();
            own.len() == 1 && own.iter().all(|job| jobs.insert(*job))
        })
    }
}

impl Evaluation {
    /// Thresholds applied to totals; the same arithmetic for both units.
    fn of(budget: &BudgetEntry, expected: i64, healthy: i64) -> Self {
        let spec = &budget.object.spec;
        let (expected, desired) = match (&spec.max_unavailable, &spec.min_available) {
            (Some(max), _) => (expected, max.of(expected).map(|max| (expected - max).max(0))),
            (None, Some(min)) => (expected, min.of(expected)),
            (None, None) => (0, Ok(0)),
        };
        match desired {
            Ok(desired) => Self {
                scope: budget.scope,
                expected,
                desired,
                healthy,
                allowed: if expected <= 0 { 0 } else { (healthy - desired).max(0) },
                desired_pods: desired,
                sourced: true,
                failure: None,
            },
            Err(why) => Self::failed(budget, SyncError::ExpectedCount(why)),
        }
    }

    pub(super) fn failed(budget: &BudgetEntry, why: SyncError) -> Self {
        Self { failure: Some(Failure::SyncFailed(why)), ..Self::empty(budget) }
    }

    pub(super) fn empty(budget: &BudgetEntry) -> Self {
        Self {
            scope: budget.scope,
            expected: 0,
            desired: 0,
            healthy: 0,
            allowed: 0,
            desired_pods: 0,
            sourced: true,
            failure: None,
        }
    }
}

/// Sum of the `n` smallest of `expected` minCounts, of which those in `known` are known and the
/// others are taken as the smallest known (semantics 2).
fn smallest(known: &LiteMap<i64, u32>, expected: i64, n: i64) -> i64 {
    let Some((least, _)) = known.first() else { return 0 };
    let count: i64 = known.values().map(|c| i64::from(*c)).sum();
    let unknown = (expected.max(n) - count).max(0);
    let mut left = n;
    let mut sum = 0;
    for (min, count) in
        std::iter::once((*least, unknown)).chain(known.iter().map(|(m, c)| (*m, i64::from(*c))))
    {
        let taken = left.min(count);
        sum += taken * min;
        left -= taken;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn desired_pods_is_the_sum_of_the_smallest_min_counts() {
        let mins = |pairs: &[(i64, u32)]| pairs.iter().copied().collect::<LiteMap<_, _>>();
        for (known, expected, n, sum) in [
            (mins(&[(8, 10)]), 10, 9, 72),
            (mins(&[(8, 8)]), 10, 9, 72),
            (mins(&[(3, 1), (8, 1)]), 3, 2, 6),
            (mins(&[(3, 1), (8, 1)]), 2, 2, 11),
            (mins(&[]), 4, 2, 0),
            (mins(&[(8, 2)]), 2, 5, 40),
        ] {
            assert_eq!(smallest(&known, expected, n), sum);
        }
    }
}
