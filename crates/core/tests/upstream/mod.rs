//! The parts of `vectors.rs`.

mod controller;
mod eviction;
mod finders;
mod grants;
mod lone;
mod stale;
mod stats;
