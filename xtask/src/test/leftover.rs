//! Ends Holdfast processes of a run whose test program was killed.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Ends processes that have a ready file in the control plane's directory and still run.
pub fn end(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let ready = entries.filter(|e| e.file_name().to_string_lossy().ends_with(".ready.json"));
    for pid in ready.filter_map(|entry| pid(&entry.path())) {
        for (signal, patience) in [(Signal::TERM, 15), (Signal::KILL, 5)] {
            let began = Instant::now();
            if is_ours(pid, dir) {
                eprintln!(
                    "end a holdfast process of an earlier run (pid {})",
                    pid.as_raw_nonzero()
                );
                kill_process(pid, signal).ok();
            }
            while is_ours(pid, dir) && began.elapsed() < Duration::from_secs(patience) {
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

fn pid(ready_file: &Path) -> Option<Pid> {
    let addresses: Value = serde_json::from_slice(&fs::read(ready_file).ok()?).ok()?;
    Pid::from_raw(i32::try_from(addresses["pid"].as_i64()?).ok()?)
}

/// Another process may have the pid by now. Ours has the directory in its command line.
fn is_ours(pid: Pid, dir: &Path) -> bool {
    let path = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
    let line = fs::read(path).map(|line| String::from_utf8_lossy(&line).into_owned());
    line.is_ok_and(|line| {
        line.contains("holdfast\0serve\0") && line.contains(&*dir.to_string_lossy())
    })
}
