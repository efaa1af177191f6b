//! `holdfast lint`: what is wrong with budgets, before it hurts.

mod code;
mod files;
mod finding;
mod rules;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::ValueEnum;

use crate::ask::{Builtins, Cluster, ClusterArgs, Selector};
use crate::exit::{Exit, Hinted, block_on};
use crate::simulate::{Input, may_colour, print};
use code::Severity;
use finding::Findings;

#[derive(Debug, clap::Args)]
#[command(
    about = "Find budgets that block for ever, protect nothing, or cannot be counted",
    long_about = "Find budgets that block for ever, protect nothing, or cannot be counted\n\n\
        Of the cluster, or of manifests with -f: workloads there that have no pods get those that \
        their controllers would make. Every finding has a code, which docs/lint.md explains, a \
        severity and a way to mend it.",
    after_help = "Examples:\n  \
        holdfast lint -A\n  \
        holdfast lint -f manifests/\n  \
        helm template . | holdfast lint -f - -o sarif > holdfast.sarif\n\n\
        Exit codes: 0 no errors or warnings, 1 some, 2 error"
)]
pub struct Args {
    /// Manifests instead of a cluster: files, directories, or - for stdin
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1..)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "files"])]
    all_namespaces: bool,
    /// Budgets with these labels only
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "files")]
    selector: Option<Selector>,
    /// Form of the findings
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    /// The schema is stable
    Json,
    Yaml,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// The objects that have findings
    Name,
}

pub fn run(args: &Args) -> Exit {
    lint(args).into()
}

/// Whether there is nothing to worry about.
fn lint(args: &Args) -> anyhow::Result<bool> {
    let findings = if args.files.is_empty() {
        block_on(of_cluster(args))?
    } else {
        let namespace = args.cluster.namespace.as_deref().unwrap_or("default");
        files::lint(read(&args.files)?, namespace)
    };
    let mut out = std::io::stdout().lock();
    let text = match args.output {
        Output::Text => findings.text(may_colour(&out)),
        Output::Json => serde_json::to_string_pretty(&findings)? + "\n",
        Output::Yaml => serde_saphyr::to_string(&findings)?,
        Output::Sarif => serde_json::to_string_pretty(&findings.sarif())? + "\n",
        Output::Name => {
            findings.names(args.all_namespaces).into_iter().map(|name| name + "\n").collect()
        }
    };
    print(&mut out, &text)?;
    Ok(findings.worst().is_none_or(|worst| worst == Severity::Info))
}

/// An error rather than no finding: a pipe whose first command failed must not pass.
fn read(files: &[PathBuf]) -> anyhow::Result<Input> {
    let input = Input::read(files);
    // The file as a whole.
    if let Some(problem) = input.problems.iter().find(|problem| problem.place.document == 0) {
        let hint = "-f takes manifests, directories of them, or - for stdin";
        return Err(Hinted::error(problem.to_string(), hint));
    }
    let places = input.documents.iter().map(|document| &document.place);
    let places: Vec<_> = places.chain(input.problems.iter().map(|p| &p.place)).collect();
    let is_piped = files.iter().any(|file| file.as_os_str() == "-");
    if is_piped && !places.iter().any(|place| place.file == "stdin") {
        let hint = "did the command before the pipe fail?";
        return Err(Hinted::error("no objects in stdin", hint));
    }
    if places.is_empty() {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let hint = "the files are empty: have they been written?";
        return Err(Hinted::error(format!("no objects in {}", names.join(", ")), hint));
    }
    Ok(input)
}

async fn of_cluster(args: &Args) -> anyhow::Result<Findings> {
    let reader = args.cluster.connect().await?;
    let namespace = args.cluster.namespace.as_deref().unwrap_or(reader.namespace());
    let within = (!args.all_namespaces).then_some(namespace);
    let cluster = Cluster::read(&reader, within, Builtins::Counted).await?;
    Ok(rules::apply(&cluster, args.selector.as_ref()))
}
