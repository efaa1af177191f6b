//! Prints progress on stderr.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

/// Runs one step of a long job. Prints its start, every half minute that it still runs, and how long it took.
pub fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    const HEARTBEAT: Duration = Duration::from_secs(30);
    let started = Instant::now();
    eprintln!("localkube: {what}");
    let result = thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        scope.spawn(move || {
            while is_done.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
                eprintln!("localkube: {what}, still at it after {}", human(started.elapsed()));
            }
        });
        let result = work();
        drop(done);
        result
    });
    let outcome = if result.is_ok() { "done" } else { "failed" };
    eprintln!("localkube: {what}, {outcome} after {}", human(started.elapsed()));
    result
}

pub fn human(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        0..60 => format!("{:.1} s", elapsed.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}
