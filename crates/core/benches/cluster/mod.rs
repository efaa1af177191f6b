//! A cluster to measure the engine on: namespaces of ten budgets, half of which count pods of a
//! Deployment and half replicas of five pods. The driver answers what the engine asks for, as a
//! cluster without faults would.
#![allow(clippy::disallowed_methods, reason = "what measures needs a clock")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_core::io::{Command, SnapshotOutcome, WriteOutcome};
use holdfast_core::model::{
    Budget, BudgetKey, BudgetSpec, BudgetStatus, ControllerRef, GroupApi, GroupKind, GroupPolicy,
    GroupReference, LabelSelector, ObjectKey, Operation, Owner, OwnerPods, Phase, Pod, PodGroup,
    ResourceVersion, Scope, Threshold, Timestamp,
};
use holdfast_core::{Change, Config, Engine, Eviction, Input, Kind};

const BUDGETS_PER_NAMESPACE: usize = 10;
const PODS_PER_REPLICA: usize = 5;

/// How large.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub pods: usize,
    pub budgets: usize,
    /// The number of the first budget: odd ones count replicas.
    pub first: usize,
}

pub struct Cluster {
    engine: Engine,
    size: Size,
    now: Timestamp,
    version: u64,
    evictions: u64,
    budgets: BTreeMap<BudgetKey, Budget>,
}

impl Cluster {
    /// With everything listed, ready, and its status written.
    pub fn new(size: Size) -> Self {
        let config = Config::default();
        let kinds = config.kinds.clone();
        let mut cluster = Self {
            engine: Engine::new(config),
            size,
            now: Timestamp::from_secs(1_800_000_000),
            version: 1000,
            evictions: 0,
            budgets: BTreeMap::new(),
        };
        for kind in &kinds {
            cluster.feed(Input::ListBegan(kind.clone()));
        }
        for n in size.first..size.first + size.budgets {
            cluster.add_budget(n);
        }
        for i in 0..size.pods {
            cluster.add_pod(i);
        }
        for kind in kinds {
            let version = cluster.next_version();
            cluster.feed(Input::ListEnded(kind, version));
        }
        cluster.settle();
        cluster
    }

    /// The readiness of one pod changes. Pods come in an order that is not theirs.
    pub fn pod_event(&mut self, n: usize) -> Input {
        let i = scatter(n, self.size.pods);
        let mut pod = pod(i, self.size);
        pod.ready = (n / self.size.pods) % 2 == 1;
        pod.version = self.next_version();
        Input::Pod(Change::Applied(pod))
    }

    /// A dry run: decided like any other eviction, and nothing is written.
    pub fn dry_run(&mut self, n: usize) -> Input {
        self.evictions += 1;
        let pod = pod(scatter(n, self.size.pods), self.size);
        Input::Evict(Eviction {
            id: format!("e{}", self.evictions),
            pod: pod.key,
            uid: None,
            requester: "drainer".to_owned(),
            dry_run: true,
            operation: Operation::Evict,
            object: None,
            generation: 0,
            exempt: false,
            by_name: false,
            deadline: self.now + Duration::from_secs(9),
        })
    }

    /// The engine takes in one input, and its commands are taken out.
    pub fn handle(&mut self, input: Input, commands: &mut Vec<Command>) {
        self.engine.handle(self.now, input);
        while let Some(command) = self.engine.poll() {
            commands.push(command);
        }
    }

    /// As `handle`, under a name by which callgrind knows what to count.
    #[inline(never)]
    fn measured(&mut self, input: Input, commands: &mut Vec<Command>) {
        self.handle(input, commands);
    }

    /// A millisecond later: what is due is done.
    pub fn tick(&mut self, commands: &mut Vec<Command>) {
        self.now = self.now + Duration::from_millis(1);
        self.handle(Input::Tick, commands);
    }

    /// The input with which a cluster without faults answers.
    pub fn answer(&mut self, command: Command) -> Option<Input> {
        let (budget, uid, status) = match command {
            Command::WriteStatus { budget, uid, status, .. } => (budget, uid, status),
            Command::ListNamespace { kind, namespace } => return Some(self.list(kind, namespace)),
            _ => return None,
        };
        let version = self.next_version();
        let object = self.budgets.get_mut(&budget)?;
        object.version = version;
        object.status = Arc::unwrap_or_clone(status);
        let outcome = WriteOutcome::Current(Box::new(object.clone()));
        Some(Input::StatusWritten { budget, uid, outcome })
    }

    /// The budgets of a namespace: nothing else is ever listed here.
    fn list(&self, kind: Kind, namespace: String) -> Input {
        let listed = self.budgets.values().filter(|budget| {
            budget.key.kind.watched() == kind && budget.key.object.namespace == namespace
        });
        let objects = listed.map(|b| Input::Budget(Change::Applied(b.clone()))).collect();
        let version = ResourceVersion::from(self.version);
        Input::Snapshot { kind, namespace, outcome: SnapshotOutcome::Listed { version, objects } }
    }

    /// Answers until the engine wants nothing more.
    pub fn answer_all(&mut self, commands: &mut Vec<Command>) {
        while let Some(command) = commands.pop() {
            if let Some(input) = self.answer(command) {
                self.handle(input, commands);
            }
        }
    }

    /// Handles as many inputs, a millisecond apart, and hands out how long each took. What comes of
    /// them, such as status writes, is done in between and not counted.
    pub fn run(
        &mut self,
        count: usize,
        n: &mut usize,
        input: fn(&mut Self, usize) -> Input,
        mut took: impl FnMut(Duration),
    ) {
        let mut commands = Vec::new();
        for _ in 0..count {
            let next = input(self, *n);
            *n += 1;
            let began = Instant::now();
            self.measured(next, &mut commands);
            took(began.elapsed());
            self.answer_all(&mut commands);
            self.tick(&mut commands);
            self.answer_all(&mut commands);
        }
    }

    /// As many bytes as the driver keeps for itself.
    pub fn copy_of_budgets(&self) -> BTreeMap<BudgetKey, Budget> {
        self.budgets.clone()
    }

    /// Lets three seconds pass, in which all status writes are done.
    fn settle(&mut self) {
        let mut commands = Vec::new();
        for _ in 0..30 {
            self.now = self.now + Duration::from_millis(100);
            self.handle(Input::Tick, &mut commands);
            self.answer_all(&mut commands);
        }
    }

    fn feed(&mut self, input: Input) {
        let mut commands = Vec::new();
        self.handle(input, &mut commands);
        self.answer_all(&mut commands);
    }

    fn add_budget(&mut self, n: usize) {
        let mut budget = budget(n);
        budget.version = self.next_version();
        self.budgets.insert(budget.key.clone(), budget.clone());
        self.feed(Input::Budget(Change::Applied(budget)));
        if !counts_replicas(n) {
            let first = n - self.size.first;
            let pods = (first..self.size.pods).step_by(self.size.budgets).count();
            for mut owner in owners(n, pods) {
                owner.version = self.next_version();
                self.feed(Input::Owner(Change::Applied(owner)));
            }
        }
    }

    fn add_pod(&mut self, i: usize) {
        let mut pod = pod(i, self.size);
        pod.version = self.next_version();
        if let Some(GroupReference::PodGroup { name }) = &pod.reference
            && replica_member(i, self.size) == 0
        {
            let group = PodGroup {
                api: GroupApi::Kubernetes,
                key: ObjectKey::new(&pod.key.namespace, name),
                uid: uid("group", i),
                version: self.next_version(),
                terminating: false,
                controller: None,
                policy: GroupPolicy::Gang { min_count: 4 },
                template: None,
                disrupt_whole: false,
                composite_parent: None,
            };
            self.feed(Input::PodGroup(Change::Applied(group)));
        }
        self.feed(Input::Pod(Change::Applied(pod)));
    }

    fn next_version(&mut self) -> ResourceVersion {
        self.version += 1;
        ResourceVersion::from(self.version)
    }
}

/// A pod as a Deployment or a gang's controller makes it, with the labels that such pods have.
fn pod(i: usize, size: Size) -> Pod {
    let n = size.first + i % size.budgets;
    let replicas = counts_replicas(n);
    let label = |key: &str, value: String| (key.to_owned(), value);
    let labels = BTreeMap::from([
        label("app", app(n)),
        label("app.kubernetes.io/part-of", format!("product-{}", n % 100)),
        label("app.kubernetes.io/managed-by", "helm".to_owned()),
        label("pod-template-hash", hash(n)),
        label("topology.kubernetes.io/zone", format!("zone-{}", i % 3)),
    ]);
    Pod {
        key: ObjectKey::new(namespace(n), format!("{}-{}-{:05x}", app(n), hash(n), i)),
        uid: uid("pod", i),
        version: ResourceVersion::default(),
        labels,
        controller: Some(if replicas {
            controller("batch", "Job", format!("{}-job", app(n)), n)
        } else {
            controller("apps", "ReplicaSet", format!("{}-{}", app(n), hash(n)), n)
        }),
        phase: Phase::Running,
        ready: true,
        terminating: false,
        disruption_target: None,
        reference: replicas.then(|| GroupReference::PodGroup {
            name: format!("{}-{}", app(n), i / size.budgets / PODS_PER_REPLICA),
        }),
        lws: None,
        generation: 1,
        settled: true,
        applied: true,
        no_protect: false,
        related: true,
    }
}

fn replica_member(i: usize, size: Size) -> usize {
    (i / size.budgets) % PODS_PER_REPLICA
}

fn budget(n: usize) -> Budget {
    let scope = if counts_replicas(n) { Scope::Workload } else { Scope::Pod };
    let selector = LabelSelector {
        match_labels: BTreeMap::from([("app".to_owned(), app(n))]),
        match_expressions: Vec::new(),
    };
    let (min_available, max_unavailable) = match scope {
        Scope::Pod => (None, Some(Threshold::Percent(10))),
        Scope::Workload => (Some(Threshold::Percent(80)), None),
    };
    Budget {
        key: BudgetKey::pdb(namespace(n), app(n)),
        uid: uid("budget", n),
        version: ResourceVersion::default(),
        generation: 1,
        spec: BudgetSpec {
            min_available,
            max_unavailable,
            selector: Some(selector),
            scope,
            ..BudgetSpec::default()
        },
        status: BudgetStatus::default(),
    }
}

/// A `ReplicaSet` and its Deployment.
fn owners(n: usize, pods: usize) -> [Owner; 2] {
    let deployment = controller("apps", "Deployment", app(n), n);
    let owner = |kind: &str, name: String, uid: String, controller| Owner {
        group_kind: GroupKind::new("apps", kind),
        key: ObjectKey::new(namespace(n), name),
        uid,
        version: ResourceVersion::default(),
        terminating: false,
        controller,
        replicas: i64::try_from(pods).ok(),
        group_size: None,
        lws_keeps_group: false,
        pods: OwnerPods::default(),
    };
    let replica_set = controller("apps", "ReplicaSet", format!("{}-{}", app(n), hash(n)), n);
    [
        owner("Deployment", app(n), deployment.uid.clone(), None),
        owner("ReplicaSet", replica_set.name, replica_set.uid, Some(deployment)),
    ]
}

fn controller(group: &str, kind: &str, name: String, n: usize) -> ControllerRef {
    ControllerRef {
        group_kind: GroupKind::new(group, kind),
        version: "v1".to_owned(),
        name,
        uid: uid(kind, n),
    }
}

fn counts_replicas(n: usize) -> bool {
    n % 2 == 1
}

fn namespace(n: usize) -> String {
    format!("team-{}", n / BUDGETS_PER_NAMESPACE)
}

fn app(n: usize) -> String {
    format!("service-{n}")
}

fn hash(n: usize) -> String {
    format!("{:010x}", (n + 1).wrapping_mul(0x9e_37_79_b9_7f) & 0xff_ffff_ffff)
}

/// Of the length that uids have.
fn uid(kind: &str, n: usize) -> String {
    let tag = kind.bytes().fold(0_u32, |tag, byte| tag.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{tag:08x}-0000-4000-8000-{n:012x}")
}

/// A walk over all of `0..len` in steps by a prime, so that neighbours do not follow each other.
fn scatter(n: usize, len: usize) -> usize {
    const STEP: usize = 7_919;
    n.wrapping_mul(STEP) % len
}
