//! Nodes, what they can take, and what pods ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_core::model::ObjectKey;

/// A node with room for everything, without labels or taints.
pub fn node(name: &str) -> NodeBuilder {
    NodeBuilder { name: name.to_owned(), ..NodeBuilder::default() }
}

#[derive(Clone, Debug, Default)]
#[must_use]
pub struct NodeBuilder {
    name: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    cordoned: bool,
    room: Option<BTreeMap<String, i64>>,
}

impl NodeBuilder {
    /// So much of a resource, in whatever unit the pods ask for it; `pods` counts pods. A node that
    /// says how much it has of anything has nothing of what it does not name.
    pub fn room(mut self, resource: &str, amount: i64) -> Self {
        self.room.get_or_insert_default().insert(resource.to_owned(), amount);
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    pub fn taint(mut self, taint: Taint) -> Self {
        self.taints.push(taint);
        self
    }

    pub fn cordoned(mut self, cordoned: bool) -> Self {
        self.cordoned = cordoned;
        self
    }
}

/// A taint that keeps pods away: effect `NoSchedule` or `NoExecute`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

/// As in a pod's spec, with what is absent left empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    /// Empty tolerates every key.
    pub key: String,
    /// None means whatever the value (`operator: Exists`).
    pub value: Option<String>,
    /// Empty tolerates every effect.
    pub effect: String,
}

impl Toleration {
    fn covers(&self, taint: &Taint) -> bool {
        (self.key.is_empty() || self.key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && (self.effect.is_empty() || self.effect == taint.effect)
    }
}

/// What the scheduler looks at in a pod. Most pods of a workload share one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    pub requests: BTreeMap<String, i64>,
    pub node_selector: BTreeMap<String, String>,
    pub tolerations: Vec<Toleration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShapeId(usize);

/// All nodes. Those that take pods are kept in the order in which the scheduler prefers them.
#[derive(Debug)]
pub(super) struct Rooms {
    nodes: BTreeMap<Arc<str>, Room>,
    /// Number of pods, and node.
    open: BTreeSet<(usize, Arc<str>)>,
    shapes: Vec<Shape>,
    shape_ids: BTreeMap<Shape, ShapeId>,
}

#[derive(Debug, Default)]
struct Room {
    spec: NodeBuilder,
    /// Its kubelet does nothing any more.
    failed: bool,
    /// Wider than a request, so that no sum of requests overflows.
    used: BTreeMap<String, i128>,
    /// Pods that take room; the others have finished.
    running: i64,
    pods: BTreeSet<ObjectKey>,
}

impl Default for Rooms {
    fn default() -> Self {
        let plain = Shape::default();
        Self {
            nodes: BTreeMap::new(),
            open: BTreeSet::new(),
            shapes: vec![plain.clone()],
            shape_ids: BTreeMap::from([(plain, ShapeId(0))]),
        }
    }
}

impl Rooms {
    pub fn intern(&mut self, shape: Shape) -> ShapeId {
        let shapes = &mut self.shapes;
        *self.shape_ids.entry(shape).or_insert_with_key(|shape| {
            shapes.push(shape.clone());
            ShapeId(shapes.len() - 1)
        })
    }

    /// The node of this name, which is added if there is none.
    pub fn known(&mut self, name: &str) -> Arc<str> {
        if let Some((name, _)) = self.nodes.get_key_value(name) {
            return name.clone();
        }
        self.apply(node(name))
    }

    pub fn apply(&mut self, spec: NodeBuilder) -> Arc<str> {
        let name: Arc<str> = Arc::from(spec.name.as_str());
        self.change(&name, |room| room.spec = spec);
        name
    }

    pub fn remove(&mut self, name: &str) {
        if let Some(room) = self.nodes.remove(name) {
            self.open.remove(&(room.pods.len(), Arc::from(name)));
        }
    }

    pub fn set_cordoned(&mut self, name: &str, cordoned: bool) {
        let name = self.known(name);
        self.change(&name, |room| room.spec.cordoned = cordoned);
    }

    pub fn set_failed(&mut self, name: &str, failed: bool) {
        let name = self.known(name);
        self.change(&name, |room| room.failed = failed);
    }

    pub fn is_failed(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|room| room.failed)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(|name| &**name)
    }

    pub fn pods_on(&self, name: &str) -> impl Iterator<Item = &ObjectKey> {
        self.nodes.get(name).into_iter().flat_map(|room| &room.pods)
    }

    pub fn seat(&mut self, name: &Arc<str>, pod: &ObjectKey) {
        self.change(name, |room| room.pods.insert(pod.clone()));
    }

    pub fn unseat(&mut self, name: &Arc<str>, pod: &ObjectKey) {
        if self.nodes.contains_key(name) {
            self.change(name, |room| room.pods.remove(pod));
        }
    }

    pub fn charge(&mut self, name: &Arc<str>, shape: ShapeId) {
        if let Some(room) = self.nodes.get_mut(name) {
            room.running += 1;
            for (resource, amount) in &self.shapes[shape.0].requests {
                *room.used.entry(resource.clone()).or_default() += i128::from(*amount);
            }
        }
    }

    pub fn refund(&mut self, name: &Arc<str>, shape: ShapeId) {
        if let Some(room) = self.nodes.get_mut(name) {
            room.running -= 1;
            for (resource, amount) in &self.shapes[shape.0].requests {
                *room.used.entry(resource.clone()).or_default() -= i128::from(*amount);
            }
        }
    }

    /// The emptiest node that takes such a pod; of equals the first by name.
    pub fn choose(&self, shape: ShapeId) -> Option<Arc<str>> {
        let mut open = self.open.iter().map(|(_, name)| name);
        open.find(|name| self.fits(name, shape)).cloned()
    }

    pub fn fits(&self, name: &str, shape: ShapeId) -> bool {
        let shape = &self.shapes[shape.0];
        self.nodes.get(name).is_some_and(|room| room.is_open() && room.fits(shape))
    }

    fn change<T>(&mut self, name: &Arc<str>, change: impl FnOnce(&mut Room) -> T) {
        let room = self.nodes.entry(name.clone()).or_default();
        self.open.remove(&(room.pods.len(), name.clone()));
        change(room);
        if room.is_open() {
            self.open.insert((room.pods.len(), name.clone()));
        }
    }
}

impl Room {
    fn is_open(&self) -> bool {
        !self.spec.cordoned && !self.failed
    }

    fn fits(&self, shape: &Shape) -> bool {
        let labelled = |(key, value): (&String, &String)| self.spec.labels.get(key) == Some(value);
        let tolerated = |taint: &Taint| shape.tolerations.iter().any(|t| t.covers(taint));
        shape.node_selector.iter().all(labelled)
            && self.spec.taints.iter().all(tolerated)
            && self.spec.room.as_ref().is_none_or(|room| self.has_room(room, shape))
    }

    fn has_room(&self, room: &BTreeMap<String, i64>, shape: &Shape) -> bool {
        let used = |resource: &str| self.used.get(resource).copied().unwrap_or_default();
        room.get("pods").is_none_or(|most| self.running < *most)
            && shape.requests.iter().all(|(resource, amount)| {
                let room = room.get(resource).copied().unwrap_or_default();
                i128::from(*amount) <= i128::from(room) - used(resource)
            })
    }
}
