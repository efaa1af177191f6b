//! How many units of a budget are healthy, and how many it desires (semantics 5 and 9).

use std::collections::BTreeMap;

use crate::expected;
use crate::memory::Memory;
use crate::objects::{Budget, Kind, Phase, Pod, Scope, Threshold};
use crate::replica::{self, Replica};
use crate::state::State;

/// Says that a pod counts as lost, whatever its object shows.
pub type Lost<'a> = &'a dyn Fn(&Pod) -> bool;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub healthy: i64,
    pub expected: i64,
    pub desired: i64,
    /// Why the budget has failed closed.
    pub closed: Option<String>,
    pub replicas: BTreeMap<Replica, ReplicaCount>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaCount {
    pub healthy_pods: i64,
    pub min: Result<i64, String>,
    pub healthy: bool,
    pub leaving: bool,
    /// Has a pod that is neither finished nor terminating.
    pub live: bool,
}

impl Count {
    pub fn allowed(&self, budget: &Budget) -> i64 {
        let none = budget.unavailable.is_none() && self.expected <= 0;
        if none || self.closed.is_some() { 0 } else { (self.healthy - self.desired).max(0) }
    }

    pub fn is_kept(&self) -> bool {
        self.healthy >= self.desired
    }
}

pub fn count(budget: &Budget, state: &State, memory: &Memory, lost: Lost<'_>) -> Count {
    match budget.scope {
        Scope::Pod => count_pods(budget, state, lost),
        Scope::Replica => count_replicas(budget, state, memory, lost),
    }
}

/// Whether the pod counts as healthy for this budget.
pub fn is_healthy(budget: &Budget, pod: &Pod) -> bool {
    let any_phase = budget.scope == Scope::Pod && budget.unavailable.is_none();
    let available = budget.unavailable.is_none() || pod.settled;
    pod.ready && !pod.terminating && (any_phase || pod.phase == Phase::Running) && available
}

fn count_pods(budget: &Budget, state: &State, lost: Lost<'_>) -> Count {
    let healthy = state.selected(budget).filter(|pod| is_healthy(budget, pod) && !lost(pod));
    let healthy = number(healthy.count());
    let present = number(state.selected(budget).count());
    let needed = budget.needs_expected();
    let total = match &budget.unavailable {
        Some(spec) => spec.total.or_else(|| expected::pods(budget, state)),
        None if needed => expected::pods(budget, state),
        None => Some(present),
    };
    let unknown = || "the scale of a controller is unknown".to_owned();
    let closed = (needed && total.is_none()).then(unknown);
    finish(budget, healthy, total.unwrap_or(present), closed, BTreeMap::new())
}

fn count_replicas(budget: &Budget, state: &State, memory: &Memory, lost: Lost<'_>) -> Count {
    let members = members(budget, state);
    let mut replicas = BTreeMap::new();
    let mut closed = None;
    for (replica, pods) in &members {
        let counted = count_replica(budget, state, memory, (replica, pods), lost);
        let running = pods.iter().any(|pod| pod.is_running());
        if let (Err(why), true) = (&counted.min, running) {
            closed.get_or_insert_with(|| format!("{replica}: {why}"));
        }
        replicas.insert(replica.clone(), counted);
    }
    let healthy = number(replicas.values().filter(|r| r.healthy).count());
    let live = number(replicas.values().filter(|r| r.live && !r.leaving).count());
    let given = budget.unavailable.as_ref().and_then(|u| u.total);
    let total = given.or_else(|| expected::replicas(budget, state, memory, &members));
    let expected = given.unwrap_or_else(|| total.map_or(live, |total| total.max(live)));
    if total.is_none() && budget.needs_expected() {
        closed.get_or_insert("the expected number is unknown".to_owned());
    }
    finish(budget, healthy, expected, closed, replicas)
}

/// The selected pods by replica. Pods without a reference are in none.
pub fn members<'a>(budget: &'a Budget, state: &'a State) -> BTreeMap<Replica, Vec<&'a Pod>> {
    let mut members: BTreeMap<Replica, Vec<&Pod>> = BTreeMap::new();
    for pod in state.selected(budget) {
        if let Some(replica) = replica::of(budget, state, pod) {
            members.entry(replica).or_default().push(pod);
        }
    }
    members
}

fn count_replica(
    budget: &Budget,
    state: &State,
    memory: &Memory,
    (replica, pods): (&Replica, &[&Pod]),
    lost: Lost<'_>,
) -> ReplicaCount {
    let holds = |pod: &Pod| is_healthy(budget, pod) && !lost(pod);
    let counts = |pod: &Pod| holds(pod) && !replica::is_abandoned(state, pod, holds);
    let healthy_pods = number(pods.iter().filter(|pod| counts(pod)).count());
    let min = replica::min_count(budget, state, memory, replica, pods);
    let leaving = pods.iter().all(|pod| replica::is_leaving(state, pod, replica));
    let live = pods.iter().any(|pod| !pod.is_finished() && !pod.terminating);
    let enough = min.as_ref().is_ok_and(|min| healthy_pods >= *min);
    let healthy = !leaving && enough && is_intact(budget, state, pods, lost);
    ReplicaCount { healthy_pods, min, healthy, leaving, live }
}

/// A `LeaderWorkerSet` deletes what is left of a group that lost a pod, so a group by label counts
/// only while all its pods are there and stay (semantics 9).
fn is_intact(budget: &Budget, state: &State, pods: &[&Pod], lost: Lost<'_>) -> bool {
    if budget.groups().is_none() {
        return true;
    }
    let live = pods.iter().filter(|pod| !pod.is_finished() && !pod.terminating);
    let sizes = live.filter_map(|pod| {
        let lws = pod.lws.as_ref()?;
        let set = state.owner(&Kind::lws(), &pod.key.namespace, &lws.set);
        if set.is_some_and(|set| set.keeps_group) { None } else { lws.size }
    });
    let stay = pods.iter().filter(|pod| pod.is_running() && !lost(pod)).count();
    number(stay) >= sizes.max().unwrap_or(0)
}

fn finish(
    budget: &Budget,
    healthy: i64,
    expected: i64,
    mut closed: Option<String>,
    replicas: BTreeMap<Replica, ReplicaCount>,
) -> Count {
    let max = budget
        .max_unavailable
        .as_ref()
        .map(|max| of(max, expected).map(|max| (expected - max).max(0)));
    let min = budget.min_available.as_ref().map(|min| of(min, expected));
    let wanted = match (max, min) {
        // A PodUnavailableBudget may have both, and both hold.
        (Some(a), Some(b)) if budget.unavailable.is_some() => a.zip(b).map(|(a, b)| a.max(b)),
        (Some(wanted), _) | (None, Some(wanted)) => wanted,
        (None, None) => Some(0),
    };
    if wanted.is_none() || budget.unreadable {
        closed.get_or_insert("the budget cannot be read".to_owned());
    }
    Count { healthy, expected, desired: wanted.unwrap_or(0), closed, replicas }
}

/// Percentages round up; None for a threshold that cannot be read.
fn of(threshold: &Threshold, expected: i64) -> Option<i64> {
    match threshold {
        Threshold::Count(count) => Some(*count),
        Threshold::Percent(percent) => Some((percent * expected + 99).div_euclid(100)),
        Threshold::Invalid => None,
    }
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
