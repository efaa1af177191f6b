//! `cargo xtask test`: everything that has to hold before a change goes in, on a cold clone too.
//!
//! ```text
//! fmt  clippy  unit  planted   each for itself
//! build -> localkube -> honest -> e2e -> page -> unavailable -> gangs -> outage -> instances -> down
//!                                     the first that fails ends the row, but for down
//!       -> localkube -> e2e -> native -> down      in native mode
//!       -> localkube -> gangs -> down              where the scheduler knows no gangs
//!       -> localkube -> overload -> down           on a control plane that serves few at a time
//!       -> rights                                  all that Holdfast may do was done, and no more tried
//! build -> docs -> quickstart                      the commands of the docs: without a cluster, and with one
//! release -> simulate, page                        with --full: a large drain, and a browser
//! build -> helm -> chart                           with --full: what Helm makes of the chart
//!                  -> localkube -> release -> down   and does with it on an API server
//! previous -> build -> localkube -> upgrade -> down   with --full, in both modes: an earlier revision beside this one
//! build -> localkube -> nemesis -> down            with --full, in both modes: several API servers, and faults in all of them
//! cargo-fuzz -> build -> fuzz                      with --full: every decoder, by coverage
//! helm -> dist                                     with --full: what a release consists of
//! cargo-deny -> deny, advisories                   with --full: licences and sources of dependencies
//! typos -> spelling                                with --full
//! workflows                                        with --full, by actionlint
//! ```

mod chart;
mod cluster;
mod deny;
mod dist;
mod docs;
mod e2e;
mod fuzz;
pub mod interrupt;
mod leftover;
mod lint;
mod nemesis;
mod previous;
mod release;
mod rights;
mod run;
mod simulate;
mod stage;
mod summary;
mod tools;
mod unit;
mod upgrade;

use std::{env, ffi::OsString, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;

use crate::localkube::Release;
use interrupt::Interrupt;
use stage::{Level, Stage};
use summary::{Counts, Summary};

#[derive(Default, clap::Args)]
pub struct Args {
    /// Also what takes long: many more random cases, and tests that wait for minutes
    #[arg(long)]
    full: bool,
    /// Run the end-to-end tests on this cluster instead of one of their own. It must reach
    /// 127.0.0.1 of this machine, and run kwok for the tests that need nodes
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Run the end-to-end tests on this release of Kubernetes; the first time it is built, which takes
    /// minutes
    #[arg(long, value_enum, default_value_t, value_name = "RELEASE")]
    kubernetes: Release,
    /// The revision that `upgrade` comes from and goes back to; it is built the first time
    #[arg(long, value_name = "REVISION", default_value = "HEAD~1")]
    from: String,
    /// Seconds of faults in each mode of `nemesis`; 600 for the record
    #[arg(long, value_name = "N", default_value_t = 75)]
    nemesis_seconds: u32,
    /// Seconds for each target of `fuzz`
    #[arg(long, value_name = "N", default_value_t = 20)]
    fuzz_seconds: u32,
    /// Run only these stages
    #[arg(long, value_enum, value_name = "STAGE", value_delimiter = ',')]
    only: Vec<Stage>,
    /// Run only the end-to-end tests whose names contain this
    #[arg(value_name = "FILTER")]
    filter: Option<String>,
}

/// Runs `cargo xtask test`. Returns true if all stages passed.
pub fn run(args: &Args) -> Result<bool> {
    stages(args, if args.full { Level::Full } else { Level::Test })
}

/// Runs `cargo xtask check`: the fast stages, with few cases.
pub fn check() -> Result<bool> {
    stages(&Args::default(), Level::Check)
}

/// Runs the stages and prints the result of each.
fn stages(args: &Args, level: Level) -> Result<bool> {
    let mut test = Test { args, level, summary: Summary::new(), interrupt: Interrupt::catch()? };
    let mut all = Stage::value_variants().iter().copied();
    let outcome = all.try_for_each(|stage| test.stage(stage));
    test.summary.print();
    outcome?;
    if test.interrupt.came() {
        bail!("interrupted");
    }
    Ok(!test.summary.failed())
}

struct Test<'a> {
    args: &'a Args,
    level: Level,
    summary: Summary,
    interrupt: Interrupt,
}

impl Test<'_> {
    /// Returns true if `--only` names the stage, or without `--only` if the stage belongs to this level.
    fn wants(&self, stage: Stage) -> bool {
        match &self.args.only[..] {
            [] => stage.level().is_some_and(|level| level <= self.level),
            only => only.contains(&stage),
        }
    }

    fn stage(&mut self, stage: Stage) -> Result<()> {
        if !self.wants(stage) {
            return Ok(());
        }
        match stage {
            Stage::Fmt => self.fmt(),
            Stage::Clippy => self.clippy(),
            Stage::Unit => self.unit(),
            Stage::Planted => self.planted(),
            Stage::E2e => self.end_to_end()?,
            Stage::Rights => {
                self.summary.time("rights", || rights::check(true));
            }
            Stage::Docs => self.docs()?,
            Stage::Simulate => self.simulate()?,
            Stage::Chart => self.chart()?,
            Stage::Upgrade => self.upgrade()?,
            Stage::Nemesis => self.nemesis()?,
            Stage::Fuzz => self.fuzz(),
            Stage::Dist => self.dist(),
            Stage::Deny => self.deny(),
            Stage::Spelling => self.spelling(),
            Stage::Workflows => self.workflows(),
        }
        Ok(())
    }

    /// Builds `holdfast` and the end-to-end tests once. Every stage uses the same program.
    fn program(&mut self) -> Result<Option<PathBuf>> {
        // Build the whole workspace: another choice of packages changes the features of dependencies, and
        // cargo would compile them again.
        let build = ["build", "--workspace", "--bin=holdfast", "--test=e2e"];
        if !self.cargo("build", &build, &[]) {
            return Ok(None);
        }
        // Cargo puts it beside this program.
        let own = env::current_exe().context("find the directory of programs")?;
        Ok(Some(own.with_file_name("holdfast")))
    }

    fn cargo(
        &mut self,
        stage: &'static str,
        args: &[&str],
        environment: &[(&'static str, OsString)],
    ) -> bool {
        let (interrupt, mut counts) = (&self.interrupt, Counts::default());
        let passed =
            self.summary.time(stage, || run::cargo(args, environment, interrupt, &mut counts));
        self.summary.count(counts);
        passed.is_some()
    }
}
