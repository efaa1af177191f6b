//! A `LeaderWorkerSet` of a test, and the history of its groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::asking::ASKS;
use crate::audit::is_healthy;
use crate::evict::Eviction;
use crate::fixture::{Mode, fixture};
use crate::history::{Event, History};
use crate::wait::until_within;
use crate::world::{WORLD, World};

const API: &str = "apis/leaderworkerset.x-k8s.io/v1";
const SETS: &str = "leaderworkersets";
const INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
const SIZE_OF: &str = "leaderworkerset.sigs.k8s.io/size";

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
            let healthy = healthy_groups(&pods, usize::MAX, &BTreeSet::new());
            if healthy.len() == groups && pods.len() == groups * self.size {
                return Ok(());
            }
            let names: Vec<&str> = pods.iter().map(|pod| text(&pod["metadata"]["name"])).collect();
            Err(format!("{healthy:?} of {names:?}"))
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
        let world = self.world;
        let paths = [world.path("api/v1", "pods", ""), budgets, world.path(API, SETS, "")];
        History::of(&world.admin, &paths)
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

/// A grant that broke a group, with the true state at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub pod: String,
    pub group: Option<usize>,
    /// The groups that were healthy before. A group with a granted pod is not healthy.
    pub healthy: BTreeSet<usize>,
    /// The desired number at that time, from the budget and the scale of the set.
    pub desired: usize,
    /// Whether there was room at that time or one write before. No webhook can prevent a DELETE that another
    /// client sends during the decision.
    pub had_room: bool,
}

/// The history of the pods, the budget and the scale, write by write.
#[derive(Debug, Default)]
pub struct Story {
    pub taken: Vec<Taken>,
    /// The costs of the other grants.
    pub free: usize,
    /// The lowest number of healthy groups.
    pub least: usize,
    /// The largest number of groups that were down at the same time because of grants.
    pub most_taken: usize,
}

impl Story {
    /// `lag` is the time during which Holdfast may not know the changes of other clients.
    pub fn of(events: &[Event], max_unavailable: usize, lag: Duration) -> Self {
        let mut story = Self { least: usize::MAX, ..Self::default() };
        let mut pods: BTreeMap<&str, &Value> = BTreeMap::new();
        let (mut scale, mut granted) = (0, BTreeSet::new());
        let (mut down, mut last_room) = (BTreeSet::new(), None);
        for event in events {
            let object = &event.object;
            if event.path.ends_with("budgets") {
                let grants = object["status"]["grants"].as_array().cloned().unwrap_or_default();
                let uid = |grant: &Value| text(&grant["uid"]).to_owned();
                let now: BTreeSet<String> = grants.iter().map(uid).collect();
                for grant in &grants {
                    if granted.contains(&uid(grant)) {
                        continue;
                    }
                    if grant["cost"] == 0 {
                        story.free += 1;
                    } else {
                        let pod = text(&grant["pod"]);
                        let healthy = healthy_groups(pods.values().copied(), scale, &granted);
                        let desired = scale.saturating_sub(max_unavailable);
                        let lately = last_room.take().is_some_and(|at| event.seen - at <= lag);
                        let group = pods.get(pod).and_then(|pod| group_of(pod));
                        // A second charge for a group that is down: the gate decides by name, and the grant
                        // of an eviction that may still be running has passed to the next pod of that name.
                        let nothing_to_take = fixture().mode == Mode::Native
                            && group.is_some_and(|group| !healthy.contains(&group));
                        let had_room = healthy.len() > desired || lately || nothing_to_take;
                        down.extend(group);
                        let pod = pod.to_owned();
                        story.taken.push(Taken { pod, group, healthy, desired, had_room });
                    }
                    granted.insert(uid(grant));
                }
                // Grants that ended stay in force while their pod is terminating, because it is unhealthy.
                granted = now;
            } else if event.path.ends_with(SETS) {
                scale =
                    object["spec"]["replicas"].as_u64().map_or(0, |n| n.try_into().unwrap_or(0));
            } else if event.gone {
                pods.remove(text(&object["metadata"]["name"]));
            } else {
                pods.insert(text(&object["metadata"]["name"]), object);
            }
            let healthy = healthy_groups(pods.values().copied(), scale, &granted);
            if healthy.len() > scale.saturating_sub(max_unavailable) {
                last_room = Some(event.seen);
            }
            down.retain(|group| *group < scale && !healthy.contains(group));
            story.most_taken = story.most_taken.max(down.len());
            // A history begins with the existing objects, one after the other.
            if story.taken.is_empty() {
                story.least = healthy.len();
            }
            story.least = story.least.min(healthy.len());
        }
        story
    }

    /// Returns the groups that grants broke, in order.
    pub fn groups(&self) -> Vec<usize> {
        self.taken.iter().filter_map(|taken| taken.group).collect()
    }

    /// Checks that no grant broke a group without room.
    #[track_caller]
    pub fn assert_kept(&self, max_unavailable: usize) {
        let wrong: Vec<_> = self.taken.iter().filter(|taken| !taken.had_room).collect();
        assert!(wrong.is_empty(), "granted without room: {wrong:#?}");
        assert!(self.most_taken <= max_unavailable, "taken at the same time: {self:#?}");
    }
}

/// Returns the groups below `scale` with all of their pods healthy and none granted.
fn healthy_groups<'a>(
    pods: impl IntoIterator<Item = &'a Value>,
    scale: usize,
    granted: &BTreeSet<String>,
) -> BTreeSet<usize> {
    // By group: the number of pods that it has and needs.
    let mut healthy: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for pod in pods {
        let counts = is_healthy(pod) && !granted.contains(text(&pod["metadata"]["uid"]));
        if let Some(group) = group_of(pod).filter(|_| counts) {
            let size = text(&pod["metadata"]["annotations"][SIZE_OF]).parse();
            let (has, needs) = healthy.entry(group).or_default();
            (*has, *needs) = (*has + 1, size.unwrap_or(usize::MAX));
        }
    }
    let whole = healthy.iter().filter(|(group, (has, needs))| **group < scale && has >= needs);
    whole.map(|(group, _)| *group).collect()
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
