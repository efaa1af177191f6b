//! A control plane's directory: who may touch it, and what is on record there.

use std::{
    fs::{self, DirBuilder, File},
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::{component::Component, options::Options, process::Process};

/// What `state.json` holds. Written anew after each process is started, so that whatever happens
/// next, `down` knows what to stop.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// Where the programs are that it was started with.
    pub programs: PathBuf,
    /// What it was started with.
    #[serde(default)]
    pub options: Options,
    /// In the order of start.
    pub processes: Vec<Process>,
    /// As what they were started, so that one can be started again.
    #[serde(default)]
    pub components: Vec<Component>,
    /// Whether `up` came to its end.
    pub ready: bool,
}

impl State {
    /// Reads what is on record in `dir`; `None` if there is no such directory.
    ///
    /// Refuses a directory that something else has put files into, since `down` removes it all.
    pub fn load(dir: &Path) -> Result<Option<Self>> {
        match fs::read(dir.join(FILE)) {
            Ok(bytes) => {
                let state = serde_json::from_slice(&bytes)
                    .with_context(|| format!("read {}", dir.join(FILE).display()))?;
                Ok(Some(state))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if fs::read_dir(dir).is_ok_and(|entries| entries.count() > 0) {
                    bail!(
                        "{} holds files that are not localkube's: choose another --dir",
                        dir.display()
                    );
                }
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("read {}", dir.join(FILE).display())),
        }
    }

    /// Replaces the record at once, so that nobody reads half of it.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let (path, next) = (dir.join(FILE), dir.join("state.json.next"));
        fs::write(&next, serde_json::to_vec_pretty(self)?)
            .and_then(|()| fs::rename(&next, &path))
            .with_context(|| format!("write {}", path.display()))
    }

    pub fn is_running(&self) -> bool {
        self.ready && self.processes.iter().all(Process::is_alive)
    }
}

/// Creates the directory if need be and keeps other localkube commands out of it until dropped.
///
/// The lock is on the directory itself: a lock file inside could not be removed with it, and one
/// beside it would be left behind.
pub fn lock(dir: &Path) -> Result<File> {
    loop {
        // Others on this machine shall not read the keys.
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(dir).with_context(|| format!("create {}", dir.display()))?;
        let lock = File::open(dir).with_context(|| format!("open {}", dir.display()))?;
        lock.lock().with_context(|| format!("lock {}", dir.display()))?;
        // Whoever had the lock before may have removed the directory.
        let locked = lock.metadata()?.ino();
        if fs::metadata(dir).is_ok_and(|now| now.ino() == locked) {
            return Ok(lock);
        }
    }
}

const FILE: &str = "state.json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_directory_that_is_not_its_own() {
        let dir = std::env::temp_dir().join(format!("localkube-state-test-{}", std::process::id()));
        assert!(State::load(&dir).unwrap().is_none());

        drop(lock(&dir).unwrap());
        assert!(State::load(&dir).unwrap().is_none());

        fs::write(dir.join("thesis.tex"), "").unwrap();
        let error = State::load(&dir).unwrap_err().to_string();
        assert!(error.contains("choose another --dir"), "{error}");

        State::default().save(&dir).unwrap();
        assert!(State::load(&dir).unwrap().is_some_and(|state| !state.is_running()));
        fs::remove_dir_all(dir).unwrap();
    }
}
