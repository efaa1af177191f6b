//! A real `kubectl drain`.

use std::process::Command;
use std::time::Duration;

use crate::fixture::fixture;
use crate::process::Process;
use crate::wait::until_within;

/// After this time kubectl gives up. In native mode the grant of an eviction by name can pass to the next pod
/// of the name, and then use up a unit for up to 60 s (semantics 5.3).
const TIMEOUT: &str = "--timeout=240s";

const LIMIT: Duration = Duration::from_secs(250);

#[derive(Debug)]
pub struct Drain {
    process: Process,
}

impl Drain {
    /// Starts it as the user who may only drain nodes.
    pub fn start(node: &str, more: &[&str]) -> Self {
        let fixture = fixture();
        let mut command = Command::new(&fixture.kubectl);
        command
            // The pods of tests have no controller.
            .args(["drain", node, "--force", "--ignore-daemonsets", TIMEOUT])
            .args(more)
            .env("KUBECONFIG", &fixture.drainer_kubeconfig)
            .env("HOME", fixture.dir.join("home"));
        let log = fixture.log(&format!("drain-{node}{}", more.concat()));
        Self { process: Process::start(command, &log) }
    }

    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Waits until the output contains this text.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        until_within(LIMIT, &format!("kubectl drain says {text:?}"), || {
            let output = self.output();
            if output.contains(text) { Ok(()) } else { Err(output) }
        });
    }

    pub fn is_running(&mut self) -> bool {
        self.process.ended().is_none()
    }

    /// Waits for its end. Returns exit code and output.
    #[track_caller]
    pub fn finish(mut self) -> (Option<i32>, String) {
        let status = self.process.wait(LIMIT);
        (status.code(), self.output())
    }
}
