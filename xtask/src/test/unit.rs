//! The stages that need only cargo.

use std::ffi::OsString;

use super::{Test, stage::Level};

/// For `cargo xtask check`: fewer cases, for a fast answer.
const FEW: [(&str, &str); 3] =
    [("PROPTEST_CASES", "64"), ("HOLDFAST_SEEDS", "60"), ("HOLDFAST_FUZZ_SECONDS", "0.1")];

/// For `cargo xtask test --full`.
const MANY: [(&str, &str); 3] =
    [("PROPTEST_CASES", "20000"), ("HOLDFAST_SEEDS", "3000"), ("HOLDFAST_FUZZ_SECONDS", "20")];

/// Engines with planted bugs are separate builds. They are optimised, because the search needs many seeds.
const SIM: [&str; 4] =
    ["test", "--profile=sim", "--package=holdfast-sim", "--features=planted-bugs"];

impl Test<'_> {
    pub(super) fn fmt(&mut self) {
        self.cargo("fmt", &["fmt", "--all", "--check"], &[]);
        // A separate workspace.
        self.cargo("fmt", &["fmt", "--check", "--manifest-path=fuzz/Cargo.toml"], &[]);
    }

    pub(super) fn clippy(&mut self) {
        let clippy = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        self.cargo("clippy", &clippy, &[]);
    }

    pub(super) fn unit(&mut self) {
        let cases = match self.level {
            Level::Check => &FEW[..],
            Level::Test => &[],
            Level::Full => &MANY[..],
        };
        let cases: Vec<(_, OsString)> =
            cases.iter().map(|(name, value)| (*name, value.into())).collect();
        let unit = ["test", "--workspace", "--exclude", "holdfast-e2e", "--no-fail-fast"];
        self.cargo("unit", &unit, &cases);
    }

    pub(super) fn planted(&mut self) {
        let full = self.level == Level::Full;
        let engine = [&SIM[..], &["--test=planted", "--test=races"]].concat();
        let many = [("HOLDFAST_SEEDS", "10000".into())];
        self.cargo("planted", &engine, if full { &many } else { &[] });
        // A fast build of the server takes longer than these tests.
        let server =
            ["test", "--package=holdfast-server-sim", "--features=planted-bugs", "--test=planted"];
        self.cargo("planted", &server, &[]);
        // It uses the same build as the first.
        let explore = [&SIM[..], &["--test=explore"]].concat();
        let many = [("HOLDFAST_STATES", "10000000".into())];
        self.cargo("explore", &explore, if full { &many } else { &[] });
    }
}
