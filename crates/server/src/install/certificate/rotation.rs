//! Computes when a certificate replaces another. It has no IO and no clock.
//!
//! ```text
//!   settled --due--> announcing --seen everywhere for a while--> served --no handshake uses the old one--> settled
//!                    both CAs in every bundle                    both CAs                    the new one
//! ```

use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

/// The time for API servers to read a new CA. They watch the objects.
const NOTICE_MIN: Duration = Duration::from_secs(1);
const NOTICE_MAX: Duration = Duration::from_secs(30);

/// The time for handshakes in progress when the served certificate changes.
const LINGER_MAX: Duration = Duration::from_secs(10);

/// How often to check the wall clock: it may be set, or the machine may sleep.
const LOOK_MAX: Duration = Duration::from_secs(10);
const LOOK_MIN: Duration = Duration::from_millis(200);

/// The validity of a certificate, in wall-clock time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub from: Timestamp,
    pub until: Timestamp,
}

impl Validity {
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = parse_x509_certificate(certificate).ok()?;
        let validity = parsed.validity();
        let time = |secs: i64| Timestamp::from_second(secs).ok();
        Some(Self {
            from: time(validity.not_before.timestamp())?,
            until: time(validity.not_after.timestamp())?,
        })
    }

    pub fn holds(self, wall: Timestamp) -> bool {
        self.from <= wall && wall < self.until
    }

    fn length(self) -> Duration {
        Duration::try_from(self.until.duration_since(self.from)).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub wall: Timestamp,
    /// A clock that runs evenly, whatever happens to the wall clock.
    pub uptime: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Wait,
    /// Create the next certificate, and call [`Rotation::announce`].
    Renew,
    /// Check that its CA is in every bundle, and call [`Rotation::looked`].
    Look,
    /// Remove the CA of the previous certificate from the bundles.
    Retire,
}

#[derive(Debug)]
pub struct Rotation {
    served: Validity,
    /// The lifetime of own certificates, which are renewed after half of it. None for certificates from
    /// files.
    lifetime: Option<Duration>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Settled,
    Announcing {
        next: Validity,
        /// Since when the CA is seen in every bundle.
        since: Option<Duration>,
    },
    Served {
        at: Duration,
    },
}

impl Rotation {
    pub fn new(served: Validity, lifetime: Option<Duration>) -> Self {
        Self { served, lifetime, stage: Stage::Settled }
    }

    /// `changed` is true if the files have a new certificate.
    pub fn step(&mut self, now: Now, changed: bool) -> Step {
        match self.stage {
            Stage::Settled if changed || self.is_due(self.served, now.wall) => Step::Renew,
            Stage::Settled => Step::Wait,
            // The clock was set so far that the announced certificate is not valid either.
            Stage::Announcing { next, .. } if changed || self.is_due(next, now.wall) => Step::Renew,
            Stage::Announcing { .. } => Step::Look,
            Stage::Served { at } if now.uptime.saturating_sub(at) < self.linger() => Step::Wait,
            Stage::Served { .. } => {
                self.stage = Stage::Settled;
                Step::Retire
            }
        }
    }

    pub fn announce(&mut self, next: Validity) {
        self.stage = Stage::Announcing { next, since: None };
    }

    /// Returns true if the next certificate is to be served from now on.
    pub fn looked(&mut self, now: Now, everywhere: bool) -> bool {
        let holds = self.served.holds(now.wall);
        let notice = if holds { self.notice() } else { NOTICE_MIN };
        let Stage::Announcing { next, since } = &mut self.stage else { return false };
        if everywhere {
            let since = since.get_or_insert(now.uptime);
            if now.uptime.saturating_sub(*since) < notice {
                return false;
            }
        } else {
            *since = None;
            // No API server accepts the old certificate any more, so serve the new one at once.
            if holds {
                return false;
            }
        }
        self.served = *next;
        self.stage = Stage::Served { at: now.uptime };
        true
    }

    /// Returns the time until the next step.
    pub fn pause(&self) -> Duration {
        let often = (self.length() / 20).clamp(LOOK_MIN, LOOK_MAX);
        match self.stage {
            Stage::Settled => often,
            Stage::Announcing { .. } | Stage::Served { .. } => often.min(NOTICE_MIN),
        }
    }

    fn is_due(&self, validity: Validity, wall: Timestamp) -> bool {
        let Some(lifetime) = self.lifetime else { return false };
        let left = validity.until.duration_since(wall);
        !validity.holds(wall) || Duration::try_from(left).unwrap_or_default() <= lifetime / 2
    }

    fn notice(&self) -> Duration {
        (self.length() / 8).clamp(NOTICE_MIN, NOTICE_MAX)
    }

    fn linger(&self) -> Duration {
        self.notice().min(LINGER_MAX)
    }

    fn length(&self) -> Duration {
        self.lifetime.unwrap_or_else(|| self.served.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    const LIFETIME: Duration = Duration::from_hours(24);

    fn at(wall: i64, uptime: u64) -> Now {
        let wall = Timestamp::from_second(1_800_000_000 + wall).unwrap();
        Now { wall, uptime: Duration::from_secs(uptime) }
    }

    fn made(now: Now) -> Validity {
        let from = now.wall - SignedDuration::from_hours(24);
        Validity { from, until: now.wall + SignedDuration::try_from(LIFETIME).unwrap() }
    }

    fn rotation() -> Rotation {
        Rotation::new(made(at(0, 0)), Some(LIFETIME))
    }

    const HALF: i64 = 12 * 3600;

    #[test]
    fn a_certificate_is_renewed_by_halves_and_known_before_it_is_served() {
        let mut rotation = rotation();
        assert_eq!(rotation.step(at(HALF - 1, 0), false), Step::Wait);
        assert_eq!(rotation.step(at(HALF, 1), false), Step::Renew);
        rotation.announce(made(at(HALF, 1)));
        assert_eq!(rotation.step(at(HALF, 2), false), Step::Look);
        assert!(!rotation.looked(at(HALF, 2), false), "no bundle has it");
        assert!(!rotation.looked(at(HALF, 100), true), "seen just now");
        assert!(!rotation.looked(at(HALF, 120), false), "somebody took it out");
        assert!(!rotation.looked(at(HALF, 121), true));
        assert!(!rotation.looked(at(HALF, 150), true));
        assert!(rotation.looked(at(HALF, 151), true));
        assert_eq!(rotation.step(at(HALF, 160), false), Step::Wait, "handshakes under way");
        assert_eq!(rotation.step(at(HALF, 161), false), Step::Retire);
        assert_eq!(rotation.step(at(HALF, 161), false), Step::Wait);
        assert_eq!(rotation.step(at(2 * HALF, 162), false), Step::Renew, "and so on");
    }

    #[test]
    fn a_clock_that_jumps_is_followed() {
        // The machine slept for a week: the served certificate has expired. The next one is served as soon as
        // it is announced.
        let week = 7 * 24 * 3600;
        let mut rotation = rotation();
        assert_eq!(rotation.step(at(week, 10), false), Step::Renew);
        rotation.announce(made(at(week, 10)));
        assert!(!rotation.looked(at(week, 10), true));
        assert!(rotation.looked(at(week, 11), true));
        assert_eq!(rotation.step(at(week, 21), false), Step::Retire);

        // The clock was set back, so the certificate is not valid yet.
        assert_eq!(rotation.step(at(0, 30), false), Step::Renew);
        rotation.announce(made(at(0, 30)));
        // The clock was set forward again before that certificate was served.
        assert_eq!(rotation.step(at(week, 31), false), Step::Renew);
        rotation.announce(made(at(week, 31)));
        assert_eq!(rotation.step(at(week, 32), false), Step::Look);
    }

    #[test]
    fn when_it_has_expired_the_next_is_served_whoever_knows_it() {
        let mut rotation = rotation();
        rotation.announce(made(at(HALF, 0)));
        assert!(!rotation.looked(at(2 * HALF - 1, 9), false));
        assert!(rotation.looked(at(2 * HALF, 10), false));
    }

    #[test]
    fn files_are_followed_and_never_made() {
        let mut rotation = Rotation::new(made(at(0, 0)), None);
        assert_eq!(rotation.step(at(10 * HALF, 0), false), Step::Wait);
        assert_eq!(rotation.step(at(0, 0), true), Step::Renew);
        rotation.announce(made(at(0, 0)));
        assert_eq!(rotation.step(at(0, 0), false), Step::Look);
        assert_eq!(rotation.step(at(0, 0), true), Step::Renew, "changed once more");
    }

    #[test]
    fn the_clock_is_looked_at_all_the_time() {
        let mut rotation = rotation();
        assert_eq!(rotation.pause(), LOOK_MAX);
        rotation.announce(made(at(0, 0)));
        assert_eq!(rotation.pause(), NOTICE_MIN);
        let short = Rotation::new(made(at(0, 0)), Some(Duration::from_secs(10)));
        assert_eq!(short.pause(), Duration::from_millis(500));
    }
}
