use std::collections::{BTreeSet, VecDeque};

use crate::io::{Command, Input, Kind};
use crate::model::{BudgetKey, BudgetStatus, GroupApi, GroupKind, Owner, Timestamp};

/// What a deployment chooses.
#[derive(Clone, Debug)]
pub struct Config {
    /// Kinds that must be synced (or not served) before anything is allowed.
    pub kinds: BTreeSet<Kind>,
    /// Treat the groups of a `LeaderWorkerSet` as replicas by their labels (semantics 3.1).
    pub lws: bool,
    /// Feature gate `MultiPodPDBs`; off, scope Workload counts pods and says so in a condition.
    pub multi_pod_pdbs: bool,
    /// Namespaces whose evictions never reach us; budgets there say `NotEnforced`.
    pub excluded_namespaces: BTreeSet<String>,
    /// Clear stale `DisruptionTarget` conditions; off while upstream's controller does it.
    pub clear_stale_disruption_targets: bool,
}

impl Default for Config {
    fn default() -> Self {
        let owner = |group, kind| Kind::Owner(GroupKind::new(group, kind));
        Self {
            kinds: BTreeSet::from([
                Kind::Pod,
                Kind::Budget,
                Kind::BuiltinBudget,
                Kind::PodGroup(GroupApi::Kubernetes),
                Kind::PodGroup(GroupApi::Holdfast),
                Kind::Workload(GroupApi::Kubernetes),
                Kind::Workload(GroupApi::Holdfast),
                owner("", "ReplicationController"),
                owner("apps", "ReplicaSet"),
                owner("apps", "Deployment"),
                owner("apps", "StatefulSet"),
                owner("batch", "Job"),
                owner(Owner::JOBSET_GROUP, "JobSet"),
                owner(Owner::LWS_GROUP, "LeaderWorkerSet"),
            ]),
            lws: true,
            multi_pod_pdbs: true,
            excluded_namespaces: BTreeSet::new(),
            clear_stale_disruption_targets: false,
        }
    }
}

/// See the crate documentation for the contract.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    commands: VecDeque<Command>,
}

impl Engine {
    pub fn new(config: Config) -> Self {
        Self { config, commands: VecDeque::new() }
    }

    /// Take in one input at time `now`.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        let _ = (now, input);
    }

    /// The next thing to do, or None when everything has been handed out.
    pub fn poll(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Kinds that are neither synced nor known to be not served. Empty means ready.
    pub fn unsynced(&self) -> Vec<&Kind> {
        self.config.kinds.iter().collect()
    }

    /// The budget's status as the engine computes it now, written or not.
    pub fn status(&self, budget: &BudgetKey) -> Option<BudgetStatus> {
        let _ = budget;
        None
    }
}
