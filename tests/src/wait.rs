//! Waits until a condition is true, and reports the last state if it never is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Long enough for a busy machine. Conditions take a second at most.
pub const PATIENCE: Duration = Duration::from_mins(1);

const PAUSE: Duration = Duration::from_millis(50);

/// Repeats `ask` until it succeeds. `Err` has the observed state.
#[track_caller]
pub fn until<T>(what: &str, ask: impl FnMut() -> Result<T, String>) -> T {
    until_within(PATIENCE, what, ask)
}

#[track_caller]
pub fn until_within<T>(
    limit: Duration,
    what: &str,
    mut ask: impl FnMut() -> Result<T, String>,
) -> T {
    let began = Instant::now();
    loop {
        let seen = match ask() {
            Ok(answer) => return answer,
            Err(seen) => seen,
        };
        assert!(
            began.elapsed() < limit,
            "waited {} s for: {what}\nlast seen: {seen}",
            limit.as_secs()
        );
        std::thread::sleep(PAUSE);
    }
}

/// Sets the flag even if a test fails, so that its other threads end.
#[derive(Debug)]
pub struct SetWhenDropped<'a>(pub &'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
