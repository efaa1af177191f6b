//! What cannot start says why in one line, and exits with 2.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::process::Process;
use holdfast_e2e::server::{self, serve};
use serde_json::Value;

pub fn a_bad_kubeconfig_is_one_clear_line() {
    let nowhere = PathBuf::from("/nowhere/kubeconfig");
    assert_one_line(
        with_kubeconfig(&nowhere),
        &["cannot use the kubeconfig", "/nowhere/kubeconfig"],
    );

    let garbage = fixture().dir.join("garbage.kubeconfig");
    fs::write(&garbage, "clusters: [}").expect("the directory is ours");
    assert_one_line(
        with_kubeconfig(&garbage),
        &["cannot use the kubeconfig", "garbage.kubeconfig"],
    );

    let empty = fixture().dir.join("empty.kubeconfig");
    fs::write(&empty, "").expect("the directory is ours");
    assert_one_line(with_kubeconfig(&empty), &["cannot use the kubeconfig", "empty.kubeconfig"]);
}

pub fn a_port_in_use_is_one_clear_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    for flag in ["--listen", "--metrics-listen"] {
        let mut command = serve_without(flag);
        command.args([flag, &address]);
        assert_one_line(command, &["cannot listen on", &address, "in use"]);
    }
}

pub fn an_api_server_that_is_away_is_one_clear_line() {
    // Bound and released: nobody listens there now.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
    let server = format!("https://{free}");
    let path = edited_kubeconfig("away", |config| {
        config["clusters"][0]["cluster"]["server"] = server.clone().into();
    });
    assert_one_line(with_kubeconfig(&path), &["cannot reach the API server", &free.to_string()]);
}

pub fn a_wrong_token_is_one_clear_line() {
    let path = edited_kubeconfig("token", |config| {
        config["users"][0]["user"] = serde_json::json!({"token": "nobody"});
    });
    assert_one_line(with_kubeconfig(&path), &["does not accept our credentials"]);
}

pub fn what_is_not_installed_is_named() {
    server::uninstall().expect("it can be uninstalled");
    let crd = "customresourcedefinition/poddisruptionbudgets.policy.holdfast.dev";
    assert_one_line(serve(fixture()), &["not installed", crd, "mutatingwebhookconfiguration"]);
}

/// Exit code 2, one line of error with these words, at most a hint beside it, and no backtrace.
#[track_caller]
fn assert_one_line(command: Command, words: &[&str]) {
    const LIMIT: Duration = Duration::from_secs(20);
    let mut process = Process::start(command, &fixture().log("holdfast-start"));
    let code = process.wait(LIMIT).code();
    let text = process.output();
    assert_eq!(code, Some(2), "{text}");
    let (log, told): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('{'));
    let errors: Vec<&&str> = told.iter().filter(|line| line.starts_with("error: ")).collect();
    let hints = told.iter().filter(|line| line.starts_with("hint: ")).count();
    assert!(errors.len() == 1 && hints <= 1 && told.len() == 1 + hints, "{text}");
    for word in words {
        assert!(errors[0].contains(word), "{word:?} is missing: {text}");
    }
    for noise in ["backtrace", "panicked", ".rs:"] {
        assert!(!text.contains(noise), "{noise:?} in {text}");
    }
    let loud = log.iter().any(|line| line.contains("\"ERROR\"") || line.contains("\"WARN\""));
    assert!(!loud, "the error is told twice: {text}");
}

fn with_kubeconfig(path: &PathBuf) -> Command {
    let mut command = Command::new(&fixture().holdfast);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"])
        .args(["--log-format", "json", "--kubeconfig"])
        .arg(path)
        .env("RUST_BACKTRACE", "1");
    command
}

/// A server on free ports but for the one of this flag.
fn serve_without(flag: &str) -> Command {
    let other = if flag == "--listen" { "--metrics-listen" } else { "--listen" };
    let mut command = Command::new(&fixture().holdfast);
    command
        .args(["serve", other, "127.0.0.1:0", "--log-format", "json", "--kubeconfig"])
        .arg(&fixture().holdfast_kubeconfig)
        .env("RUST_BACKTRACE", "1");
    command
}

/// A copy of Holdfast's kubeconfig with a change. kubectl turns any kubeconfig into JSON.
fn edited_kubeconfig(name: &str, edit: impl Fn(&mut Value)) -> PathBuf {
    let output = Command::new(&fixture().kubectl)
        .args(["config", "view", "--raw", "--flatten", "--minify", "-o", "json", "--kubeconfig"])
        .arg(&fixture().holdfast_kubeconfig)
        .output()
        .expect("kubectl can be run");
    let mut config = serde_json::from_slice(&output.stdout).expect("it is JSON");
    edit(&mut config);
    let path = fixture().dir.join(format!("{name}.kubeconfig"));
    fs::write(&path, config.to_string()).expect("the directory is ours");
    path
}
