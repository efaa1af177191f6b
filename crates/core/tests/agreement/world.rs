//! The test's own API server: what is true, and the watch events that a change causes.

use std::collections::BTreeMap;

use holdfast_core::io::{Change, Input, Kind, ScaleOutcome};
use holdfast_core::model::{
    Budget, BudgetKey, BudgetStatus, BuiltinBudget, DisruptionTarget, GroupApi, GroupKind,
    LabelSelector, ObjectKey, Owner, OwnerPods, Phase, Pod, PodGroup, PodTemplate, ResourceVersion,
    TemplateRef, Timestamp, UnhealthyPolicy, Workload, WorkloadEntry,
};

use super::names::{
    api, budget_key, controller, namespace, owner_kind, owner_name, owner_uid, pod_key, reference,
};
use super::ops::{BuiltinOp, GroupOp, GroupShape, Op, OwnerOp, OwnerRef, PodOp, TemplateOp};
use crate::reference::Scales;

#[derive(Clone, Debug, Default)]
pub struct World {
    pub pods: BTreeMap<ObjectKey, Pod>,
    pub budgets: BTreeMap<BudgetKey, Budget>,
    pub builtin: BTreeMap<ObjectKey, BuiltinBudget>,
    pub groups: BTreeMap<(GroupApi, ObjectKey), PodGroup>,
    pub workloads: BTreeMap<(GroupApi, ObjectKey), Workload>,
    pub owners: BTreeMap<(GroupKind, ObjectKey), Owner>,
    pub scales: Scales,
    counter: u64,
}

impl World {
    pub fn new(outcomes: &[ScaleOutcome]) -> Self {
        let mut scales = Scales::new();
        for kind in 0..8u8 {
            for slot in 0..2u8 {
                let outcome = match &outcomes[usize::from(kind * 2 + slot)] {
                    ScaleOutcome::Found { uid, replicas } => ScaleOutcome::Found {
                        uid: owner_uid(kind, slot, !uid.is_empty()),
                        replicas: *replicas,
                    },
                    other => other.clone(),
                };
                for ns in ["a", "b"] {
                    let key = (ns.to_owned(), owner_kind(kind), owner_name(kind, slot));
                    scales.push((key, outcome.clone()));
                }
            }
        }
        Self { scales, ..Self::default() }
    }

    /// The newest version that was given out.
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion::from(self.counter)
    }

    pub fn next_version(&mut self) -> ResourceVersion {
        self.counter += 1;
        ResourceVersion::from(self.counter)
    }

    fn next_uid(&mut self) -> String {
        self.counter += 1;
        format!("uid-{}", self.counter)
    }

    /// Make the change true and tell what a watch would say. Things that are not changes of an object
    /// say nothing here.
    pub fn apply(&mut self, now: Timestamp, op: &Op) -> Vec<Input> {
        match op {
            Op::Pod(op) => vec![self.put_pod(now, op)],
            Op::PodGone { namespace, slot, evidence } => {
                self.remove_pod(now, &pod_key(*namespace, *slot), *evidence).into_iter().collect()
            }
            Op::Budget { namespace, slot, spec } => {
                let version = self.next_version();
                let key = budget_key(*namespace, *slot);
                let budget = if let Some(budget) = self.budgets.get_mut(&key) {
                    if budget.spec != **spec {
                        budget.generation += 1;
                    }
                    budget.spec = (**spec).clone();
                    budget.version = version;
                    budget.clone()
                } else {
                    let budget = Budget {
                        key: key.clone(),
                        uid: self.next_uid(),
                        version,
                        generation: 1,
                        spec: (**spec).clone(),
                        status: BudgetStatus::default(),
                    };
                    self.budgets.insert(key, budget.clone());
                    budget
                };
                vec![Input::Budget(Change::Applied(budget))]
            }
            Op::BudgetGone { namespace, slot } => {
                let version = self.next_version();
                let gone = self.budgets.remove(&budget_key(*namespace, *slot));
                gone.map(|b| Input::Budget(Change::Deleted(Budget { version, ..b })))
                    .into_iter()
                    .collect()
            }
            Op::Builtin(op) => vec![self.put_builtin(op)],
            Op::BuiltinGone { slot } => {
                let gone = self.builtin.remove(&ObjectKey::new("a", format!("builtin{slot}")));
                gone.map(|b| Input::BuiltinBudget(Change::Deleted(b))).into_iter().collect()
            }
            Op::Group(op) => vec![self.put_group(op)],
            Op::GroupGone { namespace: ns, holdfast, slot } => {
                let version = self.next_version();
                let key = (api(*holdfast), ObjectKey::new(namespace(*ns), format!("g{slot}")));
                let gone = self.groups.remove(&key);
                gone.map(|g| Input::PodGroup(Change::Deleted(PodGroup { version, ..g })))
                    .into_iter()
                    .collect()
            }
            Op::Workload { namespace: ns, holdfast, slot, entries } => {
                let key = ObjectKey::new(namespace(*ns), format!("w{slot}"));
                let api = api(*holdfast);
                let uid = self.workloads.get(&(api, key.clone())).map(|w| w.uid.clone());
                let workload = Workload {
                    api,
                    key: key.clone(),
                    uid: uid.unwrap_or_else(|| self.next_uid()),
                    version: self.next_version(),
                    entries: entries
                        .iter()
                        .map(|entry| WorkloadEntry {
                            name: format!("e{}", entry.slot),
                            policy: entry.policy,
                            replicas: entry.replicas,
                        })
                        .collect(),
                };
                self.workloads.insert((api, key), workload.clone());
                vec![Input::Workload(Change::Applied(workload))]
            }
            Op::WorkloadGone { namespace: ns, holdfast, slot } => {
                let version = self.next_version();
                let key = (api(*holdfast), ObjectKey::new(namespace(*ns), format!("w{slot}")));
                let gone = self.workloads.remove(&key);
                gone.map(|w| Input::Workload(Change::Deleted(Workload { version, ..w })))
                    .into_iter()
                    .collect()
            }
            Op::Owner(op) => self.put_owner(op),
            Op::OwnerGone { namespace: ns, kind, slot } => {
                let version = self.next_version();
                let key = ObjectKey::new(namespace(*ns), owner_name(*kind, *slot));
                let gone = self.owners.remove(&(owner_kind(*kind), key));
                gone.map(|o| Input::Owner(Change::Deleted(Owner { version, ..o })))
                    .into_iter()
                    .collect()
            }
            Op::Repeat { .. } | Op::Relist { .. } | Op::Advance { .. } | Op::Evict { .. } => vec![],
        }
    }

    fn put_pod(&mut self, now: Timestamp, op: &PodOp) -> Input {
        let key = pod_key(op.namespace, op.slot);
        let old = self.pods.get(&key).cloned();
        // A pod that ends does not come back to life under the same uid, and one that runs is never
        // pending again.
        let terminating = op.terminating || old.as_ref().is_some_and(|old| old.terminating);
        let phase = match &old {
            Some(old) if old.is_terminal() => old.phase,
            Some(old) if old.phase != Phase::Pending && op.phase == Phase::Pending => old.phase,
            _ => op.phase,
        };
        let marked = old.as_ref().and_then(|old| old.disruption_target.clone()).or_else(|| {
            op.marked.map(|by_eviction| DisruptionTarget {
                reason: if by_eviction {
                    DisruptionTarget::EVICTION_API
                } else {
                    "PreemptionByScheduler"
                }
                .to_owned(),
                since: now.truncated(),
            })
        });
        let labels = labels(op.app, op.tier);
        let (reference, lws) = reference(&op.reference);
        let pod = Pod {
            key: key.clone(),
            uid: old.map_or_else(|| self.next_uid(), |old| old.uid),
            version: self.next_version(),
            labels,
            controller: op.controller.map(controller),
            phase,
            ready: op.ready,
            terminating,
            disruption_target: marked,
            reference,
            lws,
            generation: 1,
            settled: true,
            applied: true,
            no_protect: false,
            related: true,
        };
        self.pods.insert(key, pod.clone());
        Input::Pod(Change::Applied(pod))
    }

    /// The eviction API marks a pod before it deletes it; other hands do not.
    pub fn mark(&mut self, now: Timestamp, key: &ObjectKey, terminating: bool) -> Option<Input> {
        let version = self.next_version();
        let pod = self.pods.get_mut(key)?;
        pod.version = version;
        pod.terminating |= terminating;
        pod.disruption_target = Some(DisruptionTarget {
            reason: DisruptionTarget::EVICTION_API.to_owned(),
            since: now.truncated(),
        });
        Some(Input::Pod(Change::Applied(pod.clone())))
    }

    pub fn remove_pod(&mut self, now: Timestamp, key: &ObjectKey, evidence: bool) -> Option<Input> {
        if evidence {
            self.mark(now, key, true);
        }
        let version = self.next_version();
        let pod = self.pods.remove(key)?;
        Some(Input::Pod(Change::Deleted(Pod { version, terminating: true, ..pod })))
    }

    pub fn replace_pod(&mut self, key: &ObjectKey) -> Option<Input> {
        let (uid, version) = (self.next_uid(), self.next_version());
        let pod = self.pods.get_mut(key)?;
        *pod = Pod {
            uid,
            version,
            phase: Phase::Running,
            ready: true,
            terminating: false,
            disruption_target: None,
            ..pod.clone()
        };
        Some(Input::Pod(Change::Applied(pod.clone())))
    }

    fn put_builtin(&mut self, op: &BuiltinOp) -> Input {
        let key = ObjectKey::new("a", format!("builtin{}", op.slot));
        let match_labels =
            op.app.map(|app| ("app".to_owned(), app.to_string())).into_iter().collect();
        let budget = BuiltinBudget {
            key: key.clone(),
            version: self.next_version(),
            generation: 2,
            selector: Some(LabelSelector { match_labels, match_expressions: Vec::new() }),
            unhealthy_policy: if op.always {
                UnhealthyPolicy::AlwaysAllow
            } else {
                UnhealthyPolicy::IfHealthyBudget
            },
            observed_generation: if op.behind { 1 } else { 2 },
            disruptions_allowed: op.allowed,
            current_healthy: op.healthy,
            desired_healthy: op.desired,
            disrupted_pods: 0,
        };
        self.builtin.insert(key, budget.clone());
        Input::BuiltinBudget(Change::Applied(budget))
    }

    fn put_group(&mut self, op: &GroupOp) -> Input {
        let key = ObjectKey::new(namespace(op.namespace), format!("g{}", op.slot));
        let api = api(op.holdfast);
        let old = self.groups.get(&(api, key.clone())).cloned();
        let group = PodGroup {
            api,
            key: key.clone(),
            terminating: op.terminating || old.as_ref().is_some_and(|old| old.terminating),
            uid: old.map_or_else(|| self.next_uid(), |old| old.uid),
            version: self.next_version(),
            controller: op.controller.map(controller),
            policy: op.policy,
            template: op.template.map(|(workload, entry)| TemplateRef {
                workload: format!("w{workload}"),
                template: format!("e{entry}"),
            }),
            disrupt_whole: op.shape == GroupShape::Whole,
            composite_parent: (op.shape == GroupShape::Composite).then(|| "parent".to_owned()),
        };
        self.groups.insert((api, key), group.clone());
        Input::PodGroup(Change::Applied(group))
    }

    fn put_owner(&mut self, op: &OwnerOp) -> Vec<Input> {
        let kind = owner_kind(op.kind);
        let key = ObjectKey::new(namespace(op.namespace), owner_name(op.kind, op.slot));
        let uid = owner_uid(op.kind, op.slot, op.stale);
        let above = match op.kind {
            1 => Some(2),
            3 => Some(6),
            4 => Some(5),
            _ => None,
        };
        let mut inputs = Vec::new();
        let version = self.next_version();
        if let Some(old) = self.owners.get(&(kind.clone(), key.clone()))
            && old.uid != uid
        {
            inputs.push(Input::Owner(Change::Deleted(Owner { version, ..old.clone() })));
        }
        let owner = Owner {
            terminating: false,
            group_kind: kind.clone(),
            key: key.clone(),
            uid,
            version: self.next_version(),
            controller: above
                .zip(op.above)
                .map(|(kind, (slot, stale))| controller(OwnerRef { kind, slot, stale })),
            replicas: (op.kind != 4).then_some(op.replicas),
            pods: owner_pods(op),
            group_size: op.group_size.filter(|_| op.kind == 3),
            lws_keeps_group: op.keeps_group && op.kind == 6,
        };
        self.owners.insert((kind, key), owner.clone());
        inputs.push(Input::Owner(Change::Applied(owner)));
        inputs
    }

    /// Every object of the kind, as a watch would deliver it.
    pub fn list(&self, kind: &Kind) -> Vec<Input> {
        fn all<T: Clone>(
            objects: impl Iterator<Item = T>,
            input: impl Fn(Change<T>) -> Input,
        ) -> Vec<Input> {
            objects.map(|object| input(Change::Applied(object))).collect()
        }
        match kind {
            Kind::Pod => all(self.pods.values().cloned(), Input::Pod),
            Kind::Budget | Kind::UnavailableBudget => {
                all(self.budgets.values().cloned(), Input::Budget)
            }
            Kind::BuiltinBudget => all(self.builtin.values().cloned(), Input::BuiltinBudget),
            Kind::PodGroup(api) => {
                all(self.groups.values().filter(|g| g.api == *api).cloned(), Input::PodGroup)
            }
            Kind::Workload(api) => {
                all(self.workloads.values().filter(|w| w.api == *api).cloned(), Input::Workload)
            }
            Kind::Owner(kind) => {
                all(self.owners.values().filter(|o| o.group_kind == *kind).cloned(), Input::Owner)
            }
        }
    }
}

fn owner_pods(op: &OwnerOp) -> OwnerPods {
    let Some(TemplateOp { app, tier, reference: named, grouped, state }) = &op.template else {
        return OwnerPods::default();
    };
    if !(3..=6).contains(&op.kind) {
        return OwnerPods::default();
    }
    let ends = matches!(op.kind, 4 | 5);
    OwnerPods {
        templates: vec![PodTemplate { labels: labels(*app, *tier), reference: reference(named).0 }],
        grouped: *grouped,
        parallelism: None,
        finished: ends && *state == 0,
        suspended: ends && *state == 1,
    }
}

fn labels(app: u8, tier: bool) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([("app".to_owned(), app.to_string())]);
    if tier {
        labels.insert("tier".to_owned(), "1".to_owned());
    }
    labels
}
