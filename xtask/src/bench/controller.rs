//! The two programs that are compared: the disruption controller of Kubernetes and Holdfast.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::localkube::{Identity, Localkube, Process};

/// A process under measurement. Dropping it ends the process.
pub struct Controller {
    process: Process,
    pub program: PathBuf,
    /// The addresses, if it is Holdfast.
    pub addresses: Value,
}

/// The mode of Holdfast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Webhook,
    Native,
}

/// The resources that a process has used so far.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    pub cpu_seconds: f64,
    pub rss_mib: f64,
}

impl Controller {
    /// Starts kube-controller-manager with only its disruption-controller.
    pub fn upstream(localkube: &Localkube) -> Result<Self> {
        let process =
            localkube.start_controllers("disruption-controller", "disruption-controller")?;
        // When it is ready, it serves. The controller itself starts slightly later.
        std::thread::sleep(Duration::from_secs(1));
        let program = localkube.program("kube-controller-manager");
        Ok(Self { process, program, addresses: Value::Null })
    }

    /// Starts `holdfast serve --install` and waits until it is ready.
    pub fn holdfast(
        localkube: &Localkube,
        program: &Path,
        mode: Mode,
        flags: &[&str],
    ) -> Result<Self> {
        let dir = localkube.dir();
        let ready = dir.join("holdfast-ready.json");
        let _ = fs::remove_file(&ready);
        let kubeconfig = localkube.kubeconfig(Identity::Holdfast);
        let path = |path: &PathBuf| path.display().to_string();
        let mut args = vec![
            "serve".to_owned(),
            "--install".to_owned(),
            match mode {
                Mode::Webhook => "--mode=webhook".to_owned(),
                Mode::Native => "--mode=native".to_owned(),
            },
            format!("--kubeconfig={}", path(&kubeconfig)),
            "--listen=127.0.0.1:0".to_owned(),
            "--metrics-listen=127.0.0.1:0".to_owned(),
            format!("--ready-file={}", path(&ready)),
        ];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let log = dir.join("logs/holdfast.log");
        let process = Process::spawn("holdfast", program, &args, &dir.join("home"), &log)?;
        let mut holdfast = Self { process, program: program.to_owned(), addresses: Value::Null };
        let deadline = Instant::now() + Duration::from_mins(1);
        while Instant::now() < deadline && holdfast.process.is_alive() {
            if let Ok(text) = fs::read(&ready) {
                holdfast.addresses = serde_json::from_slice(&text)?;
                return Ok(holdfast);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = fs::read_to_string(&log).unwrap_or_default();
        bail!("holdfast serve is not ready:\n{output}")
    }

    pub fn usage(&self) -> Result<Usage> {
        usage(self.process.id()).context("read the usage of the controller")
    }

    pub fn stop(&self) -> Result<()> {
        self.process.stop(Duration::from_secs(10))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("bench: {error:#}");
        }
    }
}

/// Waits until the machine is nearly idle for a second, for at most a minute. After an installation or the
/// end of a namespace, API servers and controllers are busy for some time with discovery, schemas and garbage
/// collection.
pub fn await_quiet() -> Result<()> {
    const BUSY_MAX: f64 = 0.2;
    let deadline = Instant::now() + Duration::from_mins(1);
    let mut before = cpu_times().context("read /proc/stat")?;
    while Instant::now() < deadline {
        std::thread::sleep(Duration::from_secs(1));
        let now = cpu_times().context("read /proc/stat")?;
        if (now.0 - before.0) / (now.1 - before.1) < BUSY_MAX {
            return Ok(());
        }
        before = now;
    }
    eprintln!("bench: the machine has not been quiet for a minute");
    Ok(())
}

/// Returns the ticks of all processors since the start: busy, and in total.
fn cpu_times() -> Option<(f64, f64)> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let times = stat.lines().next()?.split_whitespace().skip(1).take(8);
    let times: Vec<f64> = times.map(str::parse).collect::<Result<_, _>>().ok()?;
    let all: f64 = times.iter().sum();
    // Idle, and waiting for a disk.
    Some((all - times.get(3)? - times.get(4)?, all))
}

fn usage(pid: i32) -> Option<Usage> {
    /// `sysconf(_SC_CLK_TCK)`, which is the same on every Linux.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = rss.split_whitespace().next()?.parse().ok()?;
    Some(Usage {
        // The fields utime and stime.
        cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
        rss_mib: kib / 1024.0,
    })
}
