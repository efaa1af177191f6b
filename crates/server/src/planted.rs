//! Bugs on purpose, to prove that the simulation of the server finds them.
//!
//! As in the engine: only the feature `planted-bugs` compiles them in, which no crate of the product enables and which
//! does not compile without debug assertions. Each sleeps until [`plant`] wakes it.

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!("planted bugs are for tests: they must not be in a release build");

holdfast_core::described! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Bug {
        /// Do not count the time without a watch while a list after 410 or ERROR fails
        KeepCacheWhileListing,
        /// Skip a budget that cannot be decoded
        SkipUnreadableBudget,
        /// Keep the last state of a pod that cannot be decoded
        SkipUnreadablePod,
    }
}

thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// From now on, on this thread, the server has this bug.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

pub(crate) fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
