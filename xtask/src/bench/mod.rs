//! `cargo xtask bench`: compares Holdfast with the controller of Kubernetes and with neither, in one run, in
//! turns, with the same load. BENCHMARKING.md describes each measurement.

mod commit;
mod controller;
mod core;
mod delete;
mod drain;
mod evict;
mod gangs;
mod history;
mod http;
mod load;
mod report;
mod soak;
mod stats;
mod status;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::{
    localkube::{self, Identity, Localkube, Options, workspace},
    test::interrupt::Interrupt,
};
use controller::{Controller, Mode};
use http::Server;
use report::{Build, Comparison, Results};

#[derive(clap::Args)]
pub struct Args {
    /// Fewer pods: minutes instead of an hour, and more noise
    #[arg(long)]
    quick: bool,
    /// Measure only these
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
    /// Of `evict` and `status`, measure only the variants of these names
    #[arg(long, value_name = "NAME")]
    variant: Vec<String>,
    /// Also write the table, with every sample, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure this `holdfast` instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Measure this `holdfast` of an earlier commit too, in turns: parts `evict`, `commit` and `core`, which takes
    /// `examples/replay` of the same directory
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// How long a soak takes
    #[arg(long, default_value_t = 30, value_name = "N")]
    minutes: u64,
    /// Runs of `holdfast drain` in each mode
    #[arg(long, default_value_t = 50, value_name = "N")]
    runs: usize,
    /// Runs of `kubectl drain`
    #[arg(long, default_value_t = 20, value_name = "N")]
    kubectl_runs: usize,
    /// Rounds; in each, every variant is measured once
    #[arg(long, default_value_t = 3, value_name = "N")]
    repeat: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Evictions per second
    Evict,
    /// Deletes of pods per second
    Delete,
    /// Gangs until all of them have started
    Gangs,
    /// CPU, memory and latency of the status controllers
    Status,
    /// The webhook's own latency
    Commit,
    /// The engine alone
    Core,
    /// One server under churn for --minutes; only if named
    Soak,
    /// Three nodes drained --runs times; only if named
    Drain,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        if self.only.is_empty() {
            return self.before.is_none() || part.has_before();
        }
        self.only.contains(&part)
    }
}

impl Part {
    /// Whether it compares two builds.
    fn has_before(self) -> bool {
        matches!(self, Self::Evict | Self::Commit | Self::Core)
    }
}

/// The shared parts of the measurements.
pub struct Bench {
    localkube: Localkube,
    program: PathBuf,
    before: Option<PathBuf>,
    admin: Server,
    drainer: Server,
    holdfast_user: Server,
    interrupt: Interrupt,
    quick: bool,
    repeat: usize,
}

/// Prints the table. Fails only if a measurement failed. A missed target is a finding.
pub fn run(args: &Args) -> Result<bool> {
    // A drain mostly waits for controllers, so this program may be a debug build.
    if cfg!(debug_assertions) && args.only != [Part::Drain] {
        return in_release();
    }
    let mut results = Results::default();
    let mut comparisons: Vec<Comparison> = Vec::new();
    let outcome = measure(args, &mut results, &mut comparisons);
    results.print(&comparisons);
    if let Some(path) = &args.json {
        results.write(path, &comparisons)?;
    }
    outcome.map(|()| true)
}

/// Returns false for a debug build: the clients of this program share the cores with the servers.
fn in_release() -> Result<bool> {
    let own = env::args().skip(1);
    let status = localkube::cargo()
        .args(["run", "--quiet", "--release", "--package", "xtask", "--"])
        .args(own)
        .status()
        .context("run cargo")?;
    Ok(status.success())
}

fn measure(args: &Args, results: &mut Results, comparisons: &mut Vec<Comparison>) -> Result<()> {
    if let Some(part) = args.only.iter().find(|part| args.before.is_some() && !part.has_before()) {
        bail!("--before measures evict, commit and core, not {part:?}");
    }
    let wants = |part| args.wants(part);
    let soaks = args.only.contains(&Part::Soak);
    let parts = [Part::Evict, Part::Delete, Part::Gangs, Part::Status, Part::Commit];
    if soaks || parts.into_iter().any(wants) {
        let program = program(args)?;
        let dir = workspace().join("target/localkube-bench");
        if dir.exists() {
            Localkube::down(&dir)?;
        }
        let (localkube, _) = Localkube::up(&dir, &Options::default())?;
        let outcome = on_cluster(args, program, localkube, results, comparisons);
        Localkube::down(&dir)?;
        outcome?;
    }
    if args.only.contains(&Part::Drain) {
        comparisons.extend(drain::comparisons());
        let runs = drain::Runs { holdfast: args.runs, kubectl: args.kubectl_runs };
        with_workloads(args, |bench| drain::run(bench, runs, results))?;
    }
    if wants(Part::Core) {
        comparisons.extend(core::COMPARISONS);
        core::run(args.before.as_deref(), args.repeat, args.quick, results)?;
    }
    Ok(())
}

fn program(args: &Args) -> Result<PathBuf> {
    if let Some(program) = &args.program {
        return found(program);
    }
    cargo(&["build", "--profile", "dist", "--bin", "holdfast"])?;
    Ok(dist_dir()?.join("holdfast"))
}

fn found(program: &Path) -> Result<PathBuf> {
    program.canonicalize().with_context(|| format!("find {}", program.display()))
}

/// Runs the work on a control plane with simulated nodes, a scheduler and `LeaderWorkerSet`.
fn with_workloads(args: &Args, work: impl FnOnce(&Bench) -> Result<()>) -> Result<()> {
    let program = program(args)?;
    let dir = workspace().join("target/localkube-bench-drain");
    if dir.exists() {
        Localkube::down(&dir)?;
    }
    let (localkube, _) = Localkube::up(&dir, &Options { lws: true, ..Options::default() })?;
    let outcome = Bench::new(args, program, localkube).and_then(|bench| work(&bench));
    Localkube::down(&dir)?;
    outcome
}

fn on_cluster(
    args: &Args,
    program: PathBuf,
    localkube: Localkube,
    results: &mut Results,
    comparisons: &mut Vec<Comparison>,
) -> Result<()> {
    // No program simulates the nodes, and the disruption controller runs only in its own variants.
    for component in ["kwok", "kube-scheduler", "kube-controller-manager"] {
        localkube.stop_component(component)?;
    }
    let others = localkube.start_controllers(
        "other-controllers",
        "*,-disruption-controller,-node-lifecycle-controller",
    )?;
    let bench = Bench::new(args, program, localkube)?;
    let outcome = bench.parts(args, results, comparisons);
    others.stop(std::time::Duration::from_secs(10))?;
    outcome
}

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const WEBHOOKS: [&str; 2] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];

impl Bench {
    fn new(args: &Args, program: PathBuf, localkube: Localkube) -> Result<Self> {
        let server = |identity| Server::of_kubeconfig(&localkube.kubeconfig(identity));
        let (admin, drainer) = (server(Identity::Admin)?, server(Identity::Drainer)?);
        let holdfast_user = server(Identity::Holdfast)?;
        let (quick, repeat) = (args.quick, args.repeat);
        let before = args.before.as_deref().map(found).transpose()?;
        let interrupt = Interrupt::catch()?;
        Ok(Self {
            localkube,
            program,
            before,
            admin,
            drainer,
            holdfast_user,
            interrupt,
            quick,
            repeat,
        })
    }

    fn parts(
        &self,
        args: &Args,
        results: &mut Results,
        comparisons: &mut Vec<Comparison>,
    ) -> Result<()> {
        let wants = |part| args.wants(part);
        let of_evict =
            evict::VARIANTS.map(|(name, ..)| name).into_iter().filter(|_| wants(Part::Evict));
        let of_status = status::VARIANTS.into_iter().filter(|_| wants(Part::Status));
        let names: Vec<&str> = of_evict.chain(of_status).collect();
        if let Some(unknown) = args.variant.iter().find(|name| !names.contains(&name.as_str())) {
            bail!("no variant {unknown:?}; there are: {}", names.join("; "));
        }
        if wants(Part::Evict) {
            comparisons.extend(evict::COMPARISONS);
            evict::run(self, &args.variant, results)?;
        }
        if wants(Part::Delete) {
            comparisons.extend(delete::COMPARISONS);
            delete::run(self, results)?;
        }
        if wants(Part::Gangs) {
            comparisons.extend(gangs::COMPARISONS);
            gangs::run(self, results)?;
        }
        if wants(Part::Commit) {
            comparisons.extend(commit::COMPARISONS);
            commit::run(self, results)?;
        }
        if wants(Part::Status) {
            comparisons.extend(status::COMPARISONS);
            status::run(self, &args.variant, results)?;
        }
        if args.only.contains(&Part::Soak) {
            comparisons.extend(soak::COMPARISONS);
            soak::run(self, results, args.minutes)?;
        }
        Ok(())
    }

    /// The builds to measure in this round, for a variant with or without Holdfast.
    fn builds(&self, round: usize, has_holdfast: bool) -> Vec<Build> {
        builds(round, has_holdfast && self.before.is_some())
    }

    fn holdfast(&self, mode: Mode) -> Result<Controller> {
        self.holdfast_with(Build::After, mode, &[])
    }

    /// Each build installs the definitions that it needs.
    fn holdfast_with(&self, build: Build, mode: Mode, flags: &[&str]) -> Result<Controller> {
        let before = self.before.as_ref().filter(|_| build == Build::Before);
        Controller::holdfast(&self.localkube, before.unwrap_or(&self.program), mode, flags)
    }

    /// Removes its webhook, or gives `policy/v1` back, so that evictions do not need it, and ends it.
    fn retire(&self, holdfast: &Controller, mode: Mode) -> Result<()> {
        match mode {
            Mode::Webhook => {
                holdfast.stop()?;
                for kind in WEBHOOKS {
                    for name in ["holdfast", "holdfast-pod-groups"] {
                        self.admin.client().delete(&format!("{ADMISSION}/{kind}/{name}"))?.ok()?;
                    }
                }
            }
            Mode::Native => {
                let output = Command::new(&holdfast.program)
                    .args(["uninstall", "--allow-loss", "--kubeconfig"])
                    .arg(self.localkube.kubeconfig(Identity::Admin))
                    .output()
                    .context("run holdfast uninstall")?;
                if !output.status.success() {
                    bail!("holdfast uninstall: {}", String::from_utf8_lossy(&output.stderr));
                }
                holdfast.stop()?;
            }
        }
        Ok(())
    }
}

/// The builds to measure in a round. The first one changes, so that each follows the other as often.
fn builds(round: usize, has_before: bool) -> Vec<Build> {
    match (has_before, round % 2) {
        (false, _) => vec![Build::After],
        (true, 0) => vec![Build::Before, Build::After],
        (true, _) => vec![Build::After, Build::Before],
    }
}

/// Returns true if the variant is named, or if none is named.
fn is_chosen(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|n| n == name)
}

fn cargo(args: &[&str]) -> Result<()> {
    let status = localkube::cargo().args(args).status().context("run cargo")?;
    if !status.success() {
        bail!("`cargo {}`: {status}", args.join(" "));
    }
    Ok(())
}

/// Returns cargo's directory for release builds. This program is in the directory of another profile.
fn dist_dir() -> Result<PathBuf> {
    let own = env::current_exe().context("find the directory of programs")?;
    let target = own.parent().and_then(Path::parent).context("a program lies in a directory")?;
    Ok(target.join("dist"))
}
