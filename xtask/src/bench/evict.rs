//! Evictions per second: the built-in path with and without a budget, and Holdfast's webhook.

use std::time::Duration;

use anyhow::Result;

use super::{
    Bench,
    controller::{Controller, Mode, await_quiet},
    is_chosen,
    load::{Api, Budgets, Load, PODS_PER_GROUP, Way},
    report::{Build, Comparison, Results, Target},
};

pub const COMPARISONS: [Comparison; 17] = [
    Comparison {
        metrics: "evictions, 1 clients",
        ours: "native, scope Pod",
        base: Some("built-in PDB"),
        target: Some(Target::AtLeast(15.0)),
    },
    Comparison {
        metrics: "evictions, 16 clients",
        ours: "native, scope Pod",
        base: Some("built-in PDB"),
        target: Some(Target::AtLeast(6.0)),
    },
    Comparison {
        metrics: "evictions",
        ours: "native, beside upstream",
        base: Some("built-in PDB"),
        target: None,
    },
    Comparison {
        metrics: "evictions",
        ours: "native, scope Workload",
        base: Some("built-in PDB"),
        target: None,
    },
    Comparison {
        metrics: "evictions",
        ours: "native, no PDB",
        base: Some("no PDB"),
        target: Some(Target::AtLeast(1.0)),
    },
    Comparison {
        metrics: "evictions",
        ours: "webhook, no PDB",
        base: Some("no PDB"),
        target: None,
    },
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
    Comparison {
        metrics: "eviction",
        ours: "webhook, beside a PDB",
        base: Some("webhook, no PDB"),
        target: None,
    },
    Comparison {
        metrics: "eviction",
        ours: "scope Pod, beside a PDB",
        base: Some("scope Pod"),
        target: None,
    },
    Comparison {
        metrics: "eviction",
        ours: "native, beside a PDB",
        base: Some("native, scope Pod"),
        target: None,
    },
    Comparison {
        metrics: "CPU per eviction",
        ours: "webhook, beside a PDB",
        base: Some("webhook, no PDB"),
        target: None,
    },
    Comparison {
        metrics: "CPU per eviction",
        ours: "scope Pod, beside a PDB",
        base: Some("scope Pod"),
        target: None,
    },
    Comparison {
        metrics: "CPU per eviction",
        ours: "native, beside a PDB",
        base: Some("native, scope Pod"),
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

/// Native mode while the disruption controller of Kubernetes runs, although it has nothing to do there.
const BESIDE_UPSTREAM: &str = "native, beside upstream";

/// The variants of a round, in order. The disruption controller of Kubernetes runs if it is needed, and in
/// webhook mode, as in a cluster.
pub const VARIANTS: [(&str, Option<Mode>, Budgets); 12] = [
    ("built-in PDB", None, Budgets::Pods),
    ("no PDB", None, Budgets::None),
    ("webhook, no PDB", Some(Mode::Webhook), Budgets::None),
    ("webhook, beside a PDB", Some(Mode::Webhook), Budgets::Others),
    ("scope Pod", Some(Mode::Webhook), Budgets::Pods),
    ("scope Pod, beside a PDB", Some(Mode::Webhook), Budgets::PodsAndOthers),
    ("scope Workload", Some(Mode::Webhook), Budgets::Replicas),
    ("native, scope Pod", Some(Mode::Native), Budgets::Pods),
    ("native, beside a PDB", Some(Mode::Native), Budgets::PodsAndOthers),
    (BESIDE_UPSTREAM, Some(Mode::Native), Budgets::Pods),
    ("native, scope Workload", Some(Mode::Native), Budgets::Replicas),
    ("native, no PDB", Some(Mode::Native), Budgets::None),
];

pub fn run(bench: &Bench, only: &[String], results: &mut Results) -> Result<()> {
    let variants: Vec<_> =
        VARIANTS.iter().filter(|(name, ..)| is_chosen(only, name)).copied().collect();
    let mut upstream = Some(Controller::upstream(&bench.localkube)?);
    for round in 0..bench.repeat {
        for &variant in &variants {
            for build in bench.builds(round, variant.1.is_some()) {
                bench.interrupt.check()?;
                results.build = build;
                measure(bench, variant, &mut upstream, results)?;
            }
        }
    }
    results.build = Build::After;
    Ok(())
}

/// One variant with one build.
fn measure(
    bench: &Bench,
    (name, mode, budgets): (&'static str, Option<Mode>, Budgets),
    upstream: &mut Option<Controller>,
    results: &mut Results,
) -> Result<()> {
    // The built-in path is slow: 500 evictions by one client take minutes.
    let (pods, seconds) = if bench.quick { (200, 4) } else { (500, 10) };
    let limit = Duration::from_secs(seconds);
    let holdfast = mode.map(|mode| bench.holdfast_with(results.build, mode, &[])).transpose()?;
    if mode == Some(Mode::Native) && name != BESIDE_UPSTREAM {
        *upstream = None;
    }
    let api = if mode == Some(Mode::Webhook) { Api::Holdfast } else { Api::Policy };
    let mut load = Load::new(&bench.admin, "evict", api, budgets, 1)?;
    for clients in CLIENTS {
        load.fill(pods)?;
        load.settle()?;
        await_quiet()?;
        // The budget keeps the last replica.
        let count = pods - 2 * PODS_PER_GROUP;
        let used = || holdfast.as_ref().map(Controller::usage).transpose();
        let before = used()?;
        let evicted = load.disrupt(&bench.drainer, Way::Evict, clients, count, limit)?;
        let after = used()?;
        let label = |what: &str| format!("{what}, {clients} clients");
        let count = f64::from(u32::try_from(evicted.latencies.len())?);
        results.push(label("evictions"), "1/s", name, count / evicted.seconds);
        if let (Some(before), Some(after)) = (before, after) {
            let cpu_ms = (after.cpu_seconds - before.cpu_seconds) * 1000.0;
            results.push(label("CPU per eviction"), "ms", name, cpu_ms / count);
        }
        for percent in [50, 99] {
            let value = evicted.latencies.percentile(percent);
            results.push(label(&format!("eviction p{percent}")), "ms", name, value);
        }
        if evicted.refused > 0 {
            eprintln!("bench: {} were refused and tried again", evicted.refused);
        }
    }
    load.clear()?;
    if upstream.is_none() {
        // `policy/v1` is given back to it.
        *upstream = Some(Controller::upstream(&bench.localkube)?);
    }
    if let (Some(holdfast), Some(mode)) = (holdfast, mode) {
        bench.retire(&holdfast, mode)?;
    }
    Ok(())
}
