//! The order of a drain that breaks the fewest replicas: whole ones, as many at a time as the budgets let go.
//!
//! ```text
//!   units, room of the budgets --Planner--> waves: what goes when, and which nodes are empty then
//! ```
//!
//! All nodes are cordoned before anything goes, so that nothing comes back to a node that is next. Of what may
//! go, that on the node with the least left goes first: nodes are done one after the other, and early.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What goes together: the pods of one replica, or a pod of none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unit {
    pub namespace: String,
    pub name: String,
    /// Else a single pod.
    pub replica: bool,
    /// Those on the nodes to drain.
    pub pods: Vec<PodOf>,
    /// So many of them go at a time, and the next when these are back: a replica with pods to spare need not break.
    pub at_once: usize,
    /// What it costs each budget that covers it, in that budget's unit.
    pub costs: BTreeMap<String, i64>,
    /// The cluster deletes the rest of it when one pod goes, so one pod is evicted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follows: bool,
    /// A pod of this group is on its way out already, on these nodes or elsewhere.
    #[serde(skip)]
    pub ends: bool,
    /// From eviction until it is whole again, as observed.
    #[serde(skip)]
    pub recovery: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodOf {
    pub name: String,
    pub uid: String,
    pub node: String,
    /// The leader of a group, which owns the rest of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leader: bool,
}

impl Unit {
    pub fn nodes(&self) -> BTreeSet<&str> {
        self.pods.iter().map(|pod| pod.node.as_str()).collect()
    }

    pub fn is_on(&self, node: &str) -> bool {
        self.pods.iter().any(|pod| pod.node == node)
    }

    /// It goes in parts, and stays whole.
    pub fn is_spared(&self) -> bool {
        self.at_once < self.pods.len()
    }

    /// Evicting it breaks a unit of some budget.
    pub fn is_charged(&self) -> bool {
        self.costs.values().any(|cost| *cost > 0)
    }
}

/// Units that go at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    pub after_seconds: u64,
    pub units: Vec<Unit>,
    /// Empty once these have gone.
    pub nodes_done: Vec<String>,
}

/// Plays the drain through, with replicas that come back after the time that they took last.
pub struct Planner {
    left: Vec<Unit>,
    nodes: Vec<String>,
    /// Units that each budget lets go at the same time.
    room: BTreeMap<String, i64>,
    /// Units that are down, until then.
    down: Vec<(Duration, BTreeMap<String, i64>)>,
    now: Duration,
}

impl Planner {
    /// `room` has every budget of the units, with at least one unit.
    pub fn new(nodes: Vec<String>, units: Vec<Unit>, room: BTreeMap<String, i64>) -> Self {
        Self { left: units, nodes, room, down: Vec::new(), now: Duration::ZERO }
    }

    /// The waves, and how long it takes until the last unit is back.
    pub fn run(mut self) -> (Vec<Wave>, Duration) {
        let mut waves = Vec::new();
        // A node without pods is done before the first wave, and told with it.
        while !self.left.is_empty() {
            let units = self.start();
            if !units.is_empty() {
                let nodes_done = self.take_done();
                waves.push(Wave { after_seconds: self.now.as_secs(), units, nodes_done });
            }
            // Something is down if nothing could start: room is at least one.
            let Some(next) = self.down.iter().map(|(until, _)| *until).min() else { break };
            self.now = next;
            self.give_back();
        }
        let end = self.down.iter().map(|(until, _)| *until).max();
        (waves, end.unwrap_or(self.now))
    }

    /// Everything that there is room for now.
    fn start(&mut self) -> Vec<Unit> {
        let mut started = Vec::new();
        while let Some(index) = self.next() {
            let unit = self.left.remove(index);
            let taken = self.charge(&unit);
            // What is more than a budget ever lets go at once goes in turns.
            let turns =
                taken.iter().map(|(budget, taken)| (unit.costs[budget] + taken - 1) / taken);
            let parts = unit.pods.len().div_ceil(unit.at_once.max(1));
            let parts = u32::try_from(parts).unwrap_or(u32::MAX);
            let turns = u32::try_from(turns.max().unwrap_or(1)).unwrap_or(u32::MAX).max(parts);
            if unit.is_charged() || unit.is_spared() {
                let recovery = unit.recovery.unwrap_or_default().saturating_mul(turns);
                self.down.push((self.now + recovery, taken));
            }
            started.push(unit);
        }
        started
    }

    /// The next that may go, from the node with the least left.
    fn next(&self) -> Option<usize> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for node in self.left.iter().flat_map(Unit::nodes) {
            *counts.entry(node).or_default() += 1;
        }
        let mut nodes: Vec<(usize, &str)> = counts.into_iter().map(|(n, c)| (c, n)).collect();
        nodes.sort_unstable();
        nodes.into_iter().find_map(|(_, node)| {
            self.left.iter().position(|unit| unit.is_on(node) && self.has_room(unit))
        })
    }

    fn has_room(&self, unit: &Unit) -> bool {
        unit.costs.iter().all(|(budget, cost)| self.of(budget, *cost) <= self.room[budget])
    }

    /// No more than the budget ever has.
    fn of(&self, budget: &str, cost: i64) -> i64 {
        cost.min(self.most(budget))
    }

    fn most(&self, budget: &str) -> i64 {
        let down = self.down.iter().filter_map(|(_, taken)| taken.get(budget)).sum::<i64>();
        self.room[budget] + down
    }

    fn charge(&mut self, unit: &Unit) -> BTreeMap<String, i64> {
        let costs = unit.costs.iter().filter(|(_, cost)| **cost > 0);
        let taken: BTreeMap<String, i64> =
            costs.map(|(budget, cost)| (budget.clone(), self.of(budget, *cost))).collect();
        for (budget, cost) in &taken {
            *self.room.entry(budget.clone()).or_default() -= cost;
        }
        taken
    }

    fn give_back(&mut self) {
        let now = self.now;
        for (_, taken) in self.down.extract_if(.., |(until, _)| *until <= now) {
            for (budget, cost) in taken {
                *self.room.entry(budget).or_default() += cost;
            }
        }
    }

    fn take_done(&mut self) -> Vec<String> {
        let left = &self.left;
        self.nodes.extract_if(.., |node| !left.iter().any(|unit| unit.is_on(node))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECOVERY: Duration = Duration::from_secs(30);

    /// On these nodes, at the cost of one unit of budget `b`.
    fn replica(name: &str, nodes: &[&str]) -> Unit {
        let pods = nodes.iter().enumerate().map(|(index, node)| PodOf {
            name: format!("{name}-{index}"),
            uid: String::new(),
            node: (*node).to_owned(),
            leader: false,
        });
        Unit {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            replica: true,
            pods: pods.collect(),
            at_once: nodes.len(),
            costs: [("b".to_owned(), 1)].into(),
            follows: false,
            ends: false,
            recovery: Some(RECOVERY),
        }
    }

    fn waves(nodes: &[&str], units: Vec<Unit>, room: i64) -> (Vec<Wave>, Duration) {
        let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
        Planner::new(nodes, units, [("b".to_owned(), room)].into()).run()
    }

    fn names(waves: &[Wave]) -> Vec<Vec<&str>> {
        let of = |wave: &Wave| wave.units.iter().map(|unit| &*unit.name.clone().leak()).collect();
        waves.iter().map(of).collect()
    }

    #[test]
    fn a_replica_goes_once_with_all_its_pods_whichever_node_they_are_on() {
        let units = vec![replica("x", &["a", "b", "b"]), replica("y", &["a", "b"])];
        let (waves, takes) = waves(&["a", "b"], units, 1);
        assert_eq!(names(&waves), [["x"], ["y"]]);
        assert_eq!(waves[0].units[0].pods.len(), 3);
        assert_eq!(waves[1].nodes_done, ["a", "b"]);
        assert_eq!((waves[1].after_seconds, takes), (30, 2 * RECOVERY));
    }

    #[test]
    fn as_many_go_at_a_time_as_the_budget_allows() {
        let units = ["v", "w", "x", "y", "z"].map(|name| replica(name, &["a"])).to_vec();
        let (waves, _) = waves(&["a"], units, 2);
        assert_eq!(names(&waves), [vec!["v", "w"], vec!["x", "y"], vec!["z"]]);
    }

    #[test]
    fn the_node_with_the_least_left_is_done_first() {
        let units = vec![
            replica("v", &["a"]),
            replica("w", &["a"]),
            replica("x", &["b"]),
            replica("y", &["a", "c"]),
            replica("z", &["a", "c"]),
        ];
        let (waves, _) = waves(&["a", "b", "c"], units, 1);
        assert_eq!(names(&waves), [["x"], ["y"], ["z"], ["v"], ["w"]]);
        let done: Vec<_> = waves.iter().map(|wave| wave.nodes_done.join(" ")).collect();
        assert_eq!(done, ["b", "", "c", "", "a"]);
    }

    #[test]
    fn what_no_budget_covers_and_what_costs_nothing_waits_for_nobody() {
        let mut free = replica("free", &["a"]);
        free.costs = [("b".to_owned(), 0)].into();
        let mut uncovered = replica("uncovered", &["a"]);
        uncovered.costs.clear();
        let units = vec![replica("x", &["a"]), replica("y", &["a"]), free, uncovered];
        let (waves, _) = waves(&["a"], units, 1);
        assert_eq!(names(&waves), [vec!["x", "free", "uncovered"], vec!["y"]]);
    }

    #[test]
    fn a_unit_that_is_more_than_a_budget_ever_lets_go_goes_in_turns() {
        let mut large = replica("large", &["a"; 4]);
        large.costs = [("b".to_owned(), 4)].into();
        let (waves, takes) = waves(&["a"], vec![large, replica("x", &["a"])], 3);
        assert_eq!(names(&waves), [["large"], ["x"]]);
        assert_eq!(takes, 3 * RECOVERY);
    }

    #[test]
    fn a_replica_with_pods_to_spare_goes_in_parts_beside_the_others() {
        let mut spared = replica("spared", &["a"; 5]);
        (spared.at_once, spared.costs) = (2, [("b".to_owned(), 0)].into());
        let (waves, takes) = waves(&["a"], vec![replica("x", &["a"]), spared], 1);
        assert_eq!(names(&waves), [vec!["x", "spared"]]);
        assert_eq!(takes, 3 * RECOVERY);
    }

    #[test]
    fn replicas_that_come_back_sooner_make_room_sooner() {
        let mut slow = replica("slow", &["a"]);
        slow.recovery = Some(3 * RECOVERY);
        let units = vec![slow, replica("x", &["a"]), replica("y", &["a"]), replica("z", &["a"])];
        let (waves, takes) = waves(&["a"], units, 2);
        assert_eq!(names(&waves), [vec!["slow", "x"], vec!["y"], vec!["z"]]);
        assert_eq!(takes, 3 * RECOVERY);
    }

    #[test]
    fn an_empty_node_needs_no_wave() {
        assert_eq!(waves(&["a"], Vec::new(), 1), (Vec::new(), Duration::ZERO));
    }
}
