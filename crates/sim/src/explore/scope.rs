//! The table of scopes: small worlds, and how much may happen in them.

use std::fmt;

use super::step::Watched;

mod table;

pub use table::SCOPES;

/// A small world. Everything that is not named here happens at once and in order.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub name: &'static str,
    pub about: &'static str,
    pub instances: usize,
    pub replicas: &'static [Replica],
    pub budgets: &'static [BudgetShape],
    pub requests: &'static [Request],
    /// Instances and kinds whose watch events are steps of their own.
    pub lagging: &'static [(usize, Watched)],
    /// Instances whose calls and answers are steps of their own.
    pub slow_calls: &'static [usize],
    /// Lists of budgets of those instances are steps too. Every request may send one, so that makes many states.
    pub slow_budget_lists: bool,
    /// The API server evicts whatever pod has the name, as in native mode. Otherwise it evicts the pod of the uid.
    pub by_name: bool,
    /// Answers that may be lost and calls that may be given up.
    pub losses: u8,
    /// Instances that may crash, and how often in all.
    pub crashing: &'static [usize],
    pub crashes: u8,
    pub deletions: u8,
    pub creations: u8,
    /// How often a pod may stop being ready.
    pub flaps: u8,
    pub edits: u8,
    pub recreations: u8,
    pub scale_ups: u8,
    pub refusals: u8,
    pub spans: &'static [Span],
    /// The most seconds that the status may hold a grant of a pod that lives on.
    pub grant_secs_max: Option<u32>,
    /// Small enough for every run of the tests.
    pub in_every_test: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Replica {
    pub name: &'static str,
    pub pods: u8,
    pub shape: Shape,
}

#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A `PodGroup` that needs so many healthy pods.
    Gang(i64),
    /// A `PodGroup` with `disruptionMode: all`, which needs all its pods.
    Whole,
    /// A `LeaderWorkerSet` with one group, which needs all its pods.
    LeaderWorkerSet,
    /// The same with a pod template, by which it counts without pods.
    Templated,
    /// A `LeaderWorkerSet` that begins with one group and may be scaled up. Each of the pods is a group.
    Scaled,
}

/// A budget of these replicas.
#[derive(Clone, Copy, Debug)]
pub struct BudgetShape {
    pub name: &'static str,
    pub covers: &'static [usize],
    pub threshold: Wants,
    /// What an edit changes the threshold to, and back.
    pub other: Option<Wants>,
}

#[derive(Clone, Copy, Debug)]
pub enum Wants {
    MinAvailable(i64),
    MaxUnavailable(i64),
}

/// A client that asks one instance to evict one pod, up to so many times.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub instance: usize,
    pub pod: usize,
    pub attempts: u8,
}

/// A span of time, in whole seconds, that may pass so many times.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub secs: u32,
    pub uses: u8,
}

impl Scope {
    pub fn named(name: &str) -> Option<&'static Self> {
        SCOPES.iter().find(|scope| scope.name == name)
    }

    /// The budgets that cover a replica.
    pub(super) fn budgets_of(&self, replica: usize) -> impl Iterator<Item = &'static BudgetShape> {
        self.budgets.iter().filter(move |budget| budget.covers.contains(&replica))
    }

    /// The pods by their replica and name, in order.
    pub(super) fn pods(&self) -> impl Iterator<Item = (usize, String)> {
        let replicas = self.replicas.iter().enumerate();
        replicas
            .flat_map(|(n, r)| (0..r.pods).map(move |member| (n, format!("{}-{member}", r.name))))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pods: u8 = self.replicas.iter().map(|replica| replica.pods).sum();
        let asked: u8 = self.requests.iter().map(|request| request.attempts).sum();
        write!(
            f,
            "{} instances, {} replicas of {pods} pods, {} budgets, {asked} requests",
            self.instances,
            self.replicas.len(),
            self.budgets.len(),
        )
    }
}
