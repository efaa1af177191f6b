//! The parts of `vectors.rs`.

mod controller;
mod eviction;
mod finders;
mod grants;
pub mod lone;
mod stale;
mod stats;
mod unreadable;
