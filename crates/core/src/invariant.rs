//! What must hold, by ids that the engine, the simulator and the metrics share.
//!
//! The engine looks at some of them itself, with its last look before an effect. One that does not
//! hold is a bug of ours: the engine then denies, and counts it. The simulator checks all of them
//! against the world's truth, and takes a count of the engine's for a failure.

use std::fmt;

crate::described! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Invariant {
        /// No grant takes a budget below what it desires
        S1,
        /// A grant is counted once, and ends as gone, refunded or expired
        S2,
        /// An allowed eviction has a grant in every covering budget
        S3,
        /// A grant passes to another pod of the same name only when its own is gone
        S4,
        /// No decision on state older than one already acted on
        S5,
        /// Two leaders at once never over-grant, and bring no grant back
        S6,
        /// A budget that cannot be computed allows nothing, and says why
        S7,
        /// A dry run records nothing
        S8,
        /// A denial names a budget that truly blocks
        S9,
        /// Incremental equals recomputed
        S10,
        /// Every request is answered, once and in time
        S11,
        /// After the faults every status converges to what a recount shows
        L1,
        /// After the faults writes go to zero
        L2,
        /// After the faults every drain that can finish does
        L3,
        /// A budget that blocks a drain for good says so
        L4,
        /// After the faults a denied request leaves no grant, and all grants end
        L5,
    }
}

impl Invariant {
    /// Those that the engine looks at itself (`namespace/last_look.rs`).
    pub const LOOKED_AT: &[Self] = &[Self::S1, Self::S5, Self::S7, Self::S8];
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// How often each was found broken by the engine itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Violations([u64; Invariant::ALL.len()]);

impl Violations {
    pub(crate) fn count(&mut self, invariant: Invariant) {
        self.0[invariant as usize] += 1;
    }

    pub fn of(&self, invariant: Invariant) -> u64 {
        self.0[invariant as usize]
    }
}
