//! `localkube status`: the components of a control plane, and whether they run.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::{cluster, process::Process, state::State};

/// Returns a heading and one line for each component, in the order of their start.
pub fn table(dir: &Path) -> Result<String> {
    let state = State::load(dir)?.ok_or_else(|| cluster::none_runs(dir))?;
    let mut table = format!("{:<24} {:>8} {:>6}  STATE\n", "COMPONENT", "PID", "PORT");
    for (component, process) in state.components.iter().zip(&state.processes) {
        let (name, port) = (&component.name, component.probe.port);
        writeln!(table, "{name:<24} {:>8} {port:>6}  {}", process.id(), condition(process))?;
    }
    Ok(table)
}

fn condition(process: &Process) -> &'static str {
    match (process.is_alive(), process.is_paused()) {
        (true, true) => "paused",
        (true, false) => "running",
        (false, _) => "ended",
    }
}
