//! The report as text, for a terminal.

use std::collections::BTreeMap;

use super::report::{BudgetRun, EvictionRun, Lane, LaneState, Outcome, Report, Run, Time};
use super::scenario::count;
use super::timeline;
use crate::page::Page;

/// Longer lists are cut, and say so: `-o json` has everything.
const LINES_MAX: usize = 20;
const NAMES_MAX: usize = 4;
const BUDGETS_MAX: usize = 6;
const REASONS_MAX: usize = 5;

pub fn render(report: &Report, colour: bool) -> String {
    let mut page = Page::new(colour);
    page.title(&format!("{}: {}", title(report), outcome(&report.runs[0].outcome)));
    show(&mut page, report);
    page.heading("Assumed");
    for line in assumptions(report) {
        page.item("  ", &line);
    }
    page.into_text()
}

/// All but the title and what is assumed.
pub fn show(page: &mut Page, report: &Report) {
    let (budgets, more) = busiest(&report.runs);
    for index in budgets {
        page.item("  ", &describe(&report.runs[0].budgets[index]));
    }
    if more > 0 {
        page.line(&format!("  and {} that mattered less", count(more, "budget")));
    }
    timeline::show(page, &report.runs);
    if let Some(line) = idle_nodes(&report.runs) {
        page.line("");
        page.item("  ", &line);
    }
    for run in &report.runs {
        show_denials(page, run, report.runs.len() > 1);
    }
    for run in report.runs.iter().filter(|run| !run.outcome.is_finished()) {
        show_blockade(page, run, report.runs.len() > 1);
    }
    for run in report.runs.iter().filter(|run| run.outcome.is_finished()) {
        show_losses(page, run, report.runs.len() > 1);
    }
    match report.runs.as_slice() {
        [run] => show_outages(page, run),
        runs => show_comparison(page, runs),
    }
}

pub fn title(report: &Report) -> String {
    let names: Vec<&str> = report.drained.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => "Drain".to_owned(),
        [one] => format!("Drain of {one}"),
        [one, two] => format!("Drain of {one} and {two}"),
        [one, .., last] => format!("Drain of {} nodes, {one} to {last}", names.len()),
    }
}

pub fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Finished { at_seconds } => format!("finishes after {at_seconds}"),
        Outcome::Blocked { at_seconds } => format!("would block for ever from {at_seconds} on"),
    }
}

pub fn describe(budget: &BudgetRun) -> String {
    let BudgetRun { name, threshold, counts, api, .. } = budget;
    let unit = if *counts == "Replicas" { "replicas" } else { "pods" };
    let threshold = if threshold.is_empty() { "no threshold" } else { threshold };
    let what = match budget.needed.zip(budget.expected) {
        _ if budget.pods == 0 => "covers no pod of the input".to_owned(),
        Some((needed, expected)) => format!("needs {needed} of {expected} {unit}"),
        None => format!("counts {unit}, and how many it needs cannot be told"),
    };
    format!("Budget {name} {what} ({threshold}, {api})")
}

/// The budgets that had most to do, in the order of the input, and how many are left.
pub fn busiest(runs: &[Run]) -> (Vec<usize>, usize) {
    let mut indices: Vec<usize> = (0..runs[0].budgets.len()).collect();
    let all = indices.len();
    let weight = |index: &usize| {
        let of = runs.iter().map(|run| &run.budgets[*index]);
        of.map(|budget| (budget.below_needed_seconds, budget.denials)).max()
    };
    indices.sort_by_key(|index| std::cmp::Reverse(weight(index)));
    indices.truncate(BUDGETS_MAX);
    indices.sort_unstable();
    let more = all - indices.len();
    (indices, more)
}

pub fn assumptions(report: &Report) -> Vec<String> {
    let assumed = &report.assumptions;
    let manner = if assumed.parallel { "all at the same time" } else { "one after the other" };
    let mut lines = vec![
        format!(
            "A pod is ready {} after it was placed, and gone {} after it was evicted.",
            assumed.startup_seconds, assumed.grace_period_seconds
        ),
        format!(
            "Nodes are cordoned first and drained {manner}, by clients that try a denied eviction \
             again every {}.",
            assumed.retry_seconds
        ),
    ];
    lines.extend(report.notes.iter().map(|note| {
        let mut chars = note.chars();
        let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
        format!("{first}{}.", chars.as_str())
    }));
    lines
}

pub fn counting(run: &Run) -> &'static str {
    if run.counting == "Pods" { "counted in pods" } else { "as written" }
}

/// The most frequent denials that were not for ever, by the budgets that blocked: how many, and the first in the engine's words.
pub fn denials(run: &Run) -> Vec<(usize, &str)> {
    let mut by_budgets: BTreeMap<&[String], (usize, Option<&EvictionRun>)> = BTreeMap::new();
    for eviction in run.evictions.iter().filter(|eviction| eviction.denials > 0) {
        let (sum, first) = by_budgets.entry(&eviction.blocked_by).or_default();
        *sum += eviction.denials;
        if first.is_none_or(|first| eviction.first_denied_seconds < first.first_denied_seconds) {
            *first = Some(eviction);
        }
    }
    let told = by_budgets.into_values();
    let told = told.filter_map(|(sum, first)| Some((sum, first?.first_denial.as_deref()?)));
    // Of those more is said elsewhere.
    let for_ever: Vec<&str> = blockade(run).into_iter().map(|(_, message)| message).collect();
    let mut told: Vec<(usize, &str)> =
        told.filter(|(_, message)| !for_ever.contains(message)).collect();
    told.sort_by_key(|(sum, _)| std::cmp::Reverse(*sum));
    told.truncate(REASONS_MAX);
    told
}

/// Pods that are never let go, by the engine's last word on them.
pub fn blockade(run: &Run) -> Vec<(Vec<&str>, &str)> {
    let mut by_budgets: BTreeMap<&[String], (Vec<&str>, &str)> = BTreeMap::new();
    for eviction in run.evictions.iter().filter(|eviction| eviction.granted_seconds.is_none()) {
        let word = eviction.last_denial.as_deref().unwrap_or_default();
        let (pods, _) = by_budgets.entry(&eviction.blocked_by).or_insert((Vec::new(), word));
        pods.push(&eviction.pod);
    }
    by_budgets.into_values().collect()
}

/// What else stands in the way of a blocked drain.
pub fn obstacles(run: &Run) -> Vec<String> {
    let mut lines: Vec<String> = unplaced(run).into_iter().collect();
    let broken = run.replicas.iter().filter(|lane| lane.healthy_before == Some(false));
    let broken: Vec<String> = broken.map(|lane| lane.name.clone()).collect();
    if !broken.is_empty() {
        lines.push(format!(
            "{} not healthy before the drain, and nothing in this simulation repairs {}: {}.",
            if broken.len() == 1 {
                "1 replica was".to_owned()
            } else {
                format!("{} replicas were", broken.len())
            },
            if broken.len() == 1 { "it" } else { "them" },
            some_of(&broken)
        ));
    }
    lines
}

/// Pods that there is no room for, whether or not the drain finishes.
pub fn unplaced(run: &Run) -> Option<String> {
    let pods = &run.unplaced_pods;
    let fit = if pods.len() == 1 { "fits" } else { "fit" };
    let all = count(pods.len(), "pod");
    let some = some_of(pods);
    (!pods.is_empty()).then(|| {
        format!("{all} {fit} on no node and cannot become ready: {some}. More room would help.")
    })
}

/// Replicas whose health cannot be told.
pub fn untold(run: &Run) -> Option<String> {
    let lanes = run.replicas.iter().filter(|lane| lane.healthy_before.is_none());
    let names: Vec<&str> = lanes.map(|lane| lane.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Cannot be told, as no minimum of healthy pods is known, for {}: {}.",
            count(names.len(), "replica"),
            some_of(&names)
        )
    })
}

/// Drained nodes on which there was nothing to do in any of the runs, which drain the same nodes.
pub fn idle_nodes(runs: &[Run]) -> Option<String> {
    let is_idle = |run: &Run, index: usize| {
        run.nodes.get(index).is_some_and(|node| node.pods_evicted + node.pods_left == 0)
    };
    let nodes = runs[0].nodes.iter().enumerate();
    let idle = nodes.filter(|(index, _)| runs.iter().all(|run| is_idle(run, *index)));
    let names: Vec<&str> = idle.map(|(_, node)| node.name.as_str()).collect();
    let whose = if names.len() == 1 { "its" } else { "their" };
    (!names.is_empty())
        .then(|| format!("Nothing to evict on {} when {whose} turn came.", some_of(&names)))
}

pub fn some_of(names: &[impl AsRef<str>]) -> String {
    let some: Vec<&str> = names.iter().take(NAMES_MAX).map(AsRef::as_ref).collect();
    let more = names.len() - some.len();
    if more == 0 { some.join(", ") } else { format!("{} and {more} more", some.join(", ")) }
}

fn show_denials(page: &mut Page, run: &Run, name_it: bool) {
    for (sum, message) in denials(run) {
        page.line("");
        let which = if name_it { format!(", {}", counting(run)) } else { String::new() };
        let told =
            if sum == 1 { "1 denial" } else { &format!("{sum} denials, of which the first") };
        page.line(&format!("  {told}{which}:"));
        page.item("    ", message);
    }
}

fn show_blockade(page: &mut Page, run: &Run, name_it: bool) {
    let which = if name_it { format!(" when {}", counting(run)) } else { String::new() };
    page.heading(&format!("Blocked for ever{which}"));
    for (pods, message) in blockade(run) {
        page.line(&format!("  {}: {}", count(pods.len(), "pod"), some_of(&pods)));
        page.item("    ", message);
    }
    for line in obstacles(run) {
        page.item("  ", &line);
    }
}

fn show_losses(page: &mut Page, run: &Run, name_it: bool) {
    let Some(line) = unplaced(run) else { return };
    let which = if name_it { format!(" when {}", counting(run)) } else { String::new() };
    page.heading(&format!("Not back after the drain{which}"));
    page.item("  ", &line);
}

fn show_outages(page: &mut Page, run: &Run) {
    let lanes: Vec<&Lane> = run.replicas.iter().filter(|l| !l.down_seconds.0.is_zero()).collect();
    if run.replicas.is_empty() {
        return;
    }
    page.heading("Replicas down");
    let untold = untold(run);
    if lanes.is_empty() && untold.is_none() {
        page.line("  none");
    }
    let width = lanes.iter().take(LINES_MAX).map(|lane| lane.name.len()).max().unwrap_or_default();
    for lane in lanes.iter().take(LINES_MAX) {
        let times: Vec<String> = outages(lane)
            .map(|(from, to)| match to {
                Some(to) => format!("{from} to {to}"),
                None => format!("from {from}, does not come back"),
            })
            .collect();
        let all = if lane.stays_down { "-".to_owned() } else { lane.down_seconds.to_string() };
        page.item(&format!("  {:<width$}  {all:>8}  ", lane.name), &times.join(", "));
    }
    if let Some(line) = untold {
        page.item("  ", &line);
    }
    if lanes.len() > LINES_MAX {
        page.line(&format!("  and {} more", lanes.len() - LINES_MAX));
    }
}

/// From and to, of every time that the replica was down; the last may have no end.
fn outages(lane: &Lane) -> impl Iterator<Item = (Time, Option<Time>)> + '_ {
    let end = lane.states.last().map(|state| state.to_seconds).filter(|_| lane.stays_down);
    let runs = lane.states.chunk_by(|a, b| a.healthy == b.healthy);
    let span = |states: &[LaneState]| match states {
        [first, .., last] => (first.from_seconds, last.to_seconds),
        [one] => (one.from_seconds, one.to_seconds),
        [] => (Time::default(), Time::default()),
    };
    let down = runs.filter(|states| states.first().is_some_and(|s| s.healthy == Some(false)));
    down.map(span).map(move |(from, to)| (from, Some(to).filter(|_| Some(to) != end)))
}

fn show_comparison(page: &mut Page, runs: &[Run]) {
    let row = |what: &str, cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>18}")).collect();
        format!("  {what:<42}{}", cells.concat())
    };
    page.line("");
    let names: Vec<String> = runs.iter().map(|run| counting(run).to_owned()).collect();
    page.line(&page.bold(&row("", &names)));
    for (what, cells) in comparison(runs) {
        page.line(&row(&what, &cells));
    }
}

/// What differs between runs, in numbers.
pub fn comparison(runs: &[Run]) -> Vec<(String, Vec<String>)> {
    let mut rows = Vec::new();
    let mut compare = |what: String, of: &dyn Fn(&Run) -> String| {
        rows.push((what, runs.iter().map(of).collect()));
    };
    for index in busiest(runs).0 {
        let budget = &runs[0].budgets[index];
        let unit = if budget.counts == "Replicas" { "replicas" } else { "pods" };
        let name = &budget.name;
        compare(format!("{name}: fewest healthy {unit}"), &|run| {
            let budget = &run.budgets[index];
            match budget.expected {
                Some(expected) => format!("{} of {expected}", budget.lowest_healthy),
                None => budget.lowest_healthy.to_string(),
            }
        });
        let Some(needed) = budget.needed else { continue };
        compare(format!("{name}: time with fewer than {needed}"), &|run| {
            run.budgets[index].below_needed_seconds.to_string()
        });
    }
    if !runs[0].replicas.is_empty() {
        compare("times that a replica went down".to_owned(), &|run| {
            run.replicas.iter().map(|lane| lane.interruptions).sum::<usize>().to_string()
        });
    }
    compare("evictions denied".to_owned(), &|run| run.evictions_denied.to_string());
    compare("nodes empty after".to_owned(), &|run| match &run.outcome {
        Outcome::Finished { at_seconds } => at_seconds.to_string(),
        Outcome::Blocked { .. } => "never".to_owned(),
    });
    rows
}
