//! What is due when. Entries are not withdrawn: whoever is woken looks whether there is still
//! something to do.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{BudgetId, GroupKind, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The request must be answered now.
    Deadline { eviction: String },
    /// The budget's status is looked at, and written if it differs.
    Housekeep { budget: BudgetId },
    /// What is queued at the budget's writer has waited long enough for company.
    Commit { budget: BudgetId },
    /// The grant has been there for two minutes.
    Expire { budget: BudgetId, pod: String, uid: String },
    /// The grant is one of several and has been there for 15 seconds.
    Incomplete { budget: BudgetId, pod: String, uid: String },
    /// The scale is read again.
    Scale { kind: GroupKind, name: String },
    /// The pod's `DisruptionTarget` is two minutes old.
    StaleTarget { pod: Arc<str>, uid: String },
    /// Some more pods are told of their `PodUnavailableBudget`.
    Relate,
    /// A group's size is not remembered any longer.
    SizeKept { budget: BudgetId },
    /// The deleted budget's grants are forgotten.
    Orphan { budget: BudgetId },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    entries: BTreeSet<(Timestamp, Arc<str>, Due)>,
    announced: Option<Timestamp>,
}

impl Timers {
    pub(crate) fn at(&mut self, at: Timestamp, namespace: &Arc<str>, due: Due) {
        self.entries.insert((at, namespace.clone(), due));
    }

    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<(Arc<str>, Due)> {
        if self.entries.first()?.0 > now {
            return None;
        }
        self.entries.pop_first().map(|(_, namespace, due)| (namespace, due))
    }

    /// The next time to wake at, if it is not the one that was announced last.
    pub(crate) fn announce(&mut self) -> Option<Timestamp> {
        let next = self.entries.first().map(|(at, ..)| *at);
        if next == self.announced {
            return None;
        }
        self.announced = next;
        next
    }

    /// The announced time has passed.
    pub(crate) fn woken(&mut self) {
        self.announced = None;
    }
}
