//! One grant as an instance knows it: its age, and when it ends by time (semantics 5).

use std::time::Duration;

use crate::model::{Grant, Operation, ResourceVersion, Timestamp};

/// A pod that has not been deleted for so long after its grant will not be (upstream 1.1).
pub(super) const GRANT_EXPIRES: Duration = Duration::from_mins(2);
/// A request renews a grant that is younger than this. An eviction that a renewal allows then has at least 75 s to
/// reach etcd before the grant expires.
pub(super) const RENEWED_WITHIN: Duration = Duration::from_secs(45);
/// An eviction by name takes no pod later than this after its grant was recorded. kube-apiserver cancels the context
/// of a request after 34 s (`requestTimeoutUpperBound`), and the pod is deleted in that context. The rest covers the
/// 9 s until the answer, and clocks that run fast.
pub(super) const HANDLER_RUNS: Duration = Duration::from_mins(1);
/// The leader records the age of a grant this often, so that a grant expires although instances restart.
pub(super) const AGE_STEP: Duration = Duration::from_secs(15);
/// A renewed record shows an age that lags behind the age that this instance knows: by rounding, and by the watch.
const AGE_LAG: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(crate) struct LiveGrant {
    pub(super) grant: Grant,
    /// When the grant was first recorded, on this instance's clock and as far as the object's age tells.
    pub(super) since: Timestamp,
    /// When this instance first saw the record of this eviction, which may renew an earlier one.
    pub(super) recorded_at: Timestamp,
    pub(super) state: State,
    /// An entry of `disruptedPods` that somebody else wrote.
    pub(super) foreign: bool,
    /// The grant was for an earlier pod of the name, and an eviction by name may still be under way.
    pub(super) passed: bool,
    /// The event `NotDeleted` was published.
    pub(super) reported: bool,
    /// The pod's version as a live read of ours showed it, maybe ahead of the watch.
    pub(super) read_as: Option<ResourceVersion>,
    /// What a renewal that is in flight stands in for: if it is not written, that is still true.
    pub(super) replaced: Option<Box<LiveGrant>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The API server is known to have it.
    Committed,
    /// A write that carries it is under way, or nobody knows what became of that write.
    InFlight,
    /// Taken over from the budget's predecessor of the same name; the next write carries it.
    Adopted,
}

impl LiveGrant {
    pub(super) fn new(grant: Grant, now: Timestamp, state: State) -> Self {
        Self {
            foreign: grant.eviction.is_empty(),
            since: now.before(age_of(&grant)),
            recorded_at: now,
            grant,
            state,
            passed: false,
            reported: false,
            read_as: None,
            replaced: None,
        }
    }

    /// The record renews a grant that this instance knew. The record decides about the age: the instance that
    /// renewed may have known a lower age, and its eviction needs time. Small differences are rounding.
    pub(super) fn renews(mut self, known_since: Timestamp) -> Self {
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
        let age = now.since(self.since).min(GRANT_EXPIRES);
        let age_seconds = i64::try_from(age.as_secs()).unwrap_or(0);
        Grant { age_seconds: age_seconds.max(self.grant.age_seconds), ..self.grant.clone() }
    }

    /// Returns whether the recorded age lags so far that the leader writes it again.
    pub(super) fn is_age_due(&self, now: Timestamp) -> bool {
        let age = now.since(self.since).min(GRANT_EXPIRES);
        !self.foreign && age >= age_of(&self.grant) + AGE_STEP
    }

    /// Returns whether a request for this operation may renew the grant. Every update of a pod disrupts it anew, so
    /// its renewals extend the grant and are always possible.
    pub(super) fn may_be_renewed(&self, operation: Operation, now: Timestamp) -> bool {
        let updates = self.grant.operation.keeps_pod() && operation.keeps_pod();
        updates || now < self.since + RENEWED_WITHIN || planted!(RenewForEver)
    }

    /// Returns whether every eviction that the grant stands for has ended in the API server, by time alone.
    pub(super) fn has_handler_ended(&self, now: Timestamp) -> bool {
        !self.foreign && self.recorded_at + HANDLER_RUNS <= now
    }

    /// Returns when to look whether the grant has expired.
    pub(super) fn expires_at(&self) -> Timestamp {
        if planted!(ExpireBlindly) {
            return self.recorded_at + AGE_STEP;
        }
        let by_age = self.since + GRANT_EXPIRES;
        if self.passed { by_age.min(self.recorded_at + HANDLER_RUNS) } else { by_age }
    }

    /// Whether the record is of the pod that this is bound to. One that somebody else wrote names none.
    pub(super) fn stands_at(&self, recorded: &Grant) -> bool {
        recorded.uid.is_empty() || recorded.uid == self.grant.uid
    }
}

fn age_of(grant: &Grant) -> Duration {
    Duration::from_secs(u64::try_from(grant.age_seconds).unwrap_or(0)).min(GRANT_EXPIRES)
}
