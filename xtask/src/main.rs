//! The tasks of the project: `cargo xtask TASK`. Each task is one module.

mod bench;
mod dist;
mod docs;
mod explore;
mod fix;
mod localkube;
mod sim;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

fn main() -> ExitCode {
    let result = match Xtask::parse().chore {
        Chore::Bench(args) => bench::run(&args),
        Chore::Check => test::check(),
        Chore::Dist(args) => dist::run(&args).map(|()| true),
        Chore::Explore(args) => explore::run(&args),
        Chore::Fix => fix::run(),
        Chore::Localkube(args) => localkube::run(&args).map(|()| true),
        Chore::Sim(args) => sim::run(&args),
        Chore::Test(args) => test::run(&args),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        // The same exit codes as the program: 1 for findings, 2 for errors.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The chores of the Holdfast repository")]
struct Xtask {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Measure Holdfast beside upstream's controller and without, on a control plane of its own
    Bench(bench::Args),
    /// Check format and lints, and run the unit tests and a short simulation: for every save
    Check,
    /// Make what a release consists of: program, chart, manifests, checksums and bill of materials
    Dist(dist::Args),
    /// Look for a schedule that breaks the promise: every interleaving of small worlds
    Explore(explore::Args),
    /// Format, apply the fixes of lints, and write the generated files anew
    Fix,
    /// Run a real Kubernetes control plane on this machine, for tests
    Localkube(localkube::Args),
    /// Try to break the budget: seeds of worlds in which everything goes wrong
    Sim(sim::Args),
    /// Check format and lints and run all tests, on a control plane of their own
    Test(test::Args),
}
