//! A control plane: start, stop and access.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};

use super::{
    build,
    identity::Identity,
    options::Options,
    progress, start,
    state::{self, State},
};

/// A running control plane. It keeps running when this is dropped. `down` ends it.
#[derive(Debug)]
pub struct Localkube {
    pub(super) dir: PathBuf,
    pub(super) programs: PathBuf,
}

/// Whether `up` had to start anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    Now,
    Before,
}

impl Localkube {
    /// Starts a control plane in `dir` and waits until it is ready. If one runs there already, it does
    /// nothing. It removes the remains of one that does not run.
    pub fn up(dir: &Path, options: &Options) -> Result<(Self, Started)> {
        let programs = build::programs(options.kubernetes)?;
        if options.descheduler {
            build::descheduler()?;
        }
        if options.jobset {
            build::jobset(&programs)?;
        }
        let _lock = state::lock(dir)?;
        if let Some(state) = State::load(dir)? {
            if state.is_running() {
                if state.options != *options {
                    bail!(
                        "localkube runs already in {}, with {} and not with {options}: stop it first",
                        dir.display(),
                        state.options
                    );
                }
                let running = Self { dir: dir.to_owned(), programs: state.programs };
                return Ok((running, Started::Before));
            }
            eprintln!("localkube: clear what is left of an earlier run in {}", dir.display());
            stop(&state)?;
            empty(dir)?;
        }
        let began = Instant::now();
        let mut state =
            State { programs: programs.clone(), options: options.clone(), ..State::default() };
        if let Err(error) = start::start(dir, &mut state) {
            stop(&state).with_context(|| format!("clean up after: {error:#}"))?;
            return Err(error);
        }
        eprintln!("localkube: ready after {}", progress::human(began.elapsed()));
        Ok((Self { dir: dir.to_owned(), programs }, Started::Now))
    }

    /// Returns the control plane that runs in `dir`.
    pub fn open(dir: &Path) -> Result<Self> {
        match State::load(dir)? {
            Some(state) if state.is_running() => {
                Ok(Self { dir: dir.to_owned(), programs: state.programs })
            }
            _ => Err(none_runs(dir)),
        }
    }

    /// Stops the control plane in `dir`, if there is one, and removes the directory.
    pub fn down(dir: &Path) -> Result<()> {
        if !dir.exists() {
            eprintln!("localkube: nothing to stop, there is no {}", dir.display());
            return Ok(());
        }
        let began = Instant::now();
        let _lock = state::lock(dir)?;
        if let Some(state) = State::load(dir)? {
            stop(&state)?;
        }
        fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
        eprintln!("localkube: down after {}", progress::human(began.elapsed()));
        Ok(())
    }

    /// Restarts a component of the control plane in `dir` and waits until it is ready. The additional flags
    /// apply until the next restart. The component may have ended before.
    pub fn restart(dir: &Path, component: &str, flags: &[String]) -> Result<()> {
        let began = Instant::now();
        if !dir.exists() {
            return Err(none_runs(dir));
        }
        let _lock = state::lock(dir)?;
        let mut state = State::load(dir)?.ok_or_else(|| none_runs(dir))?;
        start::restart(dir, &mut state, component, flags)?;
        eprintln!("localkube: {component} ready after {}", progress::human(began.elapsed()));
        Ok(())
    }

    pub fn kubeconfig(&self, identity: Identity) -> PathBuf {
        identity.kubeconfig(&self.dir)
    }

    /// Returns the environment variables to use this control plane as its administrator.
    pub fn env(&self) -> Result<Vec<(&'static str, String)>> {
        let path = env::var_os("PATH").unwrap_or_default();
        let rest = env::split_paths(&path).filter(|entry| *entry != self.programs);
        let path = env::join_paths([self.programs.clone()].into_iter().chain(rest))
            .context("put the programs' directory on PATH")?;
        let own = env::current_exe().context("find this program")?;
        Ok(vec![
            ("KUBECONFIG", self.kubeconfig(Identity::Admin).display().to_string()),
            ("PATH", path.to_string_lossy().into_owned()),
            ("HOLDFAST_LOCALKUBE_DIR", self.dir.display().to_string()),
            // For tests that restart components.
            ("HOLDFAST_XTASK", own.display().to_string()),
        ])
    }
}

pub(super) fn none_runs(dir: &Path) -> anyhow::Error {
    let dir = dir.display();
    anyhow!("no localkube runs in {dir}: start one with `cargo xtask localkube up`")
}

/// Stops the components in reverse order: clients before servers, because they would log errors.
fn stop(state: &State) -> Result<()> {
    const GRACE: Duration = Duration::from_secs(10);
    state.processes.iter().rev().try_for_each(|process| process.stop(GRACE))
}

/// Removes the content of the directory but not the directory itself, because it has the lock.
fn empty(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let path = entry?.path();
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}
