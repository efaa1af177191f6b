//! Drains side by side over virtual time, as a table.

use std::collections::BTreeSet;

use super::report::{Moment, Run, Time};
use super::text::counting;
use crate::page::Page;

const ROWS_MAX: usize = 40;
const BAR_MAX: usize = 20;

/// A row for every moment in which one of the runs evicted something. Retries in between are added up
/// in the row before.
pub fn show(page: &mut Page, runs: &[Run]) {
    let moments = runs.iter().flat_map(|run| &run.timeline);
    let times: BTreeSet<Time> = moments.map(|moment| moment.at_seconds).collect();
    if times.is_empty() {
        return;
    }
    let columns: Vec<Column<'_>> = runs.iter().map(Column::of).collect();
    page.line("");
    page.item("  ", &legend(runs));
    let width = times.iter().map(|time| time.to_string().len()).max().unwrap_or_default();
    let row = |time: &str, cells: &mut dyn Iterator<Item = String>| row(time, width, cells);
    page.line("");
    if runs.len() > 1 {
        let mut names =
            columns.iter().map(|column| format!("{:<1$}", counting(column.run), column.width()));
        page.line(&page.bold(row("", &mut names).trim_end()));
    }
    page.line(row("time", &mut columns.iter().map(Column::header)).trim_end());
    let mut shown = times.iter().peekable();
    for _ in 0..ROWS_MAX {
        let Some(from) = shown.next() else { break };
        let until = shown.peek().copied().copied();
        let cells: Vec<Option<String>> =
            columns.iter().map(|column| column.cell(page, *from, until)).collect();
        let filled = cells.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let cells = cells.into_iter().zip(&columns).take(filled);
        let mut cells =
            cells.map(|(cell, column)| cell.unwrap_or_else(|| " ".repeat(column.width())));
        page.line(row(&from.to_string(), &mut cells).trim_end());
    }
    if times.len() > ROWS_MAX {
        page.line(&format!("  and {} more rows; -o json has them", times.len() - ROWS_MAX));
    }
}

fn legend(runs: &[Run]) -> String {
    let (of, unit) = if tells_replicas(&runs[0]) {
        ("the replicas that they belong to, ", "replicas")
    } else {
        ("", "pods")
    };
    format!(
        "Each row: the node, pods evicted then, {of}requests denied until the next row, and how many \
         {unit} are healthy, at the fewest."
    )
}

struct Column<'a> {
    run: &'a Run,
    /// Replicas, or pods.
    total: usize,
    /// How many the budgets want.
    wanted: i64,
    node: usize,
    /// Width of that column, which is not there if no pod is of a replica.
    replicas: usize,
}

impl<'a> Column<'a> {
    fn of(run: &'a Run) -> Self {
        let replicas = tells_replicas(run);
        let total = if replicas {
            run.replicas.iter().filter(|lane| lane.needed.is_some()).count()
        } else {
            run.replicas.iter().chain(&run.pod_sets).map(|lane| lane.pods).sum()
        };
        let unit = if replicas { "Replicas" } else { "Pods" };
        let budgets = run.budgets.iter().filter(|budget| budget.counts == unit);
        let wanted = budgets.filter_map(|budget| budget.needed).sum();
        let names = run.timeline.iter().map(|moment| place(moment).len());
        let node = names.max().unwrap_or_default().max("node".len());
        Self { run, total, wanted, node, replicas: if replicas { 9 } else { 0 } }
    }

    fn bar(&self) -> usize {
        self.total.min(BAR_MAX)
    }

    fn width(&self) -> usize {
        self.node + 5 + self.replicas + 7 + 2 + self.healthy() + 3
    }

    /// Of the bar, its number, and the header above it.
    fn healthy(&self) -> usize {
        (self.bar() + 1 + self.digits()).max("healthy".len())
    }

    fn digits(&self) -> usize {
        self.total.to_string().len()
    }

    fn header(&self) -> String {
        let width = self.width();
        let node = format!("{:<1$}", "node", self.node);
        let replicas =
            format!("{:>1$}", if self.replicas > 0 { "replicas" } else { "" }, self.replicas);
        let text = format!("{node}{:>5}{replicas}{:>7}  healthy", "pods", "denied");
        format!("{text:<width$}")
    }

    /// What this run did from this row's time until the next row's.
    fn cell(&self, page: &Page, from: Time, until: Option<Time>) -> Option<String> {
        let within = |moment: &&Moment| {
            moment.at_seconds >= from && until.is_none_or(|until| moment.at_seconds < until)
        };
        let moments: Vec<&Moment> = self.run.timeline.iter().filter(within).collect();
        let first = moments.first()?;
        let lowest = moments.iter().map(|moment| moment.lowest_healthy).min()?.min(self.total);
        let pods: usize = moments.iter().map(|moment| moment.granted.len()).sum();
        let replicas: usize = moments.iter().map(|moment| moment.replicas.len()).sum();
        let denied: usize = moments.iter().map(|moment| moment.denied).sum();
        let (bar, digits, node) = (self.bar(), self.digits(), self.node);
        let full = (lowest * bar).div_ceil(self.total.max(1));
        let bar = format!("{:.<bar$} {lowest:>digits$}", "#".repeat(full));
        let gap = " ".repeat(self.healthy() + 3 - bar.len());
        let good = i64::try_from(lowest).is_ok_and(|lowest| lowest >= self.wanted);
        let bar = page.paint_good(good, &bar);
        let place = place(first);
        let replicas = if self.replicas > 0 { format!("{replicas:>9}") } else { String::new() };
        Some(format!("{place:<node$}{pods:>5}{replicas}{denied:>7}  {bar}{gap}"))
    }
}

/// Whether there are replicas whose health can be told; else pods are counted.
fn tells_replicas(run: &Run) -> bool {
    run.replicas.iter().any(|lane| lane.needed.is_some())
}

fn place(moment: &Moment) -> String {
    match moment.nodes.as_slice() {
        [one] => one.clone(),
        nodes => format!("{} nodes", nodes.len()),
    }
}

fn row(time: &str, widest: usize, cells: &mut dyn Iterator<Item = String>) -> String {
    let width = (widest + 2).max(7);
    format!("  {time:<width$}{}", cells.collect::<String>())
}
