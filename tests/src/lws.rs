//! A `LeaderWorkerSet` of a test, and the history of its groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_audit::cluster::{ClusterAudit, Write, every_replica, healthy, read};
use serde_json::{Value, json};

use crate::asking::ASKS;
use crate::evict::Eviction;
use crate::history::{Event, History};
use crate::wait::until_within;
use crate::world::{WORLD, World};

const API: &str = "apis/leaderworkerset.x-k8s.io/v1";
const SETS: &str = "leaderworkersets";
const INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";

/// The default size of groups: a leader and two workers.
pub const SIZE: usize = 3;

#[derive(Debug)]
pub struct Set<'w> {
    world: &'w World,
    nodes: Vec<String>,
    size: usize,
}

impl<'w> Set<'w> {
    /// Creates `serve` with this many groups on four nodes, and waits until all are Ready. `more` is merged
    /// into its spec.
    #[track_caller]
    pub fn new(world: &'w World, replicas: usize, more: &Value) -> Self {
        let nodes = (0..4).map(|i| world.node(&format!("n{i}"))).collect();
        let more = json!({"spec": more});
        let set = Self::create(world, nodes, SIZE, &manifest(world, replicas, &more));
        set.wait_healthy(replicas);
        set
    }

    /// Creates `serve` with groups of this size on this many nodes, and waits until all are Ready.
    #[track_caller]
    pub fn over(world: &'w World, nodes: usize, replicas: usize, size: usize) -> Self {
        let nodes = (0..nodes).map(|i| world.node(&format!("n{i}"))).collect();
        let more = json!({"spec": {"leaderWorkerTemplate": {"size": size}}});
        let set = Self::create(world, nodes, size, &manifest(world, replicas, &more));
        set.wait_healthy(replicas);
        set
    }

    /// Creates a set that asks for groups, on six nodes with room for two groups each. It does not wait.
    #[track_caller]
    pub fn asking(world: &'w World, replicas: usize, size: usize, more: &Value) -> Self {
        let nodes = (0..6).map(|i| world.small_node(&format!("n{i}"), 2 * size)).collect();
        let template = json!({"size": size, "workerTemplate": world.pod_template()});
        let asks = json!({
            "metadata": {"annotations": {ASKS: "true"}},
            "spec": {"leaderWorkerTemplate": template},
        });
        let mut manifest = manifest(world, replicas, &asks);
        merge(&mut manifest, more);
        Self::create(world, nodes, size, &manifest)
    }

    #[track_caller]
    fn create(world: &'w World, nodes: Vec<String>, size: usize, manifest: &Value) -> Self {
        let _ = world.admin.post(&world.path(API, SETS, ""), manifest).ok();
        Self { world, nodes, size }
    }

    #[track_caller]
    pub fn wait_healthy(&self, groups: usize) {
        until_within(Duration::from_mins(1), &format!("{groups} groups are healthy"), || {
            let pods = self.pods();
            let objects: Vec<Value> =
                self.owner_paths().iter().flat_map(|path| self.world.admin.list(path)).collect();
            let everything = every_replica(&self.world.namespace);
            let healthy = healthy(objects.iter().chain(&pods), &everything);
            if healthy == groups && pods.len() == groups * self.size {
                return Ok(());
            }
            let names: Vec<&str> = pods.iter().map(|pod| text(&pod["metadata"]["name"])).collect();
            Err(format!("{healthy} healthy groups of {names:?}"))
        });
    }

    #[track_caller]
    pub fn pods(&self) -> Vec<Value> {
        self.world.admin.list(&self.world.path("api/v1", "pods", ""))
    }

    /// Returns the uids of the pods of one group by name.
    #[track_caller]
    pub fn group(&self, index: usize) -> BTreeMap<String, String> {
        let pods = self.pods();
        let of_group = pods.iter().filter(|pod| group_of(pod) == Some(index));
        let entry = |pod: &Value| {
            (text(&pod["metadata"]["name"]).to_owned(), text(&pod["metadata"]["uid"]).to_owned())
        };
        of_group.map(entry).collect()
    }

    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// Sets whether the scheduler may put pods on the nodes.
    #[track_caller]
    pub fn set_schedulable(&self, schedulable: bool) {
        for node in &self.nodes {
            let patch = json!({"spec": {"unschedulable": !schedulable}});
            let _ = self.world.admin.patch(&format!("/api/v1/nodes/{node}"), &patch).ok();
        }
    }

    /// Returns the node with pods of the most groups, and the number of these groups.
    #[track_caller]
    pub fn busiest_node(&self) -> (String, usize) {
        let pods = self.pods();
        let groups_on = |node: &str| {
            let there = pods.iter().filter(|pod| pod["spec"]["nodeName"] == node);
            there.filter_map(group_of).collect::<BTreeSet<_>>().len()
        };
        let counted = self.nodes.iter().map(|node| (node.clone(), groups_on(node)));
        counted.max_by_key(|(_, groups)| *groups).expect("there are nodes")
    }

    #[track_caller]
    pub fn edit(&self, spec: &Value) {
        let path = self.world.path(API, SETS, "serve");
        let _ = self.world.admin.patch(&path, &json!({"spec": spec})).ok();
    }

    /// Changes the template.
    #[track_caller]
    pub fn roll(&self, version: &str) {
        let annotations = json!({"e2e.holdfast.dev/version": version});
        let template = json!({"workerTemplate": {"metadata": {"annotations": annotations}}});
        self.edit(&json!({"leaderWorkerTemplate": template}));
    }

    #[track_caller]
    pub fn delete(&self) {
        let _ = self.world.admin.delete(&self.world.path(API, SETS, "serve")).ok();
    }

    /// Evicts one pod after the other until `done` is set.
    pub fn evict_until(&self, done: &AtomicBool) {
        while !done.load(Ordering::Relaxed) {
            for pod in self.pods() {
                // Do not ask `why` first, because everything changes meanwhile.
                let outcome = self.world.send(&Eviction::of(text(&pod["metadata"]["name"])));
                // 409: the pod was gone at the decision, and the API server then found its successor.
                assert!([201, 404, 409, 429].contains(&outcome.code), "{outcome:#?}");
            }
        }
    }

    /// Waits until every group has the current template.
    #[track_caller]
    pub fn wait_rolled(&self, replicas: usize) {
        until_within(Duration::from_mins(2), "the new template is rolled out", || {
            let set = self.world.admin.get(&self.world.path(API, SETS, "serve")).ok().body;
            let (status, generation) = (&set["status"], &set["metadata"]["generation"]);
            let done = ["replicas", "readyReplicas", "updatedReplicas"]
                .iter()
                .all(|count| status[*count] == replicas);
            let observed = status["observedGeneration"].is_null()
                || status["observedGeneration"] == *generation;
            if done && observed { Ok(()) } else { Err(status.to_string()) }
        });
        self.wait_healthy(replicas);
    }

    #[track_caller]
    pub fn watch(&self) -> History {
        self.watch_with(self.world.budget_path(""))
    }

    /// Records the history, with budgets of another kind.
    #[track_caller]
    pub fn watch_with(&self, budgets: String) -> History {
        let [sets, stateful_sets] = self.owner_paths();
        let pods = self.world.path("api/v1", "pods", "");
        History::of(&self.world.admin, &[pods, budgets, sets, stateful_sets])
    }

    /// Returns the collections of the owners of the pods.
    fn owner_paths(&self) -> [String; 2] {
        [self.world.path(API, SETS, ""), self.world.path("apis/apps/v1", "statefulsets", "")]
    }

    /// Waits until no grant is left. Some grants must expire, because the set may delete a pod while its
    /// eviction is decided.
    #[track_caller]
    pub fn wait_settled(&self, budget: &str) {
        until_within(Duration::from_secs(150), "no grant is left", || {
            let status = self.world.status(budget);
            let grants = status["grants"].as_array().map_or(0, Vec::len);
            if grants == 0 { Ok(()) } else { Err(status.to_string()) }
        });
    }
}

/// Returns the object. `more` is merged into its spec.
fn manifest(world: &World, replicas: usize, more: &Value) -> Value {
    let mut manifest = json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve"},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": {
            "size": SIZE,
            "workerTemplate": {
                "metadata": {
                    "labels": {"app": "job"},
                    // LeaderWorkerSet checks for terminating pods, so they must be visible for some time. And
                    // an eviction that finds its pod gone leaves a grant that must expire (semantics 5).
                    "annotations": {"localkube/lingers": "1s"},
                },
                "spec": {
                    "nodeSelector": {WORLD: world.namespace},
                    "containers": [{"name": "main", "image": "example.com/main"}],
                },
            },
        }},
    });
    merge(&mut manifest, more);
    manifest
}

/// The history of the pods, the budget and the set, audited write by write.
pub struct Story {
    audit: ClusterAudit,
    /// The groups that stopped being healthy, in order.
    pub groups: Vec<usize>,
    /// The lowest number of healthy groups.
    pub least: usize,
}

impl fmt::Debug for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Story");
        shown.field("groups", &self.groups).field("least", &self.least);
        shown.field("evicted", &self.evicted()).field("findings", &self.audit.findings()).finish()
    }
}

impl Story {
    /// Holdfast learns of the changes of other clients within `lag`.
    pub fn of(events: &[Event], lag: Duration) -> Self {
        let (listed, writes): (Vec<&Event>, Vec<&Event>) =
            events.iter().partition(|event| event.listed);
        let began = events.iter().map(|event| event.seen).min();
        let listed = listed.iter().filter_map(|event| read(&event.object, event.version));
        let mut audit = ClusterAudit::new(lag, listed);
        for event in writes {
            let at = began.map(|began| event.seen - began).unwrap_or_default();
            let write = Write::read(event.version, at, event.gone, &event.object);
            audit.take(write.expect("the auditor knows every kind that a set is watched with"));
        }
        let number = |n: i64| usize::try_from(n).unwrap_or_default();
        let groups = audit.disruptions().iter().filter_map(|disruption| disruption.group_index);
        let groups = groups.map(number).collect();
        let least = audit.fewest().values().map(|fewest| number(fewest.healthy)).min();
        Self { groups, least: least.expect("there is a budget"), audit }
    }

    /// Returns how often each group stopped being healthy.
    pub fn disrupted(&self) -> BTreeMap<usize, usize> {
        let mut times = BTreeMap::new();
        for group in &self.groups {
            *times.entry(*group).or_default() += 1;
        }
        times
    }

    /// Returns the number of new leaders of each group.
    pub fn recreated(&self) -> BTreeMap<usize, usize> {
        let leaders = self.audit.leaders().iter();
        leaders.filter_map(|(group, times)| Some((usize::try_from(*group).ok()?, *times))).collect()
    }

    /// Returns how many pods evictions removed.
    pub fn evicted(&self) -> usize {
        self.audit.evicted()
    }

    /// Fails if the auditor has found a violation.
    #[track_caller]
    pub fn assert_kept(&self) {
        let findings = self.audit.findings();
        assert!(findings.is_empty(), "{findings:#?}");
    }
}

fn group_of(pod: &Value) -> Option<usize> {
    pod["metadata"]["labels"][INDEX].as_str()?.parse().ok()
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
