//! Where pods run, and how lost ones come back.
//!
//! The engine knows nothing of nodes. The world does, so that a drain can empty one and so that
//! replacements land somewhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_core::model::{ObjectKey, Phase, Pod, Timestamp};

use crate::name::Name;
use crate::world::World;

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    cordoned: BTreeMap<String, bool>,
    placed: BTreeMap<ObjectKey, String>,
    recovery: Option<Duration>,
    /// Time, pod and uid: a replacement that was itself replaced must not start.
    starting: BTreeSet<(Timestamp, ObjectKey, String)>,
}

impl Nodes {
    pub fn place(&mut self, pod: &ObjectKey, node: String) {
        self.cordoned.entry(node.clone()).or_insert(false);
        self.placed.insert(pod.clone(), node);
    }

    pub fn next_start(&self) -> Option<Timestamp> {
        self.starting.first().map(|(at, _, _)| *at)
    }

    /// The emptiest node that takes pods; of equals the first by name.
    fn choose(&self) -> Option<String> {
        let open = self.cordoned.iter().filter(|(_, cordoned)| !**cordoned).map(|(node, _)| node);
        let load = |node: &String| self.placed.values().filter(|on| *on == node).count();
        open.min_by_key(|node| load(node)).cloned()
    }
}

impl World {
    /// A node that may be empty; naming one in a pod adds it too.
    pub fn add_node(&mut self, node: &str) {
        self.nodes.cordoned.entry(node.to_owned()).or_insert(false);
    }

    /// No new pods on this node.
    pub fn cordon(&mut self, node: &str) {
        self.nodes.cordoned.insert(node.to_owned(), true);
    }

    /// The pods that run on this node, in the order of their keys.
    pub fn pods_on(&self, node: &str) -> Vec<ObjectKey> {
        let here = self.nodes.placed.iter().filter(|(_, on)| *on == node);
        here.map(|(pod, _)| pod.clone()).collect()
    }

    pub fn node_of(&self, pod: impl Name) -> Option<&str> {
        self.nodes.placed.get(&pod.object_key()).map(String::as_str)
    }

    /// From now on a removed pod that has a controller is recreated at once under its own name, as a
    /// `StatefulSet` does, pending on the emptiest open node, and is ready after this time.
    pub fn recover_after(&mut self, startup: Duration) {
        self.nodes.recovery = Some(startup);
    }

    /// To be called with the last state of every pod that goes.
    pub(crate) fn replace(&mut self, gone: Pod) {
        self.nodes.placed.remove(&gone.key);
        let (Some(startup), Some(_)) = (self.nodes.recovery, &gone.controller) else { return };
        let successor = self.store(Pod {
            phase: Phase::Pending,
            ready: false,
            terminating: false,
            disruption_target: None,
            ..gone
        });
        if let Some(node) = self.nodes.choose() {
            self.nodes.place(&successor.key, node);
            let ready_at = self.now() + startup;
            self.nodes.starting.insert((ready_at, successor.key, successor.uid));
        }
    }

    pub(crate) fn finish_starting_pods(&mut self) {
        let now = self.now();
        while let Some((at, key, uid)) = self.nodes.starting.pop_first() {
            if at > now {
                self.nodes.starting.insert((at, key, uid));
                return;
            }
            let stored = self.truth.pods.get(&key).filter(|pod| pod.uid == uid).cloned();
            if let Some(pod) = stored {
                self.store(Pod { phase: Phase::Running, ready: true, ..pod });
            }
        }
    }
}
