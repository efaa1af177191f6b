//! The kubelets: pods start and end in their own time, and what can go wrong with that.

use std::time::Duration;

use holdfast_core::model::{ObjectKey, Phase, Pod};

use super::agenda::{Task, What};
use super::{Reaction, Span};
use crate::name::Name;
use crate::world::World;

impl World {
    /// Not ready from now on, and ready again after this time.
    pub fn flap(&mut self, pod: impl Name, down: Duration) {
        let key = pod.object_key();
        let Some(pod) = self.truth.pods.get(&key).filter(|pod| pod.ready).cloned() else { return };
        self.store(Pod { ready: false, ..pod });
        self.start_after(&key, down);
        self.settle();
    }

    /// From now on this pod does not go when it should, as with a finalizer that nobody removes.
    pub fn stick(&mut self, pod: impl Name) {
        if let Some(seat) = self.cluster.seats.get_mut(&pod.object_key()) {
            seat.stuck = true;
        }
    }

    /// The pod may go, and does if it should have gone already.
    pub fn unstick(&mut self, pod: impl Name) {
        let key = pod.object_key();
        let Some(seat) = self.cluster.seats.get_mut(&key).filter(|seat| seat.stuck) else { return };
        seat.stuck = false;
        if seat.terminating {
            self.begin_termination(&key);
        }
        self.settle();
    }

    /// Delete as a client does that does not ask the Eviction API: the pod gets its deletion
    /// timestamp, and goes when its kubelet is done. Without a [`crate::Behaviour`] it goes at once.
    pub fn request_delete(&mut self, pod: impl Name) {
        let key = pod.object_key();
        let Some(stored) = self.truth.pods.get(&key).filter(|pod| !pod.terminating).cloned() else {
            return;
        };
        self.store(Pod { terminating: true, ..stored });
        self.settle();
        if !self.cluster.is_alive() {
            self.delete_pod(&key);
        }
    }

    /// The pod's spec changes in place: its kubelet restarts it in its own time.
    pub fn update_in_place(&mut self, pod: impl Name) {
        let key = pod.object_key();
        let Some(stored) = self.truth.pods.get(&key).cloned() else { return };
        self.store(Pod { generation: stored.generation + 1, applied: false, ..stored });
        let after = self.draw(|behaviour| behaviour.grace);
        self.put_down(&key, after, What::Restart);
        self.settle();
    }

    /// The node dies: its pods are not ready any more, and none of them starts or ends.
    pub fn fail_node(&mut self, node: &str) {
        self.cluster.rooms.set_failed(node, true);
        for key in self.pods_on(node) {
            if let Some(pod) = self.truth.pods.get(&key).filter(|pod| pod.ready).cloned() {
                self.store(Pod { ready: false, ..pod });
            }
        }
        self.settle();
    }

    /// The node is back, and so are the pods that still have it.
    pub fn revive_node(&mut self, node: &str) {
        self.cluster.rooms.set_failed(node, false);
        for key in self.pods_on(node) {
            match self.truth.pods.get(&key) {
                Some(pod) if pod.terminating => self.begin_termination(&key),
                Some(pod) if !pod.is_terminal() && !pod.ready => self.begin_start(&key),
                _ => {}
            }
        }
        let name = self.cluster.rooms.known(node);
        self.cluster.reactions.push_back(Reaction::Room(name));
        self.settle();
    }

    /// The node's object is deleted, and its pods with it, without grace.
    pub fn remove_node(&mut self, node: &str) {
        self.cordon(node);
        for key in self.pods_on(node) {
            self.delete_pod(&key);
        }
        self.cluster.rooms.remove(node);
    }

    pub(super) fn begin_start(&mut self, pod: &ObjectKey) {
        let after = self.draw(|behaviour| behaviour.startup);
        self.start_after(pod, after);
    }

    pub(super) fn begin_termination(&mut self, pod: &ObjectKey) {
        let grace = self.draw(|behaviour| behaviour.grace);
        // What runs nowhere has nothing to end.
        if grace.is_zero() || self.node_of(pod).is_none() {
            self.remove(pod);
        } else {
            self.put_down(pod, grace, What::Remove);
        }
    }

    /// What the kubelets were to do by now.
    pub(crate) fn run_agenda(&mut self) {
        let now = self.now();
        while let Some(Task { pod, uid, what }) = self.cluster.agenda.pop_due(now) {
            let Some(stored) = self.truth.pods.get(&pod).filter(|stored| stored.uid == uid) else {
                continue;
            };
            match what {
                What::Start => {
                    let ended = stored.is_terminal() || stored.terminating;
                    if !ended && !self.is_on_failed_node(&pod) {
                        let phase = Phase::Running;
                        self.store(Pod { phase, ready: true, applied: true, ..stored.clone() });
                    }
                }
                What::Restart => {
                    if !stored.is_terminal() && !stored.terminating {
                        self.store(Pod { ready: false, ..stored.clone() });
                        self.begin_start(&pod);
                    }
                }
                What::Remove => self.remove(&pod),
            }
        }
    }

    fn start_after(&mut self, pod: &ObjectKey, after: Duration) {
        self.put_down(pod, after, What::Start);
    }

    fn put_down(&mut self, pod: &ObjectKey, after: Duration, what: What) {
        let Some(seat) = self.cluster.seats.get(pod) else { return };
        let task = Task { pod: pod.clone(), uid: seat.uid.clone(), what };
        let at = self.now() + after;
        self.cluster.agenda.put(at, task);
    }

    /// Only if nothing holds it back; who takes that away removes the pod later.
    fn remove(&mut self, pod: &ObjectKey) {
        let stuck = self.cluster.seats.get(pod).is_none_or(|seat| seat.stuck);
        if !stuck && !self.is_on_failed_node(pod) {
            self.discard::<Pod>(pod);
        }
    }

    fn is_on_failed_node(&self, pod: &ObjectKey) -> bool {
        self.node_of(pod).is_some_and(|node| self.cluster.rooms.is_failed(node))
    }

    fn draw(&mut self, span: impl FnOnce(&super::Behaviour) -> Span) -> Duration {
        let Some(behaviour) = &self.cluster.behaviour else { return Duration::ZERO };
        span(behaviour).draw(&mut self.cluster.random)
    }
}
