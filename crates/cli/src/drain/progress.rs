//! How far a drain is: lines as kubectl prints them and some of our own, and on a terminal bars below them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};

use holdfast_core::verdict::{CANNOT_EVICT, SIGNED};
use holdfast_core::view::{ReplicaState, ReplicaView};

use super::follow::{Follow, Going, Step};
use super::plan::{PodOf, Unit};
use super::text::named;
use crate::ask::{Cluster, Table, count};

const BAR: usize = 24;

#[derive(Debug)]
pub struct Progress {
    nodes: Vec<String>,
    /// Lines that are drawn below the others, if this is a terminal.
    drawn: Option<usize>,
    asked: BTreeSet<String>,
    gone: BTreeSet<String>,
    done: BTreeSet<String>,
    denials: BTreeSet<String>,
    begun: BTreeSet<String>,
    apart: BTreeSet<String>,
    left_behind: BTreeSet<String>,
    whole: BTreeSet<String>,
}

impl Progress {
    pub fn new(nodes: Vec<String>) -> Self {
        Self {
            nodes,
            drawn: io::stdout().is_terminal().then_some(0),
            asked: BTreeSet::new(),
            gone: BTreeSet::new(),
            done: BTreeSet::new(),
            denials: BTreeSet::new(),
            begun: BTreeSet::new(),
            apart: BTreeSet::new(),
            left_behind: BTreeSet::new(),
            whole: BTreeSet::new(),
        }
    }

    /// Once for each pod, however often it is asked about.
    pub fn asking(&mut self, going: &Going, pod: &PodOf) {
        let Unit { namespace, .. } = &going.unit;
        if self.asked.insert(pod.uid.clone()) {
            self.print(&[format!("evicting pod {namespace}/{}", pod.name)], &[]);
        }
    }

    /// Prints what is new, and draws.
    pub fn look(&mut self, cluster: &Cluster, follow: &Follow) {
        let mut lines = Vec::new();
        let replicas = Replicas::of(cluster);
        for going in follow.units() {
            self.look_at(&replicas, going, &mut lines);
        }
        let apart = follow.recovering().map(named);
        let apart = apart.filter(|name| self.apart.insert(name.clone()));
        lines.extend(
            apart.map(|name| format!("{name} goes in parts, the next when this one is back")),
        );
        let denials: BTreeSet<String> = follow.denials().map(arithmetic).collect();
        lines.extend(denials.difference(&self.denials).map(|why| format!("waiting: {why}")));
        self.denials.extend(denials);
        for node in &self.nodes {
            let mut steps = follow.on(node).map(|(_, _, step)| step);
            if steps.all(|step| *step == Step::Gone) && self.done.insert(node.clone()) {
                lines.push(format!("node/{node} drained"));
            }
        }
        let bars = if self.drawn.is_some() { self.bars(&replicas, follow) } else { Vec::new() };
        self.print(&lines, &bars);
    }

    fn look_at(&mut self, replicas: &Replicas, going: &Going, lines: &mut Vec<String>) {
        let name = named(&going.unit);
        if going.unit.replica
            && going.unit.is_charged()
            && going.is_begun()
            && self.begun.insert(name.clone())
        {
            let pods = going.unit.pods.len().try_into().unwrap_or(i64::MAX);
            lines.push(format!("{name} goes, with {} here", count(pods, "pod")));
        }
        if going.left_behind > 0 && self.left_behind.insert(name.clone()) {
            let pods = count(going.left_behind.try_into().unwrap_or(i64::MAX), "pod");
            lines.push(format!("{name}: its controller has left {pods} here, evicting"));
        }
        for (pod, step) in going.unit.pods.iter().zip(&going.steps) {
            if *step == Step::Gone && self.gone.insert(pod.uid.clone()) {
                lines.push(format!("pod/{} evicted", pod.name));
            }
        }
        if self.begun.contains(&name)
            && going.steps.iter().all(|step| *step == Step::Gone)
            && replicas.get(&going.unit).is_some_and(|r| r.state == ReplicaState::Healthy)
            && self.whole.insert(name.clone())
        {
            lines.push(format!("{name} is whole again"));
        }
    }

    pub fn is_drained(&self, node: &str) -> bool {
        self.done.contains(node)
    }

    /// Begun, and not whole again: with its pods that are healthy, and those that it needs.
    pub fn down(&self, replicas: &Replicas, follow: &Follow) -> Vec<(String, i64, i64)> {
        let begun = follow.units().iter().filter(|going| {
            let name = named(&going.unit);
            self.begun.contains(&name) && !self.whole.contains(&name)
        });
        let state = |going: &Going| {
            let replica = replicas.get(&going.unit)?;
            let down = replica.state != ReplicaState::Healthy;
            down.then(|| (named(&going.unit), replica.healthy_pods, replica.min.unwrap_or(1)))
        };
        begun.filter_map(state).collect()
    }

    fn bars(&self, replicas: &Replicas, follow: &Follow) -> Vec<String> {
        let mut table = Table::new(&[]);
        for node in &self.nodes {
            let steps: Vec<&Step> = follow.on(node).map(|(_, _, step)| step).collect();
            let gone = steps.iter().filter(|step| ***step == Step::Gone).count();
            let of = steps.len();
            table.row(vec![node.clone(), bar(gone, of), format!("{gone} of {of} pods gone")]);
        }
        for (name, healthy, needs) in self.down(replicas, follow) {
            let (has, of) = (healthy.try_into().unwrap_or(0), needs.try_into().unwrap_or(1));
            table.row(vec![name, bar(has, of), format!("{healthy} of {needs} pods back")]);
        }
        table.lines().split_off(1)
    }

    /// Lines stay, bars are drawn anew the next time.
    fn print(&mut self, lines: &[String], bars: &[String]) {
        let mut text = match self.drawn {
            Some(drawn) if drawn > 0 => format!("\x1b[{drawn}A\x1b[J"),
            _ => String::new(),
        };
        for line in lines.iter().chain(bars) {
            text.push_str(line);
            text.push('\n');
        }
        if self.drawn.is_some() {
            self.drawn = Some(bars.len());
        }
        let mut out = io::stdout().lock();
        // Whoever stops reading does not stop the drain.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Without what every denial says, who passed it on, and which one it is: the same reason is told once.
fn arithmetic(denial: &str) -> String {
    let denial = denial.split_once(SIGNED).map_or(denial, |(words, _)| words);
    let rest = denial.split_once(CANNOT_EVICT).map(|(_, rest)| rest.trim());
    rest.filter(|rest| !rest.is_empty()).unwrap_or(denial).to_owned()
}

fn bar(done: usize, of: usize) -> String {
    let full = (BAR * done.min(of)).checked_div(of).unwrap_or(BAR);
    format!("[{}{}]", "#".repeat(full), "-".repeat(BAR - full))
}

/// All replicas, as the budgets see them now.
#[derive(Debug)]
pub struct Replicas(BTreeMap<(String, String), ReplicaView>);

impl Replicas {
    pub fn of(cluster: &Cluster) -> Self {
        let views = cluster.budgets().filter_map(|given| cluster.view(&given.budget.key));
        let replicas = views.flat_map(|view| {
            let namespace = view.key.object.namespace;
            let of =
                move |replica: ReplicaView| ((namespace.clone(), replica.label.clone()), replica);
            view.replicas.into_iter().map(of)
        });
        Self(replicas.collect())
    }

    fn get(&self, unit: &Unit) -> Option<&ReplicaView> {
        self.0.get(&(unit.namespace.clone(), unit.name.clone()))
    }

    /// Whether as many of its pods are healthy as it needs, and those that go next besides.
    pub fn can_spare(&self, unit: &Unit) -> bool {
        self.get(unit).is_some_and(|replica| {
            let spare = replica.healthy_pods - replica.min.unwrap_or(1);
            let spare = usize::try_from(spare).unwrap_or(0);
            replica.state == ReplicaState::Healthy && spare >= unit.at_once
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_server::Evicted;
    use std::time::Duration;

    #[test]
    fn of_a_denial_the_arithmetic_is_told_if_there_is_any() {
        let whole = format!("admission webhook denied the request: {CANNOT_EVICT} It needs 3.");
        assert_eq!(arithmetic(&whole), "It needs 3.");
        assert_eq!(arithmetic(&format!("{whole} (decision 3f2a91c0)")), "It needs 3.");
        assert_eq!(arithmetic(CANNOT_EVICT), CANNOT_EVICT);
        assert_eq!(arithmetic("too many requests"), "too many requests");
    }

    #[test]
    fn a_replica_goes_with_a_pod_or_with_pods() {
        let pod = PodOf { name: "x-0".into(), uid: "x-0".into(), node: "a".into(), leader: false };
        let unit = Unit {
            namespace: "ns".to_owned(),
            name: "x".to_owned(),
            replica: true,
            pods: vec![pod],
            at_once: 1,
            follows: false,
            ends: false,
            costs: [("b".to_owned(), 1)].into(),
            recovery: None,
        };
        let mut follow = Follow::new([(unit, true)]);
        let ask = follow.poll(Duration::ZERO)[0];
        follow.answer(Duration::ZERO, ask, Evicted::Granted);
        let mut lines = Vec::new();
        let replicas = Replicas(BTreeMap::new());
        Progress::new(Vec::new()).look_at(&replicas, &follow.units()[0], &mut lines);
        assert_eq!(lines, ["ns: x goes, with 1 pod here"]);
    }

    #[test]
    fn bars_are_full_when_there_is_nothing_to_do() {
        assert_eq!(bar(0, 0), format!("[{}]", "#".repeat(BAR)));
        assert_eq!(bar(1, 2), format!("[{}{}]", "#".repeat(BAR / 2), "-".repeat(BAR / 2)));
        assert_eq!(bar(9, 2), bar(2, 2));
    }
}
