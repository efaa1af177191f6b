//! The stages of `cargo xtask test` and `cargo xtask check`: the only list of them.

use clap::ValueEnum;

/// In the order in which they run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stage {
    /// Formatting
    Fmt,
    /// Lints
    Clippy,
    /// Unit and property tests, and a short simulation
    Unit,
    /// The simulators and the exploration find bugs that are planted in the engine and in the server
    Planted,
    /// End-to-end tests on control planes of their own
    E2e,
    /// Only if named: the rights that the last end-to-end tests used. The stage `e2e` looks at them too
    Rights,
    /// The commands of the docs
    Docs,
    /// With --full, or if named: simulations of a large drain, and their page in a browser
    Simulate,
    /// With --full, or if named: what Helm makes of the chart
    Chart,
    /// With --full, or if named: an earlier revision beside this one
    Upgrade,
    /// With --full, or if named: faults in every part of a control plane
    Nemesis,
    /// With --full, or if named: every decoder, with cargo-fuzz
    Fuzz,
    /// With --full, or if named: the files of a release
    Dist,
    /// With --full, or if named: licences, sources and security advisories of the dependencies
    Deny,
    /// With --full, or if named: spelling, with typos
    Spelling,
    /// With --full, or if named: the workflows of GitHub, with actionlint
    Workflows,
}

/// The amount of tests. A level has all stages of the levels before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// `cargo xtask check`
    Check,
    /// `cargo xtask test`
    Test,
    /// `cargo xtask test --full`
    Full,
}

impl Stage {
    /// Returns the first level with this stage, or None if no level has it.
    pub fn level(self) -> Option<Level> {
        match self {
            Self::Fmt | Self::Clippy | Self::Unit => Some(Level::Check),
            Self::Planted | Self::E2e | Self::Docs => Some(Level::Test),
            Self::Simulate
            | Self::Chart
            | Self::Upgrade
            | Self::Nemesis
            | Self::Fuzz
            | Self::Dist
            | Self::Deny
            | Self::Spelling
            | Self::Workflows => Some(Level::Full),
            Self::Rights => None,
        }
    }
}
