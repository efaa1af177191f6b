//! How long to wait before the next try.

use std::time::Duration;

use crate::random;

const FIRST: Duration = Duration::from_millis(50);
const LAST: Duration = Duration::from_secs(5);

/// Doubles from 50 ms to 5 s. Jittered, because the watches of all kinds break off together.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

impl Backoff {
    pub fn new() -> Self {
        Self { next: FIRST }
    }

    pub fn reset(&mut self) {
        self.next = FIRST;
    }

    pub async fn pause(&mut self) {
        tokio::time::sleep(self.next_pause()).await;
    }

    /// How long to wait before the next try.
    pub fn next_pause(&mut self) -> Duration {
        self.step(random::fraction())
    }

    /// Between half and all of the current step.
    fn step(&mut self, fraction: f64) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(LAST);
        step.mul_f64(0.5 + fraction / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_start_over() {
        let mut backoff = Backoff::new();
        let pauses: Vec<u128> = (0..9).map(|_| backoff.step(1.0).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.step(0.0).as_millis(), 25);
    }
}
