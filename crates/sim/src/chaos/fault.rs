//! What can go wrong, each by its name. Every one that happens is counted.

use std::collections::BTreeMap;
use std::fmt;

holdfast_core::described! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Fault {
        /// A watch of one kind tells nothing for a while
        WatchLag,
        /// A watch breaks, and goes on from where it was if the API server still knows that version
        Disconnect,
        /// The version to go on from is compacted (410 Gone): the kind is listed again
        Gone,
        /// An event comes twice
        Duplicate,
        /// Of several events about one object only the last comes
        Coalesce,
        /// A new process lists from an API server that is behind
        OldList,
        /// Somebody else writes the budget first
        Conflict,
        /// A write or read times out, and was executed
        TimeoutApplied,
        /// A write or read times out, and was not executed
        TimeoutNotApplied,
        /// The response to a call is lost on its way back, while other things happen
        ResponseLost,
        /// A call is given up, and lands later
        LandsLate,
        /// A write is refused
        Refused,
        /// An eviction is allowed, and refused by something behind us
        RefusedLater,
        /// Evictions of one pod are allowed, and refused behind us again and again
        RefusedAlways,
        /// A process dies as it makes its n-th call, and its memory with it
        CrashAtCall,
        /// A process dies at any time, and starts again with empty memory
        Crash,
        /// A process stands still for longer than the lease
        Pause,
        /// A process and its API server stand still together, and what was decided is answered late
        FrozenTogether,
        /// A read or write of the Lease fails, or somebody deletes the Lease
        LeaseTrouble,
        /// Two instances lead at once
        TwoLeaders,
        /// An instance of an older release, which reads fewer kinds, serves beside the others
        OlderRelease,
        /// A clock is wrong, and runs fast or slow
        ClockSkew,
        /// The time of day is set: a process that starts later reads it
        ClockJump,
        /// A pod is replaced by one of the same name
        NameReused,
        /// A node dies while it is being drained
        NodeDeath,
        /// A pod is deleted, by nobody whom we asked
        PodDeleted,
        /// A pod stops being ready
        Flap,
        /// A pod is held by a finalizer
        Stuck,
        /// An owner is scaled
        Scaled,
        /// A replica needs more pods, or fewer
        MinCount,
        /// A budget asks for more, or less
        Threshold,
        /// A budget selects other pods
        Selector,
        /// A budget counts in the other unit
        Scope,
        /// A budget is created that overlaps others
        BudgetCreated,
        /// A budget is deleted
        BudgetDeleted,
        /// A budget is deleted and created again at once
        BudgetRecreated,
        /// A `PodGroup` is deleted, and created again later
        GroupDeleted,
    }
}

impl Fault {
    /// Whether it takes pods, or changes how many are needed, without anybody asking us: in a world
    /// without such faults every loss is one that we granted. A budget that is edited starts anew at
    /// what it has then, so edits of budgets are not among these.
    pub fn is_involuntary(self) -> bool {
        use Fault::{Flap, GroupDeleted, MinCount, NodeDeath, PodDeleted, Scaled};
        matches!(self, NodeDeath | PodDeleted | Flap | Scaled | MinCount | GroupDeleted)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.to_string() == name)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// How often each thing happened.
pub type Counts<T> = BTreeMap<T, u64>;
