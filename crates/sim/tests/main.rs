//! The simulator, and the engine in its worlds.

mod chaos;
mod company;
mod evict;
mod explore;
mod hostile;
mod leisure;
#[cfg(feature = "planted-bugs")]
mod planted;
mod races;
mod world;
