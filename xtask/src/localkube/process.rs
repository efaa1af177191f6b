//! Processes that keep running after the command that started them. They are identified by pid and start
//! time.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde::{Deserialize, Serialize};

/// A recorded process. A pid alone is not enough: after the process has ended, the kernel may give its pid to
/// another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub name: String,
    pid: i32,
    /// The start time, in clock ticks since the machine was started.
    started: u64,
    /// Identifies the start of the machine.
    boot: String,
}

impl Process {
    /// Starts `program` with its output in `log`, in another process group than the terminal, so that Ctrl-C
    /// does not end it.
    pub fn spawn(
        name: &str,
        program: &Path,
        args: &[String],
        home: &Path,
        log: &Path,
    ) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("create {}", log.display()))?;
        let child = Command::new(program)
            .args(args)
            // The user's kubeconfig and other files must not change its behaviour.
            .env("HOME", home)
            .env_remove("KUBECONFIG")
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let pid = i32::try_from(child.id()).context("a pid beyond the kernel's range")?;
        // The entry exists even if the process has ended, because no process has waited for it.
        let started = stat(pid).with_context(|| format!("look up {name} (pid {pid})"))?.started;
        Ok(Self { name: name.to_owned(), pid, started, boot: boot_id()? })
    }

    /// Returns the pid, to find the process under /proc.
    pub fn id(&self) -> i32 {
        self.pid
    }

    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|stat| !stat.is_dead && stat.started == self.started)
            && boot_id().is_ok_and(|boot| boot == self.boot)
    }

    /// Returns true if the process is alive and stopped by a signal.
    pub fn is_paused(&self) -> bool {
        self.is_alive() && stat(self.pid).is_some_and(|stat| stat.is_paused)
    }

    /// Sends SIGTERM, and kills the process if it does not end within `grace`.
    pub fn stop(&self, grace: Duration) -> Result<()> {
        const AFTER_KILL: Duration = Duration::from_secs(5);
        for (signal, patience) in [(Signal::TERM, grace), (Signal::KILL, AFTER_KILL)] {
            if !self.is_alive() {
                break;
            }
            match kill_process(self.pid()?, signal) {
                // It ended in between.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("signal {} (pid {})", self.name, self.pid));
                }
            }
            // A paused process ends only after it was resumed.
            kill_process(self.pid()?, Signal::CONT).ok();
            let deadline = Instant::now() + patience;
            while self.is_alive() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(20));
            }
        }
        // If it is a child of this process, wait for it, so that no zombie remains.
        waitpid(Some(self.pid()?), WaitOptions::NOHANG).ok();
        if self.is_alive() {
            bail!("{} (pid {}) does not end, not even when killed", self.name, self.pid);
        }
        Ok(())
    }

    fn pid(&self) -> Result<Pid> {
        Pid::from_raw(self.pid).with_context(|| format!("{} has no valid pid", self.name))
    }
}

struct Stat {
    /// True for a zombie: it has ended, and its parent has not waited for it.
    is_dead: bool,
    /// True if it is stopped by a signal.
    is_paused: bool,
    started: u64,
}

/// Returns the kernel's data of a process, if there is one.
fn stat(pid: i32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let (is_dead, is_paused) = (matches!(state, "Z" | "X"), state == "T");
    Some(Stat { is_dead, is_paused, started: fields.nth(18)?.parse().ok()? })
}

fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let id = fs::read_to_string(path)
        .with_context(|| format!("read {path}: localkube needs Linux to know its processes"))?;
    Ok(id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_process() -> Process {
        let pid = i32::try_from(std::process::id()).unwrap();
        let started = stat(pid).unwrap().started;
        Process { name: "test".to_owned(), pid, started, boot: boot_id().unwrap() }
    }

    #[test]
    fn knows_a_living_process() {
        assert!(this_process().is_alive());
    }

    #[test]
    fn leaves_alone_a_process_that_got_the_pid_of_ours() {
        let earlier = Process { started: this_process().started - 1, ..this_process() };
        assert!(!earlier.is_alive());
        earlier.stop(Duration::ZERO).unwrap();

        let before_reboot = Process { boot: "another".to_owned(), ..this_process() };
        assert!(!before_reboot.is_alive());
        before_reboot.stop(Duration::ZERO).unwrap();
    }

    #[test]
    fn stops_a_process_that_does_not_heed_the_request() {
        let home = std::env::temp_dir();
        let log = home.join(format!("localkube-stop-test-{}.log", std::process::id()));
        let args = ["-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"];
        let args = args.map(str::to_owned);
        let process = Process::spawn("sh", Path::new("/bin/sh"), &args, &home, &log).unwrap();
        while fs::read_to_string(&log).unwrap().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }

        process.stop(Duration::from_millis(100)).unwrap();

        assert!(!process.is_alive());
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_paused_process_ends_within_its_grace() {
        let home = std::env::temp_dir();
        let log = home.join(format!("localkube-pause-test-{}.log", std::process::id()));
        let args = ["60".to_owned()];
        let process = Process::spawn("sleep", Path::new("/bin/sleep"), &args, &home, &log).unwrap();
        assert!(!process.is_paused());
        kill_process(process.pid().unwrap(), Signal::STOP).unwrap();
        while !process.is_paused() {
            thread::sleep(Duration::from_millis(5));
        }

        let began = Instant::now();
        process.stop(Duration::from_secs(30)).unwrap();

        assert!(began.elapsed() < Duration::from_secs(20), "it was killed instead");
        assert!(!process.is_alive() && !process.is_paused());
        fs::remove_file(log).unwrap();
    }
}
