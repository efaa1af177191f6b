//! `cargo xtask sim`: runs the simulator in a fast build with all assertions (profile `sim`).

use anyhow::{Context as _, Result, ensure};

use crate::localkube;

/// The profile that runs the real server (crates/server-sim).
const SERVER: &str = "server";

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub struct Args {
    /// Run this seed, and print what it chose and everything that happened
    #[arg(long, value_name = "N", group = "what")]
    seed: Option<u64>,
    /// Run so many seeds, and print counts by fault and by invariant
    #[arg(long, value_name = "N", group = "what")]
    seeds: Option<u64>,
    /// Run seeds for so many minutes
    #[arg(long, value_name = "M", group = "what")]
    minutes: Option<u64>,
    /// Plant bugs into the engine, one after the other, and print how many seeds it takes to find each
    #[arg(long, group = "what")]
    planted: bool,
    /// With --planted: trials per bug
    #[arg(long, default_value_t = 5)]
    trials: u64,
    /// With --planted: these bugs only
    #[arg(long, value_name = "BUG,...")]
    bug: Option<String>,
    /// With --seeds and --minutes: the first seed
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// Faults mixed at random, in native mode, under budgets of Kruise's kind too, one kind of fault in each
    /// world, ten thousand pods, or the real server
    #[arg(long, default_value = "swarm", value_parser = ["swarm", "native", "unavailable", "lite", "scale", SERVER])]
    profile: String,
    /// With --seed: faults to leave out
    #[arg(long, value_name = "FAULT,...")]
    without: Option<String>,
    /// With --seed: steps to leave out
    #[arg(long, value_name = "STEP,FROM-TO,...")]
    skip: Option<String>,
}

/// Returns true if every check passed.
pub fn run(args: &Args) -> Result<bool> {
    let mut cargo = localkube::cargo();
    cargo.args(["run", "--quiet", "--profile=sim"]);
    if args.profile == SERVER {
        // This profile has its planted bugs in tests, and cannot leave anything out.
        let other = args.planted || args.without.is_some() || args.skip.is_some();
        ensure!(!other, "--profile server takes --seed, --seeds, --minutes and --from");
        cargo.args(["--package=holdfast-server-sim", "--bin=server-sim", "--"]);
    } else {
        cargo.args(["--package=holdfast-sim", "--bin=chaos"]);
        if args.planted {
            cargo.arg("--features=planted-bugs");
        }
        cargo.args(["--", "--profile", &args.profile]);
    }
    let trials = args.planted.then_some(args.trials);
    let numbers = [
        ("--seed", args.seed),
        ("--seeds", args.seeds),
        ("--minutes", args.minutes),
        ("--planted", trials),
        ("--from", args.from),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            cargo.args([name, &value.to_string()]);
        }
    }
    for (name, value) in
        [("--without", &args.without), ("--skip", &args.skip), ("--bug", &args.bug)]
    {
        if let Some(value) = value {
            cargo.args([name, value]);
        }
    }
    let status = cargo.status().context("run cargo")?;
    Ok(status.success())
}
