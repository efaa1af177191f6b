//! What is simulated: a cluster, and the drain of some of its nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::bail;
use holdfast_core::Config;
use holdfast_core::model::{Budget, BudgetSpec, Phase, Pod, Scope, Threshold};
use holdfast_sim::{Behaviour, BudgetBuilder, PodBuilder, Replica, World};

use super::input::printable;
use super::objects::Objects;
use super::{beyond, labels};

/// Where evicted pods go if the input has no node that could take them.
const ELSEWHERE: &str = "elsewhere";

#[derive(Debug)]
pub struct Scenario {
    pub objects: Objects,
    /// In the order in which they are drained.
    pub drained: Vec<String>,
    pub settings: Settings,
    pub notes: Vec<String>,
    adds_node: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub startup: Duration,
    pub grace: Duration,
    pub retry: Duration,
    pub parallel: bool,
}

impl Settings {
    /// As the command's flags have it.
    pub const DEFAULT: Self = Self {
        startup: Duration::from_secs(30),
        grace: Duration::from_secs(30),
        retry: Duration::from_secs(5),
        parallel: false,
    };
}

/// What the budgets count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    AsWritten,
    /// Pods, all of them.
    Pods,
}

impl Scenario {
    /// See whether there is anything to drain.
    pub fn new(
        mut objects: Objects,
        drained: Vec<String>,
        settings: Settings,
    ) -> anyhow::Result<Self> {
        let mut notes = objects.left_out.clone();
        notes.append(&mut objects.notes);
        name_apart(&mut objects);
        note_assumptions(&objects, &mut notes);
        beyond::note_constraints(&objects, &mut notes);
        let mut named = BTreeSet::new();
        let drained: Vec<String> =
            drained.into_iter().filter(|node| named.insert(node.clone())).collect();
        let known: BTreeSet<&str> = (objects.nodes.iter().map(|(name, _)| name.as_str()))
            .chain(objects.pods.iter().filter_map(|placed| placed.node.as_deref()))
            .collect();
        if let Some(unknown) = drained.iter().find(|node| !known.contains(node.as_str())) {
            let unknown = printable(unknown);
            let some: Vec<&str> = known.iter().copied().take(5).collect();
            match some.as_slice() {
                [] => bail!("there is no node {unknown}: the input has no nodes"),
                some => {
                    let more = if known.len() > some.len() { ", ..." } else { "" };
                    bail!("there is no node {unknown}; there are {}{more}", some.join(", "));
                }
            }
        }
        let adds_node = objects.nodes.is_empty()
            && known.iter().all(|node| drained.iter().any(|drained| drained == node));
        if objects.nodes.is_empty() {
            notes.push("the input has no Node objects: nodes have room for everything".to_owned());
        }
        if adds_node {
            notes.push(format!(
                "no node is left that could take pods: there is one more, named {ELSEWHERE}"
            ));
        }
        Ok(Self { objects, drained, settings, notes, adds_node })
    }

    /// The cluster before the drain, with the engine in front of it.
    pub fn world(&self, counting: Counting) -> World {
        let mut world = World::new(Config::default());
        let objects = &self.objects;
        for (_, node) in &objects.nodes {
            world.apply_node(node.clone());
        }
        if self.adds_node {
            world.add_node(ELSEWHERE);
        }
        // Twice: the second time every owner of an owner is there to be referred to.
        for given in objects.owners.iter().chain(&objects.owners) {
            world.apply_owner(given.owner.clone().into());
        }
        for workload in &objects.workloads {
            world.apply_workload(workload.clone().into());
        }
        for group in &objects.groups {
            world.apply_pod_group(group.clone().into());
        }
        self.add_pods(&mut world);
        for given in &objects.budgets {
            let mut budget = given.budget.clone();
            if counting == Counting::Pods {
                count_pods(&mut budget, &world);
            }
            world.apply_budget(BudgetBuilder::from(budget));
        }
        world.behave(Behaviour {
            startup: self.settings.startup.into(),
            grace: self.settings.grace.into(),
            seed: 1,
        });
        world.sync();
        world
    }

    /// Those with a node first: the others go where room is left.
    fn add_pods(&self, world: &mut World) {
        let (placed, unplaced): (Vec<_>, Vec<_>) =
            self.objects.pods.iter().partition(|placed| placed.node.is_some());
        for given in placed.into_iter().chain(unplaced) {
            let mut pod = given.pod.clone();
            let node = match &given.node {
                Some(node) => Some(node.clone()),
                None if given.has_status => None,
                None => world.choose_node(&given.shape),
            };
            if !given.has_status {
                pod.phase = if node.is_some() { Phase::Running } else { Phase::Pending };
                pod.ready = node.is_some();
            }
            let mut made = PodBuilder::from(pod).shape(given.shape.clone());
            if let Some(node) = node {
                made = made.node(&node);
            }
            world.apply_pod(made);
        }
    }
}

/// The same budget as somebody writes it who can only count pods: a number of replicas becomes the
/// number of their pods, and a percentage stays.
fn count_pods(budget: &mut Budget, world: &World) {
    if budget.spec.scope != Scope::Workload {
        return;
    }
    let covered = world.pods().filter(|pod| labels::cover(budget, pod));
    let replicas: BTreeSet<Replica> = covered.filter_map(Replica::of).collect();
    let needs = replicas.iter().filter_map(|replica| world.health_of(replica, None)?.min.ok());
    let pods = needs.max().unwrap_or(1);
    let BudgetSpec { min_available, max_unavailable, scope, .. } = &mut budget.spec;
    *scope = Scope::Pod;
    for threshold in [min_available, max_unavailable].into_iter().flatten() {
        if let Threshold::Count(replicas) = threshold {
            *replicas = replicas.saturating_mul(pods);
        }
    }
}

/// To the engine a budget is its namespace and name; of namesakes, those of other APIs say so.
fn name_apart(objects: &mut Objects) {
    let mut names = BTreeSet::new();
    for given in &mut objects.budgets {
        let key = &mut given.budget.key.object;
        if !names.insert(key.clone()) {
            key.name = format!("{} ({})", key.name, given.api);
            names.insert(key.clone());
        }
    }
}

fn note_assumptions(objects: &Objects, notes: &mut Vec<String>) {
    let unsaid = objects.pods.iter().filter(|placed| !placed.has_status).count();
    if unsaid > 0 {
        let pods = count(unsaid, "pod");
        notes.push(format!("{pods} without a status: taken to be Running and Ready"));
    }
    for given in &objects.budgets {
        notes.extend(note_cover(&given.budget, objects));
    }
    if objects.budgets.is_empty() {
        notes.push("the input has no budgets: nothing holds an eviction back".to_owned());
    }
}

/// What is odd about the pods that a budget covers.
fn note_cover(budget: &Budget, objects: &Objects) -> Option<String> {
    let (spec, key) = (&budget.spec, &budget.key.object);
    let name = &key.name;
    if spec.selector.is_none() {
        return Some(format!("budget {name} has no selector and covers no pod"));
    }
    let pods = || objects.pods.iter().map(|placed| &placed.pod);
    let selects = |pod: &&Pod| labels::select(spec, &pod.labels);
    let here = pods().filter(|pod| pod.key.namespace == key.namespace);
    let covered: Vec<&Pod> = here.filter(selects).collect();
    // Looked for only if need be: in a large cluster these are many pods for every budget.
    let elsewhere = if covered.is_empty() { pods().find(selects) } else { None };
    match (covered.as_slice(), elsewhere) {
        ([], None) => Some(format!("budget {name} covers no pod of the input")),
        ([], Some(other)) => Some(format!(
            "budget {name} covers no pod of the input: it is in namespace {}, and pods that it \
             selects are in {}",
            key.namespace, other.key.namespace
        )),
        (pods, _) => {
            let bare = pods.iter().all(|pod| pod.controller.is_none());
            let in_vain = bare && spec.scope == Scope::Pod && spec.needs_total();
            in_vain.then(|| {
                format!(
                    "the pods of budget {name} have no controller that says how many there should \
                     be: with maxUnavailable or a percentage it never allows an eviction, as in \
                     Kubernetes; use a number as minAvailable"
                )
            })
        }
    }
}

pub fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
