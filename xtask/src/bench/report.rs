//! The samples of one run, and the table of results.

use std::{fs, path::Path, thread};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::stats::{max, median, min};

/// All samples, in the order of measurement.
#[derive(Default)]
pub struct Results {
    /// Which build the next samples are of.
    pub build: Build,
    samples: Vec<Sample>,
}

/// Two commits are compared by their builds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Build {
    /// The program that `--before` names.
    Before,
    #[default]
    After,
}

struct Sample {
    metric: String,
    unit: &'static str,
    variant: &'static str,
    build: Build,
    value: f64,
}

/// Two metrics to compare, and the target.
pub struct Comparison {
    /// The comparison applies to all metrics with this prefix.
    pub metrics: &'static str,
    pub ours: &'static str,
    /// The metric to compare with. Without it, the value itself is compared with the target.
    pub base: Option<&'static str>,
    pub target: Option<Target>,
}

#[derive(Clone, Copy)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
}

struct Row {
    metric: String,
    unit: &'static str,
    ours: (&'static str, Vec<f64>),
    base: Option<(&'static str, Vec<f64>)>,
    target: Option<Target>,
}

impl Results {
    pub fn push(
        &mut self,
        metric: impl Into<String>,
        unit: &'static str,
        variant: &'static str,
        value: f64,
    ) {
        let metric = metric.into();
        let build = self.build;
        let before = if build == Build::Before { ", before" } else { "" };
        eprintln!("bench: {metric}, {variant}{before}: {value:.3} {unit}");
        self.samples.push(Sample { metric, unit, variant, build, value });
    }

    /// Prints the table: the metric, both sides with their spread, and the ratio with its spread.
    pub fn print(&self, comparisons: &[Comparison]) {
        println!("median [min..max] of alternating rounds; the ratio's spread is over the rounds");
        for row in self.rows(comparisons) {
            println!("{}", row.line());
        }
    }

    pub fn write(&self, path: &Path, comparisons: &[Comparison]) -> Result<()> {
        let rows: Vec<Value> = self.rows(comparisons).iter().map(Row::json).collect();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let report = json!({
            "machine": {
                "cores": thread::available_parallelism().map_or(0, usize::from),
                "loadAverageAtEnd": load.trim(),
            },
            "rows": rows,
        });
        fs::write(path, format!("{report:#}\n"))
            .with_context(|| format!("write {}", path.display()))
    }

    fn rows(&self, comparisons: &[Comparison]) -> Vec<Row> {
        let mut rows = Vec::new();
        for comparison in comparisons {
            let mut metrics: Vec<&Sample> = Vec::new();
            for sample in &self.samples {
                if sample.metric.starts_with(comparison.metrics)
                    && metrics.iter().all(|seen| seen.metric != sample.metric)
                {
                    metrics.push(sample);
                }
            }
            for Sample { metric, unit, .. } in metrics {
                let ours = self.values(metric, comparison.ours, Build::After);
                let values = |base| (base, self.values(metric, base, Build::After));
                let base = comparison.base.map(values);
                // `--variant` may leave out either side.
                if ours.is_empty() || base.as_ref().is_some_and(|(_, values)| values.is_empty()) {
                    continue;
                }
                rows.push(Row {
                    metric: metric.clone(),
                    unit,
                    ours: (comparison.ours, ours),
                    base,
                    target: comparison.target,
                });
            }
        }
        rows.extend(self.before_and_after());
        rows
    }

    /// One row for each metric and variant that both builds were measured with.
    fn before_and_after(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for sample in self.samples.iter().filter(|sample| sample.build == Build::Before) {
            let Sample { metric, unit, variant, .. } = sample;
            if rows.iter().any(|row| row.metric == *metric && row.ours.0 == *variant) {
                continue;
            }
            rows.push(Row {
                metric: metric.clone(),
                unit,
                ours: (variant, self.values(metric, variant, Build::After)),
                base: Some(("before", self.values(metric, variant, Build::Before))),
                target: None,
            });
        }
        rows
    }

    fn values(&self, metric: &str, variant: &str, build: Build) -> Vec<f64> {
        let is_of = |s: &&Sample| s.metric == metric && s.variant == variant && s.build == build;
        self.samples.iter().filter(is_of).map(|s| s.value).collect()
    }
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        let (_, base) = self.base.as_ref()?;
        Some(median(&self.ours.1) / median(base))
    }

    /// Returns the ratio of each round: the noise of a round affects both sides.
    fn ratios(&self) -> Vec<f64> {
        let base = self.base.iter().flat_map(|(_, base)| base);
        self.ours.1.iter().zip(base).map(|(ours, base)| ours / base).collect()
    }

    fn met(&self) -> Option<bool> {
        let value = self.ratio().unwrap_or_else(|| median(&self.ours.1));
        self.target.map(|target| match target {
            Target::AtLeast(bound) => value >= bound,
            Target::AtMost(bound) => value <= bound,
        })
    }

    fn line(&self) -> String {
        let side = |(name, values): &(&str, Vec<f64>)| {
            let (mid, low, high) = (median(values), min(values), max(values));
            format!("{name} {mid:.4} [{low:.4}..{high:.4}]")
        };
        let mut parts = vec![format!("{:<44} {:<4}", self.metric, self.unit), side(&self.ours)];
        if let (Some(base), Some(ratio)) = (&self.base, self.ratio()) {
            let ratios = self.ratios();
            let (low, high) = (min(&ratios), max(&ratios));
            parts.push(format!("against {} = {ratio:.2}x [{low:.2}..{high:.2}]", side(base)));
        }
        if let (Some(target), Some(met)) = (self.target, self.met()) {
            let (sign, bound) = match target {
                Target::AtLeast(bound) => (">=", bound),
                Target::AtMost(bound) => ("<=", bound),
            };
            let verdict = if met { "met" } else { "MISSED" };
            parts.push(format!(" target {sign} {bound}: {verdict}"));
        }
        parts.join(" ")
    }

    fn json(&self) -> Value {
        let side = |(name, values): &(&str, Vec<f64>)| json!({"variant": name, "median": median(values), "samples": values});
        json!({
            "metric": self.metric,
            "unit": self.unit,
            "ours": side(&self.ours),
            "base": self.base.as_ref().map(side),
            "ratio": self.ratio(),
            "ratios": self.ratios(),
            "target": self.target.map(|target| match target {
                Target::AtLeast(bound) => json!({"atLeast": bound}),
                Target::AtMost(bound) => json!({"atMost": bound}),
            }),
            "met": self.met(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_compared_with_each_other_and_variants_within_a_build() {
        let mut results = Results::default();
        for (build, floor, ours) in [(Build::Before, 10.0, 8.0), (Build::After, 12.0, 6.0)] {
            results.build = build;
            results.push("rate", "1/s", "floor", floor);
            results.push("rate", "1/s", "ours", ours);
        }
        let comparison = |ours, base| Comparison { metrics: "rate", ours, base, target: None };
        let comparisons = [comparison("ours", Some("floor")), comparison("ours", Some("absent"))];
        let rows = results.rows(&comparisons);
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.ours.0, row.base.as_ref().map(|base| base.0), row.ratio()))
            .collect();
        let expected = [
            ("ours", Some("floor"), Some(0.5)),
            ("floor", Some("before"), Some(1.2)),
            ("ours", Some("before"), Some(0.75)),
        ];
        assert_eq!(rows, expected);
    }
}
