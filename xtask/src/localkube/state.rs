//! The directory of a control plane: its lock and its record.

use std::{
    fs::{self, DirBuilder, File},
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::{component::Component, options::Options, process::Process};

/// The content of `state.json`. It is written after each start of a process, so that `down` always knows
/// which processes to stop.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// The directory of the programs.
    pub programs: PathBuf,
    /// The options of `up`.
    #[serde(default)]
    pub options: Options,
    /// The processes, in the order of their start.
    pub processes: Vec<Process>,
    /// The components, to start one again.
    #[serde(default)]
    pub components: Vec<Component>,
    /// True if `up` has finished.
    pub ready: bool,
}

impl State {
    /// Reads the record in `dir`. Returns `None` if there is no such directory.
    ///
    /// Refuses a directory with other files, because `down` removes the directory.
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

    /// Replaces the record atomically, so that no reader sees a part of it.
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

/// Creates the directory if needed and locks it against other localkube commands until the lock is dropped.
///
/// The lock is on the directory itself: a lock file inside could not be removed with it, and one beside it
/// would remain.
pub fn lock(dir: &Path) -> Result<File> {
    loop {
        // Other users of this machine must not read the keys.
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(dir).with_context(|| format!("create {}", dir.display()))?;
        let lock = File::open(dir).with_context(|| format!("open {}", dir.display()))?;
        lock.lock().with_context(|| format!("lock {}", dir.display()))?;
        // The previous holder of the lock may have removed the directory.
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
