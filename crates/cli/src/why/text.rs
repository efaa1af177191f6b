//! The answer for a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::answer::{Answer, Broken, BudgetAnswer, NodeAnswer, PodAnswer, Unblock};
use crate::ask::{Table, age, count};
use crate::page::Page;

/// Of longer lists only the beginning is shown: `-o json` has everything.
const SHOWN_MAX: usize = 8;

pub fn render(answer: &Answer, wide: bool, colour: bool) -> String {
    let mut page = Page::new(colour);
    match answer {
        Answer::Pod(pod) => show_pod(&mut page, pod),
        Answer::Node(node) => show_node(&mut page, node, wide),
    }
    page.into_text()
}

fn show_pod(page: &mut Page, pod: &PodAnswer) {
    let PodAnswer { namespace, name, .. } = pod;
    let place = pod.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    let verdict = page.paint_good(pod.allowed, verdict(pod.allowed));
    page.line(&format!("pod {namespace}/{name}{place} ({}): {verdict}", pod.state));
    page.line("");
    page.item("  ", reason(pod));
    if let Some(note) = &pod.note {
        page.line("");
        page.item("  ", note);
    }
    if !pod.budgets.is_empty() {
        page.line("");
        show_budgets(page, &pod.budgets);
    }
    show_blocking(page, pod);
}

fn verdict(allowed: bool) -> &'static str {
    if allowed { "allowed" } else { "blocked" }
}

/// What the Eviction API would say, without the sentence that every denial opens with.
fn reason(pod: &PodAnswer) -> &str {
    pod.message.strip_prefix(holdfast_core::verdict::CANNOT_EVICT).unwrap_or(&pod.message).trim()
}

fn show_budgets(page: &mut Page, budgets: &[BudgetAnswer]) {
    let heading =
        ["BUDGET", "THRESHOLD", "COUNTS", "NEEDED", "HEALTHY", "EXPECTED", "ALLOWED", "THIS POD"];
    let mut table = Table::new(&heading);
    for budget in budgets {
        table.row(vec![
            budget.name.clone(),
            budget.threshold.clone(),
            format!("{}s", budget.unit),
            budget.desired.to_string(),
            budget.healthy.to_string(),
            budget.expected.to_string(),
            budget.disruptions_allowed.to_string(),
            match (budget.blocks, budget.cost) {
                (true, _) => "blocked".to_owned(),
                (false, Some(cost)) => format!("allowed, costs {cost}"),
                (false, None) => "not protected".to_owned(),
            },
        ]);
    }
    for line in table.lines() {
        page.line(&format!("  {line}"));
    }
}

/// The other budgets that block, and what would help.
fn show_blocking(page: &mut Page, pod: &PodAnswer) {
    let told = reason(pod);
    let others: Vec<&str> = (pod.budgets.iter().filter(|budget| budget.blocks))
        .map(|budget| budget.message.as_str())
        .chain(pod.builtin.as_deref())
        .filter(|message| !told.to_lowercase().contains(&message.to_lowercase()))
        .collect();
    if !others.is_empty() {
        page.heading("Also blocked by");
        for message in others {
            page.item("  - ", message);
        }
    }
    if pod.unblock.is_empty() {
        return;
    }
    let several = pod.budgets.iter().filter(|budget| budget.blocks).count() > 1;
    page.heading(if several {
        "What would unblock it, for each budget"
    } else {
        "What would unblock it"
    });
    for way in &pod.unblock {
        show_way(page, way, several);
    }
}

fn show_way(page: &mut Page, way: &Unblock, several: bool) {
    let of = |budget: &str| if several { format!("budget {budget}: ") } else { String::new() };
    match way {
        Unblock::Recover { budget, unit, missing, units } => {
            let which =
                if units.is_empty() { "; no pod of one is there yet" } else { ", of these:" };
            let has = if *missing == 1 { "has" } else { "have" };
            let missing = count(*missing, &format!("more {unit}"));
            page.item("  - ", &format!("{}{missing} {has} to become healthy{which}", of(budget)));
            for unit in units.iter().take(SHOWN_MAX) {
                show_broken(page, unit);
            }
            more(page, "      ", units.len());
        }
        Unblock::Grant { budget, pod, by, expires_in_seconds, .. } => {
            let when = match expires_in_seconds {
                0 => "expires at any moment".to_owned(),
                secs => format!("expires in {}", age(Duration::from_secs(*secs))),
            };
            let by = if by.is_empty() { String::new() } else { format!(" to {by}") };
            page.item(
                "  - ",
                &format!(
                    "{}the grant for pod {pod}{by} {when}, if the pod stays that long",
                    of(budget)
                ),
            );
        }
        Unblock::Threshold { budget, now, instead } => {
            page.item("  - ", &format!("{}{instead} instead of {now}", of(budget)));
        }
        Unblock::Mend { budget, what } => {
            page.item("  - ", &format!("{}mend this first: {what}", of(budget)));
        }
    }
}

fn show_broken(page: &mut Page, unit: &Broken) {
    if let Some(needs) = unit.needs {
        let has = format!("{} needs {needs} healthy pods and has {}", unit.name, unit.healthy);
        page.item("      ", &has);
        if unit.pods.is_empty() {
            page.line("        pods of it are missing");
        }
    }
    for pod in unit.pods.iter().take(SHOWN_MAX) {
        let place = pod.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        page.item("        ", &format!("{}{place}: {}", pod.name, pod.state));
    }
    more(page, "        ", unit.pods.len());
}

fn more(page: &mut Page, indent: &str, len: usize) {
    if len > SHOWN_MAX {
        page.line(&format!("{indent}and {} more", len - SHOWN_MAX));
    }
}

fn show_node(page: &mut Page, node: &NodeAnswer, wide: bool) {
    let (allowed, blocked): (Vec<&PodAnswer>, Vec<&PodAnswer>) =
        node.pods.iter().partition(|pod| pod.allowed);
    let (free, covered): (Vec<&PodAnswer>, Vec<&PodAnswer>) =
        allowed.into_iter().partition(|pod| pod.budgets.is_empty());
    let numbers = format!(
        "{} of {} blocked",
        blocked.len(),
        count(i64::try_from(node.pods.len()).unwrap_or(i64::MAX), "pod")
    );
    let verdict = page.paint_good(node.allowed, verdict(node.allowed));
    page.line(&format!("node {}: {verdict}, {numbers}", node.name));
    show_by_budget(page, &blocked);
    // In full, or because no budget is to blame.
    for pod in blocked.iter().filter(|pod| wide || pod.blocking.is_empty()) {
        page.heading(&format!("Blocked: {}/{}", pod.namespace, pod.name));
        page.item("  ", reason(pod));
        if wide {
            page.line("");
            show_budgets(page, &pod.budgets);
            show_blocking(page, pod);
        }
    }
    list(page, "Allowed, each on its own", &covered);
    list(page, "Allowed, under no budget", &free);
    if !node.ignored.is_empty() {
        page.heading("Left alone by a drain");
        page.item("  ", &node.ignored.join(", "));
    }
}

/// Each budget that blocks, once: its numbers, the pods, and what would help.
fn show_by_budget(page: &mut Page, blocked: &[&PodAnswer]) {
    let mut groups: BTreeMap<(&str, &str), Vec<(&PodAnswer, &BudgetAnswer)>> = BTreeMap::new();
    for &pod in blocked {
        for budget in pod.budgets.iter().filter(|budget| budget.blocks) {
            groups.entry((&pod.namespace, &budget.name)).or_default().push((pod, budget));
        }
    }
    for ((namespace, name), group) in groups {
        page.heading(&format!("Blocked by budget {namespace}/{name}"));
        let BudgetAnswer { threshold, unit, desired, healthy, expected, .. } = group[0].1;
        let numbers = format!(
            "{threshold}: it needs {} and has {healthy} of {expected}",
            count(*desired, &format!("healthy {unit}"))
        );
        page.item("  ", &numbers);
        let pods: Vec<&str> = group.iter().map(|(pod, _)| pod.name.as_str()).collect();
        page.item("  pods: ", &pods.join(", "));
        let mut told = BTreeSet::new();
        for way in group.iter().flat_map(|(pod, _)| &pod.unblock) {
            // Most are the same for every pod.
            if budget_of(way) != name || told.contains(&format!("{way:?}")) {
                continue;
            }
            if told.is_empty() {
                page.line("  What would unblock it:");
            }
            told.insert(format!("{way:?}"));
            show_way(page, way, false);
        }
    }
}

fn budget_of(way: &Unblock) -> &str {
    match way {
        Unblock::Recover { budget, .. }
        | Unblock::Grant { budget, .. }
        | Unblock::Threshold { budget, .. }
        | Unblock::Mend { budget, .. } => budget,
    }
}

fn list(page: &mut Page, heading: &str, pods: &[&PodAnswer]) {
    if !pods.is_empty() {
        page.heading(heading);
        let names: Vec<String> =
            pods.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
        page.item("  ", &names.join(", "));
    }
}
