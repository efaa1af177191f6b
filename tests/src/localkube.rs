//! Restarts, pauses and kills programs of the control plane during tests. Only on localkube.

use std::env;
use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::fixture;

/// Returns true if the cluster is a localkube and `xtask` has passed its own path.
pub fn is_there() -> bool {
    env::var_os(XTASK).is_some() && fixture().is_localkube()
}

/// Restarts a program with its first flags, and waits until it is ready.
#[track_caller]
pub fn restart(component: &str) {
    try_restart(component, &[]).unwrap_or_else(|error| panic!("{error}"));
}

/// Like [`restart`], for a program that may be dead. Other parts of the control plane may be dead too.
pub fn restart_dead(component: &str) -> Result<(), String> {
    try_restart(component, &[])
}

/// A program as in `localkube status`.
#[derive(Clone, Debug)]
pub struct Component {
    pub name: String,
    pub pid: i32,
    pub port: u16,
    /// `running`, `paused` or `ended`.
    pub state: String,
}

pub fn components() -> Result<Vec<Component>, String> {
    let table = xtask(&["status"], &[])?;
    table.lines().skip(1).map(|line| component(line).ok_or_else(|| format!("{line:?}"))).collect()
}

/// Sends a signal to a program that has not ended.
pub fn signal(name: &str, signal: Signal) -> Result<(), String> {
    let mut components = components()?.into_iter();
    let component = components.find(|known| known.name == name && known.state != "ended");
    let component = component.ok_or_else(|| format!("no {name} runs"))?;
    let pid = Pid::from_raw(component.pid).ok_or_else(|| format!("{name} has no valid pid"))?;
    kill_process(pid, signal).map_err(|error| format!("signal {name}: {error}"))
}

/// Like [`restart`] with more flags, until the returned value is dropped.
#[track_caller]
#[must_use]
pub fn restart_with(component: &'static str, flags: &[&str]) -> Changed {
    try_restart(component, flags).unwrap_or_else(|error| panic!("{error}"));
    Changed(component)
}

/// A program that runs with other flags than at first.
#[derive(Debug)]
pub struct Changed(&'static str);

impl Drop for Changed {
    fn drop(&mut self) {
        if let Err(error) = try_restart(self.0, &[]) {
            eprintln!("error: {error}");
        }
    }
}

/// Returns the errors that a program has logged since its start and that contain one of these words.
#[track_caller]
pub fn errors(component: &str, words: &[&str]) -> Vec<String> {
    let path = fixture().log(component);
    let log = fs::read(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    let log = String::from_utf8_lossy(&log).into_owned();
    let mentioned = |line: &str| {
        let line = line.to_lowercase();
        words.iter().any(|word| line.contains(word))
    };
    log.lines().filter(|line| is_error(line) && mentioned(line)).map(str::to_owned).collect()
}

const XTASK: &str = "HOLDFAST_XTASK";

/// Checks for klog's form: severity, month and day.
fn is_error(line: &str) -> bool {
    let mut letters = line.chars();
    matches!(letters.next(), Some('E' | 'F')) && letters.take(4).all(|c| c.is_ascii_digit())
}

fn try_restart(component: &str, flags: &[&str]) -> Result<(), String> {
    xtask(&["restart", component], flags).map(drop).map_err(|e| format!("restart {component}: {e}"))
}

/// Runs `cargo xtask localkube` for this control plane and returns its output.
fn xtask(command: &[&str], flags: &[&str]) -> Result<String, String> {
    let xtask = env::var_os(XTASK).ok_or_else(|| format!("{XTASK} names no program"))?;
    let output = Command::new(xtask)
        .arg("localkube")
        .args(command)
        .arg("--dir")
        .arg(&fixture().dir)
        .args(flags.iter().map(|flag| format!("--flag={flag}")))
        .output()
        .map_err(|error| format!("start xtask: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Parses a line of the table of `localkube status`.
fn component(line: &str) -> Option<Component> {
    let mut words = line.split_whitespace();
    Some(Component {
        name: words.next()?.to_owned(),
        pid: words.next()?.parse().ok()?,
        port: words.next()?.parse().ok()?,
        state: words.next()?.to_owned(),
    })
}
