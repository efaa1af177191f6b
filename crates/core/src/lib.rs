//! The engine of Holdfast: pods -> replicas -> budgets -> verdicts, status and reasons.
//!
//! **Contract.** The engine is sans-IO: no clock, no randomness, no async, no Kubernetes client.
//! [`Engine::handle`] takes the time and one [`Input`] and mutates; [`Engine::poll`] hands out one
//! [`Command`] after the other until it returns `None`. After every `handle` the caller drains
//! `poll` completely. The same inputs at the same times give the same commands, byte for byte.
//!
//! The same code runs in the server, in the simulator and in the command line.
//!
//! Comments cite the ruling they obey as `semantics N` (docs/semantics.md) and upstream's behaviour
//! as `upstream N` (docs/upstream.md).
#![forbid(unsafe_code)]

/// Whether the simulator has planted this bug. Never, in a build of the product.
#[cfg(feature = "planted-bugs")]
macro_rules! planted {
    ($bug:ident) => {
        crate::planted::is_planted(crate::planted::Bug::$bug)
    };
}
#[cfg(not(feature = "planted-bugs"))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

/// An enum whose variants are described by their documentation: all of them, and what each is.
#[doc(hidden)]
#[macro_export]
macro_rules! described {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[doc = $doc:literal])+ $variant:ident,)+ }) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// What it is, in one line.
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii_start(),)+
                }
            }
        }
    };
}

pub mod gang;
pub mod invariant;
pub mod io;
pub mod lease;
mod leisure;
pub mod model;
pub mod verdict;
pub mod view;

mod cache;
mod engine;
mod grants;
mod namespace;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod replicas;
mod stats;
mod tally;
mod threshold;
mod timer;

pub use engine::{Config, Engine};
pub use io::{Change, Command, Eviction, Input, Kind};
pub use stats::{BudgetStates, Counters, Stats};
