//! `holdfast`: one module per subcommand, and here only what they share.
#![expect(clippy::doc_markdown, reason = "doc comments of flags are the help text, which is plain")]

mod ask;
mod board;
mod complete;
mod demo;
mod drain;
mod exit;
mod lint;
mod logging;
mod man;
mod manifests;
mod page;
mod plan;
#[cfg(test)]
mod reference;
mod serve;
mod simulate;
mod status;
mod uninstall;
mod why;

use std::path::Path;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use exit::Exit;

#[derive(Debug, Parser)]
#[command(
    name = "holdfast",
    version,
    about = "Disruption budgets that count replicas, not pods",
    after_help = "Exit codes: 0 fine, 1 blocked or findings, 2 error"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    // Described where their flags are: a description here would take the place of the long one.
    Status(status::Args),
    Why(why::Args),
    Lint(lint::Args),
    Plan(plan::Args),
    Drain(Box<drain::Args>),
    Serve(Box<serve::Args>),
    Manifests(manifests::Args),
    Uninstall(uninstall::Args),
    Simulate(Box<simulate::Args>),
    /// Show, without a cluster, what counting replicas changes
    Demo,
    Completion(complete::Args),
    Man(man::Args),
}

/// A server makes and drops small objects all the time; the C library's allocator took a seventh of
/// its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Exit {
    if called_as("kubectl_complete-holdfast") {
        return complete::for_kubectl(Cli::command()).into();
    }
    match parse().command {
        Command::Status(args) => status::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Lint(args) => lint::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Drain(args) => drain::run(&args),
        Command::Serve(args) => serve::run(&args).into(),
        Command::Manifests(args) => manifests::run(&args).into(),
        Command::Uninstall(args) => uninstall::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Demo => demo::run().into(),
        Command::Completion(args) => complete::run(&args, &mut Cli::command()).into(),
        Command::Man(args) => man::run(&args, Cli::command()).into(),
    }
}

/// Called as kubectl calls its plugins, it speaks of itself as one types it there.
fn parse() -> Cli {
    let plugin = called_as("kubectl-holdfast");
    let command = if plugin { Cli::command().bin_name("kubectl holdfast") } else { Cli::command() };
    let parsed = command.try_get_matches().and_then(|found| Cli::from_arg_matches(&found));
    parsed.unwrap_or_else(|error| {
        // As kubectl's of that name.
        if error.use_stderr() && std::env::args_os().nth(1).is_some_and(|word| word == "drain") {
            let _ = error.print();
            std::process::exit(1);
        }
        error.exit()
    })
}

fn called_as(name: &str) -> bool {
    let called = std::env::args_os().next().unwrap_or_default();
    Path::new(&called).file_stem().is_some_and(|called| called == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }
}
