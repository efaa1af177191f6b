//! A training job of ten replicas of eight pods, while two of its nodes are drained.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_core::Config;
use holdfast_core::model::{GroupReference, ObjectKey};
use holdfast_core::verdict::Verdict;
use holdfast_sim::{BudgetBuilder, World, budget, group, owner, pod, workload};

use super::page::{Page, clock};
use super::timeline;

pub const REPLICAS: usize = 10;
pub const WANTED: usize = 9;
const PODS_PER_REPLICA: usize = 8;
const NODES: [&str; 5] = ["node-1", "node-2", "node-3", "node-4", "node-5"];
const SPARE_NODES: [&str; 2] = ["node-6", "node-7"];
const DRAINED: [&str; 2] = ["node-1", "node-2"];

/// How long `kubectl drain` waits before it tries a denied eviction again.
const RETRY: Duration = Duration::from_secs(5);
const STARTUP: Duration = Duration::from_secs(30);
/// Ends a drain that never finishes.
const ROUNDS_MAX: usize = 1000;

/// One drain of both nodes.
pub struct Outcome {
    pub rounds: Vec<Round>,
    /// The fewest healthy replicas at any time.
    pub lowest: usize,
    pub took: Duration,
    below_wanted: Duration,
    interruptions: usize,
    first_denial: Option<String>,
}

/// One moment in which every pod that is still on the node was tried.
pub struct Round {
    pub at: Duration,
    pub node: &'static str,
    pub evicted: usize,
    /// The replicas that the evicted pods belong to.
    pub replicas: usize,
    pub denied: usize,
    /// Healthy replicas once the evicted pods are gone.
    pub healthy: usize,
}

/// Returns what came of it, counted in pods and counted in replicas.
pub fn show(page: &mut Page) -> (Outcome, Outcome) {
    page.heading("2. A job of ten replicas of eight pods; nine replicas must stay available");
    page.paragraph(&format!(
        "The {pods} pods are spread over {nodes} nodes, so each node holds pods of all ten replicas. \
         {first} is drained and then {second}, as kubectl does it: all pods of the node at once, \
         every denied one again after {retry} s. An evicted pod starts on another node and is ready \
         after {startup} s. Counted in pods, nine replicas are minAvailable: {min}.",
        pods = REPLICAS * PODS_PER_REPLICA,
        nodes = NODES.len(),
        first = DRAINED[0],
        second = DRAINED[1],
        retry = RETRY.as_secs(),
        startup = STARTUP.as_secs(),
        min = WANTED * PODS_PER_REPLICA,
    ));

    let in_pods = drain(budget("train").min_available(to_i64(WANTED * PODS_PER_REPLICA)));
    let in_replicas = drain(budget("train").min_available(to_i64(WANTED)).per_replica());

    timeline::show(page, &in_pods.rounds, &in_replicas.rounds);
    show_denials(page, &in_pods, "pods");
    show_denials(page, &in_replicas, "replicas");
    show_summary(page, &in_pods, &in_replicas);
    (in_pods, in_replicas)
}

fn drain(budget: BudgetBuilder) -> Outcome {
    let mut world = training_job(budget);
    let mut order = Order(1);
    let mut outcome = Outcome {
        rounds: Vec::new(),
        lowest: world.healthy_replicas().len(),
        took: Duration::ZERO,
        below_wanted: Duration::ZERO,
        interruptions: 0,
        first_denial: None,
    };
    let mut nodes = DRAINED.into_iter();
    let mut node = nodes.next();
    for _ in 0..ROUNDS_MAX {
        if let Some(current) = node {
            world.cordon(current);
            let mut pods = world.pods_on(current);
            order.shuffle(&mut pods);
            outcome.try_all(&mut world, current, &pods);
            if world.pods_on(current).is_empty() {
                outcome.took = world.elapsed();
                node = nodes.next();
            }
        }
        let healthy = world.healthy_replicas().len();
        outcome.lowest = outcome.lowest.min(healthy);
        if node.is_none() && healthy == REPLICAS {
            break;
        }
        if healthy < WANTED {
            outcome.below_wanted += RETRY;
        }
        world.advance(RETRY);
    }
    outcome
}

impl Outcome {
    fn try_all(&mut self, world: &mut World, node: &'static str, pods: &[ObjectKey]) {
        let before = world.healthy_replicas();
        let group_of: Vec<_> = pods.iter().map(|pod| replica_of(world, pod)).collect();
        let verdicts = world.evict_together(pods);
        let after = world.healthy_replicas();

        let allowed = || verdicts.iter().zip(&group_of).filter(|(verdict, _)| verdict.is_allow());
        let replicas: BTreeSet<_> = allowed().filter_map(|(_, replica)| replica.as_ref()).collect();
        self.interruptions += before.difference(&after).count();
        self.rounds.push(Round {
            at: world.elapsed(),
            node,
            evicted: allowed().count(),
            replicas: replicas.len(),
            denied: verdicts.len() - allowed().count(),
            healthy: after.len(),
        });
        if self.first_denial.is_none() {
            self.first_denial = verdicts.into_iter().find_map(|verdict| match verdict {
                Verdict::Deny(denial) => Some(denial.message),
                Verdict::Allow(_) => None,
            });
        }
    }

    fn denials(&self) -> usize {
        self.rounds.iter().map(|round| round.denied).sum()
    }
}

fn training_job(budget: BudgetBuilder) -> World {
    let mut world = World::new(Config::default());
    for node in SPARE_NODES {
        world.add_node(node);
    }
    let pods = REPLICAS * PODS_PER_REPLICA;
    world.apply_owner(owner("apps", "StatefulSet", "train").replicas(to_i64(pods)));
    let min_count = to_i64(PODS_PER_REPLICA);
    world.apply_workload(workload("train").gang("worker", min_count));
    for index in 0..pods {
        let replica = format!("train-{}", index / PODS_PER_REPLICA);
        let member = index % PODS_PER_REPLICA;
        if member == 0 {
            let made = group(&replica).gang(min_count).template("train", "worker");
            world.apply_pod_group(made.owned_by("apps", "StatefulSet", "train"));
        }
        let made = pod(&format!("{replica}-{member}")).group(&replica).label("job", "train");
        let made = made.owned_by("apps", "StatefulSet", "train");
        world.apply_pod(made.node(NODES[index % NODES.len()]).ready());
    }
    world.apply_budget(budget.select("job", "train"));
    world.recover_after(STARTUP);
    world.sync();
    world
}

fn replica_of(world: &World, pod: &ObjectKey) -> Option<String> {
    match &world.pod(pod)?.reference {
        Some(GroupReference::PodGroup { name }) => Some(name.clone()),
        _ => None,
    }
}

fn show_denials(page: &mut Page, outcome: &Outcome, unit: &str) {
    if let Some(message) = &outcome.first_denial {
        page.line("");
        page.line(&format!("  Counted in {unit}, {} denials. The first:", outcome.denials()));
        page.item("    ", message);
    }
}

fn show_summary(page: &mut Page, in_pods: &Outcome, in_replicas: &Outcome) {
    let row = |what: &str, left: &str, right: &str| format!("  {what:<44}{left:>12}{right:>14}");
    page.line("");
    page.line(&page.bold(&row("", "in pods", "in replicas")));
    let mut compare = |what: &str, of: fn(&Outcome) -> String| {
        page.line(&row(what, &of(in_pods), &of(in_replicas)));
    };
    compare("fewest replicas healthy at any time", |o| format!("{} of {REPLICAS}", o.lowest));
    compare("time with fewer than nine healthy", |o| clock(o.below_wanted));
    compare("times that a replica was interrupted", |o| o.interruptions.to_string());
    compare("both nodes empty after", |o| clock(o.took));
}

/// An arbitrary order that is the same in every run: kubectl's own is that of its goroutines.
struct Order(u64);

impl Order {
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let bound = last as u64 + 1;
            let other = usize::try_from(self.next() % bound).unwrap_or(last);
            items.swap(last, other);
        }
    }

    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

fn to_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
