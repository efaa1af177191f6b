//! Fuzzes every decoder by coverage: the programs of `fuzz/`, with cargo-fuzz.

use std::{ffi::OsString, fs};

use anyhow::{Context as _, Result, ensure};

use super::{
    Test,
    interrupt::Interrupt,
    run::{cargo, cargo_logged},
    summary::Counts,
    tools,
};
use crate::localkube;

/// For a stable compiler, which has coverage and no sanitizers.
const FLAGS: [&str; 2] = ["--sanitizer", "none"];

/// The same limits as in the tests (`crates/server/src/fuzz`): the longest input, and the time of one input.
const LIMITS: [&str; 2] = ["-max_len=65536", "-timeout=5"];

type Environment<'a> = &'a [(&'static str, OsString)];

impl Test<'_> {
    pub(super) fn fuzz(&mut self) {
        let Some(environment) = self.tool(&tools::FUZZ) else { return };
        let (seconds, interrupt) = (self.args.fuzz_seconds, &self.interrupt);
        let built = self.summary.time("build fuzz", || build(&environment, interrupt));
        if built.is_some() {
            self.summary.time("fuzz", || run(seconds, &environment, interrupt));
        }
    }
}

fn build(environment: Environment<'_>, interrupt: &Interrupt) -> Result<()> {
    // cargo-fuzz would change the lock file silently.
    let fetch = ["fetch", "--locked", "--manifest-path", "fuzz/Cargo.toml"];
    let build = [&["fuzz", "build"], &FLAGS[..]].concat();
    cargo(&fetch, &[], interrupt, &mut Counts::default())?;
    cargo(&build, environment, interrupt, &mut Counts::default())
}

/// Runs each target for this time. If one fails, the others still run.
fn run(seconds: u32, environment: Environment<'_>, interrupt: &Interrupt) -> Result<()> {
    let logs = localkube::workspace().join("target/fuzz-logs");
    fs::create_dir_all(&logs).with_context(|| format!("create {}", logs.display()))?;
    let (time, mut failed) = (format!("-max_total_time={seconds}"), Vec::new());
    for target in targets(environment)? {
        let run = [&["fuzz", "run"], &FLAGS[..], &[&target, "--", &time], &LIMITS].concat();
        let log = logs.join(format!("{target}.log"));
        let outcome = cargo_logged(&run, environment, interrupt, &log);
        let said = fs::read(&log).with_context(|| format!("read {}", log.display()))?;
        let said = String::from_utf8_lossy(&said);
        match outcome {
            // The number of inputs, and their coverage.
            Ok(()) => {
                let last = said.lines().rfind(|line| line.contains("DONE"));
                println!("{target:<26} {}", last.context("it was not run")?);
            }
            Err(error) => {
                interrupt.check()?;
                eprintln!("{said}{target}: {error:#}");
                failed.push(target);
            }
        }
    }
    ensure!(failed.is_empty(), "{} failed; the inputs are in fuzz/artifacts", failed.join(", "));
    Ok(())
}

fn targets(environment: Environment<'_>) -> Result<Vec<String>> {
    let mut command = localkube::cargo();
    command.args(["fuzz", "list"]).envs(environment.iter().map(|(name, value)| (name, value)));
    let output = command.output().context("run cargo fuzz")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let targets: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    ensure!(!targets.is_empty(), "cargo fuzz lists no targets");
    Ok(targets)
}
