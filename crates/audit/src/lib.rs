//! An auditor that shares no code with the engine.
//!
//! ```text
//! stored objects ---+
//!                   +--> Auditor --> Findings (S1, S3, S7, S9, L1, L3, L4)
//! evictions --------+       |
//!                           +-- State, Memory --> count (semantics 3 to 5) --> rules (semantics 6)
//! ```
//!
//! The auditor sees the sequence of stored objects and the evictions that removed pods or may still
//! remove them. It implements docs/semantics.md from scratch: every count looks at all objects, and
//! nothing is kept up to date incrementally. It does not depend on holdfast-core or holdfast-api, so
//! it shares no assumption with the engine.
//!
//! Budgets are identified by kind and name: a budget that is deleted and created again is the same.

mod auditor;
pub mod cluster;
mod count;
mod expected;
pub mod json;
mod judge;
mod memory;
pub mod objects;
mod remember;
mod replica;
mod rules;
mod scales;
mod state;

pub use auditor::{Allow, Auditor, Finding, Loss, ORPHANS_KEPT_MS, Rule};
pub use count::{Count, Lost, ReplicaCount, count, is_healthy, members};
pub use expected::{Groups, Source};
pub use memory::{Memory, SIZE_KEPT_MS};
pub use replica::{Replica, named};
pub use rules::allows;
pub use state::State;
