//! Runs cargo or this program as a child. Neither the child nor its own children survive this process.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{BufRead as _, BufReader, Read},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{interrupt::Interrupt, summary::Counts};
use crate::localkube;

/// The time for programs to clean up after SIGTERM.
const GRACE: Duration = Duration::from_secs(15);

/// Runs cargo, shows its output, and adds up the reported tests.
pub fn cargo(
    args: &[&str],
    environment: &[(&'static str, OsString)],
    interrupt: &Interrupt,
    counts: &mut Counts,
) -> Result<()> {
    let command = cargo_command(args, environment);
    run(command, interrupt, counts).with_context(|| format!("`cargo {}`", args.join(" ")))
}

/// Like [`cargo`], with its errors in a file.
pub fn cargo_logged(
    args: &[&str],
    environment: &[(&'static str, OsString)],
    interrupt: &Interrupt,
    log: &Path,
) -> Result<()> {
    let mut command = cargo_command(args, environment);
    command.stderr(File::create(log).with_context(|| format!("create {}", log.display()))?);
    run(command, interrupt, &mut Counts::default())
        .with_context(|| format!("`cargo {}`", args.join(" ")))
}

fn cargo_command(args: &[&str], environment: &[(&'static str, OsString)]) -> Command {
    let mut command = localkube::cargo();
    // Cargo has set variables about this package. Build scripts that read them would see another package, and
    // cargo would compile half of the workspace again.
    for (name, _) in env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|own| name.to_string_lossy().starts_with(own))
        {
            command.env_remove(name);
        }
    }
    command.args(args).envs(environment.iter().map(|(name, value)| (name, value)));
    command
}

/// Runs another task of this program in the same way.
pub fn xtask(args: &[&str], interrupt: &Interrupt) -> Result<()> {
    let mut command = Command::new(env::current_exe().context("find this program")?);
    command.args(args);
    run(command, interrupt, &mut Counts::default())
        .with_context(|| format!("`cargo xtask {}`", args.join(" ")))
}

/// Runs another program in the same way.
pub fn program(command: Command, interrupt: &Interrupt) -> Result<()> {
    let what = command.get_program().to_string_lossy().into_owned();
    run(command, interrupt, &mut Counts::default()).with_context(|| format!("`{what}`"))
}

fn run(mut command: Command, interrupt: &Interrupt, counts: &mut Counts) -> Result<()> {
    interrupt.check()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // A separate group, which can be ended as a whole, and Ctrl-C reaches this process first.
        .process_group(0)
        .spawn()
        .context("start it")?;
    let stdout = child.stdout.take().context("its output is piped")?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("it has a pid")?;
    let shown = thread::spawn(move || show(stdout));
    let status = wait(&mut child, group, interrupt);
    // Processes that it started and did not end, for example because it was killed. Mostly there are none.
    kill_process_group(group, Signal::TERM).ok();
    *counts = shown.join().unwrap_or_default();
    let status = status?;
    interrupt.check()?;
    if !status.success() {
        bail!("{status}");
    }
    Ok(())
}

fn wait(child: &mut Child, group: Pid, interrupt: &Interrupt) -> Result<std::process::ExitStatus> {
    let mut told: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().context("wait for it")? {
            return Ok(status);
        }
        match told {
            None if interrupt.came() => {
                kill_process_group(group, Signal::TERM).ok();
                told = Some(Instant::now());
            }
            Some(at) if at.elapsed() > GRACE => {
                kill_process_group(group, Signal::KILL).ok();
            }
            _ => {}
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn show(output: impl Read) -> Counts {
    let mut counts = Counts::default();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        println!("{line}");
        counts.read(&line);
    }
    counts
}
