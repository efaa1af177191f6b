//! A world, who acts in it, and what is known of the past.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_audit::{Auditor, objects as audit};
use holdfast_core::invariant::Invariant;
use holdfast_core::model::{BudgetKey, ObjectKey, Timestamp};
use holdfast_core::{Config, Kind};

use super::clients::{Allowed, Asked};
use super::fault::{Counts, Fault};
use super::invariants;
use super::leader::Candidate;
use super::params::Params;
use super::{Plan, Violation};
use crate::random::Random;
use crate::world::World;

pub(super) struct Run {
    pub random: Random,
    pub params: Params,
    pub world: World,
    /// Every request that was ever made.
    pub requests: BTreeMap<String, Asked>,
    /// Those that are not answered yet.
    pub unanswered: BTreeSet<String>,
    /// Allowed evictions that may still be executed.
    pub allowed: Vec<Allowed>,
    pub auditor: Auditor,
    /// So many events of the world's history the auditor has seen.
    pub audited: usize,
    /// By budget: the running instances that had been told of no budget of this name when it was created last.
    pub missed: BTreeMap<audit::BudgetKey, BTreeSet<usize>>,
    pub history: invariants::History,
    pub candidates: Vec<Candidate>,
    pub lease: Option<holdfast_core::lease::Record>,
    /// Nodes that somebody drains.
    pub drains: BTreeSet<String>,
    pub dead_nodes: BTreeSet<String>,
    /// Pods that a finalizer holds.
    pub stuck: BTreeSet<ObjectKey>,
    /// Of all pods that ever were.
    pub uids: BTreeSet<String>,
    pub names: BTreeSet<String>,
    /// Instances and kinds of which nothing is told until then.
    pub lagging: BTreeMap<(usize, Kind), Timestamp>,
    /// How far each watch of each instance has come, by event or bookmark.
    pub positions: BTreeMap<(usize, Kind), u64>,
    /// Versions up to here are compacted.
    pub compacted: u64,
    pub paused: BTreeMap<usize, Timestamp>,
    /// Instances whose API server stands still with them: it waits for their answers as long as they take.
    pub frozen: BTreeSet<usize>,
    /// A pod whose evictions are refused behind us, by name.
    pub refused: Option<ObjectKey>,
    /// The number of calls at which an instance dies.
    pub doomed: BTreeMap<usize, u64>,
    /// Wrong by so much is the time of day that an instance reads when it starts.
    pub offsets: Vec<Duration>,
    /// Released long ago, and not updated yet.
    pub older: Option<usize>,
    /// Instances that were an older release at some time.
    pub once_older: BTreeSet<usize>,
    /// The versions at which the faults began, and at which everything had come to rest.
    pub began: u64,
    pub rested_at: u64,
    pub faults: Counts<Fault>,
    pub checks: Counts<Invariant>,
    trace: Option<Vec<String>>,
}

impl Run {
    pub fn new(plan: &Plan, traced: bool) -> Self {
        let mut params = Params::draw(plan.seed, plan.profile);
        params.faults.retain(|fault| !plan.without.contains(fault));
        let mut world = World::with_instances(Config::default(), params.instances);
        world.record();
        let mut run = Self {
            random: Random::new(plan.seed ^ 0x5eed),
            candidates: (0..params.instances).map(Candidate::new).collect(),
            offsets: vec![Duration::ZERO; params.instances],
            params,
            world,
            requests: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            allowed: Vec::new(),
            auditor: Auditor::default(),
            audited: 0,
            missed: BTreeMap::new(),
            history: invariants::History::default(),
            lease: None,
            drains: BTreeSet::new(),
            dead_nodes: BTreeSet::new(),
            stuck: BTreeSet::new(),
            uids: BTreeSet::new(),
            names: BTreeSet::new(),
            lagging: BTreeMap::new(),
            positions: BTreeMap::new(),
            compacted: 0,
            paused: BTreeMap::new(),
            frozen: BTreeSet::new(),
            refused: None,
            doomed: BTreeMap::new(),
            older: None,
            once_older: BTreeSet::new(),
            began: 0,
            rested_at: 0,
            faults: Counts::new(),
            checks: Counts::new(),
            trace: traced.then(Vec::new),
        };
        run.populate();
        run
    }

    /// The safety phase: faults, and every invariant after every step.
    pub fn disturb(&mut self, plan: &Plan) {
        for step in (0..self.params.steps).filter(|step| !plan.skip.contains(step)) {
            // Drawn anew, so that a step does the same whether or not those before it are left out.
            self.random = Random::new(mix(plan.seed, step as u64));
            self.log(|| format!("step {step}"));
            self.act();
            self.observe();
            self.mind_processes();
            invariants::after_step(self);
        }
    }

    /// The liveness phase: the faults end, drains go on, and everything comes to rest.
    pub fn rest(&mut self, plan: &Plan) {
        self.random = Random::new(mix(plan.seed, u64::MAX));
        self.come_to_rest();
    }

    pub fn log(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let at = self.world.elapsed().as_secs_f64();
            trace.push(format!("{at:>8.3} {}", line()));
        }
    }

    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }

    pub fn count(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Whether this fault happens now, in so many of a hundred cases, if it happens at all.
    pub fn strikes(&mut self, fault: Fault, percent: usize) -> bool {
        // Drawn in any case, so that to leave out one fault does not change the others.
        let strikes = self.random.chance(percent);
        strikes && self.params.has(fault)
    }

    pub fn checked(&mut self, invariant: Invariant) {
        *self.checks.entry(invariant).or_default() += 1;
    }

    /// Ends the run.
    pub fn require(&self, invariant: Invariant, holds: bool, why: impl FnOnce() -> String) {
        if !holds {
            let message = format!("at {:.3} s {}", self.world.elapsed().as_secs_f64(), why());
            std::panic::panic_any(Violation { invariant: Some(invariant), message });
        }
    }

    pub fn budget_keys(&self) -> Vec<BudgetKey> {
        self.world.budgets().map(|budget| budget.key.clone()).collect()
    }

    pub fn pod_keys(&self) -> Vec<ObjectKey> {
        self.world.pods().map(|pod| pod.key.clone()).collect()
    }

    /// Instances that take part: up, and not paused.
    pub fn awake(&mut self) -> Vec<usize> {
        let all = 0..self.params.instances;
        all.filter(|i| self.world.instance(*i).is_up() && !self.paused.contains_key(i)).collect()
    }
}

/// A seed for one step.
fn mix(seed: u64, step: u64) -> u64 {
    let mut random = Random::new(seed.rotate_left(32) ^ step);
    random.draw()
}
