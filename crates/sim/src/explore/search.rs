//! Breadth-first search with deduplication.
//!
//! Per visited state the search keeps a fingerprint, the number of its parent and the step between
//! them. A state that is to be expanded is made again by executing its steps. Neighbours in the
//! frontier share most of their steps, so each worker keeps the states along its last path: on average
//! little more than one step per state is executed a second time.
//!
//! Workers share the frontier of one depth, and begin the next depth together. So the first violation
//! has a shortest schedule, whatever the number of workers.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::scope::Scope;
use super::state::State;
use super::step::{Schedule, Step};

/// States that a worker takes from the frontier at once.
const CHUNK: usize = 256;

/// Parts of the set of fingerprints, so that workers seldom wait for each other.
const SHARDS: usize = 64;

/// When to give up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub states: usize,
    pub time: Duration,
    /// With one, the search runs on the calling thread and visits states in the same order every time.
    pub threads: usize,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    /// Different states that were visited.
    pub states: usize,
    /// Steps that led to a state, visited before or not.
    pub transitions: u64,
    /// The length of the longest schedule that was completed.
    pub depth: usize,
    /// Every reachable state was visited.
    pub complete: bool,
    pub took: Duration,
    pub found: Option<Found>,
}

/// A violation, with one of its shortest schedules.
#[derive(Clone, Debug)]
pub struct Found {
    pub violation: String,
    pub schedule: Schedule,
}

#[derive(Clone, Copy)]
struct Node {
    parent: u32,
    step: Step,
}

/// Visits every state of the scope, until one breaks the promise or a limit is reached.
pub fn explore(scope: &'static Scope, limits: Limits) -> Outcome {
    let started = Instant::now();
    let start = State::start(scope);
    let visited = Visited::default();
    visited.insert(start.fingerprint());
    let mut nodes = vec![Node { parent: 0, step: Step::Ask(0) }];
    let (transitions, mut depth, mut frontier) = (AtomicU64::new(0), 0, 0..1);
    let (complete, found) = loop {
        let level = Level {
            start: &start,
            visited: &visited,
            nodes: &nodes,
            frontier: frontier.clone(),
            limits,
            started,
            taken: AtomicUsize::new(frontier.start),
            stopped: AtomicBool::new(false),
            transitions: &transitions,
            reached: Mutex::default(),
            found: Mutex::default(),
        };
        level.run();
        let stopped = level.stopped.load(Ordering::Relaxed);
        let found = level.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut reached = level.reached.into_inner().unwrap_or_else(PoisonError::into_inner);
        reached.sort_by_key(|(first, _)| *first);
        frontier = nodes.len()..nodes.len();
        nodes.extend(reached.into_iter().flat_map(|(_, nodes)| nodes));
        frontier.end = nodes.len();
        if stopped || frontier.is_empty() {
            break (!stopped, found);
        }
        depth += 1;
    };
    Outcome {
        states: nodes.len(),
        transitions: transitions.into_inner(),
        depth,
        complete,
        took: started.elapsed(),
        found,
    }
}

/// The states of one depth, and those that they lead to.
struct Level<'a> {
    start: &'a State,
    visited: &'a Visited,
    nodes: &'a [Node],
    frontier: Range<usize>,
    limits: Limits,
    started: Instant,
    /// Workers have taken the frontier up to here.
    taken: AtomicUsize,
    /// A limit was reached, or a violation found.
    stopped: AtomicBool,
    transitions: &'a AtomicU64,
    /// New states by the first state of the chunk that led to them.
    reached: Mutex<Vec<(usize, Vec<Node>)>>,
    found: Mutex<Option<Found>>,
}

impl Level<'_> {
    fn run(&self) {
        let chunks = self.frontier.len().div_ceil(CHUNK);
        let threads = self.limits.threads.min(chunks);
        if threads <= 1 {
            return self.work();
        }
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| self.work());
            }
        });
    }

    fn work(&self) {
        let mut path = vec![(0, self.start.clone())];
        loop {
            let first = self.taken.fetch_add(CHUNK, Ordering::Relaxed);
            if first >= self.frontier.end {
                return;
            }
            let mut reached = Vec::new();
            for node in first..self.frontier.end.min(first + CHUNK) {
                let within = self.visited.len() < self.limits.states
                    && self.started.elapsed() < self.limits.time;
                if !within {
                    self.stopped.store(true, Ordering::Relaxed);
                }
                if self.stopped.load(Ordering::Relaxed) {
                    break;
                }
                self.expand(node, &mut path, &mut reached);
            }
            lock(&self.reached).push((first, reached));
        }
    }

    fn expand(&self, node: usize, path: &mut Vec<(usize, State)>, reached: &mut Vec<Node>) {
        self.reach(node, path);
        let state = &path.last().expect("the state was reached").1;
        for step in state.steps() {
            let mut next = state.clone();
            next.apply(step);
            self.transitions.fetch_add(1, Ordering::Relaxed);
            if let Some(violation) = next.violation() {
                let mut schedule = self.schedule(node);
                schedule.0.push(step);
                *lock(&self.found) = Some(Found { violation: violation.to_owned(), schedule });
                self.stopped.store(true, Ordering::Relaxed);
                return;
            }
            if self.visited.insert(next.fingerprint()) {
                let parent = u32::try_from(node).expect("fewer than 2^32 states");
                reached.push(Node { parent, step });
            }
        }
    }

    /// Makes the state again, from the last state of the path that lies on the way to it.
    fn reach(&self, node: usize, path: &mut Vec<(usize, State)>) {
        let mut way = Vec::new();
        let mut at = node;
        // A parent has a smaller number than its children.
        loop {
            while path.last().is_some_and(|(number, _)| *number > at) {
                path.pop();
            }
            if path.last().is_some_and(|(number, _)| *number == at) {
                break;
            }
            way.push(at);
            at = self.nodes[at].parent as usize;
        }
        for number in way.into_iter().rev() {
            let mut state = path.last().expect("the start is never removed").1.clone();
            state.apply(self.nodes[number].step);
            path.push((number, state));
        }
    }

    fn schedule(&self, node: usize) -> Schedule {
        let mut steps = Vec::new();
        let mut at = node;
        while at != 0 {
            steps.push(self.nodes[at].step);
            at = self.nodes[at].parent as usize;
        }
        steps.reverse();
        Schedule(steps)
    }
}

struct Visited {
    shards: [Mutex<HashSet<u64, BuildHasherDefault<Identity>>>; SHARDS],
    count: AtomicUsize,
}

impl Default for Visited {
    fn default() -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { shards, count: AtomicUsize::new(0) }
    }
}

impl Visited {
    /// Whether it is new.
    fn insert(&self, fingerprint: u64) -> bool {
        // The low bits choose the place within a set, so the high ones choose the set.
        let shard = (fingerprint >> 58) as usize;
        let new = lock(&self.shards[shard]).insert(fingerprint);
        self.count.fetch_add(usize::from(new), Ordering::Relaxed);
        new
    }

    fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fingerprints are hashes already.
#[derive(Default)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("fingerprints are whole numbers")
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}
