//! Every metric, out of a page that has them all.

use std::fmt::Write as _;

use holdfast_server::sample_metrics;

use super::cell;

pub struct Metric {
    /// As Prometheus shows its samples, without `_bucket`, `_sum` and `_count`.
    pub name: String,
    pub kind: String,
    pub labels: Vec<String>,
    pub help: String,
}

impl Metric {
    /// The names by which a query may ask for it.
    pub fn names(&self) -> Vec<String> {
        if self.kind == "histogram" {
            return ["_bucket", "_sum", "_count"].map(|end| format!("{}{end}", self.name)).into();
        }
        vec![self.name.clone()]
    }
}

pub fn all() -> Vec<Metric> {
    let page = sample_metrics();
    let described = page.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    described
        .map(|(name, help)| {
            let kind = format!("# TYPE {name} ");
            let kind = page.lines().find_map(|line| line.strip_prefix(kind.as_str()));
            let kind = kind.unwrap_or_else(|| panic!("{name} has no type")).to_owned();
            let end = match kind.as_str() {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let shown = format!("{name}{end}");
            let labelled = page.lines().find_map(|line| {
                let labels =
                    line.strip_prefix(shown.as_str())?.strip_prefix('{')?.split_once('}')?.0;
                Some(
                    labels.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned())),
                )
            });
            let labels = labelled.map(Iterator::collect).unwrap_or_default();
            Metric { name: shown, kind, labels, help: help.trim_end_matches('.').to_owned() }
        })
        .collect()
}

pub fn page() -> String {
    let mut text = "# Metrics\n\nMade from the program by `cargo xtask fix`. Served at `/metrics` of \
        `--metrics-listen`, as OpenMetrics. What to watch and what to do: [runbooks](../runbooks.md). The buckets of \
        `holdfast_decision_seconds` have exemplars: `decision` is what a denial's message ends with.\n\n\
        | metric | type | meaning |\n|---|---|---|\n"
        .to_owned();
    let mut metrics = all();
    metrics.sort_by(|a, b| a.name.cmp(&b.name));
    for Metric { name, kind, labels, help } in metrics {
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(text, "| `{name}{labels}` | {kind} | {} |", cell(&help));
    }
    text
}
