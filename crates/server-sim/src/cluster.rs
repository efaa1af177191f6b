//! Controllers and kubelets: pods end, are created again, and become ready.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::objects::{
    self, NAMESPACE, is_ready, is_terminating, leaders, make_ready, owner, pod, pod_group, workers,
};
use crate::params::{Shape, Workload};
use crate::resources::{BUDGETS, LEADER_WORKER_SETS, POD_GROUPS, PODS, STATEFUL_SETS};
use crate::world::{Sim, World};

/// How often controllers and kubelets look.
const TICK_MS: u64 = 250;

#[derive(Debug, Default)]
pub struct Cluster {
    /// When the next step of a pod, or of a whole group, is due.
    due: BTreeMap<String, u64>,
}

impl Cluster {
    /// Everything that is there before Holdfast starts, with all pods ready.
    pub fn create(world: &mut World) {
        for workload in world.params.workloads.clone() {
            create_owners(world, &workload);
            for replica in 0..workload.replicas {
                create_replica(world, &workload, replica);
            }
            if let Some(spec) = &workload.budget {
                world.create(&BUDGETS, objects::budget(workload.name, spec));
            }
        }
        for name in world.params.pods() {
            world.modify(&PODS, NAMESPACE, &name, make_ready);
        }
    }

    /// Runs until the simulation ends.
    pub async fn run(mut self, sim: Sim) {
        loop {
            sim.sleep(TICK_MS).await;
            let mut world = sim.world();
            for workload in world.params.workloads.clone() {
                self.tick(&mut world, &workload);
            }
        }
    }

    fn tick(&mut self, world: &mut World, workload: &Workload) {
        for replica in 0..workload.replicas {
            let names = workload.pods_of(replica);
            for name in &names {
                self.kubelet(world, name);
            }
            if workload.shape == Shape::LeaderWorkerSet {
                self.recreate_group(world, workload, replica, &names);
            } else {
                for name in &names {
                    let missing = world.store.get(&PODS, NAMESPACE, name).is_none();
                    if self.is_due(world, &format!("{name}/create"), missing, 300, 3000) {
                        create_pod(world, workload, replica, name, workload.name);
                    }
                }
            }
        }
    }

    /// Removes a pod that ends, and starts a pod that was created.
    fn kubelet(&mut self, world: &mut World, name: &str) {
        let Some(pod) = world.store.get(&PODS, NAMESPACE, name).cloned() else { return };
        let (ending, pending) = (is_terminating(&pod), pod["status"]["phase"] == "Pending");
        if self.is_due(world, &format!("{name}/end"), ending, 200, 4000) {
            world.delete(&PODS, NAMESPACE, name);
        } else if self.is_due(world, &format!("{name}/start"), pending && !ending, 300, 5000) {
            world.modify(&PODS, NAMESPACE, name, make_ready);
        }
    }

    /// A group that has lost a pod is deleted as a whole, and created again when all of it is gone.
    fn recreate_group(
        &mut self,
        world: &mut World,
        workload: &Workload,
        replica: usize,
        names: &[String],
    ) {
        let pods: Vec<Option<Arc<Value>>> =
            names.iter().map(|name| world.store.get(&PODS, NAMESPACE, name).cloned()).collect();
        let group = format!("{}-{replica}", workload.name);
        let gone = pods.iter().all(Option::is_none);
        if self.is_due(world, &format!("{group}/recreate"), gone, 300, 3000) {
            create_replica(world, workload, replica);
            return;
        }
        let whole = pods.iter().all(|pod| pod.as_ref().is_some_and(|pod| !is_terminating(pod)));
        if self.is_due(world, &format!("{group}/break"), !whole && !gone, 100, 1500) {
            world.delete(&STATEFUL_SETS, NAMESPACE, &group);
            for pod in pods.iter().flatten().filter(|pod| !is_terminating(pod)) {
                end_pod(world, pod["metadata"]["name"].as_str().unwrap_or_default());
            }
        }
    }

    /// Whether this has been wanted for a while.
    fn is_due(&mut self, world: &mut World, what: &str, wanted: bool, low: u64, high: u64) -> bool {
        if !wanted {
            self.due.remove(what);
            return false;
        }
        let now = world.now();
        let due = match self.due.get(what) {
            Some(due) => *due,
            None => now + world.draw(low, high),
        };
        self.due.insert(what.to_owned(), due);
        if now < due {
            return false;
        }
        self.due.remove(what);
        true
    }
}

/// Begins the graceful deletion of a pod.
pub fn end_pod(world: &mut World, name: &str) {
    let time = world.timestamp();
    world.modify(&PODS, NAMESPACE, name, |pod| {
        pod["metadata"]["deletionTimestamp"] = json!(time);
    });
}

/// Whether every pod is there and ready.
pub fn is_whole(world: &World) -> bool {
    let is_up = |name: &String| {
        let pod = world.store.get(&PODS, NAMESPACE, name);
        pod.is_some_and(|pod| is_ready(pod) && !is_terminating(pod))
    };
    world.params.pods().iter().all(is_up)
}

fn create_owners(world: &mut World, workload: &Workload) {
    if workload.shape == Shape::LeaderWorkerSet {
        let set = world.create(&LEADER_WORKER_SETS, owner(workload));
        world.create(&STATEFUL_SETS, leaders(&set, workload));
        return;
    }
    let set = world.create(&STATEFUL_SETS, owner(workload));
    if workload.shape == Shape::PodGroups {
        for replica in 0..workload.replicas {
            world.create(&POD_GROUPS, pod_group(workload, replica, &set));
        }
    }
}

fn create_replica(world: &mut World, workload: &Workload, replica: usize) {
    let names = workload.pods_of(replica);
    if workload.shape != Shape::LeaderWorkerSet {
        for name in names {
            create_pod(world, workload, replica, &name, workload.name);
        }
        return;
    }
    let Some((leader, rest)) = names.split_first() else { return };
    create_pod(world, workload, replica, leader, workload.name);
    if let Some(created) = world.store.get(&PODS, NAMESPACE, leader).cloned()
        && !rest.is_empty()
    {
        world.create(&STATEFUL_SETS, workers(&created));
        for name in rest {
            create_pod(world, workload, replica, name, leader);
        }
    }
}

fn create_pod(world: &mut World, workload: &Workload, replica: usize, name: &str, set: &str) {
    if let Some(set) = world.store.get(&STATEFUL_SETS, NAMESPACE, set).cloned() {
        world.create(&PODS, pod(workload, replica, name, &set));
    }
}
