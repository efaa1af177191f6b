//! The `holdfast serve` process.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{Fixture, Mode, fixture};
use crate::process::Process;

/// The time to install, to list everything and to register. On an idle machine it takes a second.
const START: Duration = Duration::from_mins(1);

/// Longer than the ten seconds that a request in progress may take.
const STOP: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Server {
    process: Process,
    ready_file: PathBuf,
    /// The content of the ready file: webhook, health, pid.
    addresses: Value,
}

/// One line of the log: the decision about an eviction.
#[derive(Clone, Debug)]
pub struct Decision {
    pub pod: String,
    pub verdict: String,
    pub dry_run: bool,
    pub cost: i64,
}

impl Server {
    /// Starts `holdfast serve --install` and waits until it is ready. `name` distinguishes the logs of
    /// several servers.
    pub fn start(name: &str) -> Result<Self, String> {
        Self::start_with(name, &[])
    }

    pub fn start_with(name: &str, more: &[&str]) -> Result<Self, String> {
        Self::start_at(name, ANY_PORT, more)
    }

    /// Starts it at this address, for tests that must know the address first.
    pub fn start_at(name: &str, listen: &str, more: &[&str]) -> Result<Self, String> {
        Self::start_on(name, &fixture().holdfast_kubeconfig, listen, more)
    }

    /// Like [`Self::start_at`], as a client of the API server in this kubeconfig.
    pub fn start_on(
        name: &str,
        kubeconfig: &Path,
        listen: &str,
        more: &[&str],
    ) -> Result<Self, String> {
        let mut command = serve_at(&fixture().holdfast, kubeconfig, fixture().mode, listen);
        command.arg("--install").args(more);
        Self::launch(name, command)
    }

    /// Starts this program, which may be another release than the one under test.
    pub fn start_of(program: &Path, name: &str, more: &[&str]) -> Result<Self, String> {
        let fixture = fixture();
        let mut command = serve_at(program, &fixture.holdfast_kubeconfig, fixture.mode, ANY_PORT);
        command.arg("--install").args(more);
        Self::launch(name, command)
    }

    /// Starts a command line of any kind and waits until it is ready.
    pub fn launch(name: &str, mut command: Command) -> Result<Self, String> {
        let fixture = fixture();
        let ready_file = fixture.dir.join(format!("holdfast-{name}.ready.json"));
        let _ = fs::remove_file(&ready_file);
        command.arg("--ready-file").arg(&ready_file);
        let mut process = Process::start(command, &fixture.log(&format!("holdfast-{name}")));
        let began = Instant::now();
        let addresses = loop {
            if let Ok(text) = fs::read_to_string(&ready_file) {
                break serde_json::from_str(&text).map_err(|e| format!("the ready file: {e}"))?;
            }
            if let Some(status) = process.ended() {
                return Err(format!("holdfast serve: {status}\n{}", process.output()));
            }
            if began.elapsed() > START {
                return Err(format!("holdfast serve is not ready\n{}", process.output()));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        Ok(Self { process, ready_file, addresses })
    }

    /// Returns the webhook's `127.0.0.1:PORT`.
    pub fn webhook(&self) -> String {
        self.host("webhook")
    }

    pub fn is_ready_file_there(&self) -> bool {
        self.ready_file.exists()
    }

    pub fn log(&self) -> String {
        self.process.output()
    }

    /// Returns the decisions in this namespace, in order.
    pub fn decisions(&self, namespace: &str) -> Vec<Decision> {
        let log = self.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
        lines
            .filter(|line| line["message"] == "decided")
            .filter_map(|line| {
                let pod = text(&line, "pod").strip_prefix(&format!("{namespace}/"))?.to_owned();
                Some(Decision {
                    pod,
                    verdict: text(&line, "verdict"),
                    dry_run: line["dry_run"] == true,
                    cost: line["cost"].as_i64().unwrap_or_default(),
                })
            })
            .collect()
    }

    /// Returns the address of the web page.
    pub fn board(&self) -> &str {
        self.addresses["page"].as_str().unwrap_or_default()
    }

    /// Returns the text of a path such as `/metrics`.
    #[track_caller]
    pub fn page(&self, path: &str) -> String {
        self.call("GET", path, "")
    }

    #[track_caller]
    pub fn put(&self, path: &str, body: &str) -> String {
        self.call("PUT", path, body)
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, body: &str) -> String {
        let (host, length) = (self.host("health"), body.len());
        let fetch = || {
            let mut stream = TcpStream::connect(&host)?;
            let head = format!("Host: {host}\r\nContent-Length: {length}");
            write!(stream, "{method} {path} HTTP/1.0\r\n{head}\r\n\r\n{body}")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok::<_, std::io::Error>(text)
        };
        fetch().unwrap_or_else(|error| panic!("{method} http://{host}{path}: {error}"))
    }

    /// Returns the value of a metric with its labels, as written on the page.
    #[track_caller]
    pub fn metric(&self, name: &str) -> Option<f64> {
        let page = self.page("/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    }

    pub fn terminate(&self) {
        self.process.signal(Signal::TERM);
    }

    /// Pauses the process until it is resumed. The process does not notice this.
    pub fn pause(&self) {
        self.process.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait(STOP)
    }

    /// Kills the process, like a crash.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    fn host(&self, address: &str) -> String {
        let url = self.addresses[address].as_str().unwrap_or_default();
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default().to_owned()
    }
}

/// Returns the command line of a server on free ports, without `--install`.
pub fn serve(fixture: &Fixture) -> Command {
    serve_at(&fixture.holdfast, &fixture.holdfast_kubeconfig, fixture.mode, ANY_PORT)
}

const ANY_PORT: &str = "127.0.0.1:0";

fn serve_at(program: &Path, kubeconfig: &Path, mode: Mode, listen: &str) -> Command {
    let mut command = Command::new(program);
    command
        .arg("serve")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["--mode", mode.flag()])
        .args(["--listen", listen, "--metrics-listen", ANY_PORT])
        .args(["--log-format", "json"])
        .env("RUST_BACKTRACE", "1");
    command
}

/// Runs `holdfast uninstall` with the CRD, and so with every budget. Returns its output.
pub fn uninstall() -> Result<String, String> {
    uninstall_with(&["--delete-budgets", "--allow-loss"])
}

/// Returns its output.
pub fn uninstall_with(flags: &[&str]) -> Result<String, String> {
    let fixture = fixture();
    let output = Command::new(&fixture.holdfast)
        .arg("uninstall")
        .args(flags)
        .arg("--kubeconfig")
        .arg(&fixture.admin_kubeconfig)
        .output()
        .map_err(|e| format!("start holdfast uninstall: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(format!(
        "holdfast uninstall: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    ))
}
