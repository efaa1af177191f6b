//! A cluster as far as gangs see it: whatever is planned is done at once.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::Change;
use holdfast_core::gang::{
    Action, Constraints, Group, GroupApi, GroupStatus, JobSize, Kind, LwsPlace, NewGroup, Node,
    Owner, OwnerSpec, Placement, Plan, Pod, Policy, Priority, Seen, Settings, World,
};
use holdfast_core::io::Event;
use holdfast_core::model::{
    ControllerRef, GroupKind, GroupPolicy, ObjectKey, PodGroup, TemplateRef, Timestamp, Workload,
    WorkloadEntry,
};

pub const NS: &str = "n";

pub struct Cluster {
    pub world: World,
    pub now: Timestamp,
    pub pods: BTreeMap<String, Pod>,
    pub groups: BTreeMap<String, Group>,
    pub nodes: BTreeMap<String, Node>,
    pub events: Vec<Event>,
    /// How often a pod was evicted.
    pub evictions: usize,
    version: u64,
}

impl Cluster {
    pub fn new(api: GroupApi) -> Self {
        Self::with(api, Duration::from_mins(5), Duration::from_secs(30))
    }

    pub fn with(api: GroupApi, timeout: Duration, room_wait: Duration) -> Self {
        let mut world = World::new(Settings { api, timeout, room_wait });
        let owners = Owner::KINDS.map(|(group, kind)| Kind::Owner(GroupKind::new(group, kind)));
        let kinds = [Kind::Pod, Kind::Node, Kind::Namespace, Kind::Group, Kind::Workload];
        for kind in kinds.into_iter().chain(owners) {
            world.see(Seen::ListBegan(kind.clone()));
            world.see(Seen::ListEnded(kind));
        }
        Self {
            world,
            now: Timestamp::from_secs(1000),
            pods: BTreeMap::new(),
            groups: BTreeMap::new(),
            nodes: BTreeMap::new(),
            events: Vec::new(),
            evictions: 0,
            version: 1,
        }
    }

    fn next(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// A node with room for so many pods.
    pub fn node(&mut self, name: &str, pods: i64) {
        let node = Node {
            name: name.to_owned(),
            version: self.next().into(),
            terminating: false,
            labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
            taints: Vec::new(),
            allocatable: BTreeMap::from([
                ("pods".to_owned(), pods * 1000),
                ("cpu".to_owned(), pods * 1000),
            ]),
        };
        self.see_node(node);
    }

    pub fn see_node(&mut self, node: Node) {
        self.world.see(Seen::Node(Change::Applied(node.clone())));
        self.nodes.insert(node.name.clone(), node);
    }

    /// A group that somebody made by hand, with its policy inline.
    pub fn group(&mut self, name: &str, min_count: i64) {
        self.see_group(group(name, GroupPolicy::Gang { min_count }, self.now));
    }

    pub fn see_group(&mut self, mut group: Group) {
        group.object.version = self.next().into();
        self.world.see(Seen::Group(Change::Applied(group.clone())));
        self.groups.insert(group.object.key.name.clone(), group);
    }

    pub fn delete_group(&mut self, name: &str) {
        if let Some(mut group) = self.groups.remove(name) {
            group.object.version = self.next().into();
            self.world.see(Seen::Group(Change::Deleted(group)));
        }
    }

    pub fn delete_workload(&mut self, name: &str) {
        let workload = Workload {
            api: GroupApi::Holdfast,
            key: ObjectKey::new(NS, name),
            uid: format!("uid-of-{name}"),
            version: self.next().into(),
            entries: Vec::new(),
        };
        self.world.see(Seen::Workload(Change::Deleted(workload)));
    }

    pub fn workload(&mut self, name: &str, template: &str, policy: GroupPolicy) {
        let workload = Workload {
            api: GroupApi::Holdfast,
            key: ObjectKey::new(NS, name),
            uid: format!("uid-of-{name}"),
            version: self.next().into(),
            entries: vec![WorkloadEntry { name: template.to_owned(), policy, replicas: None }],
        };
        self.world.see(Seen::Workload(Change::Applied(workload)));
    }

    pub fn owner(&mut self, mut owner: Owner) {
        owner.version = self.next().into();
        if let OwnerSpec::LeaderWorkerSet { .. } = owner.spec {
            let by = ControllerRef {
                group_kind: owner.group_kind.clone(),
                ..controller("", "", &owner.key.name, &owner.uid)
            };
            let leaders = stateful_set(&owner.key.name, 0, None);
            self.owner(Owner { controller: Some(by), asks: None, ..leaders });
        }
        self.world.see(Seen::Owner(Change::Applied(owner)));
    }

    /// As it is created, after what the webhook makes of it.
    pub fn create(&mut self, mut pod: Pod) -> Placement {
        let token = self.next().to_string();
        let placement = self.world.place(&pod, &token);
        if let Placement::Into { group, make, gate } = &placement {
            if let Some(make) = make {
                self.make(make);
            }
            pod.group = Some(group.clone());
            pod.gated = *gate;
        }
        self.see_pod(pod);
        placement
    }

    pub fn see_pod(&mut self, mut pod: Pod) {
        pod.version = self.next().into();
        if pod.uid.is_empty() {
            pod.uid = format!("uid-{}", self.version);
        }
        self.world.see(Seen::Pod(Change::Applied(pod.clone())));
        self.pods.insert(pod.key.name.clone(), pod);
    }

    pub fn delete_pod(&mut self, name: &str) -> Option<Pod> {
        let mut pod = self.pods.remove(name)?;
        pod.version = self.next().into();
        self.world.see(Seen::Pod(Change::Deleted(pod.clone())));
        Some(pod)
    }

    pub fn make(&mut self, new: &NewGroup) {
        let policy = match new.policy {
            Policy::Gang { min_count } => GroupPolicy::Gang { min_count },
            Policy::Basic => GroupPolicy::Basic,
        };
        let mut made = group(&new.key.name, policy, self.now);
        made.object.controller = Some(new.owner.clone());
        made.slot = Some(new.slot.clone());
        if let Some(template) = &new.template {
            let workload = new.workload.name.clone();
            self.workload(&workload, template, policy);
            made.object.template = Some(TemplateRef { workload, template: template.clone() });
        }
        self.see_group(made);
    }

    /// Plans and does, until there is nothing more to do. Says what was done.
    pub fn settle(&mut self) -> Vec<Action> {
        let mut done = Vec::new();
        for _ in 0..100 {
            let Plan { actions, events, .. } = self.world.plan(self.now);
            self.events.extend(events);
            if actions.is_empty() {
                return done;
            }
            for action in &actions {
                self.perform(action);
            }
            done.extend(actions);
        }
        panic!("there is always more to do: {:?}", self.world.plan(self.now));
    }

    pub fn perform(&mut self, action: &Action) {
        match action {
            Action::Lift { pod, .. } => {
                let mut pod = self.pods[&pod.name].clone();
                pod.gated = false;
                self.see_pod(pod);
            }
            // Its controller makes it anew.
            Action::Evict { pod, .. } => {
                self.evictions += 1;
                let Some(pod) = self.delete_pod(&pod.name) else { return };
                let fresh = Pod {
                    uid: String::new(),
                    node: None,
                    gated: true,
                    unschedulable: false,
                    ..pod
                };
                self.see_pod(fresh);
            }
            Action::Report { group, scheduled_pods, conditions, .. } => {
                let mut group = self.groups[&group.name].clone();
                group.status.scheduled_pods = *scheduled_pods;
                for condition in conditions {
                    group.status.conditions.retain(|known| known.kind != condition.kind);
                    group.status.conditions.push(condition.clone());
                }
                self.see_group(group);
            }
            Action::Mark { group, condition, .. } => {
                let mut group = self.groups[&group.name].clone();
                group.status.conditions.push(condition.clone());
                self.see_group(group);
            }
            Action::Protect { group, on, .. } => {
                let mut found = self.groups[&group.name].clone();
                found.protected = *on;
                if found.object.terminating && !on {
                    self.delete_group(&group.name);
                } else {
                    self.see_group(found);
                }
            }
            Action::Delete { group, .. } => {
                let mut found = self.groups[&group.name].clone();
                found.object.terminating = true;
                if found.protected {
                    self.see_group(found);
                } else {
                    self.delete_group(&group.name);
                }
            }
            Action::Resize { group, min_count, .. } => {
                let mut group = self.groups[&group.name].clone();
                group.object.policy = GroupPolicy::Gang { min_count: *min_count };
                self.see_group(group);
            }
            Action::Remake(new) => self.make(new),
        }
    }

    /// What a scheduler may bind: not gated, and with room where it would go.
    pub fn bind(&mut self, name: &str, node: &str) -> bool {
        let here = self.pods.values().filter(|pod| pod.node.as_deref() == Some(node)).count();
        let pod = self.pods[name].clone();
        let free = self.nodes[node].allocatable["pods"] / 1000 > i64::try_from(here).unwrap();
        if pod.gated || pod.node.is_some() || !free {
            return false;
        }
        self.see_pod(Pod { node: Some(node.to_owned()), ..pod });
        true
    }

    /// Binds whatever can be bound, anywhere.
    pub fn schedule(&mut self) {
        let names: Vec<String> = self.pods.keys().cloned().collect();
        let nodes: Vec<String> = self.nodes.keys().cloned().collect();
        for name in names {
            let _ = nodes.iter().any(|node| self.bind(&name, node));
        }
    }

    pub fn pass(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }

    pub fn bound(&self, group: &str) -> usize {
        self.of(group).filter(|pod| pod.node.is_some()).count()
    }

    pub fn gated(&self, group: &str) -> usize {
        self.of(group).filter(|pod| pod.gated).count()
    }

    fn of<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.values().filter(move |pod| pod.group.as_deref() == Some(group))
    }

    /// Status, reason and message of a condition.
    pub fn condition(&self, group: &str, kind: &str) -> Option<String> {
        let conditions = &self.groups[group].status.conditions;
        let found = conditions.iter().find(|condition| condition.kind == kind)?;
        Some(format!("{:?} {}: {}", found.status, found.reason, found.message))
    }
}

pub fn group(name: &str, policy: GroupPolicy, created: Timestamp) -> Group {
    Group {
        object: PodGroup {
            api: GroupApi::Holdfast,
            key: ObjectKey::new(NS, name),
            uid: format!("uid-of-{name}"),
            version: 0.into(),
            terminating: false,
            controller: None,
            policy,
            template: None,
            disrupt_whole: false,
            composite_parent: None,
        },
        created,
        generation: 1,
        slot: None,
        protected: false,
        status: GroupStatus::default(),
    }
}

/// A pod that needs one CPU.
pub fn pod(name: &str) -> Pod {
    Pod {
        key: ObjectKey::new(NS, name),
        uid: String::new(),
        version: 0.into(),
        created: Timestamp::from_secs(1000),
        controller: None,
        lws: None,
        group: None,
        foreign: false,
        mirror: false,
        node: None,
        finished: false,
        terminating: false,
        gated: false,
        held: false,
        unschedulable: false,
        priority: Priority::default(),
        requests: BTreeMap::from([("pods".to_owned(), 1000), ("cpu".to_owned(), 1000)]),
        constraints: Constraints::default(),
    }
}

/// A pod of a group that somebody made by hand, with a controller.
pub fn member(name: &str, group: &str) -> Pod {
    Pod {
        group: Some(group.to_owned()),
        controller: Some(controller("apps", "ReplicaSet", "r", "r")),
        ..pod(name)
    }
}

pub fn controller(group: &str, kind: &str, name: &str, uid: &str) -> ControllerRef {
    ControllerRef {
        group_kind: GroupKind::new(group, kind),
        version: "v1".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

pub fn owner(group: &str, kind: &str, name: &str, spec: OwnerSpec) -> Owner {
    Owner {
        group_kind: GroupKind::new(group, kind),
        api_version: "v1".to_owned(),
        key: ObjectKey::new(NS, name),
        uid: format!("uid-of-{name}"),
        version: 0.into(),
        terminating: false,
        controller: None,
        asks: Some(true),
        spec,
    }
}

pub fn lws(name: &str, replicas: i64, size: i64) -> Owner {
    let spec = OwnerSpec::LeaderWorkerSet {
        replicas,
        size,
        leader_ready: false,
        exclusive: false,
        keeps_group: false,
    };
    owner("leaderworkerset.x-k8s.io", "LeaderWorkerSet", name, spec)
}

pub fn job(name: &str, parallelism: i64) -> Owner {
    let size = JobSize { parallelism, completions: None, succeeded: 0 };
    owner("batch", "Job", name, OwnerSpec::Job(size))
}

pub fn job_pod(name: &str, job: &str) -> Pod {
    Pod { controller: Some(controller("batch", "Job", job, &format!("uid-of-{job}"))), ..pod(name) }
}

pub fn stateful_set(name: &str, replicas: i64, group_size: Option<i64>) -> Owner {
    let spec = OwnerSpec::StatefulSet { replicas, start: 0, group_size, ordered: false };
    owner("apps", "StatefulSet", name, spec)
}

pub fn set_pod(set: &str, ordinal: i64) -> Pod {
    let uid = format!("uid-of-{set}");
    Pod {
        controller: Some(controller("apps", "StatefulSet", set, &uid)),
        ..pod(&format!("{set}-{ordinal}"))
    }
}

/// The leader of a group, and its workers' `StatefulSet` once the leader is there.
pub fn leader(set: &str, index: i64, size: i64) -> Pod {
    let place = LwsPlace {
        name: set.to_owned(),
        group_index: index,
        worker_index: 0,
        size: Some(size),
        leader: None,
    };
    Pod { lws: Some(place), ..set_pod(set, index) }
}

pub fn workers_of(leader: &Pod) -> Owner {
    let name = leader.key.name.as_str();
    Owner {
        controller: Some(controller("", "Pod", name, &leader.uid)),
        uid: format!("workers-of-{}", leader.uid),
        asks: None,
        ..stateful_set(name, 0, None)
    }
}

pub fn worker(leader: &Pod, index: i64) -> Pod {
    let name = leader.key.name.as_str();
    let place = LwsPlace {
        worker_index: index,
        leader: Some(name.to_owned()),
        ..leader.lws.clone().unwrap()
    };
    let uid = format!("workers-of-{}", leader.uid);
    Pod {
        lws: Some(place),
        controller: Some(controller("apps", "StatefulSet", name, &uid)),
        ..pod(&format!("{name}-{index}"))
    }
}
