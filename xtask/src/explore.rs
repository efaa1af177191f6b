//! `cargo xtask explore`: explores every interleaving of small worlds, in a fast build with all assertions
//! (profile `sim`).

use anyhow::{Context as _, Result};

use crate::localkube;

#[derive(clap::Args)]
pub struct Args {
    /// Print the table of scopes
    #[arg(long, conflicts_with_all = ["scope", "states", "minutes", "threads", "replay"])]
    list: bool,
    /// Explore this scope; without it every scope, one after the other
    #[arg(long, value_name = "NAME")]
    scope: Option<String>,
    /// End a scope after so many states
    #[arg(long, value_name = "N")]
    states: Option<u64>,
    /// End a scope after so many minutes
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,
    /// Search on so many threads; with one, the figures are the same in every run
    #[arg(long, value_name = "N")]
    threads: Option<u64>,
    /// Run this schedule in the scope, and print what happens
    #[arg(long, value_name = "SCHEDULE", requires = "scope")]
    replay: Option<String>,
}

/// Returns true if the promise held in every scope.
pub fn run(args: &Args) -> Result<bool> {
    let mut cargo = localkube::cargo();
    cargo.args([
        "run",
        "--quiet",
        "--profile=sim",
        "--package=holdfast-sim",
        "--bin=explore",
        "--",
    ]);
    if args.list {
        cargo.arg("--list");
    }
    for (name, value) in [("--scope", &args.scope), ("--replay", &args.replay)] {
        if let Some(value) = value {
            cargo.args([name, value]);
        }
    }
    let numbers =
        [("--states", args.states), ("--minutes", args.minutes), ("--threads", args.threads)];
    for (name, value) in numbers {
        if let Some(value) = value {
            cargo.args([name, &value.to_string()]);
        }
    }
    let status = cargo.status().context("run cargo")?;
    Ok(status.success())
}
