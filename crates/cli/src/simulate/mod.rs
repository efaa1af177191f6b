//! `holdfast simulate`: what a drain would do to a cluster.
//!
//! ```text
//!   files, stdin, cluster --input--> documents --objects--> objects --scenario--> world
//!   world --run--> report --text, json, html--> stdout
//! ```
//!
//! The engine is the one that serves; the cluster around it is `holdfast-sim` on a virtual clock.

mod absent;
mod beyond;
mod check;
mod html;
mod input;
#[cfg(test)]
mod input_tests;
mod kruise;
pub mod labels;
mod needs;
mod objects;
mod picture;
mod placement;
mod quantity;
mod record;
mod report;
mod run;
mod scenario;
#[cfg(test)]
mod shapes;
mod strict;
#[cfg(test)]
mod telling;
mod template;
#[cfg(test)]
mod tests;
mod text;
mod timeline;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use holdfast_core::Config;
use holdfast_server::ClusterOptions;
use serde_json::Value;

use crate::exit::{Exit, block_on};
pub use input::{Document, Input, Place, Problem};
pub use objects::Objects;
pub use report::Report;
use report::{Assumptions, SCHEMA_VERSION, Time};
use scenario::{Scenario, Settings};
pub use text::show;

/// Manifests with the pods that their workloads would make and the workloads that are not among them, for
/// other commands.
pub fn read(input: Input, namespace: &str) -> Objects {
    let mut objects = Objects::read(input, namespace);
    template::make_pods(&mut objects);
    absent::assume(&mut objects);
    objects
}

#[derive(Debug, clap::Args)]
#[command(
    about = "Show what a drain would do, without doing it",
    long_about = "Show what a drain would do, without doing it\n\n\
        Reads manifests or a live cluster, puts the engine that decides evictions in production in \
        front of a simulated copy, drains nodes as kubectl does, and shows which evictions are \
        granted, which are blocked and why, which replicas are down when, and whether it finishes. \
        Nothing is changed.\n\n\
        Pods start after --startup and end after --grace-period; those of workloads come back where \
        there is room. docs/simulate.md says what else is assumed.",
    after_help = "Examples:\n  \
        holdfast simulate -f examples/llm-serving.yaml --drain node-1,node-2\n  \
        kubectl get nodes,pods,pdb,deploy,rs,sts,jobs -A -o yaml | holdfast simulate -f - --drain node-1\n  \
        holdfast simulate -f manifests/ --drain node-1 --compare pod -o html > drain.html\n  \
        holdfast simulate --from-cluster --drain node-1 -o json | jq .runs[0].result\n\n\
        Exit codes: 0 the drain finishes, 1 it would block for ever, 2 error"
)]
pub struct Args {
    /// Manifests: files, directories, or - for stdin; YAML or JSON, with any number of objects
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "FILE",
        num_args = 1..,
        required_unless_present = "from_cluster"
    )]
    files: Vec<PathBuf>,
    /// Nodes to drain, in this order
    #[arg(long, value_name = "NODE", value_delimiter = ',', num_args = 1.., required = true)]
    drain: Vec<String>,
    /// Also simulate the same drain with all budgets counting pods: numbers of replicas become the
    /// numbers of their pods
    #[arg(long, value_enum, value_name = "UNIT")]
    compare: Option<Unit>,
    /// Form of the result
    #[arg(short = 'o', long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// From the placement of a pod until it is ready, at most 24h
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = quantity::parse_time)]
    startup: Duration,
    /// From the deletion of a pod until it is gone, at most 24h
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = quantity::parse_time)]
    grace_period: Duration,
    /// From a denied eviction until the next try, from 100ms to 24h
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = quantity::parse_retry)]
    retry: Duration,
    /// Drain all nodes at the same time, as several clients do
    #[arg(long)]
    parallel: bool,
    /// Namespace of objects that do not name theirs
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// Simulate a copy of the live cluster; with -f, as if the files were applied to it
    #[arg(long)]
    from_cluster: bool,
    /// Kubeconfig for --from-cluster [default: ~/.kube/config, else the service account]
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Unit {
    Pod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    /// The schema is in docs/simulate.md
    Json,
    /// One page with a picture, which refers to nothing outside of itself
    Html,
}

pub fn run(args: &Args) -> Exit {
    simulate(args).into()
}

/// Whether the drain finishes.
fn simulate(args: &Args) -> anyhow::Result<bool> {
    let mut input = Input::read(&args.files);
    if args.from_cluster {
        input.add_below(live(args)?);
    }
    let objects = Objects::read(input, &args.namespace);
    let settings = Settings {
        startup: args.startup,
        grace: args.grace_period,
        retry: args.retry,
        parallel: args.parallel,
    };
    let scenario = scenario(objects, args.drain.clone(), settings)?;
    for note in &scenario.objects.left_out {
        eprintln!("note: {note}");
    }
    let report = report(&scenario, args.compare == Some(Unit::Pod));
    let mut out = io::stdout().lock();
    let printed = match args.output {
        Output::Text => text::render(&report, may_colour(&out)),
        Output::Json => serde_json::to_string_pretty(&report)? + "\n",
        Output::Html => html::render(&report),
    };
    print(&mut out, &printed)?;
    Ok(report.runs[0].outcome.is_finished())
}

/// The objects of the cluster in the kubeconfig.
fn live(args: &Args) -> anyhow::Result<Vec<Value>> {
    let cluster =
        ClusterOptions { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
    block_on(holdfast_server::snapshot(&cluster, Config::default().kinds))
}

/// Fails with all mistakes in the manifests, if there are any.
fn scenario(
    mut objects: Objects,
    drained: Vec<String>,
    settings: Settings,
) -> anyhow::Result<Scenario> {
    template::make_pods(&mut objects);
    beyond::refuse_doubly_covered(&mut objects);
    absent::assume(&mut objects);
    objects.problems.sort();
    // Each pod of a template repeats its mistakes.
    objects.problems.dedup();
    // What the API server of a live cluster has let in is simulated as well as can be.
    let (live, problems): (Vec<_>, Vec<_>) =
        std::mem::take(&mut objects.problems).into_iter().partition(|problem| problem.place.live);
    objects.left_out.extend(live.iter().map(ToString::to_string));
    if !problems.is_empty() {
        let count = scenario::count(problems.len(), "mistake");
        let lines: Vec<String> = problems.iter().map(|problem| format!("\n  {problem}")).collect();
        bail!("the input has {count}:{}", lines.concat());
    }
    Scenario::new(objects, drained, settings)
}

fn report(scenario: &Scenario, compare: bool) -> Report {
    let Settings { startup, grace, retry, parallel } = scenario.settings;
    Report {
        schema_version: SCHEMA_VERSION,
        drained: scenario.drained.clone(),
        assumptions: Assumptions {
            startup_seconds: Time(startup),
            grace_period_seconds: Time(grace),
            retry_seconds: Time(retry),
            parallel,
        },
        notes: scenario.notes.clone(),
        runs: run::run(scenario, compare),
    }
}

/// The manifests as a simulated cluster, with the engine in front of it.
#[cfg(test)]
pub fn world(input: Input) -> anyhow::Result<holdfast_sim::World> {
    let scenario = scenario(Objects::read(input, "default"), Vec::new(), Settings::DEFAULT)?;
    Ok(scenario.world(scenario::Counting::AsWritten))
}

/// As the command does with its defaults and `--compare pod`.
pub fn manifests(file: &str, text: &str, drained: &[&str]) -> anyhow::Result<Report> {
    let mut input = Input::default();
    input.parse(file, text);
    let drained = drained.iter().map(|node| (*node).to_owned()).collect();
    let scenario = scenario(Objects::read(input, "default"), drained, Settings::DEFAULT)?;
    Ok(report(&scenario, true))
}

pub fn may_colour(out: &impl IsTerminal) -> bool {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    out.is_terminal() && !no_colour
}

/// `holdfast simulate ... | head` is fine.
pub fn print(out: &mut impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
