//! A plan for a terminal.

use std::time::Duration;

use super::plan::Unit;
use super::report::DrainPlan;
use crate::ask::{Table, age, count};
use crate::page::Page;

pub fn render(plan: &DrainPlan, colour: bool) -> String {
    let mut page = Page::new(colour);
    let size = |n: usize, what| count(n.try_into().unwrap_or(i64::MAX), what);
    let takes = match plan.estimated_seconds {
        // Who waits for room waits for somebody to make it.
        Some(seconds) if seconds > 0 && plan.is_complete() && plan.pods_without_room == 0 => {
            format!(", in about {}", age(Duration::from_secs(seconds)))
        }
        _ => String::new(),
    };
    let stops = plan.pods_without_room > 0 && plan.units().any(Unit::is_charged);
    let verdict = match (plan.is_complete(), stops) {
        (true, false) => page.paint_good(true, "can be drained"),
        (true, true) => page.paint_good(false, "will stop for lack of room elsewhere"),
        (false, _) => page.paint_good(false, "cannot be drained"),
    };
    let breaks = match plan.broken() {
        0 => "breaks no replica".to_owned(),
        broken => format!("breaks {}, each once", size(broken, "replica")),
    };
    page.line(&format!("{} {verdict}{takes}", plan.nodes.join(" ")));
    let what = [size(plan.waves.len(), "wave"), size(plan.pods(), "pod")].join(", ");
    page.line(&format!("{what}; {breaks}"));
    if !plan.waves.is_empty() {
        page.line("");
        page.lines(&waves(plan).lines());
    }
    for (node, why) in &plan.refused {
        section(&mut page, &format!("{node} is not drained"), [why.clone()]);
    }
    let reason = |(budget, why): (&String, &String)| format!("{budget}: {why}");
    if !plan.waiting.is_empty() {
        let title = "Nothing healthy goes until something recovers";
        section(&mut page, title, plan.waiting.iter().map(reason));
    }
    if plan.pods_without_room > 0 {
        let pods = size(plan.pods_without_room, "pod");
        let text = format!(
            "There is no room on the other nodes for {pods}, by an estimate: budgets hold the drain up there \
             until there is. Add nodes, or drain fewer of these."
        );
        section(&mut page, "No room", [text]);
    }
    if !plan.blocked.is_empty() {
        let line = |blocked: &super::report::Blocked| {
            let what = named(&blocked.unit);
            format!("{what} ({}): {}", nodes_of(&blocked.unit), blocked.reason)
        };
        section(&mut page, "Blocked for ever", plan.blocked.iter().map(line));
    }
    page.into_text()
}

fn section(page: &mut Page, title: &str, items: impl IntoIterator<Item = String>) {
    page.line("");
    page.line(&page.bold(title));
    for item in items {
        page.item("  - ", &item);
    }
}

fn waves(plan: &DrainPlan) -> Table {
    let mut table = Table::new(&["WAVE", "AFTER", "GOES", "PODS", "FROM", "NODES DONE"]);
    for (index, wave) in plan.waves.iter().enumerate() {
        let last = wave.units.len().saturating_sub(1);
        for (place, unit) in wave.units.iter().enumerate() {
            let first = place == 0;
            let once = |text: String| if first { text } else { String::new() };
            table.row(vec![
                once((index + 1).to_string()),
                once(age(Duration::from_secs(wave.after_seconds))),
                named(unit),
                if unit.is_spared() {
                    format!("{}, {} at a time", unit.pods.len(), unit.at_once)
                } else if unit.follows && unit.pods.len() > 1 {
                    format!("{}, 1 evicted", unit.pods.len())
                } else {
                    unit.pods.len().to_string()
                },
                nodes_of(unit),
                if place == last { wave.nodes_done.join(" ") } else { String::new() },
            ]);
        }
    }
    table
}

pub fn named(unit: &Unit) -> String {
    let Unit { namespace, name, replica, .. } = unit;
    if *replica { format!("{namespace}: {name}") } else { format!("{namespace}: pod {name}") }
}

fn nodes_of(unit: &Unit) -> String {
    unit.nodes().into_iter().collect::<Vec<_>>().join(" ")
}
