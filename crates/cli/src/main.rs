//! `holdfast`: one module per subcommand, and here only what they share.
#![expect(clippy::doc_markdown, reason = "doc comments of flags are the help text, which is plain")]

mod demo;
mod exit;
mod logging;
mod serve;
mod uninstall;

use clap::{Parser, Subcommand};
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
    /// Decide the evictions of a cluster
    Serve(Box<serve::Args>),
    /// Remove from a cluster what `serve --install` put there
    Uninstall(uninstall::Args),
    /// Show, without a cluster, what counting replicas changes
    Demo,
}

fn main() -> Exit {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Uninstall(args) => uninstall::run(&args),
        Command::Demo => demo::run(),
    };
    Exit::from(result)
}
