//! The end-to-end tests: one program, with a suite for each set of tests that shares a cluster and its servers.
//! What one suite does to Holdfast would disturb another, so each is run in a process of its own.

mod e2e;
mod gangs;
mod honest;
mod instances;
mod native;
mod nemesis;
mod outage;
mod overload;
mod page;
mod unavailable;
mod upgrade;

use std::process::ExitCode;

use holdfast_e2e::fixture;

type Run = fn() -> ExitCode;

const SUITES: [(&str, Run); 11] = [
    ("e2e", e2e::run),
    ("gangs", gangs::run),
    ("honest", honest::run),
    ("instances", instances::run),
    ("native", native::run),
    ("nemesis", nemesis::run),
    ("outage", outage::run),
    ("overload", overload::run),
    ("page", page::run),
    ("unavailable", unavailable::run),
    ("upgrade", upgrade::run),
];

/// The name of the suite to run.
const SUITE: &str = "HOLDFAST_E2E_SUITE";

fn main() -> ExitCode {
    let named = std::env::var(SUITE).ok();
    let chosen = SUITES.iter().filter(|(name, _)| named.as_deref().is_none_or(|n| n == *name));
    let chosen: Vec<Run> = chosen.map(|(_, run)| *run).collect();
    if chosen.is_empty() || chosen.len() > 1 && fixture::is_named() {
        eprintln!("error: {SUITE} has to name one of {:?}", SUITES.map(|(name, _)| name));
        return ExitCode::FAILURE;
    }
    // Without a cluster no suite is run, and each lists its tests as ignored.
    let codes: Vec<ExitCode> = chosen.iter().map(|run| run()).collect();
    codes.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS)
}
