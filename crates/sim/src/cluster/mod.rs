//! The cluster behind the API server: nodes, scheduler, kubelet and workload controllers.
//!
//! ```text
//!   store, discard (world.rs) --> saw, lost --> reactions --> controllers, scheduler, kubelet
//!                                                                |
//!                                       agenda: start, remove, recover, at their own times
//! ```
//!
//! The engine knows nothing of all this. Without a [`Behaviour`] nothing happens by itself: pods are
//! placed where they are put, and go when they are deleted. With one, whatever changes a pod makes
//! the cluster react before the next watch event is delivered.

mod agenda;
mod controllers;
mod kubelet;
mod room;
mod scheduler;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::model::{ObjectKey, Phase, Pod, Timestamp};

use crate::name::Name;
use crate::random::Random;
use crate::world::World;
use agenda::Agenda;
use room::{Rooms, ShapeId};

pub use room::{NodeBuilder, Shape, Taint, Toleration, node};

/// How the cluster behaves by itself.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// From the placement of a pod until it is Running and Ready.
    pub startup: Span,
    /// From the deletion timestamp until the pod is gone.
    pub grace: Span,
    /// Decides names, and where in a span a time falls.
    pub seed: u64,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self { startup: Duration::ZERO.into(), grace: Duration::ZERO.into(), seed: 1 }
    }
}

/// A time that may differ from pod to pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub least: Duration,
    pub most: Duration,
}

impl From<Duration> for Span {
    fn from(always: Duration) -> Self {
        Self { least: always, most: always }
    }
}

impl Span {
    fn draw(self, random: &mut Random) -> Duration {
        let spread = (self.most.saturating_sub(self.least)).as_millis();
        let spread = u64::try_from(spread).unwrap_or(u64::MAX);
        let extra = if spread == 0 { 0 } else { random.draw() % (spread + 1) };
        self.least + Duration::from_millis(extra)
    }
}

#[derive(Debug)]
pub(crate) struct Cluster {
    behaviour: Option<Behaviour>,
    random: Random,
    rooms: Rooms,
    seats: BTreeMap<ObjectKey, Seat>,
    /// Members of `LeaderWorkerSet` groups that are gone and not yet recreated.
    departed: BTreeMap<controllers::LwsGroup, Vec<Departed>>,
    lws_members: BTreeMap<controllers::LwsGroup, BTreeSet<ObjectKey>>,
    /// How many pods each owner has that are there to stay.
    staying: BTreeMap<controllers::OwnerKey, i64>,
    unplaced: scheduler::Unplaced,
    agenda: Agenda,
    reactions: VecDeque<Reaction>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            behaviour: None,
            random: Random::new(Behaviour::default().seed),
            rooms: Rooms::default(),
            seats: BTreeMap::new(),
            departed: BTreeMap::new(),
            lws_members: BTreeMap::new(),
            staying: BTreeMap::new(),
            unplaced: scheduler::Unplaced::default(),
            agenda: Agenda::default(),
            reactions: VecDeque::new(),
        }
    }
}

/// What the cluster knows of a pod beyond its object.
#[derive(Clone, Debug, Default)]
struct Seat {
    uid: String,
    node: Option<Arc<str>>,
    shape: ShapeId,
    /// It takes room on its node: it is there and has not finished.
    charged: bool,
    terminating: bool,
    /// The owner that counts on it.
    counted: Option<controllers::OwnerKey>,
    /// Something holds it back when it should go, as a finalizer does.
    stuck: bool,
}

impl Seat {
    fn occupy(&mut self, rooms: &mut Rooms, pod: &ObjectKey) {
        if let Some(node) = self.node.as_ref().filter(|_| !self.charged) {
            rooms.seat(node, pod);
            rooms.charge(node, self.shape);
            self.charged = true;
        }
    }

    /// It stays on its node, and takes no room any more.
    fn finish(&mut self, rooms: &mut Rooms) {
        if let Some(node) = self.node.as_ref().filter(|_| self.charged) {
            rooms.refund(node, self.shape);
        }
        self.charged = false;
    }

    fn leave(&mut self, rooms: &mut Rooms, pod: &ObjectKey) {
        self.finish(rooms);
        if let Some(node) = &self.node {
            rooms.unseat(node, pod);
        }
    }

    fn count(
        &mut self,
        staying: &mut BTreeMap<controllers::OwnerKey, i64>,
        owner: Option<controllers::OwnerKey>,
    ) {
        if self.counted == owner {
            return;
        }
        if let Some(count) = self.counted.as_ref().and_then(|owner| staying.get_mut(owner)) {
            *count -= 1;
        }
        if let Some(owner) = owner.clone() {
            *staying.entry(owner).or_default() += 1;
        }
        self.counted = owner;
    }
}

/// A pod that is gone, and what its successor needs.
#[derive(Clone, Debug)]
struct Departed {
    pod: Pod,
    shape: ShapeId,
}

/// What somebody in the cluster has to act upon.
#[derive(Debug)]
enum Reaction {
    /// There is a new pod.
    Arrived(ObjectKey),
    /// A pod got its deletion timestamp.
    Terminating(ObjectKey),
    Gone(Box<Departed>),
    /// This node may have room that it had not.
    Room(Arc<str>),
}

impl Cluster {
    /// Where the next pod of this name goes, and what it needs.
    pub fn assign(&mut self, pod: &ObjectKey, node: Option<&str>, shape: Shape) {
        let shape = self.rooms.intern(shape);
        let node = node.map(|node| {
            let node = self.rooms.known(node);
            self.reactions.push_back(Reaction::Room(node.clone()));
            node
        });
        let seat = self.seats.entry(pod.clone()).or_default();
        if node.is_some() && seat.node != node || seat.shape != shape {
            seat.leave(&mut self.rooms, pod);
            seat.shape = shape;
            seat.node = node.or(seat.node.take());
        }
    }

    /// To be called with every state of a pod that is stored.
    pub fn saw(&mut self, pod: &Pod) {
        let seat = self.seats.entry(pod.key.clone()).or_default();
        if seat.uid != pod.uid {
            seat.uid.clone_from(&pod.uid);
            seat.terminating = false;
            if let Some(group) = controllers::lws_group(pod) {
                self.lws_members.entry(group).or_default().insert(pod.key.clone());
            }
            self.reactions.push_back(Reaction::Arrived(pod.key.clone()));
        }
        let stays = !pod.terminating && !pod.is_terminal();
        seat.count(&mut self.staying, controllers::owner_key(pod).filter(|_| stays));
        if pod.is_terminal() && seat.charged {
            seat.finish(&mut self.rooms);
            self.reactions.extend(seat.node.clone().map(Reaction::Room));
        } else if !pod.is_terminal() {
            seat.occupy(&mut self.rooms, &pod.key);
        }
        if pod.terminating && !seat.terminating {
            seat.terminating = true;
            self.reactions.push_back(Reaction::Terminating(pod.key.clone()));
        }
    }

    /// To be called with the last state of every pod that goes.
    pub fn lost(&mut self, pod: &Pod) {
        let Some(mut seat) = self.seats.remove(&pod.key) else { return };
        let group = controllers::lws_group(pod).filter(|_| self.is_alive());
        if let Some(group) = &group
            && let Some(members) = self.lws_members.get_mut(group)
        {
            members.remove(&pod.key);
            if members.is_empty() {
                self.lws_members.remove(group);
            }
        }
        seat.count(&mut self.staying, None);
        seat.leave(&mut self.rooms, &pod.key);
        let departed = Departed { pod: pod.clone(), shape: seat.shape };
        if let Some(group) = group {
            self.departed.entry(group).or_default().push(departed.clone());
        }
        match seat.node {
            Some(node) => self.reactions.push_back(Reaction::Room(node)),
            None => self.unplaced.forget(&pod.key, seat.shape),
        }
        self.reactions.push_back(Reaction::Gone(Box::new(departed)));
    }

    pub fn is_alive(&self) -> bool {
        self.behaviour.is_some()
    }

    pub fn next_due(&self) -> Option<Timestamp> {
        self.agenda.next_due()
    }
}

impl World {
    /// From now on the cluster lives: pods are scheduled, start, terminate and are replaced by their
    /// controllers. Pods that are there already are taken up as they stand.
    pub fn behave(&mut self, behaviour: Behaviour) {
        self.cluster.random = Random::new(behaviour.seed);
        self.cluster.behaviour = Some(behaviour);
        // What nobody acted upon while the cluster was dead is past.
        self.cluster.reactions.clear();
        for pod in self.truth.pods.values() {
            let key = pod.key.clone();
            let reaction = if pod.terminating { Reaction::Terminating } else { Reaction::Arrived };
            self.cluster.reactions.push_back(reaction(key));
        }
        self.settle();
    }

    /// From now on a removed pod that has a controller comes back, and is ready after this time.
    pub fn recover_after(&mut self, startup: Duration) {
        self.behave(Behaviour { startup: startup.into(), ..Behaviour::default() });
    }

    /// A node with room for everything; naming one in a pod adds it too.
    pub fn add_node(&mut self, name: &str) {
        self.apply_node(node(name));
    }

    /// Add the node, or replace all of it but the pods that run there.
    pub fn apply_node(&mut self, node: NodeBuilder) {
        let name = self.cluster.rooms.apply(node);
        self.cluster.reactions.push_back(Reaction::Room(name));
        self.settle();
    }

    /// No new pods on this node.
    pub fn cordon(&mut self, node: &str) {
        self.cluster.rooms.set_cordoned(node, true);
    }

    pub fn uncordon(&mut self, node: &str) {
        self.cluster.rooms.set_cordoned(node, false);
        self.cluster.reactions.push_back(Reaction::Room(self.cluster.rooms.known(node)));
        self.settle();
    }

    /// The pods on this node, in the order of their keys, finished ones too.
    pub fn pods_on(&self, node: &str) -> Vec<ObjectKey> {
        self.cluster.rooms.pods_on(node).cloned().collect()
    }

    pub fn node_of(&self, pod: impl Name) -> Option<&str> {
        self.cluster.seats.get(&pod.object_key())?.node.as_deref()
    }

    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.cluster.rooms.names()
    }

    /// Whether a pod is starting or ending.
    pub fn is_busy(&self) -> bool {
        self.cluster.next_due().is_some()
    }

    /// The node that the scheduler would give to such a pod now.
    pub fn choose_node(&mut self, shape: &Shape) -> Option<String> {
        let shape = self.cluster.rooms.intern(shape.clone());
        self.cluster.rooms.choose(shape).map(|node| node.to_string())
    }

    /// Pods that fit nowhere, and wait.
    pub fn unplaced(&self) -> impl Iterator<Item = &ObjectKey> {
        self.cluster.unplaced.pods()
    }

    /// Let scheduler, kubelet and controllers do what the last changes ask of them.
    pub(crate) fn react(&mut self) {
        while let Some(reaction) = self.cluster.reactions.pop_front() {
            if !self.cluster.is_alive() {
                continue;
            }
            match reaction {
                Reaction::Arrived(pod) => self.take_up(&pod),
                Reaction::Room(node) => self.fill(&node),
                Reaction::Terminating(pod) => {
                    self.replace_terminating(&pod);
                    self.begin_termination(&pod);
                }
                Reaction::Gone(departed) => self.replace_gone(*departed),
            }
        }
    }

    fn take_up(&mut self, pod: &ObjectKey) {
        let pending = self.truth.pods.get(pod).is_some_and(|pod| pod.phase == Phase::Pending);
        let Some(seat) = self.cluster.seats.get(pod).filter(|_| pending) else { return };
        match seat.node {
            Some(_) => self.begin_start(pod),
            None => self.schedule(pod),
        }
    }
}
