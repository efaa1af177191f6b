//! What happens in a simulated cluster, written down as it happens. Health is counted from the
//! cluster's objects; the engine is not asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_core::model::{
    BasicMinCount, Budget, BudgetSpec, GroupKind, ObjectKey, Phase, Pod, Scope,
};
use holdfast_sim::{Replica, World};

use super::labels;
use super::report::{Lane, LaneState, Level, Time};
use super::scenario::Scenario;

/// Lanes and budgets over time.
#[derive(Debug)]
pub struct Recorder {
    budgets: Vec<Budget>,
    /// Healthy units of each budget now, and over time.
    healthy: Vec<i64>,
    levels: Vec<Track<i64>>,
    lanes: Vec<LaneRecord>,
    lane_of: BTreeMap<LaneKey, usize>,
    pods: BTreeMap<ObjectKey, Seen>,
    /// Name of the workload behind a `ReplicaSet`, by namespace and name.
    behind: BTreeMap<ObjectKey, String>,
    has_replicas: bool,
    healthy_replicas: usize,
    working_pods: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LaneKey {
    Replica(Replica),
    Set { namespace: String, name: String },
}

#[derive(Debug)]
struct LaneRecord {
    key: LaneKey,
    pods: usize,
    needed: Option<usize>,
    working: usize,
    healthy: bool,
    healthy_before: bool,
    budgets: BTreeSet<usize>,
    track: Track<(usize, bool)>,
}

#[derive(Debug)]
struct Seen {
    lane: usize,
    working: bool,
    budgets: Vec<usize>,
}

/// A value and when it changed.
#[derive(Clone, Debug)]
struct Track<T>(Vec<(Duration, T)>);

impl<T: Copy + PartialEq> Track<T> {
    fn note(&mut self, at: Duration, value: T) {
        match self.0.last_mut() {
            Some((_, last)) if *last == value => return,
            // What lasted no time was not.
            Some((since, last)) if *since == at => *last = value,
            _ => self.0.push((at, value)),
        }
        if let [.., (_, before), (_, after)] = self.0.as_slice()
            && before == after
        {
            self.0.pop();
        }
    }

    /// From, to and value.
    fn spans(&self, end: Duration) -> impl Iterator<Item = (Duration, Duration, T)> + '_ {
        let ends = self.0.iter().skip(1).map(|(at, _)| *at).chain([end]);
        self.0.iter().zip(ends).map(|((from, value), to)| (*from, to.max(*from), *value))
    }
}

impl Recorder {
    /// Starts with the cluster as it stands.
    pub fn new(scenario: &Scenario, world: &mut World) -> Self {
        let behind = scenario.objects.owners.iter().filter_map(|given| {
            let controller = given.owner.controller.as_ref()?;
            let is_set = given.owner.group_kind == GroupKind::new("apps", "ReplicaSet");
            let name = format!("{} {}", controller.group_kind.kind, controller.name);
            is_set.then(|| (given.owner.key.clone(), name))
        });
        let budgets: Vec<Budget> =
            scenario.objects.budgets.iter().map(|given| given.budget.clone()).collect();
        let mut recorder = Self {
            healthy: vec![0; budgets.len()],
            levels: vec![Track(vec![(Duration::ZERO, 0)]); budgets.len()],
            budgets,
            lanes: Vec::new(),
            lane_of: BTreeMap::new(),
            pods: BTreeMap::new(),
            behind: behind.collect(),
            has_replicas: false,
            healthy_replicas: 0,
            working_pods: 0,
        };
        recorder.take_in(world, Duration::ZERO);
        for seen in recorder.pods.values() {
            recorder.lanes[seen.lane].pods += 1;
        }
        for lane in recorder.lanes.iter_mut().filter(|lane| lane.is_set()) {
            lane.healthy = true;
            lane.track = Track(vec![(Duration::ZERO, (lane.working, true))]);
        }
        for lane in &mut recorder.lanes {
            lane.healthy_before = lane.healthy;
        }
        recorder
    }

    /// To be called whenever something may have happened.
    pub fn take_in(&mut self, world: &mut World, at: Duration) {
        let changed = world.take_changed_pods();
        let mut lanes = BTreeSet::new();
        let mut budgets = BTreeSet::new();
        for key in &changed {
            self.note_pod(world, key, &mut lanes, &mut budgets);
        }
        for index in lanes {
            self.note_lane(world, index, at, &mut budgets);
        }
        for index in budgets {
            self.levels[index].note(at, self.healthy[index]);
        }
    }

    /// Healthy replicas; working pods if there are no replicas whose health can be told.
    pub fn healthy(&self) -> usize {
        if self.has_replicas { self.healthy_replicas } else { self.working_pods }
    }

    pub fn replica_of(&self, pod: &ObjectKey) -> Option<String> {
        match &self.lanes[self.pods.get(pod)?.lane].key {
            LaneKey::Replica(replica) => Some(replica.to_string()),
            LaneKey::Set { .. } => None,
        }
    }

    /// Replicas, and sets of pods that are of none.
    pub fn lanes(&self, end: Duration) -> (Vec<Lane>, Vec<Lane>) {
        let (mut replicas, mut sets) = (Vec::new(), Vec::new());
        for record in &self.lanes {
            if record.is_set() { &mut sets } else { &mut replicas }.push(record.lane(end));
        }
        let by_name = |lane: &Lane| (lane.namespace.clone(), natural(&lane.name));
        replicas.sort_by_key(by_name);
        sets.sort_by_key(by_name);
        (replicas, sets)
    }

    /// Whether it can be told how many units of the budget are healthy.
    pub fn tells(&self, budget: usize) -> bool {
        let untold = |lane: &LaneRecord| !lane.is_set() && lane.needed.is_none();
        self.budgets[budget].spec.scope == Scope::Pod
            || !self.lanes.iter().any(|lane| lane.budgets.contains(&budget) && untold(lane))
    }

    pub fn levels(&self, budget: usize, end: Duration) -> Vec<Level> {
        let spans = self.levels[budget].spans(end);
        spans
            .map(|(from, to, healthy)| Level {
                from_seconds: Time(from),
                to_seconds: Time(to),
                healthy,
            })
            .collect()
    }

    fn note_pod(
        &mut self,
        world: &World,
        key: &ObjectKey,
        lanes: &mut BTreeSet<usize>,
        budgets: &mut BTreeSet<usize>,
    ) {
        let pod = world.pod(key).filter(|pod| is_counted(pod));
        let before = self.pods.remove(key);
        if let Some(seen) = &before {
            self.count(seen, -1);
            lanes.insert(seen.lane);
            budgets.extend(&seen.budgets);
        }
        let Some(pod) = pod else { return };
        // A successor of the same name is in the same lane, under the same budgets.
        let mut seen = before.unwrap_or_else(|| self.look_at(pod));
        seen.working = pod.phase == Phase::Running && pod.ready && !pod.terminating;
        self.count(&seen, 1);
        lanes.insert(seen.lane);
        budgets.extend(&seen.budgets);
        self.pods.insert(key.clone(), seen);
    }

    fn look_at(&mut self, pod: &Pod) -> Seen {
        let key = match Replica::of(pod) {
            Some(replica) => LaneKey::Replica(replica),
            None => {
                LaneKey::Set { namespace: pod.key.namespace.clone(), name: self.workload_of(pod) }
            }
        };
        let lane = *self.lane_of.entry(key.clone()).or_insert_with(|| {
            self.lanes.push(LaneRecord {
                key,
                pods: 0,
                needed: None,
                working: 0,
                healthy: false,
                healthy_before: false,
                budgets: BTreeSet::new(),
                track: Track(Vec::new()),
            });
            self.lanes.len() - 1
        });
        let all = self.budgets.iter().enumerate();
        let covering = all.filter(|(_, budget)| labels::cover(budget, pod));
        let budgets: Vec<usize> = covering.map(|(index, _)| index).collect();
        let record = &mut self.lanes[lane];
        for budget in &budgets {
            if record.budgets.insert(*budget)
                && record.healthy
                && !record.is_set()
                && self.budgets[*budget].spec.scope == Scope::Workload
            {
                self.healthy[*budget] += 1;
            }
        }
        Seen { lane, working: false, budgets }
    }

    fn workload_of(&self, pod: &Pod) -> String {
        let Some(controller) = &pod.controller else {
            return "pods without a controller".to_owned();
        };
        let key = ObjectKey::new(pod.key.namespace.clone(), controller.name.clone());
        match self.behind.get(&key) {
            Some(name) => name.clone(),
            None => format!("{} {}", controller.group_kind.kind, controller.name),
        }
    }

    fn count(&mut self, seen: &Seen, sign: i64) {
        if !seen.working {
            return;
        }
        let add = |n: &mut usize| *n = n.saturating_add_signed(if sign > 0 { 1 } else { -1 });
        add(&mut self.lanes[seen.lane].working);
        add(&mut self.working_pods);
        for index in &seen.budgets {
            if self.budgets[*index].spec.scope == Scope::Pod {
                self.healthy[*index] += sign;
            }
        }
    }

    fn note_lane(
        &mut self,
        world: &World,
        index: usize,
        at: Duration,
        budgets: &mut BTreeSet<usize>,
    ) {
        let lane = &mut self.lanes[index];
        let was = lane.healthy;
        match &lane.key {
            LaneKey::Replica(replica) => {
                let given = lane.budgets.iter().map(|index| &self.budgets[*index].spec);
                let basic_min = given.filter_map(min_of_basic).max();
                let health = world.health_of(replica, basic_min);
                let min = health.as_ref().and_then(|health| health.min.clone().ok());
                lane.needed = min.and_then(|min| usize::try_from(min).ok()).or(lane.needed);
                self.has_replicas |= lane.needed.is_some();
                lane.healthy = health.is_some_and(|health| health.healthy);
            }
            LaneKey::Set { .. } => lane.healthy = lane.working >= lane.pods,
        }
        lane.track.note(at, (lane.working, lane.healthy));
        if !lane.is_set() && was != lane.healthy {
            let up = if lane.healthy { 1 } else { -1 };
            self.healthy_replicas = self.healthy_replicas.saturating_add_signed(up);
            for index in &lane.budgets {
                if self.budgets[*index].spec.scope == Scope::Workload {
                    self.healthy[*index] += if lane.healthy { 1 } else { -1 };
                }
            }
        }
        budgets.extend(&lane.budgets);
    }
}

impl LaneRecord {
    fn is_set(&self) -> bool {
        matches!(self.key, LaneKey::Set { .. })
    }

    fn lane(&self, end: Duration) -> Lane {
        let (namespace, name) = match &self.key {
            LaneKey::Replica(replica) => (replica.namespace.clone(), replica.to_string()),
            LaneKey::Set { namespace, name } => (namespace.clone(), name.clone()),
        };
        // A group without a minimum is neither up nor down.
        let tells = self.is_set() || self.needed.is_some();
        let states: Vec<LaneState> = (self.track.spans(end))
            .map(|(from, to, (working, healthy))| LaneState {
                from_seconds: Time(from),
                to_seconds: Time(to),
                working,
                healthy: tells.then_some(healthy),
            })
            .collect();
        let is_down = |state: &&LaneState| state.healthy == Some(false);
        let down = states.iter().filter(is_down);
        let down_time =
            down.map(|state| state.to_seconds.0.saturating_sub(state.from_seconds.0)).sum();
        let healthy_before = tells.then_some(self.healthy_before);
        let before = [healthy_before].into_iter().chain(states.iter().map(|s| s.healthy));
        let falls = before.zip(&states).filter(|(was, now)| *was == Some(true) && is_down(now));
        let falls = falls.count();
        Lane {
            namespace,
            name,
            pods: self.pods,
            needed: self.needed,
            healthy_before,
            down_seconds: Time(down_time),
            // The record ends when nothing moves any more.
            stays_down: states.last().as_ref().is_some_and(is_down),
            interruptions: falls,
            states,
        }
    }
}

/// How many pods a budget says that a group without a minimum needs.
fn min_of_basic(spec: &BudgetSpec) -> Option<i64> {
    match (spec.scope, &spec.basic_min_count) {
        (Scope::Workload, BasicMinCount::Count(min)) => Some(*min),
        _ => None,
    }
}

/// Pods of `DaemonSet`s and static pods are no part of what a drain does, nor are finished ones.
fn is_counted(pod: &Pod) -> bool {
    let kind = pod.controller.as_ref().map(|controller| controller.group_kind.kind.as_str());
    !pod.is_terminal() && !matches!(kind, Some("DaemonSet" | "Node"))
}

/// So that `g-10` comes after `g-9`.
fn natural(name: &str) -> Vec<(usize, String)> {
    let mut parts: Vec<(usize, String)> = Vec::new();
    for c in name.chars() {
        let number = c.is_ascii_digit();
        match parts.last_mut() {
            Some((length, part)) if (*length > 0) == number => {
                part.push(c);
                *length += usize::from(number);
            }
            _ => parts.push((usize::from(number), c.to_string())),
        }
    }
    parts
}
