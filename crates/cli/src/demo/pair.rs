//! KEP-5682's simplified setup: two replicas of two pods on the node that is drained.

use holdfast_core::Config;
use holdfast_core::verdict::Verdict;
use holdfast_sim::{BudgetBuilder, World, budget, group, owner, pod, workload};

use super::page::Page;

/// A drain asks for all pods of the node and knows nothing of replicas, so they come interleaved.
const EVICTED: [(&str, &str); 4] = [
    ("replica-0-a", "replica-0"),
    ("replica-1-a", "replica-1"),
    ("replica-0-b", "replica-0"),
    ("replica-1-b", "replica-1"),
];

pub fn show(page: &mut Page) {
    page.heading("1. Two replicas of two pods on one node; at most one replica may be down");
    page.paragraph(
        "A replica works only while both of its pods do. Two pods are one replica's worth, so the \
         pod-counted budget says maxUnavailable: 2. The node is drained.",
    );

    let in_pods = drain(budget("inference").max_unavailable(2));
    let in_replicas = drain(budget("inference").max_unavailable(1).per_replica());

    let mut notes = Notes::default();
    let left = notes.cells(&in_pods);
    let right = notes.cells(&in_replicas);

    page.line("");
    let header = row("", &format!("{:<LEFT$}", "counted in pods"), "counted in replicas");
    page.line(&page.bold(&header));
    let left_spec = format!("{:<LEFT$}", "maxUnavailable: 2");
    page.line(&row("", &left_spec, "maxUnavailable: 1, budgetScope: Workload"));
    for ((pod, _), (left, right)) in EVICTED.iter().zip(left.iter().zip(&right)) {
        page.line(&row(&format!("evict {pod}"), &left.padded(page), &right.plain(page)));
    }
    let (left, right) = (working(&in_pods), working(&in_replicas));
    page.line(&row("still working", &left.padded(page), &right.plain(page)));

    page.line("");
    for (letter, (_, message)) in ('a'..).zip(&notes.told) {
        page.item(&format!("  ({letter}) "), message);
    }
}

struct Outcome {
    verdicts: Vec<Verdict>,
    working: Vec<String>,
}

/// Evict one pod after the other, once each. Nothing comes back: there is no other node.
fn drain(budget: BudgetBuilder) -> Outcome {
    let mut world = World::new(Config::default());
    world.apply_owner(owner("apps", "StatefulSet", "inference").replicas(4));
    world.apply_workload(workload("inference").gang("replica", 2));
    for replica in ["replica-0", "replica-1"] {
        world.apply_pod_group(group(replica).gang(2).template("inference", "replica").owned_by(
            "apps",
            "StatefulSet",
            "inference",
        ));
    }
    for (name, replica) in EVICTED {
        let member = pod(name).group(replica).owned_by("apps", "StatefulSet", "inference");
        world.apply_pod(member.node("node-1").ready());
    }
    world.apply_budget(budget);
    world.sync();

    let verdicts = EVICTED.iter().map(|(pod, _)| world.evict(*pod)).collect();
    let working = world.healthy_replicas().into_iter().map(|replica| replica.name).collect();
    Outcome { verdicts, working }
}

/// Denials in the engine's words, referred to by letter. Those that differ only in the pod that they
/// name are told once.
#[derive(Default)]
struct Notes {
    /// The message without the pod's name, and the message.
    told: Vec<(String, String)>,
}

impl Notes {
    fn cells(&mut self, outcome: &Outcome) -> Vec<Cell> {
        let verdicts = EVICTED.iter().zip(&outcome.verdicts);
        verdicts.map(|((pod, _), verdict)| self.cell(pod, verdict)).collect()
    }

    fn cell(&mut self, pod: &str, verdict: &Verdict) -> Cell {
        let denial = match verdict {
            Verdict::Allow(_) => return Cell { good: true, text: "granted".to_owned() },
            Verdict::Deny(denial) => denial,
        };
        let essence = denial.message.replace(pod, "");
        let known = self.told.iter().position(|(told, _)| *told == essence);
        let index = known.unwrap_or_else(|| {
            self.told.push((essence, denial.message.clone()));
            self.told.len() - 1
        });
        let letter = ('a'..).nth(index).unwrap_or('?');
        Cell { good: false, text: format!("DENIED ({letter})") }
    }
}

fn working(outcome: &Outcome) -> Cell {
    let text = match outcome.working.as_slice() {
        [] => "no replica".to_owned(),
        replicas => replicas.join(", "),
    };
    Cell { good: !outcome.working.is_empty(), text }
}

struct Cell {
    good: bool,
    text: String,
}

impl Cell {
    fn plain(&self, page: &Page) -> String {
        page.paint_good(self.good, &self.text)
    }

    fn padded(&self, page: &Page) -> String {
        page.paint_good(self.good, &format!("{:<LEFT$}", self.text))
    }
}

const LEFT: usize = 24;

fn row(first: &str, left: &str, right: &str) -> String {
    format!("  {first:<22}{left}{right}")
}
