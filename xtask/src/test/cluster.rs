//! Runs rows of suites, each row on its own control plane.

use std::{ffi::OsString, fs, path::Path};

use anyhow::{Context as _, Result};

use super::{Test, leftover};
use crate::localkube::{Localkube, Options};

impl Test<'_> {
    /// Runs suites of end-to-end tests on their own control plane. Returns true if all passed.
    pub(super) fn row(
        &mut self,
        dir: &Path,
        options: &Options,
        suites: &[&'static str],
        environment: &[(&'static str, OsString)],
    ) -> bool {
        let started = self.summary.time("localkube", || {
            clear(dir)?;
            let (localkube, _) = Localkube::up(dir, options)?;
            localkube.env()
        });
        let passed = started.is_some_and(|variables| {
            let variables = variables.into_iter().map(|(name, value)| (name, value.into()));
            let environment: Vec<_> = environment.iter().cloned().chain(variables).collect();
            let passed = self.suites(suites, &environment);
            if !passed {
                keep_logs(dir, suites[0]);
            }
            passed
        });
        self.summary.time("down", || clear(dir));
        passed
    }

    pub(super) fn suites(
        &mut self,
        suites: &[&'static str],
        environment: &[(&'static str, OsString)],
    ) -> bool {
        suites.iter().all(|suite| {
            let mut command = vec!["test", "--workspace", "--test=e2e"];
            if let Some(filter) = &self.args.filter {
                command.extend(["--", filter]);
            }
            let suite_of = [("HOLDFAST_E2E_SUITE", suite.into())];
            self.cargo(suite, &command, &[environment, &suite_of].concat())
        })
    }
}

/// Allows one run at a time in a checkout. A second run would remove the control plane of the first.
pub fn lock(dir: &Path) -> Result<fs::File> {
    let path = dir.with_extension("lock");
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    }
    let lock = fs::File::create(&path).with_context(|| format!("create {}", path.display()))?;
    if lock.try_lock().is_err() {
        eprintln!("wait for another `cargo xtask test` of this checkout to end");
        lock.lock().with_context(|| format!("lock {}", path.display()))?;
    }
    Ok(lock)
}

/// Stops and removes the control plane of this run or of a crashed run.
pub fn clear(dir: &Path) -> Result<()> {
    leftover::end(dir);
    if dir.join("state.json").exists() {
        return Localkube::down(dir);
    }
    // Its start failed before any process was recorded.
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    Ok(())
}

/// Keeps the logs, which would be removed with the control plane.
fn keep_logs(dir: &Path, of: &str) {
    let kept = dir.with_file_name(format!("localkube-{of}-logs"));
    let _ = fs::remove_dir_all(&kept);
    match fs::rename(dir.join("logs"), &kept) {
        Ok(()) => eprintln!("the logs of the failed run are in {}", kept.display()),
        Err(error) => eprintln!("cannot keep the logs: {error}"),
    }
}
