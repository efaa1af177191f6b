//! `cargo xtask test`: everything that has to hold before a change goes in, on a cold clone too.
//!
//! ```text
//! fmt  clippy  unit  planted  explore   each for itself
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
//! ```

mod chart;
mod dist;
mod fuzz;
pub mod interrupt;
mod leftover;
mod nemesis;
mod previous;
mod release;
mod rights;
mod run;
mod simulate;
mod summary;
mod tools;

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::docs;
use crate::localkube::{self, Localkube, Options, Release};
use interrupt::Interrupt;
use run::cargo;
use summary::{Counts, Summary};
use tools::Tool;

#[derive(clap::Args)]
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

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    Fmt,
    Clippy,
    Unit,
    E2e,
    /// The commands of the docs
    Docs,
    /// Those of Holdfast, in the last end-to-end tests; part of them
    Rights,
    /// With --full, or if named
    Simulate,
    /// With --full, or if named
    Chart,
    /// With --full, or if named
    Upgrade,
    /// With --full, or if named
    Nemesis,
    /// With --full, or if named
    Fuzz,
    /// With --full, or if named
    Dist,
    /// With --full, or if named
    Deny,
}

/// Programs of their own, because what one does to Holdfast would disturb the others.
const USUAL: [&str; 7] = ["honest", "e2e", "page", "unavailable", "gangs", "outage", "instances"];

/// With Holdfast in native mode.
const NATIVE: [&str; 2] = ["e2e", "native"];

/// Runs the stages and prints what became of them: whether all passed.
pub fn run(args: &Args) -> Result<bool> {
    let mut test = Test { args, summary: Summary::new(), interrupt: Interrupt::catch()? };
    let outcome = test.stages();
    test.summary.print();
    outcome?;
    if test.interrupt.came() {
        bail!("interrupted");
    }
    Ok(!test.summary.failed())
}

struct Test<'a> {
    args: &'a Args,
    summary: Summary,
    interrupt: Interrupt,
}

impl Test<'_> {
    fn stages(&mut self) -> Result<()> {
        if self.wants(Stage::Fmt) {
            self.cargo("fmt", &["fmt", "--all", "--check"], &[]);
            // A workspace of its own.
            self.cargo("fmt", &["fmt", "--check", "--manifest-path=fuzz/Cargo.toml"], &[]);
        }
        if self.wants(Stage::Clippy) {
            let clippy = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
            self.cargo("clippy", &clippy, &[]);
        }
        if self.wants(Stage::Unit) {
            let many = [
                ("PROPTEST_CASES", "20000".into()),
                ("HOLDFAST_SEEDS", "3000".into()),
                ("HOLDFAST_FUZZ_SECONDS", "20".into()),
            ];
            let cases = if self.args.full { &many[..] } else { &[] };
            let unit = ["test", "--workspace", "--exclude", "holdfast-e2e", "--no-fail-fast"];
            self.cargo("unit", &unit, cases);
            // With bugs in the engine, so in builds of their own; and fast ones, because it takes many seeds.
            let planted = [
                "test",
                "--profile=sim",
                "--package=holdfast-sim",
                "--features=planted-bugs",
                "--test=planted",
                "--test=races",
            ];
            let many = [("HOLDFAST_SEEDS", "10000".into())];
            self.cargo("planted", &planted, if self.args.full { &many } else { &[] });
            // A fast build of the server takes longer than these tests.
            let server = [
                "test",
                "--package=holdfast-server-sim",
                "--features=planted-bugs",
                "--test=planted",
            ];
            self.cargo("planted", &server, &[]);
            // Of the same build.
            let explore = [&planted[..4], &["--test=explore"]].concat();
            let many = [("HOLDFAST_STATES", "10000000".into())];
            self.cargo("explore", &explore, if self.args.full { &many } else { &[] });
        }
        if self.wants(Stage::E2e) && self.build() {
            self.end_to_end()?;
        }
        if self.args.only.contains(&Stage::Rights) {
            self.summary.time("rights", || rights::check(true));
        }
        if self.wants(Stage::Docs) {
            self.docs()?;
        }
        if self.wants_long(Stage::Simulate) {
            self.simulate()?;
        }
        if self.wants_long(Stage::Chart) {
            self.chart()?;
        }
        if self.wants_long(Stage::Upgrade) {
            self.upgrade()?;
        }
        if self.wants_long(Stage::Nemesis) {
            self.nemesis()?;
        }
        if self.wants_long(Stage::Fuzz) {
            self.fuzz();
        }
        if self.wants_long(Stage::Dist) {
            self.dist();
        }
        if self.wants_long(Stage::Deny) {
            self.deny();
        }
        Ok(())
    }

    fn deny(&mut self) {
        let Some(environment) = self.tool(&tools::DENY) else { return };
        let check = ["deny", "check", "licenses", "bans", "sources"];
        self.cargo("deny", &check, &environment);
        // They are on GitHub, which is no package registry.
        let mut fetch = localkube::cargo();
        fetch.args(["deny", "fetch", "db"]).envs(environment.clone());
        match fetch.output() {
            Ok(output) if output.status.success() => {
                let check = ["deny", "check", "--disable-fetch", "advisories"];
                self.cargo("advisories", &check, &environment);
            }
            fetched => {
                let said = fetched.map(|output| output.stderr).unwrap_or_default();
                let said = String::from_utf8_lossy(&said);
                let said = said.lines().rfind(|line| !line.trim().is_empty());
                let why = said.unwrap_or("cargo deny fetch db failed");
                self.summary.not_run("advisories", why);
            }
        }
    }

    fn fuzz(&mut self) {
        let Some(environment) = self.tool(&tools::FUZZ) else { return };
        let (seconds, interrupt) = (self.args.fuzz_seconds, &self.interrupt);
        let built = self.summary.time("build fuzz", || fuzz::build(&environment, interrupt));
        if built.is_some() {
            self.summary.time("fuzz", || fuzz::run(seconds, &environment, interrupt));
        }
    }

    fn dist(&mut self) {
        let target = localkube::workspace().join("target");
        let image = match dist::can_build_image(&target) {
            Ok(()) => true,
            Err(error) => {
                self.summary.not_run("image", &format!("{error:#}"));
                false
            }
        };
        let Some(helm) = self.summary.time("helm", localkube::helm) else { return };
        let (dir, interrupt) = (target.join("dist-test"), &self.interrupt);
        self.summary.time("dist", || {
            let place = dir.to_string_lossy();
            let flags = ["dist", "--dir", &place, "--image"];
            run::xtask(if image { &flags } else { &flags[..3] }, interrupt)?;
            dist::check(&dir, &helm, image)
        });
    }

    /// What cargo needs in its environment to find it.
    fn tool(&mut self, tool: &'static Tool) -> Option<[(&'static str, OsString); 1]> {
        let interrupt = &self.interrupt;
        let path = self.summary.time(tool.name, || tool.path(interrupt));
        Some([("PATH", path?)])
    }

    fn chart(&mut self) -> Result<()> {
        if !self.cargo("build", &["build", "--workspace", "--bin", "holdfast"], &[]) {
            return Ok(());
        }
        let holdfast = holdfast()?;
        let Some(helm) = self.summary.time("helm", localkube::helm) else { return Ok(()) };
        self.summary.time("chart", || chart::compare(&helm, &holdfast));
        let dir = localkube::workspace().join("target/localkube-chart");
        let _lock = lock(&dir)?;
        let options = Options { kubernetes: self.args.kubernetes, ..Options::default() };
        let started = self.summary.time("localkube", || {
            clear(&dir)?;
            Localkube::up(&dir, &options)
        });
        if let Some((localkube, _)) = started {
            let interrupt = &self.interrupt;
            self.summary.time("release", || release::follow(&helm, &localkube, interrupt));
        }
        self.summary.time("down", || clear(&dir));
        Ok(())
    }

    fn upgrade(&mut self) -> Result<()> {
        let (revision, interrupt) = (&self.args.from, &self.interrupt);
        let built = self.summary.time("previous", || previous::build(revision, interrupt));
        let Some(previous) = built else { return Ok(()) };
        let tests = ["test", "--workspace", "--no-run", "--test=upgrade"];
        if !self.cargo("build", &["build", "--workspace", "--bin", "holdfast"], &[])
            || !self.cargo("build tests", &tests, &[])
        {
            return Ok(());
        }
        let dir = localkube::workspace().join("target/localkube-upgrade");
        let _lock = lock(&dir)?;
        let mut environment = vec![
            ("HOLDFAST_BIN", holdfast()?.into_os_string()),
            ("HOLDFAST_PREVIOUS_BIN", previous.into_os_string()),
        ];
        let kubernetes = self.args.kubernetes;
        let options = Options { lws: true, kubernetes, ..Options::default() };
        self.row(&dir, &options, &["upgrade"], &environment);
        environment.push(("HOLDFAST_E2E_NATIVE", "1".into()));
        self.row(&dir, &options, &["upgrade"], &environment);
        Ok(())
    }

    /// Those with a cluster only on localkube: they begin with its start.
    fn docs(&mut self) -> Result<()> {
        if !self.cargo("build", &["build", "--workspace", "--bin", "holdfast"], &[]) {
            return Ok(());
        }
        let (program, target) = (holdfast()?, localkube::workspace().join("target"));
        let (dir, cluster) = (target.join("docs-test"), target.join("localkube-docs"));
        let _lock = lock(&cluster)?;
        let interrupt = &self.interrupt;
        self.summary.time("docs", || docs::without_cluster(&program, &dir, interrupt));
        if self.args.kubeconfig.is_none() {
            self.summary.time("quickstart", || {
                clear(&cluster)?;
                let ran = docs::on_localkube(&program, &dir, &cluster, interrupt);
                clear(&cluster)?;
                ran
            });
        }
        Ok(())
    }

    fn simulate(&mut self) -> Result<()> {
        // As people run it: without optimisation it takes minutes.
        if !self.cargo("release", &["build", "--release", "--bin", "holdfast"], &[]) {
            return Ok(());
        }
        let debug = holdfast()?;
        let target = debug.parent().and_then(Path::parent).context("find the target directory")?;
        let (program, dir) = (target.join("release/holdfast"), target.join("simulate-test"));
        self.summary.time("simulate", || simulate::large(&program, &dir));
        match simulate::browser() {
            Some(browser) => {
                self.summary.time("page", || simulate::page(&program, &browser, &dir));
            }
            None => {
                self.summary.not_run("page", "there is no Chromium, and none could be installed");
            }
        }
        Ok(())
    }

    fn build(&mut self) -> bool {
        // Always of the whole workspace: a choice of packages is a choice of their dependencies'
        // features, and these would be compiled anew.
        let program = ["build", "--workspace", "--bin", "holdfast"];
        let mut tests = vec!["test", "--workspace", "--no-run", "--test=overload"];
        let programs: BTreeSet<&str> = USUAL.into_iter().chain(NATIVE).collect();
        tests.extend(programs.iter().flat_map(|name| ["--test", name]));
        self.cargo("build", &program, &[]) && self.cargo("build tests", &tests, &[])
    }

    fn end_to_end(&mut self) -> Result<()> {
        let mut environment = vec![("HOLDFAST_BIN", holdfast()?.into_os_string())];
        if self.args.full {
            environment.push(("HOLDFAST_E2E_FULL", "1".into()));
        }
        let driver = self.summary.time("browser", || Ok(simulate::driver()));
        if let Some(driver) = driver.flatten() {
            environment.push(("HOLDFAST_CHROMEDRIVER", driver.into_os_string()));
        }
        if let Some(kubeconfig) = &self.args.kubeconfig {
            let kubeconfig = fs::canonicalize(kubeconfig)
                .with_context(|| format!("find {}", kubeconfig.display()))?;
            environment.push(("HOLDFAST_E2E_KUBECONFIG", kubeconfig.into_os_string()));
            self.tests(&USUAL, &environment);
            return Ok(());
        }
        let dir = localkube::workspace().join("target/localkube-test");
        let _lock = lock(&dir)?;
        let kubernetes = self.args.kubernetes;
        let usual = Options { lws: true, jobset: true, kubernetes, ..Options::default() };
        rights::clear()?;
        let mut passed = self.row(&dir, &rights::audited(&usual, "usual")?, &USUAL, &environment);
        let mut native = environment.clone();
        native.push(("HOLDFAST_E2E_NATIVE", "1".into()));
        // Which takes minutes to build.
        let more = Options { descheduler: self.args.full, jobset: false, ..usual.clone() };
        passed &= self.row(&dir, &rights::audited(&more, "native")?, &NATIVE, &native);
        if usual.has_pod_groups() {
            let plain = Options { without_pod_groups: true, ..usual };
            let plain = rights::audited(&plain, "plain")?;
            passed &= self.row(&dir, &plain, &["gangs"], &environment);
        }
        let flags = ["--max-requests-inflight=20", "--max-mutating-requests-inflight=20"];
        let scarce = Options {
            apiserver_flags: flags.map(str::to_owned).into(),
            kubernetes,
            ..Options::default()
        };
        passed &= self.row(&dir, &scarce, &["overload"], &environment);
        // Some of the tests, or a release without pod groups, say nothing about all rights.
        if passed && self.args.filter.is_none() && kubernetes == Release::default() {
            let strict = self.args.full;
            self.summary.time("rights", || rights::check(strict));
        }
        Ok(())
    }

    /// Runs tests on a control plane of their own. Whether all passed.
    fn row(
        &mut self,
        dir: &Path,
        options: &Options,
        tests: &[&'static str],
        environment: &[(&'static str, OsString)],
    ) -> bool {
        let started = self.summary.time("localkube", || {
            clear(dir)?;
            let (localkube, _) = Localkube::up(dir, options)?;
            localkube.env()
        });
        let passed = started.is_some_and(|variables| {
            let variables = variables.into_iter().map(|(name, value)| (name, value.into()));
            let environment: Vec<_> = environment.iter().cloned().chain(variables).collect();
            let passed = self.tests(tests, &environment);
            if !passed {
                keep_logs(dir, tests[0]);
            }
            passed
        });
        self.summary.time("down", || clear(dir));
        passed
    }

    fn tests(
        &mut self,
        programs: &[&'static str],
        environment: &[(&'static str, OsString)],
    ) -> bool {
        programs.iter().all(|name| {
            let mut command = vec!["test", "--workspace", "--test", name];
            if let Some(filter) = &self.args.filter {
                command.extend(["--", filter]);
            }
            self.cargo(name, &command, environment)
        })
    }

    fn wants(&self, stage: Stage) -> bool {
        self.args.only.is_empty() || self.args.only.contains(&stage)
    }

    fn wants_long(&self, stage: Stage) -> bool {
        self.args.only.contains(&stage) || self.args.full && self.args.only.is_empty()
    }

    fn cargo(
        &mut self,
        stage: &'static str,
        args: &[&str],
        environment: &[(&'static str, OsString)],
    ) -> bool {
        let (interrupt, mut counts) = (&self.interrupt, Counts::default());
        let passed = self.summary.time(stage, || cargo(args, environment, interrupt, &mut counts));
        self.summary.count(counts);
        passed.is_some()
    }
}

/// Beside this very program, where cargo has just built it.
fn holdfast() -> Result<PathBuf> {
    let own = env::current_exe().context("find the directory of programs")?;
    Ok(own.with_file_name("holdfast"))
}

/// One run at a time in a checkout: the next would take away the control plane of this one.
fn lock(dir: &Path) -> Result<fs::File> {
    let path = dir.with_extension("lock");
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    }
    let lock = fs::File::create(&path).with_context(|| format!("create {}", path.display()))?;
    if lock.try_lock().is_err() {
        eprintln!("wait for another `cargo xtask test` of this checkout to end");
        lock.lock().with_context(|| format!("lock {}", path.display()))?;
    }
    Ok(lock)
}

/// Stops and removes the control plane, be it of this run or left by one that crashed.
fn clear(dir: &Path) -> Result<()> {
    leftover::end(dir);
    if dir.join("state.json").exists() {
        return Localkube::down(dir);
    }
    // Whoever made it got no further than to write files: no process is on record.
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    Ok(())
}

/// They go with the control plane, and somebody will want to read them.
fn keep_logs(dir: &Path, of: &str) {
    let kept = dir.with_file_name(format!("localkube-{of}-logs"));
    let _ = fs::remove_dir_all(&kept);
    match fs::rename(dir.join("logs"), &kept) {
        Ok(()) => eprintln!("the logs of the failed run are in {}", kept.display()),
        Err(error) => eprintln!("cannot keep the logs: {error}"),
    }
}
