//! Builds `holdfast` of an earlier revision, for tests with two releases.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::{interrupt::Interrupt, run::cargo, summary::Counts};
use crate::localkube;

/// Builds it in a separate checkout. Keeps built revisions.
pub fn build(revision: &str, interrupt: &Interrupt) -> Result<PathBuf> {
    let commit = commit(revision)?;
    let dir = localkube::workspace().join("target/previous");
    let built = dir.join(format!("holdfast-{commit}"));
    if built.exists() {
        println!("{revision} is {commit}, which is built already");
        return Ok(built);
    }
    println!("{revision} is {commit}; the first build takes minutes");
    let (source, target) = (dir.join("source"), dir.join("target"));
    check_out(&source, &commit)?;
    let manifest = source.join("Cargo.toml").to_string_lossy().into_owned();
    let args = ["build", "--locked", "--bin=holdfast", "--manifest-path", &manifest];
    let environment = [("CARGO_TARGET_DIR", target.clone().into_os_string())];
    cargo(&args, &environment, interrupt, &mut Counts::default())?;
    let program = target.join("debug/holdfast");
    fs::copy(&program, &built).with_context(|| format!("copy {}", program.display()))?;
    Ok(built)
}

fn commit(revision: &str) -> Result<String> {
    let name = format!("{revision}^{{commit}}");
    let parse = ["rev-parse", "--verify", "--quiet", "--short=12", &name];
    git(localkube::workspace(), parse).with_context(|| {
        format!(
            "there is no revision {revision} here; in a shallow clone `git fetch --unshallow` brings it, \
             and --from names another"
        )
    })
}

/// Creates a worktree. Only changed files get new times, so cargo builds only what changed.
fn check_out(source: &Path, commit: &str) -> Result<()> {
    if source.join(".git").exists() {
        return git(source, ["checkout", "--quiet", "--force", "--detach", commit]).map(drop);
    }
    // Forced: git may still have a worktree that was removed with `target`.
    let path = source.as_os_str();
    let add = ["worktree", "add", "--quiet", "--force", "--detach"].map(OsStr::new);
    let add = add.into_iter().chain([path, OsStr::new(commit)]);
    git(localkube::workspace(), add).map(drop)
}

/// Returns the output.
fn git(dir: &Path, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<String> {
    let output = Command::new("git").arg("-C").arg(dir).args(args).output().context("run git")?;
    if !output.status.success() {
        bail!("git: {} {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
