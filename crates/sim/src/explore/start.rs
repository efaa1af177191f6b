//! How a small world begins: its objects are stored, and every instance has seen them.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_core::model::{GroupApi, GroupKind, Owner, Timestamp};
use holdfast_core::{Config, Kind};

use super::process::Memo;
use super::scope::{Replica, Scope, Shape};
use super::state::{Asked, Clients, Instance, Layout, State, Stored, Used};
use super::step::Watched;
use crate::builders::{BudgetBuilder, budget, group, owner, pod};
use crate::name::Name as _;
use crate::truth::Truth;

/// A whole second: fingerprints rely on it.
const START: Timestamp = Timestamp::from_secs(1_800_000_000);

/// Versions and uids have three digits from the beginning: fingerprints rely on it.
const FIRST_VERSION: u64 = 100;

/// The instances have written every status by then.
const SETTLED_AFTER_SECS: u32 = 4;

impl State {
    pub(super) fn start(scope: &'static Scope) -> Self {
        let clients = Clients {
            requests: vec![Asked::default(); scope.requests.len()],
            used: Used { spans: vec![0; scope.spans.len()], ..Used::default() },
            ..Clients::default()
        };
        let mut state = Self {
            scope,
            layout: Arc::new(Layout::of(scope)),
            now: START,
            memo: Memo::new(),
            truth: Arc::new(Stored { truth: Truth::at(FIRST_VERSION), told: BTreeMap::new() }),
            instances: vec![Instance::down(); scope.instances],
            late: Vec::new(),
            audited: Arc::default(),
            clients,
            replies: Vec::new(),
            violation: None,
        };
        state.auditor().pass_time(START.0);
        state.store_all();
        for index in 0..scope.instances {
            state.restart(index);
        }
        state.settle_all(SETTLED_AFTER_SECS);
        state
    }

    fn store_all(&mut self) {
        let scope = self.scope;
        for (n, replica) in scope.replicas.iter().enumerate() {
            match replica.shape {
                Shape::Gang(min) => {
                    self.store(group(replica.name).gang(min).into_group());
                }
                Shape::Whole => {
                    self.store(group(replica.name).gang(1).disrupt_whole().into_group());
                }
                Shape::Scaled => {
                    self.store(scaled(replica, 1));
                }
                Shape::LeaderWorkerSet | Shape::Templated => {
                    let lws = owner(Owner::LWS_GROUP, "LeaderWorkerSet", replica.name).replicas(1);
                    let is_templated = matches!(replica.shape, Shape::Templated);
                    let labels = scope.budgets_of(n).filter(|_| is_templated);
                    let lws =
                        labels.fold(lws, |lws, budget| lws.template_label(budget.name, "yes"));
                    self.store(lws.into_owner());
                }
            }
        }
        for (index, (replica, name)) in scope.pods().enumerate() {
            if matches!(scope.replicas[replica].shape, Shape::Scaled) && member(&name) > 0 {
                continue;
            }
            let mut pod = new_pod(scope, index);
            pod.ready = true;
            self.store(pod);
        }
        for index in 0..scope.budgets.len() {
            self.store(new_budget(scope, index).into_budget());
        }
    }
}

impl Layout {
    fn of(scope: &Scope) -> Self {
        Self {
            pods: scope.pods().map(|(_, name)| name.object_key()).collect(),
            budgets: scope.budgets.iter().map(|b| b.name.budget_key()).collect(),
        }
    }
}

/// A pod of the scope as its controller makes it: running, and not ready yet.
pub(super) fn new_pod(scope: &Scope, index: usize) -> holdfast_core::model::Pod {
    let (replica, name) = scope.pods().nth(index).expect("the pod is in the scope");
    let builder = pod(&name).running();
    let of = scope.replicas[replica];
    let builder = match of.shape {
        Shape::Gang(_) | Shape::Whole => builder.group(of.name),
        Shape::LeaderWorkerSet | Shape::Templated => builder.lws(of.name, 0, i64::from(of.pods)),
        Shape::Scaled => builder.lws(of.name, member(&name), 1),
    };
    let covering = scope.budgets_of(replica);
    covering.fold(builder, |builder, budget| builder.label(budget.name, "yes")).into_parts().0
}

/// The number in a pod's name.
fn member(pod: &str) -> i64 {
    pod.rsplit('-').next().and_then(|n| n.parse().ok()).expect("the name ends with a number")
}

/// The owner of a replica of this shape that is scaled.
pub(super) fn scaled(replica: &Replica, groups: u8) -> Owner {
    let lws = owner(Owner::LWS_GROUP, "LeaderWorkerSet", replica.name);
    lws.replicas(groups.into()).into_owner()
}

pub(super) fn new_budget(scope: &Scope, index: usize) -> BudgetBuilder {
    let shape = &scope.budgets[index];
    let budget = budget(shape.name).select(shape.name, "yes").per_replica();
    budget.spec(|spec| shape.threshold.write_into(spec))
}

pub(super) fn config() -> Config {
    let kinds = Watched::ALL.into_iter().map(kind_of).collect();
    Config { kinds, ..Config::default() }
}

pub(super) fn kind_of(watched: Watched) -> Kind {
    match watched {
        Watched::Pod => Kind::Pod,
        Watched::Budget => Kind::Budget,
        Watched::Group => Kind::PodGroup(GroupApi::Kubernetes),
        Watched::Owner => Kind::Owner(GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet")),
    }
}

pub(super) fn watched(kind: &Kind) -> Watched {
    match kind {
        Kind::Pod => Watched::Pod,
        Kind::PodGroup(_) => Watched::Group,
        Kind::Owner(_) => Watched::Owner,
        _ => Watched::Budget,
    }
}
