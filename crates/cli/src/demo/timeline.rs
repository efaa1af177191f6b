//! Two drains side by side over virtual time.

use std::collections::BTreeSet;
use std::time::Duration;

use super::job::{REPLICAS, Round, WANTED};
use super::page::{Page, clock};

/// A row for every moment in which one of the two evicted something. Retries in between are added up
/// in the row before.
pub fn show(page: &mut Page, in_pods: &[Round], in_replicas: &[Round]) {
    let both = in_pods.iter().chain(in_replicas);
    let times: BTreeSet<Duration> =
        both.filter(|round| round.evicted > 0).map(|round| round.at).collect();

    page.line("");
    page.paragraph(
        "Each row: pods evicted then, the replicas that they belong to, requests denied until the \
         next row, and how many replicas are healthy.",
    );
    page.line("");
    page.line(&page.bold(&row("", "counted in pods", "counted in replicas")));
    let header = format!("{:<6}{:>5}{:>9}{:>7}  healthy", "node", "pods", "replicas", "denied");
    page.line(&row("time", &header, &header));
    let mut times = times.into_iter().peekable();
    while let Some(from) = times.next() {
        let until = times.peek().copied().unwrap_or(Duration::MAX);
        let left = cell(page, in_pods, from, until);
        let right = cell(page, in_replicas, from, until);
        page.line(&match (left, right) {
            (Some(left), Some(right)) => format!("  {:<6}{left}   {right}", clock(from)),
            (Some(left), None) => format!("  {:<6}{left}", clock(from)),
            (None, right) => row(&clock(from), "", &right.unwrap_or_default()),
        });
    }
}

/// What one drain did from this row's time until the next row's. Always as wide as `CELL`.
fn cell(page: &Page, rounds: &[Round], from: Duration, until: Duration) -> Option<String> {
    let within = || rounds.iter().filter(|round| round.at >= from && round.at < until);
    let node = within().next()?.node;
    let lowest = within().map(|round| round.healthy).min()?;
    let pods: usize = within().map(|round| round.evicted).sum();
    let replicas: usize = within().map(|round| round.replicas).sum();
    let denied: usize = within().map(|round| round.denied).sum();
    let bar = format!("{:.<REPLICAS$} {lowest:>2}", "#".repeat(lowest));
    let bar = page.paint_good(lowest >= WANTED, &bar);
    Some(format!("{node:<6}{pods:>5}{replicas:>9}{denied:>7}  {bar}"))
}

const CELL: usize = 29 + REPLICAS + 3;

fn row(time: &str, left: &str, right: &str) -> String {
    format!("  {time:<6}{left:<CELL$}   {right}")
}
