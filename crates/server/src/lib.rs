//! The engine on a real API server.
//!
//! ```text
//!   API server ==list, watch==> watch ----inputs----+
//!                                                   v
//!   API server --AdmissionReview--> webhook ---> runtime (owns the Engine) --commands--> effect ==> API server
//!                     ^                             |                                      |
//!                     +---------- verdict ----------+<------------- outcomes --------------+
//!                                                   ^
//!   API server ==Lease==> election ---leads or not--+
//! ```
//!
//! In native mode the API server asks at `native`'s gate instead of the webhook, and gets `policy/v1`
//! there.
//!
//! Beside it, `gang` puts pods into groups and starts gangs whole, in the same way: one task owns what is decided by.
//!
//! Only `runtime` touches the engine, from one task. Everything that waits for the network runs
//! beside it, so a verdict never queues behind a slow request. [`serve()`] puts the parts together,
//! `install` makes the cluster ready for them, and [`uninstall()`] takes that back.
#![forbid(unsafe_code)]

/// Whether the simulation has planted this bug. Never, in a build of the product.
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

mod api_client;
mod clock;
mod connect;
mod covered;
mod decide;
mod decisions;
mod discovery;
mod drainer;
mod duty;
mod effect;
mod election;
mod error;
mod exempt;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod gang;
mod guard;
mod health;
mod install;
mod interception;
mod listen;
mod log_level;
mod lull;
mod metrics;
mod native;
mod page;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod random;
mod room;
mod runtime;
mod serve;
#[cfg(feature = "simulation")]
pub mod simulation;
mod snapshot;
mod traces;
mod transport;
mod watch;
mod webhook;

pub use connect::ClusterOptions;
pub use decisions::{Decision, Decisions};
pub use drainer::{Drainer, Evicted, Propagation};
pub use effect::Caller;
pub use error::Error;
pub use gang::GangOptions;
pub use install::certificate::{CertificateOptions, Files};
pub use install::gang::PodGroups;
pub use install::loss::Loss;
pub use install::package;
pub use install::uninstall::{Removal, UninstallOptions, losses, uninstall};
pub use log_level::LogLevel;
pub use lull::Lull;
pub use metrics::sample::page as sample_metrics;
pub use page::PageOptions;
pub use serve::{Addresses, Features, Mode, ServeOptions, serve};
pub use snapshot::{Listed, Reader, snapshot};
