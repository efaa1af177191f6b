//! The simulation of the real server.

#[cfg(feature = "planted-bugs")]
mod planted;
mod seeds;
