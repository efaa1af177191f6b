//! What a seed decides at the beginning: the workloads, their budgets, the instances, and what may go wrong.

use std::collections::BTreeSet;
use std::fmt;

use holdfast_sim::random::Random;
use serde_json::{Value, json};

use crate::fault::Fault;

#[derive(Clone, Debug)]
pub struct Params {
    pub seed: u64,
    pub instances: usize,
    /// Holdfast serves `policy/v1`, and evictions come to its gate.
    pub native: bool,
    pub workloads: Vec<Workload>,
    pub faults: BTreeSet<Fault>,
    /// How long faults happen.
    pub chaos_ms: u64,
    /// Between two faults, at most.
    pub pause_ms: u64,
    /// Between two evictions, at most.
    pub eviction_ms: u64,
}

#[derive(Clone, Debug)]
pub struct Workload {
    pub name: &'static str,
    pub shape: Shape,
    pub replicas: usize,
    /// Pods of one replica.
    pub size: usize,
    /// The spec of its budget. None: a budget may come later.
    pub budget: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A group that loses a pod is deleted and created again by its `LeaderWorkerSet`.
    LeaderWorkerSet,
    /// A `StatefulSet` whose pods name `PodGroups`.
    PodGroups,
    /// A `StatefulSet` whose pods stand alone.
    Pods,
}

impl Params {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut workloads = Vec::new();
        if random.chance(70) {
            workloads.push(Workload::draw(&mut random, "lws", Shape::LeaderWorkerSet));
        }
        if random.chance(60) {
            workloads.push(Workload::draw(&mut random, "group", Shape::PodGroups));
        }
        if workloads.is_empty() || random.chance(50) {
            workloads.push(Workload::draw(&mut random, "pod", Shape::Pods));
        }
        let mut late = Workload::draw(&mut random, "late", Shape::Pods);
        late.budget = None;
        workloads.push(late);
        let (quiet, density) = (random.chance(40), *random.pick(&[15, 40, 70]).unwrap_or(&40));
        let faults = Fault::ALL.iter().copied().filter(|fault| {
            let drawn = random.chance(density);
            drawn && !(quiet && fault.disturbs())
        });
        Self {
            seed,
            faults: faults.collect(),
            workloads,
            instances: if random.chance(70) { 2 } else { 1 },
            native: random.chance(30),
            chaos_ms: 1000 * u64::try_from(random.between(60, 240)).unwrap_or(60),
            pause_ms: 1000 * u64::try_from(random.between(2, 12)).unwrap_or(2),
            eviction_ms: 100 * u64::try_from(random.between(3, 30)).unwrap_or(3),
        }
    }

    /// Pods are lost by evictions alone, so no budget may ever fall below what it desires.
    pub fn is_exact(&self) -> bool {
        !self.faults.iter().any(|fault| fault.disturbs())
    }

    pub fn pods(&self) -> Vec<String> {
        self.workloads.iter().flat_map(Workload::pods).collect()
    }
}

impl Workload {
    fn draw(random: &mut Random, name: &'static str, shape: Shape) -> Self {
        let replicas = 2 + random.below(3);
        let size = if shape == Shape::Pods { 1 } else { 1 + random.below(3) };
        let scope = if shape == Shape::Pods { "Pod" } else { "Workload" };
        let mut budget = json!({
            "selector": {"matchLabels": {"app": name}},
            "budgetScope": scope,
        });
        match random.below(3) {
            0 => budget["maxUnavailable"] = json!(1),
            1 => budget["minAvailable"] = json!(replicas - 1),
            _ => budget["maxUnavailable"] = json!("25%"),
        }
        if random.chance(30) {
            budget["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow");
        }
        Self { name, shape, replicas, size, budget: Some(budget) }
    }

    /// The budget that covers the pods of a workload without one.
    pub fn late_budget(&self) -> Value {
        let selector = json!({"matchLabels": {"app": self.name}});
        json!({"selector": selector, "budgetScope": "Pod", "maxUnavailable": 1})
    }

    pub fn pods(&self) -> Vec<String> {
        (0..self.replicas).flat_map(|replica| self.pods_of(replica)).collect()
    }

    /// The leader of a group has no number behind it.
    pub fn pods_of(&self, replica: usize) -> Vec<String> {
        let Self { name, shape, size, .. } = self;
        match shape {
            Shape::LeaderWorkerSet => (0..*size)
                .map(|worker| match worker {
                    0 => format!("{name}-{replica}"),
                    _ => format!("{name}-{replica}-{worker}"),
                })
                .collect(),
            Shape::PodGroups | Shape::Pods => {
                (replica * size..(replica + 1) * size).map(|pod| format!("{name}-{pod}")).collect()
            }
        }
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if self.native { "native" } else { "webhook" };
        let seconds = self.chaos_ms / 1000;
        writeln!(f, "seed {}, {mode}, {} instances, {seconds} s", self.seed, self.instances)?;
        for Workload { name, shape, replicas, size, budget } in &self.workloads {
            let budget = budget.as_ref().map_or_else(|| "none".to_owned(), Value::to_string);
            writeln!(f, "{shape:?} {name}: {replicas} of {size}, budget {budget}")?;
        }
        write!(f, "faults {:?}", self.faults)
    }
}
