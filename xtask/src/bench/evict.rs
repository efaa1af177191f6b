//! Evictions per second: the built-in path with a budget and without, and Holdfast's webhook.

use std::time::Duration;

use anyhow::Result;

use super::{
    Bench,
    controller::Controller,
    load::{Budgets, Load, PODS_PER_GROUP},
    report::{Comparison, Results, Target},
};

pub const COMPARISONS: [Comparison; 5] = [
    Comparison {
        metrics: "evictions",
        ours: "scope Pod",
        base: Some("no PDB"),
        target: Some(Target::AtLeast(0.9)),
    },
    Comparison {
        metrics: "evictions",
        ours: "scope Workload",
        base: Some("no PDB"),
        target: Some(Target::AtLeast(0.9)),
    },
    Comparison {
        metrics: "evictions",
        ours: "scope Pod",
        base: Some("built-in PDB"),
        target: None,
    },
    Comparison { metrics: "eviction p", ours: "scope Pod", base: Some("no PDB"), target: None },
    Comparison {
        metrics: "eviction p",
        ours: "scope Pod",
        base: Some("built-in PDB"),
        target: None,
    },
];

const CLIENTS: [usize; 2] = [1, 16];

/// The variants of a round, in its order. Upstream's disruption controller runs in all of them, as it
/// does in a cluster.
const VARIANTS: [(&str, Budgets); 4] = [
    ("built-in PDB", Budgets::Builtin),
    ("no PDB", Budgets::None),
    ("scope Pod", Budgets::Pods),
    ("scope Workload", Budgets::Replicas),
];

pub fn run(bench: &Bench, results: &mut Results) -> Result<()> {
    // The built-in path is slow: 500 evictions by one client take minutes.
    let (pods, seconds) = if bench.quick { (200, 4) } else { (500, 10) };
    let limit = Duration::from_secs(seconds);
    let _upstream = Controller::upstream(&bench.localkube)?;
    for _ in 0..bench.repeat {
        for (name, budgets) in VARIANTS {
            bench.interrupt.check()?;
            let ours = matches!(budgets, Budgets::Pods | Budgets::Replicas);
            let holdfast = ours.then(|| bench.holdfast()).transpose()?;
            let mut load = Load::new(&bench.admin, "evict", budgets, 1)?;
            for clients in CLIENTS {
                load.fill(pods)?;
                load.settle()?;
                // Not the last replica, which the budget keeps.
                let count = pods - 2 * PODS_PER_GROUP;
                let evicted = load.evict(&bench.drainer, clients, count, limit)?;
                let label = |what: &str| format!("{what}, {clients} clients");
                let count = f64::from(u32::try_from(evicted.latencies.len())?);
                results.push(label("evictions"), "1/s", name, count / evicted.seconds);
                for percent in [50, 99] {
                    let value = evicted.latencies.percentile(percent);
                    results.push(label(&format!("eviction p{percent}")), "ms", name, value);
                }
                if evicted.refused > 0 {
                    eprintln!("bench: {} were refused and tried again", evicted.refused);
                }
            }
            load.clear()?;
            if let Some(holdfast) = holdfast {
                bench.retire(&holdfast)?;
            }
        }
    }
    Ok(())
}
