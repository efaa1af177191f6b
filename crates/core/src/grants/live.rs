//! One grant as an instance knows it: its age, and when it ends by time (semantics 5).

use std::time::Duration;

use crate::model::{Grant, Operation, ResourceVersion, Timestamp};

/// A pod that has not been deleted for so long after its grant will not be (upstream 1.1).
pub(super) const GRANT_EXPIRES: Duration = Duration::from_mins(2);
/// A request renews a grant that is younger than this. An eviction that a renewal allows then has at least 75 s to
/// reach etcd before the grant expires.
const RENEWED_WITHIN: Duration = Duration::from_secs(45);
/// An eviction by name takes no pod later than this after its grant was recorded. kube-apiserver cancels the context
/// of a request after 34 s (`requestTimeoutUpperBound`), and the pod is deleted in that context. The rest covers the
/// 9 s until the answer, and clocks that run fast.
const HANDLER_RUNS: Duration = Duration::from_mins(1);
/// The leader records the age of a grant this often, so that a grant expires although instances restart.
pub(crate) const AGE_STEP: Duration = Duration::from_secs(15);
/// A renewed record shows an age that lags behind the age that this instance knows: by rounding, and by the watch.
const AGE_LAG: Duration = Duration::from_secs(2);
/// A reservation in several budgets that is not complete by then is refunded.
const INCOMPLETE_AFTER: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
pub(crate) struct LiveGrant {
    pub(super) grant: Grant,
    /// When the grant was first recorded, on this instance's clock and as far as the object's age tells.
    pub(super) since: Timestamp,
    /// When this instance first saw the record of this eviction, which may renew an earlier one.
    pub(super) recorded_at: Timestamp,
    pub(super) state: State,
    /// An entry of `disruptedPods` that another program wrote.
    pub(super) is_foreign: bool,
    /// The grant was for an earlier pod of the name, and an eviction by name may still be under way.
    pub(super) is_rebound: bool,
    /// The event `NotDeleted` was published.
    pub(super) is_reported: bool,
    /// The pod's version as a read from the API server showed it. It may be ahead of the watch.
    pub(super) read_as: Option<ResourceVersion>,
    /// The grant that this one renews while the write is in flight. Without that write the earlier grant stays true.
    pub(super) replaced: Option<Box<LiveGrant>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The API server is known to have it.
    Committed,
    /// A write that carries it is under way, or the outcome of that write is unknown.
    InFlight,
    /// Taken over from the budget's predecessor of the same name, or from a status that another client has replaced. The
    /// next write carries it.
    Adopted,
}

impl LiveGrant {
    pub(super) fn new(grant: Grant, now: Timestamp, state: State) -> Self {
        Self {
            is_foreign: grant.eviction.is_empty(),
            since: now.before(age_of(&grant)),
            recorded_at: now,
            grant,
            state,
            is_rebound: false,
            is_reported: false,
            read_as: None,
            replaced: None,
        }
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Returns how old the grant is, counted from its first record.
    pub(crate) fn age(&self, now: Timestamp) -> Duration {
        now.since(self.since)
    }

    /// Returns whether a request for this operation may renew the grant. Every update of a pod disrupts it anew, so
    /// its renewals extend the grant and are always possible.
    pub(crate) fn may_be_renewed(&self, operation: Operation, now: Timestamp) -> bool {
        let updates = self.grant.operation.keeps_pod() && operation.keeps_pod();
        updates || now < self.since + RENEWED_WITHIN || planted!(RenewForEver)
    }

    /// Returns when to look whether the grant has expired.
    pub(crate) fn expires_at(&self) -> Timestamp {
        if planted!(ExpireBlindly) {
            return self.recorded_at + AGE_STEP;
        }
        let by_age = self.since + GRANT_EXPIRES;
        if self.is_rebound { by_age.min(self.recorded_at + HANDLER_RUNS) } else { by_age }
    }

    /// Returns when the reservations of this eviction in all budgets are complete at the latest.
    pub(crate) fn complete_by(&self) -> Timestamp {
        self.recorded_at + INCOMPLETE_AFTER
    }

    /// Returns whether the grant's own pod is to be deleted, so that a pod that lives on is worth an event.
    pub(crate) fn deletes_its_pod(&self) -> bool {
        !self.grant.operation.keeps_pod() && !self.is_rebound
    }

    /// The record renews a grant that this instance knew. The record decides about the age: the instance that
    /// renewed may have known a lower age, and its eviction needs time. Small differences are rounding.
    pub(super) fn renewing(mut self, known_since: Timestamp) -> Self {
        if known_since + AGE_LAG >= self.since && !planted!(RenewForEver) {
            self.since = self.since.min(known_since);
        }
        self
    }

    /// The status records the same eviction, with an age that another instance may know better.
    pub(super) fn take_in_age(&mut self, recorded: &Grant, now: Timestamp) {
        self.since = self.since.min(now.before(age_of(recorded)));
    }

    /// Returns the grant as it is to be written.
    pub(super) fn to_record(&self, now: Timestamp) -> Grant {
        let age = self.age(now).min(GRANT_EXPIRES);
        let age_seconds = i64::try_from(age.as_secs()).unwrap_or(0);
        Grant { age_seconds: age_seconds.max(self.grant.age_seconds), ..self.grant.clone() }
    }

    /// Returns whether the recorded age lags so far that the leader writes it again.
    pub(super) fn is_age_due(&self, now: Timestamp) -> bool {
        let age = self.age(now).min(GRANT_EXPIRES);
        !self.is_foreign && age >= age_of(&self.grant) + AGE_STEP
    }

    /// Returns whether every eviction that the grant stands for has ended in the API server, by time alone.
    pub(super) fn has_handler_ended(&self, now: Timestamp) -> bool {
        !self.is_foreign && self.recorded_at + HANDLER_RUNS <= now
    }
}

fn age_of(grant: &Grant) -> Duration {
    Duration::from_secs(u64::try_from(grant.age_seconds).unwrap_or(0)).min(GRANT_EXPIRES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::testing::{START, after, grant};

    #[test]
    fn a_grant_is_renewed_in_its_first_45_seconds_only() {
        let live = LiveGrant::new(grant("p", "u", "e"), START, State::Committed);
        assert!(live.may_be_renewed(Operation::Evict, after(44)));
        assert!(!live.may_be_renewed(Operation::Evict, after(45)));
        let update = Grant { operation: Operation::Update, ..grant("p", "u", "e") };
        let live = LiveGrant::new(update, START, State::Committed);
        assert!(live.may_be_renewed(Operation::Resize, after(600)), "an update disrupts anew");
        assert!(!live.may_be_renewed(Operation::Evict, after(600)));
    }

    #[test]
    fn a_record_of_another_instance_carries_the_age() {
        let recorded = Grant { age_seconds: 90, ..grant("p", "u", "e") };
        let live = LiveGrant::new(recorded, START, State::Committed);
        assert_eq!(live.expires_at(), after(30));
        assert_eq!(live.to_record(after(10)).age_seconds, 100);
        assert_eq!(live.to_record(after(300)).age_seconds, 120, "no older than expired");
    }

    #[test]
    fn the_age_is_due_in_steps() {
        let mut live = LiveGrant::new(grant("p", "u", "e"), START, State::Committed);
        assert!(!live.is_age_due(after(14)));
        assert!(live.is_age_due(after(15)));
        live.is_foreign = true;
        assert!(!live.is_age_due(after(15)), "another program's entry has no age");
    }

    #[test]
    fn a_renewal_keeps_the_age_unless_the_record_shows_a_much_lower_one() {
        let new = || LiveGrant::new(grant("p", "u", "e"), after(60), State::Committed);
        for (known_since, since) in [
            // Rounding: the earlier grant decides.
            (after(59), after(59)),
            (after(58), after(58)),
            // The instance that renewed knew a lower age, and its eviction needs the time.
            (after(57), after(60)),
            // The record is the older one.
            (after(61), after(60)),
        ] {
            assert_eq!(new().renewing(known_since).since, since, "{known_since:?}");
        }
    }

    #[test]
    fn a_rebound_grant_ends_with_the_handler() {
        let mut live = LiveGrant::new(grant("p", "u", "e"), START, State::Committed);
        assert_eq!(live.expires_at(), after(120));
        assert!(live.deletes_its_pod());
        live.is_rebound = true;
        assert_eq!(live.expires_at(), after(60));
        assert!(!live.deletes_its_pod());
        assert!(!live.has_handler_ended(after(59)));
        assert!(live.has_handler_ended(after(60)));
    }
}
