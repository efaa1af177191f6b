//! When a grant is looked at, and what a read of its pod says (semantics 5, "by expiry").

use std::time::Duration;

use super::ledger::Ledger;
use super::live::State;
use crate::io::PodReadOutcome;
use crate::model::{ResourceVersion, Timestamp};

/// A read that failed, or that told nothing, is tried again.
pub(crate) const READ_AGAIN: Duration = Duration::from_secs(5);

/// What is to be done when the timer of a grant has fired.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// There is no such grant any more.
    Over,
    /// The grant is looked at again, then at the latest.
    Wait { until: Timestamp, is_age_due: bool },
    /// The grant is old enough: a read shows whether its pod is still there.
    Read,
}

/// A pod of the grant's name in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cached<'a> {
    /// The pod has the uid that the grant is for.
    pub(crate) is_same: bool,
    pub(crate) version: &'a ResourceVersion,
}

/// What a read says of an old grant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The cache is behind the read. From the grant's end on the pod counts by what the cache shows of it, so that has
    /// to be as new.
    CacheIsBehind,
    /// The pod is on its way out; or gone or replaced, and the cache will learn of it; or unknown. The grant stays.
    Unsure,
    /// The pod is still there, as of this version.
    Survived(ResourceVersion),
    /// The pod is gone, as of this version.
    Gone(ResourceVersion),
}

impl Ledger {
    pub(crate) fn check(&self, pod: &str, uid: &str, now: Timestamp) -> Check {
        let Some(live) = self.get(pod, uid) else { return Check::Over };
        if live.state == State::InFlight {
            // Whether there is a grant shows when the write is answered.
            return Check::Wait { until: now + READ_AGAIN, is_age_due: false };
        }
        let expires_at = live.expires_at();
        if now < expires_at {
            return Check::Wait { until: expires_at, is_age_due: live.is_age_due(now) };
        }
        Check::Read
    }
}

/// `seen`: the version up to which this instance has seen the pods, if that includes what the grant was decided by.
pub(crate) fn judge_read(
    uid: &str,
    outcome: &PodReadOutcome,
    cached: Option<Cached<'_>>,
    seen: Option<ResourceVersion>,
) -> Finding {
    match outcome {
        // While the cache still has the pod, it would count as healthy.
        PodReadOutcome::NotFound if cached.is_none_or(|cached| !cached.is_same) => {
            seen.map_or(Finding::Unsure, Finding::Gone)
        }
        PodReadOutcome::NotFound | PodReadOutcome::Failed(_) => Finding::Unsure,
        PodReadOutcome::Found(found) => {
            if cached.is_none_or(|cached| cached.version.is_older_than(&found.version)) {
                Finding::CacheIsBehind
            } else if found.uid == uid && !found.terminating {
                Finding::Survived(found.version.clone())
            } else {
                Finding::Unsure
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::live::LiveGrant;
    use crate::grants::testing::{START, after, grant, pod};
    use crate::model::Pod;

    #[test]
    fn a_grant_is_read_when_it_is_old_enough() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.check("p", "u", START), Check::Over);
        ledger.renew_or_insert(grant("p", "u", "e"), None, START);
        let wait = |until, is_age_due| Check::Wait { until: after(until), is_age_due };
        assert_eq!(ledger.check("p", "u", after(500)), wait(505, false), "being written");
        ledger.insert(LiveGrant::new(grant("p", "u", "e"), START, State::Committed));
        assert_eq!(ledger.check("p", "u", after(10)), wait(120, false));
        assert_eq!(ledger.check("p", "u", after(15)), wait(120, true));
        assert_eq!(ledger.check("p", "u", after(120)), Check::Read);
        assert_eq!(ledger.check("p", "other", after(120)), Check::Over);
    }

    #[test]
    fn a_read_ends_a_grant_only_if_the_cache_is_as_new() {
        let version = ResourceVersion::from;
        let found = |uid: &str, terminating| {
            let pod = Pod { version: version(7), terminating, ..pod("p", uid) };
            PodReadOutcome::Found(Box::new(pod))
        };
        let not_found = || PodReadOutcome::NotFound;
        let failed = PodReadOutcome::Failed("timeout".to_owned());
        for (outcome, cached, seen, finding) in [
            (not_found(), None, Some(9), Finding::Gone(version(9))),
            (not_found(), Some((false, 8)), Some(9), Finding::Gone(version(9))),
            (not_found(), Some((true, 8)), Some(9), Finding::Unsure),
            (not_found(), None, None, Finding::Unsure),
            (found("u", false), None, Some(9), Finding::CacheIsBehind),
            (found("u", false), Some((true, 6)), Some(9), Finding::CacheIsBehind),
            (found("u", false), Some((true, 7)), Some(9), Finding::Survived(version(7))),
            (found("u", true), Some((true, 7)), Some(9), Finding::Unsure),
            (found("v", false), Some((false, 7)), Some(9), Finding::Unsure),
            (failed, Some((true, 7)), Some(9), Finding::Unsure),
        ] {
            let own = cached.map(|(_, own)| version(own)).unwrap_or_default();
            let cached = cached.map(|(is_same, _)| Cached { is_same, version: &own });
            let judged = judge_read("u", &outcome, cached, seen.map(version));
            assert_eq!(judged, finding, "{outcome:?} {cached:?}");
        }
    }
}
