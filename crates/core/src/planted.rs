//! Bugs on purpose, to prove that the simulator finds them.
//!
//! Compiled in by the feature `planted-bugs` alone, which no crate of the product enables and which
//! does not compile without debug assertions; and even then each sleeps until [`plant`] wakes it.

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!("planted bugs are for tests: they must not be in a release build");

crate::described! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Bug {
        /// Decide although another instance has seen more (skip the watermark)
        SkipWatermark,
        /// Keep the grant of a pod that is gone, and take it for the next pod's of that name (key grants by name)
        GrantByName,
        /// Answer without a record what costs nothing (forget the surplus record)
        ForgetSurplus,
        /// Count a terminating pod as healthy
        TerminatingHealthy,
        /// Take a write whose answer was lost for not written, and forget it without reading
        NoReadAfterLoss,
        /// Take a write whose answer was lost for written
        BelieveLostWrite,
        /// Serve before the first sync, and take what was read so far for all there is
        ServeUnsynced,
        /// Refund whatever grant the pod has, be it another request's
        RefundOthers,
        /// Expire a grant after 15 s, without a live look
        ExpireBlindly,
        /// Ask only the first of several budgets
        FirstBudgetOnly,
        /// After a conflict write the same grants again, without deciding again
        NoSecondThought,
        /// Record a dry run
        RecordDryRun,
        /// Drop a grant when its pod is gone, whoever took it
        NoSuccessor,
        /// Never refund the reservation of a request that is denied
        NoRefund,
        /// Allow what the budget has no room for when its replicas cannot be resolved
        FailOpen,
        /// Take every replica for healthy that has one healthy pod
        AnyPodWillDo,
        /// Let the counters drift: a pod that gets a grant is not counted again
        StaleCounters,
        /// Refund an incomplete reservation by the cache alone
        RefundByCache,
        /// Blame the first covering budget for what another denies
        BlameAnother,
        /// Let a request wait for ever
        NoDeadline,
        /// Write the watermarks of what this instance has seen, lower ones too
        WatermarkBack,
        /// Do not look at the statuses when beginning to lead
        LazyLeader,
        /// End the grant of an update as soon as that is stored
        UpdateIsOver,
        /// Take a group for broken, and let go what is left of it, that only grants make look so
        SpareGranted,
        /// Let a group by label count as long as enough of it is ready, whoever may take the rest
        ForgetWhole,
        /// Ignore a watermark that rises while a list is in transit
        IgnoreRisen,
        /// Do not expect an owner whose last pod a grant took
        ForgetEmptied,
        /// Do not expect an owner whose pods are all gone by its pod templates
        IgnoreTemplates,
        /// Let a group that is disrupted as a whole shrink with the pod that a grant took
        ShrinkWhole,
        /// Extend a grant whenever its request is repeated
        RenewForEver,
        /// Decide by a new budget without the pods as of its creation
        SkipCreation,
        /// End a grant because its pod is gone, and record no version
        GoneWithoutVersion,
        /// Answer which budgets cover a pod from a cache of any age
        StaleCoverage,
        /// Take a list of budgets for recent although a budget went since the list was sent
        KeepOldLists,
        /// Decide by a scale that the pods exceed, however old it is
        KeepOldScales,
    }
}

thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// From now on, on this thread, the engine has this bug.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

pub(crate) fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
