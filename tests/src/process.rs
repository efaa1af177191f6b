//! Processes of tests. They end with the test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A child process with its output in a file. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    output: PathBuf,
}

impl Process {
    /// Both stdout and stderr go to `output`.
    #[track_caller]
    pub fn start(mut command: Command, output: &Path) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let file = File::create(output)
            .unwrap_or_else(|error| panic!("create {}: {error}", output.display()));
        let both = file.try_clone().expect("a file can be shared");
        let child = command
            .stdin(Stdio::null())
            .stdout(both)
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("start {name}: {error}"));
        Self { child, name, output: output.to_owned() }
    }

    pub fn output(&self) -> String {
        fs::read(&self.output)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Returns how it ended, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    #[track_caller]
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(
                began.elapsed() < limit,
                "{} still runs after {} s; its output:\n{}",
                self.name,
                limit.as_secs(),
                self.output()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // It has not been waited for, so no other process can have its pid.
        kill_process(pid.expect("a child has a pid"), signal).ok();
    }

    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
