//! The answer to an eviction, with its reason.

use crate::model::{BudgetKey, Operation};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow(Allowed),
    Deny(Denial),
}

impl Verdict {
    pub fn is_allow(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    pub reason: AllowReason,
    /// The pod that this is about; None if there is none. An eviction names a pod: without this uid as
    /// its precondition it may yet hit a successor of that name, of which nothing is recorded.
    pub uid: Option<String>,
    /// Every budget that now holds a grant for it, and what that costs. Empty when nothing needed
    /// recording; for a dry run, what would have been recorded.
    pub grants: Vec<(BudgetKey, i64)>,
}

/// Why an eviction may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllowReason {
    /// No budget selects the pod.
    NotCovered,
    /// The pod does not exist, and no later one of its name may be meant.
    PodGone,
    /// The pod is Succeeded, Failed or terminating.
    PodEnded,
    /// The system at work, which no budget of the covering ones stands in the way of (semantics 9).
    Exempt,
    /// The request's uid precondition does not hold; the API server will refuse it.
    UidMismatch,
    /// Every covering budget holds a grant.
    Granted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub reason: DenyReason,
    /// Upstream's sentence, then the arithmetic of one budget that blocks.
    pub message: String,
    /// One per blocking budget.
    pub causes: Vec<Cause>,
}

/// A status cause of type `DisruptionBudget`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// None when it is not one budget that blocks (caches not synced, say).
    pub budget: Option<BudgetKey>,
    pub message: String,
}

/// Why an eviction must not go on; a bounded set, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DenyReason {
    /// Caches are not synced, or behind, or the budget's scale is not known yet (semantics 6.2).
    BeingProcessed,
    /// The pod names no replica (semantics 6.4).
    MissingReference,
    /// The budget cannot be computed, so it allows nothing (semantics 6.4).
    FailedClosed,
    /// The budget has no room (semantics 6.5 to 6.7, or upstream's rule for scope Pod).
    BudgetExhausted,
    /// A built-in `policy/v1` budget behind us would refuse.
    BuiltinBudget,
    /// More than 2000 live grants, or 512 KiB of them, in one budget.
    TooManyGrants,
    /// The grant could not be recorded in time, or at all.
    NotRecorded,
    /// Earlier evictions of this pod were allowed and did not delete it (semantics 5).
    NotDeleted,
}

impl Denial {
    /// The answer, opening with what cannot be done.
    pub(crate) fn of(mut self, operation: Operation) -> Verdict {
        self.message.insert_str(0, &format!("{} ", cannot(operation)));
        Verdict::Deny(self)
    }
}

/// What a decision is called in messages, events and logs: the request's id up to its first dash, and no
/// more than a person compares at a glance. Empty if nobody asked.
pub fn decision(eviction: &str) -> &str {
    let first = eviction.split('-').next().unwrap_or_default();
    &first[..first.floor_char_boundary(12)]
}

/// At the end of what is told about a decision, with a space before it.
pub fn signature(eviction: &str) -> String {
    match decision(eviction) {
        "" => String::new(),
        decision => format!("{SIGNED}{decision})"),
    }
}

/// What a signature begins with.
pub const SIGNED: &str = " (decision ";

/// The sentence that every denial of the operation opens with.
pub fn cannot(operation: Operation) -> &'static str {
    match operation {
        Operation::Evict => CANNOT_EVICT,
        Operation::Delete => "Cannot delete pod as it would violate the pod's unavailable budget.",
        Operation::Update => "Cannot update pod as it would violate the pod's unavailable budget.",
        Operation::Resize => "Cannot resize pod as it would violate the pod's unavailable budget.",
    }
}

/// Upstream's sentence: clients match on it, so it comes first in every denial.
pub const CANNOT_EVICT: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_have_short_names() {
        assert_eq!(signature("3f2a91c0-7a0e-4c1b-8a44-000000000000"), " (decision 3f2a91c0)");
        assert_eq!(signature(""), "");
        assert_eq!(decision("ééééééééé"), "éééééé");
    }
}
