//! `cargo xtask fix`: formats, fixes lints and writes generated files.

use anyhow::{Context as _, Result};

use crate::localkube::cargo;

/// Clippy comes first, because its changes may need formatting. The tests of generated files write them
/// instead of comparing them.
const STEPS: [&[&str]; 5] = [
    &["clippy", "--fix", "--allow-dirty", "--allow-staged", "--workspace", "--all-targets"],
    &["fmt", "--all"],
    &["fmt", "--manifest-path=fuzz/Cargo.toml"],
    &["test", "--quiet", "--package=holdfast", "--test=it", "packaged::"],
    &["test", "--quiet", "--package=holdfast", "--bin=holdfast", "reference::"],
];

/// Returns true if every step succeeded.
pub fn run() -> Result<bool> {
    for step in STEPS {
        let status = cargo().args(step).env("HOLDFAST_WRITE", "1").status();
        if !status.context("start cargo")?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}
