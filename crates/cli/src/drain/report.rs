//! A plan, as `-o json` has it and `holdfast drain --plan` reads it: fields are added, never changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_api::gang::{self, Object};
use holdfast_core::gang::{Kind, Pod, Settings, World};
use holdfast_core::model::{GroupApi, ObjectKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::choose::{Choice, Chosen};
use super::plan::{Planner, Unit, Wave};
use super::units::units;
use crate::ask::Cluster;

pub const SCHEMA_VERSION: u32 = 1;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainPlan {
    pub schema_version: u32,
    /// As asked for.
    pub nodes: Vec<String>,
    pub waves: Vec<Wave>,
    /// What never goes as things are.
    pub blocked: Vec<Blocked>,
    /// Budgets that let nothing go until something recovers, and what they say. The waves take it that it does.
    pub waiting: BTreeMap<String, String>,
    /// Nodes that are not drained without a flag, and what kubectl says to it.
    pub refused: BTreeMap<String, String>,
    /// Pods that find no place on the other nodes, by an estimate.
    pub pods_without_room: usize,
    /// None: nothing is known of how long replicas take to come back.
    pub estimated_seconds: Option<u64>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    pub unit: Unit,
    pub reason: String,
}

impl DrainPlan {
    /// And what is to be said of each node's pods.
    pub fn make(
        cluster: &Cluster,
        nodes: &[String],
        choice: &Choice,
    ) -> (Self, BTreeMap<String, Chosen>) {
        let choose = |node: &String| (node.clone(), choice.choose(cluster.pods_on(node)));
        let chosen: BTreeMap<String, Chosen> = nodes.iter().map(choose).collect();
        let refused: BTreeMap<String, String> = chosen
            .iter()
            .filter_map(|(node, chosen)| Some((node.clone(), chosen.refusal()?)))
            .collect();
        let drained: Vec<String> =
            nodes.iter().filter(|node| !refused.contains_key(*node)).cloned().collect();
        let evicted: Vec<ObjectKey> =
            drained.iter().flat_map(|node| chosen[node].evicted.clone()).collect();
        let units = units(cluster, &evicted);
        let blocked = |(unit, reason)| Blocked { unit, reason };
        let blocked: Vec<Blocked> = units.stuck.into_iter().map(blocked).collect();
        let unknown = units.free.iter().any(|unit| unit.is_charged() && unit.recovery.is_none());
        let (waves, takes) = Planner::new(drained, units.free, units.room).run();
        let held = |node: &String| blocked.iter().any(|blocked| blocked.unit.is_on(node));
        let mut plan = Self {
            schema_version: SCHEMA_VERSION,
            nodes: nodes.to_vec(),
            waves,
            waiting: units.waiting,
            refused,
            pods_without_room: without_room(cluster, nodes, &evicted),
            estimated_seconds: (!unknown).then(|| rounded(takes)),
            blocked: Vec::new(),
        };
        for wave in &mut plan.waves {
            wave.nodes_done.retain(|node| !held(node));
        }
        plan.blocked = blocked;
        (plan, chosen)
    }

    /// Whether it empties every node.
    pub fn is_complete(&self) -> bool {
        self.blocked.is_empty() && self.refused.is_empty()
    }

    /// Whether it gets somewhere, and in the end everywhere.
    pub fn can_be_drained(&self) -> bool {
        self.is_complete() && self.has_room_for_some()
    }

    /// Whether the other nodes have a place for at least one of the pods, by the same estimate.
    pub fn has_room_for_some(&self) -> bool {
        let pods: usize = self.units().map(|unit| unit.pods.len()).sum();
        self.pods_without_room == 0 || self.pods_without_room < pods
    }

    /// In the order in which they go; those that are blocked last, for whoever mends it meanwhile.
    pub fn units(&self) -> impl Iterator<Item = &Unit> {
        let blocked = self.blocked.iter().map(|blocked| &blocked.unit);
        self.waves.iter().flat_map(|wave| &wave.units).chain(blocked)
    }

    /// Replicas that break, each once.
    pub fn broken(&self) -> usize {
        let units = self.waves.iter().flat_map(|wave| &wave.units);
        units.filter(|unit| unit.replica && unit.is_charged()).count()
    }

    pub fn pods(&self) -> usize {
        self.waves.iter().flat_map(|wave| &wave.units).map(|unit| unit.pods.len()).sum()
    }
}

fn rounded(time: Duration) -> u64 {
    time.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)
}

/// By the rules that gangs are started by. Pods without a controller do not come back.
fn without_room(cluster: &Cluster, nodes: &[String], evicted: &[ObjectKey]) -> usize {
    // Of a cluster whose nodes are not known nothing is known of room.
    if cluster.nodes().next().is_none() {
        return 0;
    }
    let settings =
        Settings { api: GroupApi::Kubernetes, timeout: Duration::ZERO, room_wait: Duration::ZERO };
    let mut world = World::new(settings);
    let read = |kind: &Kind, object: &Value| {
        gang::decode(kind, GroupApi::Kubernetes, "v1", object.to_string().as_bytes()).ok()
    };
    for (_, node) in cluster.nodes() {
        if let Some(node) = read(&Kind::Node, node) {
            world.see(node.applied());
        }
    }
    let evicted: BTreeSet<&ObjectKey> = evicted.iter().collect();
    let mut moving: Vec<Pod> = Vec::new();
    for (key, object) in cluster.pods() {
        match read(&Kind::Pod, object) {
            Some(Object::Pod(pod)) if evicted.contains(key) => {
                moving.extend((pod.controller.is_some() && !pod.finished).then_some(pod));
            }
            Some(pod) => world.see(pod.applied()),
            None => {}
        }
    }
    let leaving: BTreeSet<String> = nodes.iter().cloned().collect();
    moving.len() - world.room_elsewhere(&moving, &leaving).min(moving.len())
}
