//! Budgets for a terminal: all of them as a table, one of them as a tree.

use holdfast_core::model::Timestamp;

use super::report::{BudgetReport, ConditionReport, GrantReport, PodReport, Report};
use crate::ask::{Table, age, count};
use crate::page::Page;

pub fn table(report: &Report, namespaces: bool, wide: bool) -> String {
    if report.budgets.is_empty() {
        return "no budgets\n".to_owned();
    }
    let mut heading = Vec::new();
    heading.extend(namespaces.then_some("NAMESPACE"));
    heading.extend(["NAME", "COUNTS", "THRESHOLD", "NEEDED", "HEALTHY", "EXPECTED", "ALLOWED"]);
    heading.extend(["GRANTS", "TROUBLE"]);
    heading.extend(wide.then_some(["PODS", "API"]).into_iter().flatten());
    let mut table = Table::new(&heading);
    for budget in &report.budgets {
        let mut row = Vec::new();
        row.extend(namespaces.then(|| budget.namespace.clone()));
        row.extend([
            budget.name.clone(),
            format!("{}s", budget.unit),
            budget.threshold.clone(),
            budget.desired.to_string(),
            budget.healthy.to_string(),
            budget.expected.to_string(),
            budget.disruptions_allowed.to_string(),
            budget.grants.len().to_string(),
            troubles(budget),
        ]);
        if wide {
            let pods = budget.replicas.iter().map(|replica| replica.pods.len()).sum::<usize>();
            row.extend([(pods + budget.pods.len()).to_string(), budget.api_version.clone()]);
        }
        table.row(row);
    }
    let mut page = Page::new(false);
    page.lines(&table.lines());
    let granted: Vec<(&BudgetReport, &GrantReport)> =
        report.budgets.iter().flat_map(|b| b.grants.iter().map(move |grant| (b, grant))).collect();
    if !granted.is_empty() {
        page.line("");
        let mut grants = Table::new(&["GRANTED POD", "BUDGET", "BY", "AGE", "COST"]);
        for (budget, grant) in granted {
            grants.row(vec![
                format!("{}/{}", budget.namespace, grant.pod),
                budget.name.clone(),
                grant.by.clone(),
                age(report.now.since(grant.since)),
                grant.cost.to_string(),
            ]);
        }
        page.lines(&grants.lines());
    }
    show_unreadable(&mut page, report);
    page.into_text()
}

fn troubles(budget: &BudgetReport) -> String {
    let mut troubles = budget.troubles();
    troubles.extend(budget.can_never_allow.then_some("CanNeverAllow"));
    if troubles.is_empty() { "-".to_owned() } else { troubles.join(",") }
}

/// Budgets with their replicas and pods.
pub fn tree(report: &Report, colour: bool) -> String {
    let mut page = Page::new(colour);
    for (index, budget) in report.budgets.iter().enumerate() {
        if index > 0 {
            page.line("");
        }
        show_budget(&mut page, budget, report.now);
    }
    show_unreadable(&mut page, report);
    page.into_text()
}

fn show_budget(page: &mut Page, budget: &BudgetReport, now: Timestamp) {
    let BudgetReport { namespace, name, unit, healthy, expected, desired, .. } = budget;
    let allowed = count(budget.disruptions_allowed, unit);
    let verb = page.paint_good(budget.disruptions_allowed > 0, &format!("{allowed} may go"));
    page.line(&format!("{} {namespace}/{name} ({}): {verb}", budget.kind, budget.threshold));
    page.line("");
    page.item(
        "  ",
        &format!("{healthy} of {expected} {unit}s are healthy and {desired} are needed"),
    );
    if budget.can_never_allow {
        page.item("  ", &format!("it can never let a healthy {unit} go"));
    }
    if let Some(failure) = &budget.failure {
        page.item("  ", failure);
    }
    // That there are not enough has been said.
    let is_news =
        |c: &&ConditionReport| c.status == "False" && !c.reason.starts_with("Insufficient");
    for condition in budget.conditions.iter().filter(is_news) {
        let message = [condition.reason.as_str(), condition.message.as_str()];
        let message: Vec<&str> = message.into_iter().filter(|text| !text.is_empty()).collect();
        page.item("  ", &format!("{} is False: {}", condition.r#type, message.join(": ")));
    }
    for grant in &budget.grants {
        let age = age(now.since(grant.since));
        let by = if grant.by.is_empty() { String::new() } else { format!(" by {}", grant.by) };
        page.item("  ", &format!("granted {age} ago{by}: pod {}, costs {}", grant.pod, grant.cost));
    }
    for replica in &budget.replicas {
        page.line("");
        let state = page.paint_good(replica.state == "healthy", replica.state);
        let needs =
            replica.needs.map(|needs| format!(", {} of {}", replica.healthy, count(needs, "pod")));
        page.line(&format!("  {}: {state}{}", replica.name, needs.unwrap_or_default()));
        if let Some(why) = &replica.why {
            page.item("    ", why);
        }
        show_pods(page, &replica.pods);
    }
    if !budget.pods.is_empty() {
        page.line("");
        page.line(if budget.replicas.is_empty() { "  pods" } else { "  pods of no replica" });
        show_pods(page, &budget.pods);
    }
}

fn show_pods(page: &mut Page, pods: &[PodReport]) {
    let mut table = Table::new(&[]);
    for pod in pods {
        let granted = if pod.granted { ", granted" } else { "" };
        table.row(vec![
            pod.name.clone(),
            pod.node.clone().unwrap_or_else(|| "no node".to_owned()),
            format!("{}{granted}", pod.state),
        ]);
    }
    let lines = table.lines();
    for (index, line) in lines.iter().enumerate().skip(1) {
        let branch = if index + 1 == lines.len() { "└─" } else { "├─" };
        page.line(&format!("    {branch} {line}"));
    }
}

fn show_unreadable(page: &mut Page, report: &Report) {
    for object in &report.unreadable {
        page.item("", object);
    }
}
