//! The report as one page of HTML that refers to nothing outside of itself and needs no script.

use std::fmt::Write as _;

use super::picture::{self, escape};
use super::report::{Outcome, Report, Run};
use super::scenario::count;
use super::text::{
    assumptions, blockade, busiest, comparison, counting, denials, describe, idle_nodes, obstacles,
    outcome, some_of, title, unplaced, untold,
};

const STYLE: &str = include_str!("page.css");

pub fn render(report: &Report) -> String {
    let heading = escape(&title(report));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{heading}: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n\
         <h1>{heading}</h1>\n",
        escape(&outcome(&report.runs[0].outcome)),
    );
    let (budgets, more) = busiest(&report.runs);
    for index in &budgets {
        let budget = describe(&report.runs[0].budgets[*index]);
        push(&mut page, &format!("<p>{}</p>", escape(&budget)));
    }
    if more > 0 {
        push(&mut page, &format!("<p>and {} that mattered less</p>", count(more, "budget")));
    }
    page.push_str("</header>\n");
    let compares = report.runs.len() > 1;
    let end = report.runs.iter().map(|run| run.end_seconds).max().unwrap_or_default();
    let class = if compares { "runs two" } else { "runs" };
    push(&mut page, &format!("<main class=\"{class}\">"));
    for run in &report.runs {
        page.push_str("<article>\n");
        if compares {
            push(&mut page, &format!("<h2>{}</h2>", capital(counting(run))));
        }
        push(&mut page, &verdict(run));
        page.push_str(&picture::draw(run, &budgets, end, compares));
        page.push_str("</article>\n");
    }
    page.push_str("</main>\n");
    page.push_str(LEGEND);
    if compares {
        page.push_str(&table(&report.runs));
    }
    for run in &report.runs {
        page.push_str(&reasons(run, compares));
    }
    for line in untold(&report.runs[0]).into_iter().chain(idle_nodes(&report.runs)) {
        push(&mut page, &format!("<p>{}</p>", escape(&line)));
    }
    page.push_str("<section>\n<h2>Assumed</h2>\n<ul>\n");
    for line in assumptions(report) {
        push(&mut page, &format!("<li>{}</li>", escape(&line)));
    }
    page.push_str("</ul>\n</section>\n");
    push(
        &mut page,
        "<footer>Simulated by holdfast, with the engine that decides evictions in production. \
         Health is counted from the simulated pods. Point at the picture for details.</footer>",
    );
    page.push_str("</body>\n</html>\n");
    page
}

const LEGEND: &str = "<p class=\"legend\">\
    <span><i class=\"up\"></i>healthy</span>\
    <span><i class=\"less\"></i>healthy, pods missing</span>\
    <span><i class=\"down\"></i>down</span>\
    <span><i class=\"need\"></i>what the budget needs</span>\
    <span><i class=\"node\"></i>node being drained</span>\
    <span><i class=\"tick\"></i>eviction granted</span></p>\n";

fn verdict(run: &Run) -> String {
    let class = if run.outcome.is_finished() { "good" } else { "bad" };
    let mut facts = vec![format!("{} denied", count(run.evictions_denied, "eviction"))];
    if !run.replicas.is_empty() {
        let falls: usize = run.replicas.iter().map(|lane| lane.interruptions).sum();
        facts.insert(0, count(falls, "replica outage"));
    }
    let mut line = format!(
        "<p><strong class=\"{class}\">{}</strong> {}",
        capital(&outcome(&run.outcome)),
        escape(&facts.join(", "))
    );
    let below = || run.budgets.iter().filter(|budget| !budget.below_needed_seconds.0.is_zero());
    if let Some(worst) = below().max_by_key(|budget| budget.below_needed_seconds) {
        let time = worst.below_needed_seconds;
        let what = match below().count() {
            1 => format!("{} below its need for {time}", escape(&worst.name)),
            several => format!("{several} budgets below their need, for up to {time}"),
        };
        let _ = write!(line, ", <strong class=\"bad\">{what}</strong>");
    }
    line + "</p>"
}

fn table(runs: &[Run]) -> String {
    let mut table = String::from("<section>\n<table>\n<tr><th></th>");
    for run in runs {
        let _ = write!(table, "<th>{}</th>", counting(run));
    }
    table.push_str("</tr>\n");
    for (what, cells) in comparison(runs) {
        let _ = write!(table, "<tr><th>{}</th>", escape(&what));
        for cell in cells {
            let _ = write!(table, "<td>{}</td>", escape(&cell));
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</table>\n</section>\n");
    table
}

fn reasons(run: &Run, name_it: bool) -> String {
    let which = if name_it { format!(", {}", counting(run)) } else { String::new() };
    let mut section = String::new();
    if let Outcome::Blocked { .. } = run.outcome {
        push(&mut section, &format!("<section>\n<h2>Blocked for ever{which}</h2>"));
        for (pods, message) in blockade(run) {
            let pods = escape(&some_of(&pods));
            push(&mut section, &format!("<p><b>{pods}</b></p>"));
            push(&mut section, &format!("<blockquote>{}</blockquote>", escape(message)));
        }
        for line in obstacles(run) {
            push(&mut section, &format!("<p>{}</p>", escape(&line)));
        }
        section.push_str("</section>\n");
    }
    if let Some(line) = unplaced(run).filter(|_| run.outcome.is_finished()) {
        let line = escape(&line);
        let heading = format!("<h2>Not back after the drain{which}</h2>");
        push(&mut section, &format!("<section>\n{heading}\n<p>{line}</p>\n</section>"));
    }
    let denials = denials(run);
    if !denials.is_empty() {
        push(&mut section, &format!("<section>\n<h2>Why evictions were denied{which}</h2>"));
        for (sum, message) in denials {
            push(&mut section, &format!("<p>{sum} times, first:</p>"));
            push(&mut section, &format!("<blockquote>{}</blockquote>", escape(message)));
        }
        section.push_str("</section>\n");
    }
    section
}

fn push(page: &mut String, line: &str) {
    page.push_str(line);
    page.push('\n');
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    escape(&format!("{first}{}", chars.as_str()))
}
