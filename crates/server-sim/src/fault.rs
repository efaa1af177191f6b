//! What goes wrong, for which instance and kind, and until when.

use crate::resources::Kind;

holdfast_core::described! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Fault {
        /// A watch tells of nothing for a while
        WatchLag,
        /// A watch sends bookmarks and no events: the API server's watch cache is stuck
        WatchStalled,
        /// A watch sends nothing any more, and its connection stays open
        WatchDead,
        /// A watch ends
        WatchClosed,
        /// A watch breaks off in the middle of a line
        WatchCut,
        /// A watch ends with an ERROR event of another code than 410
        WatchError,
        /// Old versions are compacted: open watches end with 410, and so do continued lists
        WatchGone,
        /// Versions are compacted, and then lists of the kind fail
        RelistFails,
        /// Lists of the kind are not answered
        ListHangs,
        /// Watches are refused
        WatchRefused,
        /// 429
        TooManyRequests,
        /// 500, 503 or 504; of writes some have been executed
        ServerError,
        /// A request never arrives
        RequestLost,
        /// A request is executed, and its answer never arrives
        AnswerLost,
        /// The connection breaks off before or after a request is executed
        ConnectionReset,
        /// Answers take seconds
        SlowAnswer,
        /// Bodies come in pieces, seconds apart
        SlowBody,
        /// Lists come in small pages
        SmallPages,
        /// A group of APIs is not served
        Undiscovered,
        /// Discovery fails
        DiscoveryFails,
        /// A budget is changed by others just before a status write
        Conflict,
        /// A budget cannot be decoded
        GarbledBudget,
        /// A pod cannot be decoded
        GarbledPod,
        /// The process ends at once, and another one starts
        Crash,
        /// The API server does not get the webhook's answer
        WebhookAnswerLost,
        /// An allowed eviction is refused by something behind us
        EvictionRefused,
        /// An allowed eviction is carried out late
        EvictionLate,
        /// A pod dies
        PodDies,
        /// A budget is created for pods that had none
        BudgetCreated,
    }
}

impl Fault {
    /// Pods are lost, or counted otherwise, by more than evictions. The exact check has no place then.
    pub fn disturbs(self) -> bool {
        matches!(self, Self::PodDies | Self::GarbledPod | Self::GarbledBudget | Self::BudgetCreated)
    }

    /// Happens at one moment.
    pub fn is_instant(self) -> bool {
        matches!(
            self,
            Self::WatchDead
                | Self::WatchClosed
                | Self::WatchCut
                | Self::WatchError
                | Self::WatchGone
                | Self::Crash
                | Self::PodDies
                | Self::BudgetCreated
        )
    }
}

/// A fault that goes on for a while.
#[derive(Clone, Copy, Debug)]
pub struct Episode {
    pub fault: Fault,
    /// None: every instance.
    pub instance: Option<usize>,
    /// None: every kind.
    pub kind: Option<Kind>,
    pub until: u64,
    /// Of a hundred requests, so many are hit.
    pub percent: usize,
}

impl Episode {
    pub fn concerns(&self, instance: usize, kind: Option<Kind>) -> bool {
        self.instance.is_none_or(|own| own == instance)
            && self.kind.is_none_or(|own| kind == Some(own))
    }
}
