//! `holdfast status`: budgets, and what they count.

mod report;
#[cfg(test)]
mod tests;
mod text;

use std::io::{self, IsTerminal};
use std::time::Duration;

use holdfast_server::Reader;

use crate::ask::{Builtins, Cluster, ClusterArgs, Output, Selector, emit};
use crate::exit::{Exit, Hinted, block_on};
use crate::simulate::{may_colour, print};
pub use report::Report;

/// Between two looks of `-w`.
const INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(
    about = "Show budgets, what they need and have, and evictions in flight",
    long_about = "Show budgets, what they need and have, and evictions in flight\n\n\
        Every budget with its unit, how many it needs, has and expects, how many it allows, the \
        grants in flight and what is wrong with it. Of one budget, its replicas and their pods. \
        Computed here by the engine that decides evictions, so that it is true also where no \
        server runs.",
    after_help = "Examples:\n  \
        holdfast status -A\n  \
        holdfast status llama -n serving -w\n  \
        kubectl holdfast status -A -o json | jq '.budgets[] | select(.disruptionsAllowed == 0) | .name'"
)]
pub struct Args {
    /// A budget, to see its replicas and pods
    budget: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Budgets with these labels only
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// Look every 2 seconds, and print what has changed
    #[arg(short, long)]
    watch: bool,
    /// Form of the result
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub fn run(args: &Args) -> Exit {
    block_on(show(args)).into()
}

async fn show(args: &Args) -> anyhow::Result<()> {
    let reader = args.cluster.connect().await?;
    let mut last = None;
    loop {
        let report = look(args, &reader).await?;
        if last.as_ref() != Some(&report) {
            print_report(args, &report, last.is_some())?;
            last = Some(report);
        }
        if !args.watch {
            return Ok(());
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn look(args: &Args, reader: &Reader) -> anyhow::Result<Report> {
    let namespace = args.cluster.namespace.as_deref().unwrap_or(reader.namespace());
    let within = (!args.all_namespaces).then_some(namespace);
    let cluster = Cluster::read(reader, within, Builtins::Counted).await?;
    let name = args.budget.as_deref();
    let report = Report::of(&cluster, name, args.selector.as_ref());
    match name {
        Some(name) if report.budgets.is_empty() => Err(Hinted::error(
            format!(
                "there is no budget {name}{}",
                within.map(|n| format!(" in namespace {n}")).unwrap_or_default()
            ),
            "`holdfast status -A` lists all",
        )),
        _ => Ok(report),
    }
}

fn print_report(args: &Args, report: &Report, again: bool) -> anyhow::Result<()> {
    let is_text = matches!(args.output, Output::Table | Output::Wide);
    if again && is_text {
        // A terminal is cleared; elsewhere a line sets one apart from the next.
        let clear = if io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "\n" };
        print(&mut io::stdout(), clear)?;
    }
    let colour = may_colour(&io::stdout());
    let wide = args.output == Output::Wide;
    let text = || {
        if args.budget.is_some() {
            text::tree(report, colour)
        } else {
            text::table(report, args.all_namespaces, wide)
        }
    };
    emit(args.output, report, text, || report.names())
}
