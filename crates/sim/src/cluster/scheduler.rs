//! The scheduler: pods go to the emptiest node that can take them, or wait.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use holdfast_core::model::{ObjectKey, Phase};

use super::room::ShapeId;
use crate::world::World;

/// Pods that fit nowhere, by what they need: of those that need the same, only the first has to be
/// tried when there is room somewhere.
#[derive(Debug, Default)]
pub(super) struct Unplaced(BTreeMap<ShapeId, VecDeque<ObjectKey>>);

impl Unplaced {
    pub fn pods(&self) -> impl Iterator<Item = &ObjectKey> {
        self.0.values().flatten()
    }

    pub fn forget(&mut self, pod: &ObjectKey, shape: ShapeId) {
        if let Some(waiting) = self.0.get_mut(&shape) {
            waiting.retain(|other| other != pod);
            if waiting.is_empty() {
                self.0.remove(&shape);
            }
        }
    }
}

impl World {
    pub(super) fn schedule(&mut self, pod: &ObjectKey) {
        let Some(seat) = self.cluster.seats.get(pod).filter(|seat| seat.node.is_none()) else {
            return;
        };
        let shape = seat.shape;
        let queue = self.cluster.unplaced.0.get(&shape);
        // Whoever came before found no room, and none has come since.
        let node = if queue.is_some() { None } else { self.cluster.rooms.choose(shape) };
        match node {
            Some(node) => self.bind(pod, &node),
            None => {
                self.cluster.unplaced.0.entry(shape).or_default().push_back(pod.clone());
            }
        }
    }

    /// Place on this node as many waiting pods as it takes.
    pub(super) fn fill(&mut self, node: &Arc<str>) {
        let shapes: Vec<ShapeId> = self.cluster.unplaced.0.keys().copied().collect();
        for shape in shapes {
            while self.cluster.rooms.fits(node, shape) {
                let waiting = self.cluster.unplaced.0.get_mut(&shape);
                let Some(pod) = waiting.and_then(VecDeque::pop_front) else { break };
                self.bind(&pod, node);
            }
            self.cluster.unplaced.0.retain(|_, waiting| !waiting.is_empty());
        }
    }

    fn bind(&mut self, pod: &ObjectKey, node: &Arc<str>) {
        let still_there = self.truth.pods.get(pod).is_some_and(|p| p.phase == Phase::Pending);
        let Some(seat) = self.cluster.seats.get_mut(pod).filter(|_| still_there) else { return };
        seat.node = Some(node.clone());
        seat.occupy(&mut self.cluster.rooms, pod);
        self.begin_start(pod);
    }
}
