//! Groups of a `LeaderWorkerSet`, which the cluster deletes as a whole when one pod of them goes.
//!
//! ```text
//!   leader evicted --> garbage collector deletes the workers' StatefulSet, which the leader owns
//!   worker evicted --> LeaderWorkerSet deletes the leader in the foreground (not with restartPolicy None)
//! ```
//!
//! A drain therefore evicts one pod of a group. It prefers the leader, and evicts it in the foreground: the leader's
//! object then stays until the workers are gone. Otherwise the next leader comes while old workers go, and
//! `LeaderWorkerSet` before 0.9 takes their deletion for a failure of the next group (kubernetes-sigs/lws#805).

use std::collections::BTreeSet;

use holdfast_core::model::ObjectKey;
use holdfast_server::Propagation;
use serde_json::Value;

use super::plan::{PodOf, Unit};
use crate::ask::Cluster;

const SET_NAME: &str = "leaderworkerset.sigs.k8s.io/name";
const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
const GROUP_KEY: &str = "leaderworkerset.sigs.k8s.io/group-key";
const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// A group of a `LeaderWorkerSet`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    set: ObjectKey,
    index: String,
}

impl Group {
    /// The group that a pod's labels name.
    pub fn of(cluster: &Cluster, pod: &ObjectKey) -> Option<Self> {
        let labels = &cluster.pod(pod)?["metadata"]["labels"];
        // LeaderWorkerSet sets all of these labels. A pod without one of them was not made by it.
        labels[GROUP_KEY].as_str()?;
        let set = ObjectKey::new(&pod.namespace, labels[SET_NAME].as_str()?);
        Some(Self { set, index: labels[GROUP_INDEX].as_str()?.to_owned() })
    }

    /// The name that budgets give to this replica.
    pub fn label(&self) -> String {
        format!("LeaderWorkerSet {} group {}", self.set.name, self.index)
    }
}

pub fn is_leader(pod: &Value) -> bool {
    pod["metadata"]["labels"][WORKER_INDEX] == "0"
}

/// Groups of which a pod is on its way out.
pub fn ending(cluster: &Cluster) -> BTreeSet<Group> {
    let ends = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
    let pods = cluster.pods().filter(|(_, pod)| ends(pod));
    pods.filter_map(|(key, _)| Group::of(cluster, key)).collect()
}

/// Whether the rest of a group goes when one of these pods does: all of them are of one group, and either its
/// `LeaderWorkerSet` recreates groups, or the leader is among them and takes its workers along.
pub fn goes_as_a_whole(cluster: &Cluster, pods: &[&ObjectKey]) -> bool {
    let mut groups = pods.iter().map(|pod| Group::of(cluster, pod));
    let Some(Some(group)) = groups.next() else { return false };
    groups.all(|other| other.as_ref() == Some(&group))
        && (!cluster.keeps_groups(&group.set)
            || pods.iter().filter_map(|pod| cluster.pod(pod)).any(is_leader))
}

/// How to evict a pod of a unit.
pub fn propagation(unit: &Unit, pod: &PodOf) -> Propagation {
    if unit.follows && pod.leader { Propagation::Foreground } else { Propagation::Default }
}

#[cfg(test)]
mod tests {
    use holdfast_core::Config;
    use holdfast_core::model::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::ask::{Builtins, documents};
    use crate::drain::{Choice, DrainPlan, render};

    /// Two groups of three, leader and first worker on node a, the last worker on node b.
    fn objects(policy: Option<&str>) -> Vec<Value> {
        let set = json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
            "metadata": {"name": "serve", "namespace": "ns"},
            "spec": {"replicas": 2,
                "leaderWorkerTemplate": {"size": 3, "restartPolicy": policy}}});
        let pods = (0..6).map(|pod| {
            let (group, worker) = (pod / 3, pod % 3);
            let node = if worker == 2 { "b" } else { "a" };
            // So that the leader is not the first by name.
            let name = format!("serve-{group}-{}", ["leader", "one", "two"][worker]);
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": node},
                "metadata": {"name": name.replace("one", "a-one"), "namespace": "ns", "uid": name,
                    "labels": {"app": "serve", SET_NAME: "serve", GROUP_KEY: group.to_string(),
                        GROUP_INDEX: group.to_string(), WORKER_INDEX: worker.to_string()},
                    "annotations": {"leaderworkerset.sigs.k8s.io/size": "3"},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet",
                        "name": "x", "controller": true, "uid": "x"}]},
                "status": {"phase": "Running",
                    "conditions": [{"type": "Ready", "status": "True"}]}})
        });
        let nodes = ["a", "b"]
            .map(|node| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}));
        [set].into_iter().chain(pods).chain(nodes).collect()
    }

    fn budget() -> Value {
        json!({"apiVersion": "policy.holdfast.dev/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "ns"},
            "spec": {"maxUnavailable": 1, "budgetScope": "Workload",
                "selector": {"matchLabels": {"app": "serve"}}}})
    }

    fn plan(objects: Vec<Value>, nodes: &[&str]) -> DrainPlan {
        let lists = documents::lists(objects, "ns");
        let now = Timestamp::from_secs(1_000);
        let cluster = Cluster::new(Config::default(), lists, now, Builtins::Counted);
        let nodes: Vec<String> = nodes.iter().map(|&node| node.to_owned()).collect();
        DrainPlan::make(&cluster, &nodes, &Choice::default()).0
    }

    /// Whether each group goes as a whole, and its pods with what becomes of their objects.
    fn groups(plan: &DrainPlan) -> Vec<(bool, Vec<(&str, Propagation)>)> {
        let pods = |unit: &'_ Unit| {
            unit.pods
                .iter()
                .map(|pod| (&*pod.name.clone().leak(), propagation(unit, pod)))
                .collect()
        };
        plan.units().map(|unit| (unit.follows, pods(unit))).collect()
    }

    #[test]
    fn the_leader_is_the_first_and_is_evicted_in_the_foreground() {
        use Propagation::{Default, Foreground};
        for objects in [objects(None), [objects(None), vec![budget()]].concat()] {
            let plan = plan(objects, &["a"]);
            let group = |n: usize| {
                let pods = [("leader", Foreground), ("a-one", Default)];
                let pods = pods.map(|(pod, how)| (&*format!("serve-{n}-{pod}").leak(), how));
                (true, pods.to_vec())
            };
            assert_eq!(groups(&plan), [group(0), group(1)]);
            let names: Vec<_> = plan.units().map(|unit| unit.name.as_str()).collect();
            assert_eq!(names, ["LeaderWorkerSet serve group 0", "LeaderWorkerSet serve group 1"]);
            assert!(render(&plan, false).contains("  2, 1 evicted "), "{}", render(&plan, false));
        }
    }

    #[test]
    fn a_worker_takes_the_group_along_unless_the_set_keeps_it() {
        let on_b = |policy: Option<&str>| {
            let plan = plan(objects(policy), &["b"]);
            groups(&plan).iter().map(|(follows, _)| *follows).collect::<Vec<_>>()
        };
        assert_eq!(on_b(Some("RecreateGroupOnPodRestart")), [true, true]);
        assert_eq!(on_b(Some("RecreateGroupAfterStart")), [true, true]);
        assert_eq!(on_b(Some("None")), [false, false]);
        // The leader owns the StatefulSet of its workers, whatever the policy is.
        let whole = plan(objects(Some("None")), &["a", "b"]);
        assert!(groups(&whole).iter().all(|(follows, pods)| *follows && pods.len() == 3));
    }

    #[test]
    fn a_group_ends_with_any_of_its_pods() {
        let mut objects = objects(None);
        objects[3]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(objects[3]["spec"]["nodeName"], "b");
        let plan = plan(objects, &["a"]);
        assert_eq!(plan.units().map(|unit| unit.ends).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn pods_of_two_groups_do_not_go_together() {
        let lists = documents::lists(objects(None), "ns");
        let cluster = Cluster::new(Config::default(), lists, Timestamp(0), Builtins::Counted);
        let keys: Vec<ObjectKey> = cluster.pods().map(|(key, _)| key.clone()).collect();
        let pods: Vec<&ObjectKey> = keys.iter().collect();
        assert!(!goes_as_a_whole(&cluster, &pods));
        assert!(goes_as_a_whole(&cluster, &pods[..3]));
        assert!(!goes_as_a_whole(&cluster, &[]));
        let bare = ObjectKey::new("ns", "bare");
        assert!(!goes_as_a_whole(&cluster, &[&bare, &pods[0].clone()]));
    }
}
