//! How long a kind has been without an open watch.

use std::time::Duration;

use tokio::time::Instant;

/// A cache that has been cut off for so long is too old to decide by.
const CUT_OFF_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct CutOff {
    since: Option<Instant>,
    is_lost: bool,
}

impl CutOff {
    /// The watch ended, if it has not before.
    pub fn begin(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// The kind was listed. The time in which a watch must be opened starts over.
    pub fn listed(&mut self) {
        *self = Self { since: Some(Instant::now()), is_lost: false };
    }

    /// A watch is open, or the kind is not served and nothing is to be watched.
    pub fn end(&mut self) {
        *self = Self::default();
    }

    /// When the kind counts as lost. None if a watch is open, or if the loss was told already.
    pub fn lost_at(&self) -> Option<Instant> {
        self.since.filter(|_| !self.is_lost).map(|since| since + CUT_OFF_MAX)
    }

    pub fn lose(&mut self) {
        self.is_lost = true;
    }

    /// The loss was told, and only a complete list ends it.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }
}
