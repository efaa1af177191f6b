//! The real server in a simulation.
//!
//! ```text
//!   clients --evict--> API server --AdmissionReview--> webhook of an instance
//!                          |                                 |
//!   controllers ---> Store (JSON) <==wire (faults)==> holdfast-server, unchanged
//!                          |
//!                       auditor
//! ```
//!
//! `holdfast_server` runs as in production, but for its sockets: its client's requests go to an in-memory API server,
//! and its routers are called directly. One seed decides everything. The clock is tokio's, paused: time passes when
//! every task waits. There is one thread.
//!
//! The auditor (`holdfast-audit`) judges. It sees stored objects and evictions, and shares no code with the engine.
#![forbid(unsafe_code)]

mod api;
mod chaos;
mod cluster;
mod evictions;
pub mod fault;
mod gate;
mod installation;
mod instance;
mod judge;
mod objects;
mod panics;
pub mod params;
mod resources;
mod run;
mod store;
mod view;
mod watch;
mod wire;
mod world;

pub use run::{Report, run};
