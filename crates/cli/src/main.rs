//! `holdfast`: one module per subcommand, and here only what they share.
#![expect(clippy::doc_markdown, reason = "doc comments of flags are the help text, which is plain")]

mod ask;
mod demo;
mod exit;
mod logging;
mod page;
mod serve;
mod simulate;
mod status;
mod uninstall;
mod why;

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
    // Described where their flags are: a description here would take the place of the long one.
    Status(status::Args),
    Why(why::Args),
    Serve(Box<serve::Args>),
    Uninstall(uninstall::Args),
    Simulate(Box<simulate::Args>),
    /// Show, without a cluster, what counting replicas changes
    Demo,
}

/// A server makes and drops small objects all the time; the C library's allocator took a seventh of
/// its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Exit {
    match Cli::parse().command {
        Command::Status(args) => status::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Serve(args) => serve::run(&args).into(),
        Command::Uninstall(args) => uninstall::run(&args).into(),
        Command::Simulate(args) => simulate::run(&args),
        Command::Demo => demo::run().into(),
    }
}
