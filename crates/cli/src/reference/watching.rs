//! Alerts and dashboard ask for metrics that there are, and every alert has something to do about it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::metrics::all;
use super::read;

/// Of Prometheus, and not of ours.
const NOT_METRICS: [&str; 17] = [
    "absent",
    "and",
    "by",
    "changes",
    "clamp_min",
    "count",
    "histogram_quantile",
    "increase",
    "max",
    "min",
    "on",
    "or",
    "rate",
    "sum",
    "time",
    "unless",
    "vector",
];

/// Metrics that a query asks for: names that are neither in quotes, nor labels, nor the language's own.
fn asked(query: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let (mut depth, mut grouping, mut word) = (0, false, String::new());
    for c in query.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() || c == '_' || c == ':' {
            word.push(c);
            continue;
        }
        let is_name =
            word.starts_with(|c: char| c.is_ascii_alphabetic()) && depth == 0 && !grouping;
        if is_name && !NOT_METRICS.contains(&word.as_str()) {
            names.insert(word.clone());
        }
        match c {
            // Matchers and ranges.
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            '(' => grouping = grouping || word == "by" || word == "on",
            ')' => grouping = false,
            _ => {}
        }
        // `by (kind)` has a space.
        if !c.is_whitespace() || !["by", "on"].contains(&word.as_str()) {
            word.clear();
        }
    }
    names
}

#[track_caller]
fn assert_known(query: &str, at: &str) {
    let metrics = all();
    let known: BTreeSet<String> = metrics.iter().flat_map(super::metrics::Metric::names).collect();
    let asked = asked(query);
    assert!(!asked.is_empty(), "{at}: {query} asks for nothing");
    let unknown: Vec<&String> = asked.difference(&known).collect();
    assert!(unknown.is_empty(), "{at}: {unknown:?} in {query}");
}

fn alerts() -> Vec<Value> {
    let file: Value = serde_saphyr::from_str(&read("deploy/alerts.yaml")).unwrap();
    let groups = file["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn queries_are_understood() {
    let names = |query| asked(query).into_iter().collect::<Vec<_>>();
    assert_eq!(
        names("sum by (reason) (rate(a_total{b=~\"c|d\"}[5m])) > 0 or e_f"),
        ["a_total", "e_f"]
    );
    assert_eq!(names("min(a) - time() < 43200"), ["a"]);
    assert_eq!(names("max by(kind) (lag) > 1"), ["lag"]);
}

#[test]
fn alerts_ask_for_what_there_is() {
    let alerts = alerts();
    assert!(alerts.len() > 9);
    for alert in alerts {
        assert_known(alert["expr"].as_str().unwrap(), alert["alert"].as_str().unwrap());
    }
}

#[test]
fn every_alert_says_what_it_is_and_has_a_runbook() {
    let runbooks = read("docs/runbooks.md");
    let headings: BTreeSet<&str> =
        runbooks.lines().filter_map(|line| line.strip_prefix("## Holdfast")).collect();
    let mut named = BTreeSet::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap().to_owned();
        let (labels, notes) = (&alert["labels"], &alert["annotations"]);
        assert!(["critical", "warning"].contains(&labels["severity"].as_str().unwrap()), "{name}");
        assert!(notes["summary"].as_str().is_some_and(|summary| summary.len() > 20), "{name}");
        let runbook = format!("docs/runbooks.md#{}", name.to_lowercase());
        assert_eq!(notes["runbook"], runbook.as_str());
        named.insert(name);
    }
    let named: BTreeSet<&str> =
        named.iter().filter_map(|name| name.strip_prefix("Holdfast")).collect();
    assert_eq!(named, headings);
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let board: Value = serde_json::from_str(&read("deploy/dashboard.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(|target| (panel["title"].to_string(), target))
    });
    let mut count = 0;
    for (title, target) in targets {
        assert_known(target["expr"].as_str().unwrap(), &title);
        count += 1;
    }
    assert!(count > 12, "{count}");
    let ids: BTreeSet<i64> = panels.iter().map(|panel| panel["id"].as_i64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "every panel has an id of its own");
}
