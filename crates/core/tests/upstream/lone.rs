//! One engine, alone with an API server that always answers at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::io::{
    Change, Event, PodReadOutcome, Regarding, ScaleOutcome, SnapshotOutcome, WriteOutcome,
};
use holdfast_core::model::{
    Budget, BudgetKey, BudgetSpec, BudgetStatus, Condition, ControllerRef, GroupKind,
    LabelSelector, ObjectKey, Operation, Owner, OwnerPods, Phase, Pod, ResourceVersion, Scope,
    Threshold, Timestamp, UnhealthyPolicy,
};
use holdfast_core::verdict::Verdict;
use holdfast_core::{Command, Config, Engine, Eviction, Input, Kind};

pub const NAMESPACE: &str = "default";
pub const START: Timestamp = Timestamp::from_secs(1_800_000_000);

#[allow(clippy::struct_excessive_bools, reason = "switches of a test, each of its own")]
#[derive(Debug)]
pub struct Lone {
    pub engine: Engine,
    pub now: Timestamp,
    pub budgets: BTreeMap<String, Budget>,
    pub pods: BTreeMap<String, Pod>,
    pub scales: BTreeMap<String, ScaleOutcome>,
    /// Reads of `/scale` are not answered.
    pub are_scales_silent: bool,
    pub events: Vec<Event>,
    pub cleared: Vec<String>,
    /// Pods and the budgets that they were told of.
    pub related: Vec<(String, String)>,
    /// Written once, before the next status write gets there, which then conflicts.
    pub foreign: Option<Budget>,
    /// The watch shows a write before its answer comes.
    pub is_watch_first: bool,
    /// Status writes wait for [`Lone::write_all`].
    pub are_writes_held: bool,
    /// Reads of budgets are not answered.
    pub are_reads_silent: bool,
    pub writes: usize,
    /// Objects that cannot be decoded, as the watch told of them. Lists hold them too.
    garbled: Vec<Input>,
    /// `PodGroups`, Workloads and owners, as the watch told of them last.
    others: Vec<Input>,
    held: Vec<Command>,
    asked: usize,
    verdicts: BTreeMap<String, Verdict>,
    wake: Option<Timestamp>,
    version: u64,
}

impl Lone {
    pub fn new() -> Self {
        Self::with(Config::default())
    }

    pub fn with(config: Config) -> Self {
        let kinds = config.kinds.clone();
        let mut lone = Self {
            engine: Engine::new(config),
            now: START,
            budgets: BTreeMap::new(),
            pods: BTreeMap::new(),
            scales: BTreeMap::new(),
            are_scales_silent: false,
            events: Vec::new(),
            cleared: Vec::new(),
            related: Vec::new(),
            foreign: None,
            is_watch_first: false,
            are_writes_held: false,
            are_reads_silent: false,
            writes: 0,
            garbled: Vec::new(),
            others: Vec::new(),
            held: Vec::new(),
            asked: 0,
            verdicts: BTreeMap::new(),
            wake: None,
            version: 100,
        };
        for kind in kinds {
            lone.feed(Input::ListBegan(kind.clone()));
            lone.feed(Input::ListEnded(kind, 100.into()));
        }
        assert_eq!(lone.engine.unsynced(), Vec::<&Kind>::new());
        lone
    }

    pub fn feed(&mut self, input: Input) {
        if let Input::Unreadable { .. } = &input {
            self.garbled.push(input.clone());
        } else if let Some((kind, key, _)) = input.subject() {
            self.garbled.retain(|garbled| subject(garbled) != Some((&kind, key)));
        }
        self.note_other(&input);
        let mut inputs = std::collections::VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.engine.handle(self.now, input);
            let commands: Vec<Command> = std::iter::from_fn(|| self.engine.poll()).collect();
            self.engine.verify();
            for command in commands {
                inputs.extend(self.execute(command));
            }
        }
    }

    /// Lists hold an object that cannot be decoded, and the watch has not shown it yet.
    pub fn store_garbled(&mut self, input: Input) {
        self.garbled.push(input);
    }

    fn note_other(&mut self, input: &Input) {
        let is_other =
            |kind: &Kind| matches!(kind, Kind::PodGroup(_) | Kind::Workload(_) | Kind::Owner(_));
        let Some((kind, key, _)) = input.subject().filter(|(kind, ..)| is_other(kind)) else {
            return;
        };
        self.others.retain(|other| {
            other.subject().is_none_or(|(of, name, _)| (&of, name) != (&kind, key))
        });
        let is_gone = matches!(
            input,
            Input::PodGroup(Change::Deleted(_))
                | Input::Workload(Change::Deleted(_))
                | Input::Owner(Change::Deleted(_))
        );
        if !is_gone {
            self.others.push(input.clone());
        }
    }

    fn listed(&self, kind: &Kind, namespace: &str) -> Vec<Input> {
        let readable: Vec<Input> = match kind {
            Kind::Pod => {
                let pods = self.pods.values().filter(|p| p.key.namespace == namespace);
                pods.map(|p| Input::Pod(Change::Applied(p.clone()))).collect()
            }
            Kind::Budget | Kind::UnavailableBudget => {
                let budgets = self.budgets.values().filter(|b| b.key.kind.watched() == *kind);
                budgets.map(|b| Input::Budget(Change::Applied(b.clone()))).collect()
            }
            _ => {
                let is_of = |input: &&Input| input.subject().is_some_and(|(of, ..)| of == *kind);
                self.others.iter().filter(is_of).cloned().collect()
            }
        };
        let garbled = self.garbled.iter().filter(|g| subject(g).is_some_and(|(of, _)| of == kind));
        let is_garbled = |object: &Input| {
            let named = object.subject().map(|(_, key, _)| key);
            garbled.clone().any(|garbled| subject(garbled).map(|(_, key)| key) == named)
        };
        let readable = readable.into_iter().filter(|object| !is_garbled(object));
        readable.chain(garbled.clone().cloned()).collect()
    }

    fn execute(&mut self, command: Command) -> Vec<Input> {
        match command {
            Command::Reply { eviction, verdict } => {
                assert_eq!(self.verdicts.insert(eviction, verdict), None, "answered twice");
                vec![]
            }
            write @ Command::WriteStatus { .. } if self.are_writes_held => {
                self.held.push(write);
                vec![]
            }
            Command::WriteStatus { budget, uid, version, status } => {
                self.writes += 1;
                if let Some(foreign) = self.foreign.take() {
                    let version = self.next_version();
                    self.budgets
                        .insert(foreign.key.object.name.clone(), Budget { version, ..foreign });
                }
                let next = self.next_version();
                let Some(object) = self.budgets.get_mut(&budget.object.name) else {
                    let outcome = WriteOutcome::Gone;
                    return vec![Input::StatusWritten { budget, uid, outcome }];
                };
                if object.uid == uid && object.version == version {
                    object.status = Arc::unwrap_or_clone(status);
                    object.version = next;
                }
                let outcome = WriteOutcome::Current(Box::new(object.clone()));
                let seen = Input::Budget(Change::Applied(object.clone()));
                let answer = Input::StatusWritten { budget, uid, outcome };
                if self.is_watch_first { vec![seen, answer] } else { vec![answer, seen] }
            }
            Command::ReadBudget { .. } if self.are_reads_silent => vec![],
            Command::ReadBudget { budget, uid } => {
                let outcome = match self.budgets.get(&budget.object.name) {
                    Some(object) => WriteOutcome::Current(Box::new(object.clone())),
                    None => WriteOutcome::Gone,
                };
                vec![Input::StatusWritten { budget, uid, outcome }]
            }
            Command::ReadPod { token, pod } => {
                let outcome = match self.pods.get(&pod.name) {
                    Some(pod) => PodReadOutcome::Found(Box::new(pod.clone())),
                    None => PodReadOutcome::NotFound,
                };
                vec![Input::PodRead { token, outcome }]
            }
            Command::ReadScale { .. } if self.are_scales_silent => vec![],
            Command::ReadScale { namespace, owner } => {
                let outcome =
                    self.scales.get(&owner.name).cloned().unwrap_or(ScaleOutcome::NotFound);
                vec![Input::ScaleRead { namespace, owner, outcome }]
            }
            Command::ListNamespace { kind, namespace } => {
                let objects = self.listed(&kind, &namespace);
                let outcome = SnapshotOutcome::Listed { version: self.version.into(), objects };
                vec![Input::Snapshot { kind, namespace, outcome }]
            }
            Command::ClearDisruptionTarget { pod, .. } => {
                self.cleared.push(pod.name);
                vec![]
            }
            Command::Relate { pod, budget, .. } => {
                self.related.push((pod.name, budget));
                vec![]
            }
            Command::Event(event) => {
                self.events.push(event);
                vec![]
            }
            Command::WakeAt(at) => {
                self.wake = Some(at);
                vec![]
            }
        }
    }

    pub fn next_version(&mut self) -> ResourceVersion {
        self.version += 1;
        ResourceVersion::from(self.version)
    }

    /// The status writes that were held get there, and none is held any more.
    pub fn write_all(&mut self) {
        self.are_writes_held = false;
        for command in std::mem::take(&mut self.held) {
            for input in self.execute(command) {
                self.feed(input);
            }
        }
        self.settle();
    }

    /// Let time pass, waking the engine whenever it asked for it.
    pub fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        while let Some(at) = self.wake.filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.wake = None;
            self.feed(Input::Tick);
        }
        self.now = end;
    }

    /// Long enough for housekeeping writes, too short for anything else.
    pub fn settle(&mut self) {
        self.advance(Duration::from_secs(2));
    }

    pub fn pod(&mut self, pod: Pod) {
        let pod = Pod { version: self.next_version(), ..pod };
        self.pods.insert(pod.key.name.clone(), pod.clone());
        self.feed(Input::Pod(Change::Applied(pod)));
        self.settle();
    }

    pub fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        let mut pod = self.pods[name].clone();
        change(&mut pod);
        self.pod(pod);
    }

    pub fn delete_pod(&mut self, name: &str) {
        let pod = self.pods.remove(name).expect("a pod to delete");
        let version = self.next_version();
        self.feed(Input::Pod(Change::Deleted(Pod { version, terminating: true, ..pod })));
        self.settle();
    }

    pub fn budget(&mut self, budget: Budget) {
        let budget = Budget { version: self.next_version(), ..budget };
        self.budgets.insert(budget.key.object.name.clone(), budget.clone());
        self.feed(Input::Budget(Change::Applied(budget)));
        self.settle();
    }

    pub fn owner(&mut self, owner: Owner) {
        let owner = Owner { version: self.next_version(), ..owner };
        self.feed(Input::Owner(Change::Applied(owner)));
        self.settle();
    }

    pub fn delete_owner(&mut self, owner: Owner) {
        let owner = Owner { version: self.next_version(), ..owner };
        self.feed(Input::Owner(Change::Deleted(owner)));
        self.settle();
    }

    pub fn delete_budget(&mut self, name: &str) {
        let budget = self.budgets.remove(name).expect("a budget to delete");
        let version = self.next_version();
        self.feed(Input::Budget(Change::Deleted(Budget { version, ..budget })));
        self.settle();
    }

    /// As it stands on the API server.
    pub fn status(&self, name: &str) -> &BudgetStatus {
        &self.budgets[name].status
    }

    /// Upstream's `VerifyPdbStatus`: allowed, current, desired, expected.
    #[track_caller]
    pub fn verify(&self, name: &str, numbers: (i64, i64, i64, i64)) {
        let s = self.status(name);
        let pods = (s.disruptions_allowed, s.current_healthy, s.desired_healthy, s.expected_pods);
        assert_eq!(pods, numbers, "{name}: {s:?}");
        let replicas = (
            s.disruptions_allowed_replicas,
            s.current_healthy_replicas,
            s.desired_healthy_replicas,
            s.expected_replicas,
        );
        // Scope Pod: the new fields equal their twins (semantics 2).
        assert_eq!(replicas, numbers, "{name}: {s:?}");
    }

    #[track_caller]
    pub fn condition(&self, name: &str, kind: &str) -> &Condition {
        let found = self.status(name).conditions.iter().find(|condition| condition.kind == kind);
        found.unwrap_or_else(|| panic!("{name} has no condition {kind}: {:?}", self.status(name)))
    }

    pub fn events_of(&self, reason: &str) -> Vec<&Event> {
        self.events.iter().filter(|event| event.reason == reason).collect()
    }

    /// Evict and wait for the answer, to the deadline if need be.
    #[track_caller]
    pub fn evict_with(&mut self, name: &str, change: impl FnOnce(&mut Eviction)) -> Verdict {
        let id = self.ask(name, Operation::Evict, change);
        self.answer(&id)
    }

    /// As admission asks: the API server sends the pod along.
    #[track_caller]
    pub fn operate_with(
        &mut self,
        name: &str,
        operation: Operation,
        change: impl FnOnce(&mut Eviction),
    ) -> Verdict {
        let id = self.ask(name, operation, change);
        self.answer(&id)
    }

    #[track_caller]
    pub fn operate(&mut self, name: &str, operation: Operation) -> Verdict {
        self.operate_with(name, operation, |_| {})
    }

    /// Ask and wait for nothing. Returns the request's id.
    pub fn ask(
        &mut self,
        name: &str,
        operation: Operation,
        change: impl FnOnce(&mut Eviction),
    ) -> String {
        self.asked += 1;
        let object = self.pods.get(name).filter(|_| operation != Operation::Evict);
        let changed = |pod: &Pod| pod.generation + i64::from(operation.keeps_pod());
        let mut eviction = Eviction {
            id: format!("eviction-{}", self.asked),
            pod: ObjectKey::new(NAMESPACE, name),
            uid: object.map(|pod| pod.uid.clone()),
            requester: "drain".to_owned(),
            dry_run: false,
            operation,
            generation: object.map_or(0, changed),
            object: object.cloned().map(Box::new),
            exempt: false,
            by_name: false,
            deadline: self.now + Duration::from_secs(5),
        };
        change(&mut eviction);
        let id = eviction.id.clone();
        self.feed(Input::Evict(eviction));
        id
    }

    /// The answer, by the deadline if need be.
    #[track_caller]
    pub fn answer(&mut self, id: &str) -> Verdict {
        if !self.verdicts.contains_key(id) {
            self.advance(Duration::from_secs(6));
        }
        self.verdicts.get(id).expect("an answer by the deadline").clone()
    }

    #[track_caller]
    pub fn evict(&mut self, name: &str) -> Verdict {
        self.evict_with(name, |_| {})
    }
}

pub fn is_about_pod(event: &Event, name: &str) -> bool {
    matches!(&event.regarding, Regarding::Pod { key, .. } if key.name == name)
}

/// Ready, Running and labelled `foo: bar`, as upstream's `newPod`.
pub fn pod(name: &str) -> Pod {
    Pod {
        key: ObjectKey::new(NAMESPACE, name),
        uid: format!("uid-{name}"),
        version: ResourceVersion::default(),
        labels: [("foo".to_owned(), "bar".to_owned())].into(),
        controller: None,
        phase: Phase::Running,
        ready: true,
        terminating: false,
        disruption_target: None,
        reference: None,
        lws: None,
        generation: 1,
        settled: true,
        applied: true,
        no_protect: false,
        related: true,
    }
}

pub fn owned(name: &str, owner: &Owner) -> Pod {
    Pod { controller: Some(reference_to(owner)), ..pod(name) }
}

pub fn reference_to(owner: &Owner) -> ControllerRef {
    ControllerRef {
        group_kind: owner.group_kind.clone(),
        version: "v1".to_owned(),
        name: owner.key.name.clone(),
        uid: owner.uid.clone(),
    }
}

pub fn owner(group: &str, kind: &str, name: &str, replicas: i64) -> Owner {
    Owner {
        terminating: false,
        group_kind: GroupKind::new(group, kind),
        key: ObjectKey::new(NAMESPACE, name),
        uid: format!("uid-{kind}-{name}"),
        version: ResourceVersion::default(),
        controller: None,
        replicas: Some(replicas),
        group_size: None,
        lws_keeps_group: false,
        pods: OwnerPods::default(),
    }
}

pub fn replica_set(name: &str, replicas: i64) -> Owner {
    owner("apps", "ReplicaSet", name, replicas)
}

pub fn labels(pairs: &[(&str, &str)]) -> LabelSelector {
    LabelSelector {
        match_labels: pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
        match_expressions: Vec::new(),
    }
}

fn budget(name: &str, spec: BudgetSpec) -> Budget {
    Budget {
        key: BudgetKey::pdb(NAMESPACE, name),
        uid: format!("uid-{name}"),
        version: ResourceVersion::default(),
        generation: 1,
        spec: BudgetSpec { selector: Some(labels(&[("foo", "bar")])), ..spec },
        status: BudgetStatus::default(),
    }
}

pub fn min_available(name: &str, threshold: Threshold) -> Budget {
    budget(name, BudgetSpec { min_available: Some(threshold), ..BudgetSpec::default() })
}

pub fn max_unavailable(name: &str, threshold: Threshold) -> Budget {
    budget(name, BudgetSpec { max_unavailable: Some(threshold), ..BudgetSpec::default() })
}

pub fn always_allow(budget: Budget) -> Budget {
    let unhealthy_policy = UnhealthyPolicy::AlwaysAllow;
    Budget { spec: BudgetSpec { unhealthy_policy, ..budget.spec }, ..budget }
}

pub fn selecting(budget: Budget, selector: Option<LabelSelector>) -> Budget {
    Budget { spec: BudgetSpec { selector, scope: Scope::Pod, ..budget.spec }, ..budget }
}

/// Kind and key of an object that cannot be decoded.
fn subject(input: &Input) -> Option<(&Kind, &ObjectKey)> {
    match input {
        Input::Unreadable { kind, key, .. } => Some((kind, key)),
        _ => None,
    }
}
