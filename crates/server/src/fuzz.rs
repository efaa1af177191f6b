//! Every decoder with what it was not made for. Nothing that comes from outside may make us panic, hang or
//! allow.
//!
//! ```text
//! targets   the decoders, each with seeds that it reads
//!   |-- tests   a second each, in every run of the tests
//!   '-- fuzz/   each a program for cargo-fuzz, for 20 seconds, in `cargo xtask test --full`
//! ```
//!
//! cargo-fuzz has the compiler's help to see what an input reaches. That works on a stable one, without
//! sanitizers, but everything has to be built anew for it, with libFuzzer, which is C++: too long for every
//! run. The tests need nothing of that. They keep inputs whose outcome is new, as it is told in words, and
//! change those further. An input that was found goes to the seeds of its target.

#[cfg(test)]
mod mutate;
mod targets;
#[cfg(test)]
mod tests;

pub use targets::TARGETS;

/// A decoder.
#[derive(Debug)]
pub struct Target {
    pub name: &'static str,
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// What became of an input, in words. Numbers in it are places and lengths, and not news.
    pub run: fn(&[u8]) -> String,
}

/// By its name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
