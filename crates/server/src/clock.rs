//! Time as the engine wants it: wall clock at start plus monotonic time since, so it never jumps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_core::model::Timestamp;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    started_wall: Timestamp,
}

impl Clock {
    pub fn start() -> Self {
        // A clock before 1970 is no clock; the engine only compares times with each other.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::start_at(Timestamp(0) + wall)
    }

    /// A clock that shows this time now.
    pub fn start_at(wall: Timestamp) -> Self {
        Self { started: Instant::now(), started_wall: wall }
    }

    pub fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    pub fn at(&self, instant: Instant) -> Timestamp {
        self.started_wall + instant.saturating_duration_since(self.started)
    }

    /// The instant at which the clock shows `time`; the start if that is already past.
    pub fn instant(&self, time: Timestamp) -> Instant {
        let ms = u64::try_from(time.0.saturating_sub(self.started_wall.0)).unwrap_or(0);
        // Beyond a year nobody waits, and `Instant` arithmetic must not overflow.
        let ms = ms.min(365 * 24 * 60 * 60 * 1000);
        self.started + Duration::from_millis(ms)
    }

    pub fn started_secs(&self) -> i64 {
        self.started_wall.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_and_times_convert_both_ways() {
        let clock = Clock::start();
        let later = clock.started + Duration::from_millis(1234);
        assert_eq!(clock.at(later).0, clock.started_wall.0 + 1234);
        assert_eq!(clock.instant(clock.at(later)), later);
        assert_eq!(clock.instant(Timestamp(0)), clock.started);
        assert!(clock.instant(Timestamp(i64::MAX)) > later);
    }
}
