//! A client that empties nodes as `kubectl drain` does.
//!
//! All nodes are cordoned first. Then, node by node, every pod is evicted at once; a denied one is
//! tried again, by name, after a while; an evicted one is waited for. The client only says what it
//! wants to send ([`Drain::poll`]) and is told what came of it ([`Drain::answer`]), so that whoever
//! drives it decides what happens on the way.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::model::{ObjectKey, Timestamp};

use crate::random::Random;
use crate::world::World;

/// How often kubectl looks whether an evicted pod is gone.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct DrainOptions {
    /// How long to wait before a denied eviction is tried again.
    pub retry: Duration,
    /// All nodes at the same time, as several clients do; else one after the other.
    pub parallel: bool,
    /// Decides the order of the pods of a node, which to kubectl is that of its goroutines.
    pub seed: u64,
}

impl Default for DrainOptions {
    fn default() -> Self {
        Self { retry: Duration::from_secs(5), parallel: false, seed: 1 }
    }
}

/// A pod to be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// No two pods of one drain have the same.
    pub number: usize,
    pub node: Arc<str>,
    pub pod: ObjectKey,
    /// Of the pod that was on the node; kubectl evicts by name alone.
    pub uid: String,
}

/// What came of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Granted,
    /// 429.
    Denied,
    /// 404, which is as good.
    NotFound,
}

#[derive(Debug)]
pub struct Drain {
    options: DrainOptions,
    random: Random,
    /// Nodes that have not been begun.
    to_begin: VecDeque<String>,
    begun: BTreeMap<Arc<str>, Progress>,
    steps: BTreeMap<Timestamp, Vec<Step>>,
    finished: Vec<(String, Timestamp)>,
    targets: usize,
}

#[derive(Debug, Default)]
struct Progress {
    /// Evictions that were neither granted nor found to be needless.
    wanted: usize,
    /// Evicted, and perhaps still there.
    leaving: Vec<Target>,
}

#[derive(Debug)]
enum Step {
    Evict(Target),
    Look(Arc<str>),
}

impl Drain {
    pub fn new(nodes: impl IntoIterator<Item = String>, options: DrainOptions) -> Self {
        Self {
            random: Random::new(options.seed),
            options,
            to_begin: nodes.into_iter().collect(),
            begun: BTreeMap::new(),
            steps: BTreeMap::new(),
            finished: Vec::new(),
            targets: 0,
        }
    }

    /// Cordon the nodes. To be called once, before anything else.
    pub fn cordon(&mut self, world: &mut World) {
        for node in &self.to_begin {
            world.cordon(node);
        }
        self.steps.insert(world.now(), Vec::new());
    }

    /// The evictions to send now. Each is to be answered.
    pub fn poll(&mut self, world: &World) -> Vec<Target> {
        let now = world.now();
        let mut send = Vec::new();
        loop {
            self.begin_nodes(world);
            let Some(due) = self.steps.first_entry().filter(|due| *due.key() <= now) else {
                return send;
            };
            for step in due.remove() {
                match step {
                    Step::Evict(target) => send.push(target),
                    Step::Look(node) => self.look(world, &node),
                }
            }
        }
    }

    pub fn answer(&mut self, now: Timestamp, target: Target, answer: Answer) {
        if answer == Answer::Denied {
            let again = now + self.options.retry;
            self.steps.entry(again).or_default().push(Step::Evict(target));
            return;
        }
        let Some(progress) = self.begun.get_mut(&target.node) else { return };
        progress.wanted -= 1;
        let node = target.node.clone();
        if answer == Answer::Granted {
            progress.leaving.push(target);
        }
        if progress.wanted == 0 {
            self.steps.entry(now).or_default().push(Step::Look(node));
        }
    }

    /// When to poll next; None once all nodes are empty, or while evictions are unanswered.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.steps.first_key_value().map(|(at, _)| *at)
    }

    pub fn is_done(&self) -> bool {
        self.to_begin.is_empty() && self.begun.is_empty()
    }

    /// The nodes that have been emptied, and when.
    pub fn finished(&self) -> &[(String, Timestamp)] {
        &self.finished
    }

    /// The nodes that are being emptied.
    pub fn nodes_begun(&self) -> impl Iterator<Item = &str> {
        self.begun.keys().map(|node| &**node)
    }

    fn begin_nodes(&mut self, world: &World) {
        while self.begun.is_empty() || self.options.parallel {
            let Some(node) = self.to_begin.pop_front() else { return };
            let mut pods: Vec<ObjectKey> =
                world.pods_on(&node).into_iter().filter(|pod| is_evicted(world, pod)).collect();
            self.random.shuffle(&mut pods);
            let node: Arc<str> = Arc::from(node);
            let steps = self.steps.entry(world.now()).or_default();
            self.begun.insert(node.clone(), Progress { wanted: pods.len(), leaving: Vec::new() });
            if pods.is_empty() {
                steps.push(Step::Look(node.clone()));
            }
            for pod in pods {
                let uid = world.pod(&pod).map(|pod| pod.uid.clone()).unwrap_or_default();
                let number = self.targets;
                self.targets += 1;
                steps.push(Step::Evict(Target { number, node: node.clone(), pod, uid }));
            }
        }
    }

    /// The node is empty when the last pod that was evicted is gone.
    fn look(&mut self, world: &World, node: &Arc<str>) {
        let Some(progress) = self.begun.get_mut(node).filter(|progress| progress.wanted == 0)
        else {
            return;
        };
        let is_there =
            |target: &Target| world.pod(&target.pod).is_some_and(|pod| pod.uid == target.uid);
        while progress.leaving.pop_if(|target| !is_there(target)).is_some() {}
        if progress.leaving.is_empty() {
            self.begun.remove(node);
            self.finished.push((node.to_string(), world.now()));
        } else {
            let again = world.now() + LOOK;
            self.steps.entry(again).or_default().push(Step::Look(node.clone()));
        }
    }
}

/// What kubectl leaves alone with `--ignore-daemonsets`: pods of `DaemonSets` and static pods. Those
/// that have finished bear on nothing.
fn is_evicted(world: &World, pod: &ObjectKey) -> bool {
    let Some(pod) = world.pod(pod) else { return false };
    let kind = pod.controller.as_ref().map(|controller| controller.group_kind.kind.as_str());
    !pod.is_terminal() && !matches!(kind, Some("DaemonSet" | "Node"))
}

#[cfg(test)]
mod tests {
    use holdfast_core::Config;

    use super::*;
    use crate::{Behaviour, budget, pod};

    const SECOND: Duration = Duration::from_secs(1);

    /// Two nodes with two pods of one `StatefulSet` each, and a spare one.
    fn world() -> World {
        let mut world = World::new(Config::default());
        world.add_node("spare");
        for (name, node) in [("db-0", "n1"), ("db-1", "n1"), ("db-2", "n2"), ("db-3", "n2")] {
            world.apply_pod(pod(name).owned_by("apps", "StatefulSet", "db").node(node).ready());
        }
        world.apply_pod(pod("log-x").owned_by("apps", "DaemonSet", "log").node("n1").ready());
        // Of five: the DaemonSet's counts too.
        world.apply_budget(budget("b").min_available(4));
        world.behave(Behaviour {
            startup: (30 * SECOND).into(),
            grace: (2 * SECOND).into(),
            seed: 1,
        });
        world.sync();
        world
    }

    /// Seconds, and the pods that were granted then.
    fn run(world: &mut World, mut drain: Drain) -> Vec<(u64, Vec<String>)> {
        let mut granted = Vec::new();
        drain.cordon(world);
        for _ in 0..1000 {
            let targets = drain.poll(world);
            let pods: Vec<ObjectKey> = targets.iter().map(|target| target.pod.clone()).collect();
            let verdicts = world.evict_together(&pods);
            let mut names = Vec::new();
            for (target, verdict) in targets.into_iter().zip(verdicts) {
                let answer = if verdict.is_allow() { Answer::Granted } else { Answer::Denied };
                if answer == Answer::Granted {
                    names.push(target.pod.name.clone());
                }
                drain.answer(world.now(), target, answer);
            }
            if !names.is_empty() {
                names.sort();
                granted.push((world.elapsed().as_secs(), names));
            }
            let Some(due) = drain.next_due() else {
                assert!(drain.is_done());
                return granted;
            };
            world.advance_to(due);
        }
        panic!("the drain does not end: {drain:?}");
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn nodes_are_emptied_one_after_the_other_and_denied_pods_tried_again() {
        let mut world = world();
        let nodes = ["n1", "n2"].map(str::to_owned);
        let granted = run(&mut world, Drain::new(nodes, DrainOptions::default()));
        let times: Vec<u64> = granted.iter().map(|(at, _)| *at).collect();
        // A pod is back 32 s after it was evicted, and the next is tried every 5 s. The second node is
        // begun, and first denied, when the first is empty: at 0:37.
        assert_eq!(times, [0, 35, 67, 102], "{granted:?}");
        let on_spare = world.pods_on("spare");
        assert_eq!(on_spare.len(), 4);
        assert_eq!(world.pods_on("n1").len(), 1, "the DaemonSet's pod stays");
    }

    #[test]
    fn nodes_may_be_emptied_at_the_same_time() {
        let mut world = world();
        world.edit_budget("b", |spec| {
            spec.min_available = Some(holdfast_core::model::Threshold::Count(3));
        });
        let nodes = ["n1", "n2"].map(str::to_owned);
        let options = DrainOptions { parallel: true, ..DrainOptions::default() };
        let granted = run(&mut world, Drain::new(nodes, options));
        assert_eq!(granted.iter().map(|(_, pods)| pods.len()).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn cordoned_nodes_get_no_pods_while_they_wait_for_their_turn() {
        let mut world = world();
        world.delete_budget("b");
        let nodes = ["n1", "n2"].map(str::to_owned);
        let granted = run(&mut world, Drain::new(nodes, DrainOptions::default()));
        assert_eq!(granted[0], (0, names(&["db-0", "db-1"])));
        assert_eq!(granted[1], (2, names(&["db-2", "db-3"])));
    }

    #[test]
    fn an_empty_node_is_done_at_once() {
        let mut world = World::new(Config::default());
        world.sync();
        let drain = Drain::new(["nobody".to_owned()], DrainOptions::default());
        assert!(run(&mut world, drain).is_empty());
    }
}
