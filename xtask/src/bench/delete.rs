//! Deletes per second: without any webhook, of pods without a `PodUnavailableBudget`, and of pods with one,
//! whose deletes are recorded.

use std::time::Duration;

use anyhow::Result;

use super::{
    Bench,
    controller::Mode,
    load::{Api, Budgets, Load, Way},
    report::{Comparison, Results, Target},
};

/// Kruise v1.8.0, on 2 cores of another machine, allows 110 deletes per second to 16 clients. Without a
/// webhook there are 828. Twice that share is the target, because shares can be compared between machines.
const TWICE_KRUISE: f64 = 2.0 * 110.0 / 828.0;

pub const COMPARISONS: [Comparison; 5] = [
    Comparison {
        metrics: "deletes, 16 clients",
        ours: "covered",
        base: Some("no webhook"),
        target: Some(Target::AtLeast(TWICE_KRUISE)),
    },
    Comparison {
        metrics: "deletes, 1 clients",
        ours: "covered",
        base: Some("no webhook"),
        target: None,
    },
    Comparison {
        metrics: "deletes",
        ours: "uncovered",
        base: Some("no webhook"),
        target: Some(Target::AtLeast(0.9)),
    },
    Comparison {
        metrics: "deletes",
        ours: "uncovered, beside a budget",
        base: Some("no webhook"),
        target: None,
    },
    Comparison { metrics: "delete p", ours: "covered", base: Some("no webhook"), target: None },
];

const CLIENTS: [usize; 2] = [1, 16];

/// Whether Holdfast runs, and which pods of the namespace its budget covers.
const VARIANTS: [(&str, bool, Budgets); 4] = [
    ("no webhook", false, Budgets::None),
    ("uncovered", true, Budgets::None),
    ("uncovered, beside a budget", true, Budgets::Others),
    ("covered", true, Budgets::Pods),
];

pub fn run(bench: &Bench, results: &mut Results) -> Result<()> {
    let (pods, seconds) = if bench.quick { (200, 4) } else { (500, 10) };
    for _ in 0..bench.repeat {
        for (name, runs, budgets) in VARIANTS {
            bench.interrupt.check()?;
            let holdfast = runs.then(|| bench.holdfast(Mode::Webhook)).transpose()?;
            // In another namespace, so that a budget exists.
            let elsewhere = Budgets::Others;
            let elsewhere = runs
                .then(|| Load::new(&bench.admin, "elsewhere", Api::Kruise, elsewhere, 1))
                .transpose()?;
            let mut load = Load::new(&bench.admin, "delete", Api::Kruise, budgets, 1)?;
            for clients in CLIENTS {
                load.fill(pods)?;
                load.settle()?;
                let limit = Duration::from_secs(seconds);
                // The budget keeps one pod.
                let gone = load.disrupt(&bench.admin, Way::Delete, clients, pods - 1, limit)?;
                let label = |what: &str| format!("{what}, {clients} clients");
                let count = f64::from(u32::try_from(gone.latencies.len())?);
                results.push(label("deletes"), "1/s", name, count / gone.seconds);
                for percent in [50, 99] {
                    let value = gone.latencies.percentile(percent);
                    results.push(label(&format!("delete p{percent}")), "ms", name, value);
                }
                if gone.refused > 0 {
                    eprintln!("bench: {} were refused and tried again", gone.refused);
                }
            }
            if let Some(holdfast) = holdfast {
                // First, so that the cleanup does not ask Holdfast.
                bench.retire(&holdfast, Mode::Webhook)?;
            }
            load.clear()?;
            elsewhere.map(Load::clear).transpose()?;
        }
    }
    Ok(())
}
