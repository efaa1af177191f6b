use std::ops::Add;
use std::time::Duration;

/// Milliseconds since the Unix epoch, on the caller's clock.
///
/// The engine never asks for the time. Callers derive it from a clock that does not jump (wall time
/// at start plus monotonic time since), because grants expire by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs * 1000)
    }

    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Zero if that was later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The time that was so long ago.
    #[must_use]
    pub fn before(self, age: Duration) -> Self {
        let ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(ms))
    }

    /// The next whole multiple of so many milliseconds.
    #[must_use]
    pub const fn rounded_up(self, ms: i64) -> Self {
        Self((self.0 + ms - 1).div_euclid(ms) * ms)
    }

    /// Whole seconds, the precision that times have on the wire.
    #[must_use]
    pub const fn truncated(self) -> Self {
        Self::from_secs(self.as_secs())
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        let ms = i64::try_from(rhs.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(ms))
    }
}
