//! A real `kubectl`, as the administrator.

use std::process::Command;

use crate::fixture::fixture;

/// Returns exit code and output.
#[track_caller]
pub fn kubectl(namespace: &str, args: &[&str]) -> (i32, String) {
    let fixture = fixture();
    let output = Command::new(&fixture.kubectl)
        .args(["--namespace", namespace])
        .args(args)
        .env("KUBECONFIG", &fixture.admin_kubeconfig)
        .env("HOME", fixture.dir.join("home"))
        .output()
        .unwrap_or_else(|error| panic!("start kubectl: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout) + &text(&output.stderr))
}
