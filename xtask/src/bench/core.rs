//! The engine without a server: memory, time per input, instructions per input, and criterion's own table.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use super::{
    builds, cargo, dist_dir,
    report::{Build, Comparison, Results, Target},
};

pub const COMPARISONS: [Comparison; 5] = [
    Comparison {
        metrics: "engine memory",
        ours: "engine",
        base: None,
        target: Some(Target::AtMost(100.0)),
    },
    Comparison { metrics: "engine bytes per pod", ours: "engine", base: None, target: None },
    Comparison {
        metrics: "engine p99",
        ours: "engine",
        base: None,
        target: Some(Target::AtMost(20.0)),
    },
    Comparison {
        metrics: "instructions",
        ours: "150000 pods",
        base: Some("10000 pods"),
        target: None,
    },
    Comparison {
        metrics: "instructions",
        ours: "5000 pods",
        base: Some("500 pods"),
        target: Some(Target::AtMost(1.1)),
    },
];

const BUDGETS: usize = 5000;

/// `before` is a program beside whose examples lies the `replay` of its commit.
pub fn run(before: Option<&Path>, repeat: usize, quick: bool, results: &mut Results) -> Result<()> {
    cargo(&["build", "--profile", "dist", "--package", "holdfast-core", "--examples"])?;
    let after = dist_dir()?.join("examples");
    let before = before.map(|program| program.with_file_name("examples"));
    let replay = |build| match (&before, build) {
        (Some(before), Build::Before) => before.join("replay"),
        _ => after.join("replay"),
    };
    let memory = output(&after.join("memory"), &["150000", "5000"])?;
    results.push("engine bytes per pod", "B", "engine", value(&memory, "bytes_per_pod")?);
    let mib = |bytes: f64| bytes / 1e6;
    results.push("engine memory, asked for", "MB", "engine", mib(value(&memory, "engine_bytes")?));
    let resident = value(&memory, "resident_kib")? * 1024.0;
    results.push("engine memory, resident", "MB", "engine", mib(resident));
    for round in 0..repeat {
        for what in ["event", "verdict"] {
            for build in builds(round, before.is_some()) {
                results.build = build;
                let budgets = BUDGETS.to_string();
                let took = output(&replay(build), &["150000", &budgets, "0", what, "100000"])?;
                for percent in ["p50", "p99"] {
                    let us = value(&took, &format!("{percent}_ns"))? / 1000.0;
                    let metric = format!("engine {percent} of {what}, 150000 pods");
                    results.push(metric, "us", "engine", us);
                }
            }
        }
    }
    // Instructions are the same in every run, so one round is enough.
    for build in builds(0, before.is_some()) {
        results.build = build;
        instructions(&replay(build), results)?;
    }
    results.build = Build::After;
    if !quick {
        cargo(&["bench", "--profile", "dist", "--package", "holdfast-core", "--bench", "engine"])?;
    }
    Ok(())
}

fn instructions(replay: &Path, results: &mut Results) -> Result<()> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("bench: instructions were not counted: there is no valgrind on PATH");
        return Ok(());
    }
    let sizes = [
        ("10000 pods", 10_000, BUDGETS, 0, "5000 budgets"),
        ("150000 pods", 150_000, BUDGETS, 0, "5000 budgets"),
        ("500 pods", 500, 1, 0, "one budget of pods"),
        ("5000 pods", 5_000, 1, 0, "one budget of pods"),
        ("500 pods", 500, 1, 1, "one budget of replicas"),
        ("5000 pods", 5_000, 1, 1, "one budget of replicas"),
    ];
    for (variant, pods, budgets, first, scope) in sizes {
        for what in ["event", "verdict"] {
            const COUNT: u32 = 3000;
            let [pods, budgets, first] = [pods, budgets, first].map(|n: usize| n.to_string());
            let all = callgrind(replay, &[&pods, &budgets, &first, what, &COUNT.to_string()])?;
            let each = all / f64::from(COUNT);
            results.push(format!("instructions per {what}, {scope}"), "", variant, each);
        }
    }
    Ok(())
}

/// Returns the instructions of the engine for the inputs, without those of the driver.
fn callgrind(replay: &Path, args: &[&str]) -> Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*Cluster::measured*")
        .arg(replay)
        .args(args)
        .output()
        .context("run valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split("Collected :").nth(1));
    let count = line.and_then(|count| count.trim().parse().ok());
    count.with_context(|| format!("valgrind counted nothing:\n{text}"))
}

fn output(program: &Path, args: &[&str]) -> Result<String> {
    let name = program.display();
    let output =
        Command::new(program).args(args).output().with_context(|| format!("run {name}"))?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn value(output: &str, name: &str) -> Result<f64> {
    let line = output.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|value| value.trim().parse().ok());
    value.with_context(|| format!("no {name} in {output:?}"))
}
