//! Whether there is room for a gang: allocatable less what is requested, taints, node selectors, required
//! node affinity and host ports. An estimate: the scheduler also looks at pod affinity, spreading,
//! volumes and devices.
//!
//! Pods of the same *shape* (requests and constraints) are alike. For one shape the room is a number,
//! its *slots*, and however the scheduler goes about it, that many pods will find a place. A pod of another
//! shape that goes anywhere takes at most so many slots with it ([`cost`]): gangs go at the same time
//! only if there is room for all of them wherever each pod ends up.

use std::collections::{BTreeMap, BTreeSet};

use super::model::HostPort;
use super::world::{Place, World};
use super::{
    Constraints, Node, NodeTerm, Pod, Requirement, Resources, Taint, TaintEffect, Test, Toleration,
    TolerationTest,
};

pub(super) struct Room<'a> {
    places: Vec<Free<'a>>,
    shapes: Vec<Shape<'a>>,
    /// Pods by shape that have yet to find a place.
    demand: BTreeMap<usize, i64>,
    /// Shapes of the gang that has waited for long: nobody goes before it where these may go.
    head: Option<BTreeSet<usize>>,
}

#[derive(Clone)]
struct Free<'a> {
    node: &'a Node,
    left: Resources,
    ports: Vec<&'a HostPort>,
}

struct Shape<'a> {
    requests: &'a Resources,
    constraints: &'a Constraints,
    /// Places where such a pod may be, if they had room.
    eligible: Vec<bool>,
    slots: i64,
}

/// What there is for a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fits,
    /// It may fit once others have found their places.
    Contended,
    /// There is room for so many of its pods.
    NoRoom(i64),
}

impl<'a> Room<'a> {
    pub(super) fn new(places: impl Iterator<Item = &'a Place>) -> Self {
        let places = places.filter_map(|place| {
            let node = place.node.as_ref().filter(|node| !node.terminating)?;
            let mut left = node.allocatable.clone();
            for (resource, used) in &place.used {
                if let Some(left) = left.get_mut(resource) {
                    *left = left.saturating_sub(*used);
                }
            }
            Some(Free { node, left, ports: place.ports.iter().collect() })
        });
        Self { places: places.collect(), shapes: Vec::new(), demand: BTreeMap::new(), head: None }
    }

    /// A pod that is on its way to a place.
    pub(super) fn expect(&mut self, pod: &'a Pod) {
        let shape = self.shape(pod);
        *self.demand.entry(shape).or_default() += 1;
    }

    /// Whether there is a place for it, were it alone.
    pub(super) fn has_place(&mut self, pod: &'a Pod) -> bool {
        let shape = self.shape(pod);
        self.shapes[shape].slots > 0
    }

    pub(super) fn expect_all(&mut self, pods: &[&'a Pod]) {
        for pod in pods {
            self.expect(pod);
        }
    }

    pub(super) fn verdict(&mut self, pods: &[&'a Pod]) -> Verdict {
        let mut wanted: BTreeMap<usize, i64> = BTreeMap::new();
        for pod in pods {
            *wanted.entry(self.shape(pod)).or_default() += 1;
        }
        let others: Vec<usize> = self.demand.keys().copied().collect();
        let contending: Vec<usize> = others
            .into_iter()
            .filter(|other| wanted.keys().any(|shape| self.contend(*shape, *other)))
            .collect();
        if contending.is_empty() {
            let fitting = self.fitting(&wanted);
            let all = pods.len().try_into().unwrap_or(i64::MAX);
            return if fitting >= all { Verdict::Fits } else { Verdict::NoRoom(fitting) };
        }
        let mut together = self.demand.clone();
        for (shape, count) in &wanted {
            *together.entry(*shape).or_default() += count;
        }
        let mut concerned = contending;
        concerned.extend(wanted.keys());
        let enough = concerned.into_iter().all(|shape| {
            let needed = together.iter().map(|(other, count)| {
                if !self.contend(shape, *other) {
                    return 0;
                }
                count
                    .saturating_mul(cost(self.shapes[*other].requests, self.shapes[shape].requests))
            });
            self.shapes[shape].slots >= needed.fold(0, i64::saturating_add)
        });
        if enough { Verdict::Fits } else { Verdict::Contended }
    }

    /// Whether any of these pods may want a place that one on its way may want.
    pub(super) fn is_contended(&mut self, pods: &[&'a Pod]) -> bool {
        let shapes = self.shapes_of(pods);
        self.demand.keys().any(|other| shapes.iter().any(|shape| self.contend(*shape, *other)))
    }

    pub(super) fn keep_for(&mut self, head: &[&'a Pod]) {
        self.head = Some(self.shapes_of(head));
    }

    pub(super) fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Whether any of these pods may want a place that is kept for the head.
    pub(super) fn is_kept_from(&mut self, pods: &[&'a Pod]) -> bool {
        let shapes = self.shapes_of(pods);
        let mut head = self.head.iter().flatten();
        head.any(|other| shapes.iter().any(|shape| self.contend(*shape, *other)))
    }

    fn shapes_of(&mut self, pods: &[&'a Pod]) -> BTreeSet<usize> {
        pods.iter().map(|pod| self.shape(pod)).collect()
    }

    /// How many of these there is room for, the larger ones first.
    fn fitting(&self, wanted: &BTreeMap<usize, i64>) -> i64 {
        if let Some((shape, count)) = wanted.first_key_value()
            && wanted.len() == 1
        {
            return self.shapes[*shape].slots.min(*count);
        }
        let mut shapes: Vec<usize> = wanted.keys().copied().collect();
        shapes.sort_by(|a, b| {
            let (a, b) = (self.shapes[*a].requests, self.shapes[*b].requests);
            cost(b, a).cmp(&cost(a, b))
        });
        let mut places = self.places.clone();
        let mut fitting = 0;
        for shape in shapes {
            let Shape { requests, constraints, eligible, .. } = &self.shapes[shape];
            let mut rest = wanted[&shape];
            for (place, _) in places.iter_mut().zip(eligible).filter(|(_, eligible)| **eligible) {
                let here = slots(place, requests, constraints).min(rest);
                for (resource, amount) in *requests {
                    if let Some(left) = place.left.get_mut(resource) {
                        *left = left.saturating_sub(amount.saturating_mul(here));
                    }
                }
                if here > 0 {
                    place.ports.extend(&constraints.ports);
                }
                rest -= here;
                fitting += here;
            }
        }
        fitting
    }

    fn shape(&mut self, pod: &'a Pod) -> usize {
        let Pod { requests, constraints, .. } = pod;
        let known = self
            .shapes
            .iter()
            .position(|shape| shape.requests == requests && shape.constraints == constraints);
        if let Some(known) = known {
            return known;
        }
        let eligible: Vec<bool> =
            self.places.iter().map(|place| may_run(place.node, requests, constraints)).collect();
        let places = self.places.iter().zip(&eligible).filter(|(_, eligible)| **eligible);
        let slots = places
            .map(|(place, _)| slots(place, requests, constraints))
            .fold(0, i64::saturating_add);
        self.shapes.push(Shape { requests, constraints, eligible, slots });
        self.shapes.len() - 1
    }

    /// Whether there is a place that both may be in.
    fn contend(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.shapes[a].eligible, &self.shapes[b].eligible);
        a.iter().zip(b).any(|(a, b)| *a && *b)
    }
}

impl World {
    /// For how many of these pods there is room on other nodes than those that they leave.
    pub fn room_elsewhere(&self, pods: &[Pod], leaving: &BTreeSet<String>) -> usize {
        let stay = self.nodes.iter().filter(|(name, _)| !leaving.contains(*name));
        let pods: Vec<&Pod> = pods.iter().collect();
        match Room::new(stay.map(|(_, place)| place)).verdict(&pods) {
            Verdict::Fits | Verdict::Contended => pods.len(),
            Verdict::NoRoom(fitting) => fitting.try_into().unwrap_or(0),
        }
    }
}

/// How many pods with `requests` one with `taking` takes the place of, at most.
fn cost(taking: &Resources, requests: &Resources) -> i64 {
    let each = requests.iter().filter(|(_, amount)| **amount > 0).map(|(resource, amount)| {
        let taken = taking.get(resource).copied().unwrap_or(0);
        taken.saturating_add(amount - 1) / amount
    });
    each.max().unwrap_or(0).max(1)
}

fn slots(place: &Free<'_>, requests: &Resources, constraints: &Constraints) -> i64 {
    let wanted = &constraints.ports;
    if wanted.iter().any(|port| place.ports.iter().any(|used| collide(port, used))) {
        return 0;
    }
    let each = requests
        .iter()
        .filter(|(_, amount)| **amount > 0)
        .map(|(resource, amount)| place.left.get(resource).copied().unwrap_or(0).max(0) / amount);
    // A pod without requests still counts as a pod, wherever the node says how many it takes.
    let most = each.min().unwrap_or(i64::from(i32::MAX));
    if wanted.is_empty() { most } else { most.min(1) }
}

fn collide(a: &HostPort, b: &HostPort) -> bool {
    let anywhere = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
    a.port == b.port
        && a.protocol == b.protocol
        && (a.ip == b.ip || anywhere(&a.ip) || anywhere(&b.ip))
}

/// Whether such a pod may run there, were the node empty.
fn may_run(node: &Node, requests: &Resources, constraints: &Constraints) -> bool {
    let Constraints { node_selector, affinity, tolerations, .. } = constraints;
    let tolerated = |taint: &Taint| {
        taint.effect == TaintEffect::PreferNoSchedule
            || tolerations.iter().any(|toleration| tolerates(toleration, taint))
    };
    node.taints.iter().all(tolerated)
        && node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && affinity.as_ref().is_none_or(|terms| terms.iter().any(|term| term_holds(term, node)))
        && requests.iter().filter(|(_, amount)| **amount > 0).all(|(resource, amount)| {
            node.allocatable.get(resource).copied().unwrap_or(0) >= *amount
        })
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = if toleration.key.is_empty() {
        toleration.test == TolerationTest::Exists
    } else {
        toleration.key == taint.key
    };
    let value = match &toleration.test {
        TolerationTest::Exists => true,
        TolerationTest::Equal(value) => *value == taint.value,
        TolerationTest::Unreadable => false,
    };
    key && value && toleration.effect.is_none_or(|effect| effect == taint.effect)
}

fn term_holds(term: &NodeTerm, node: &Node) -> bool {
    let NodeTerm { expressions, fields } = term;
    let field = |requirement: &Requirement| {
        requirement.key == "metadata.name" && holds(&requirement.test, Some(&node.name))
    };
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|r| holds(&r.test, node.labels.get(&r.key)))
        && fields.iter().all(field)
}

fn holds(test: &Test, value: Option<&String>) -> bool {
    let number = || value.and_then(|value| value.parse::<i64>().ok());
    match test {
        Test::In(values) => value.is_some_and(|value| values.contains(value)),
        Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
        Test::Exists => value.is_some(),
        Test::DoesNotExist => value.is_none(),
        Test::Gt(than) => number().is_some_and(|n| n > *than),
        Test::Lt(than) => number().is_some_and(|n| n < *than),
        Test::Unreadable => false,
    }
}
