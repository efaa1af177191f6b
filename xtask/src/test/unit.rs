//! The stages that need only cargo.

use std::ffi::OsString;

use super::{Test, stage::Level};

/// For `cargo xtask check`: fewer cases, for a fast answer.
const FEW: [(&str, &str); 3] =
    [("PROPTEST_CASES", "64"), ("HOLDFAST_SEEDS", "60"), ("HOLDFAST_FUZZ_SECONDS", "0.1")];

/// For `cargo xtask test --full`.
const MANY: [(&str, &str); 3] =
    [("PROPTEST_CASES", "20000"), ("HOLDFAST_SEEDS", "3000"), ("HOLDFAST_FUZZ_SECONDS", "20")];

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
        let many = [("HOLDFAST_SEEDS", "10000".into()), ("HOLDFAST_STATES", "10000000".into())];
        let many = if self.level == Level::Full { &many[..] } else { &[] };
        // A build of its own, and a fast one, because the search takes many seeds.
        let engine = [
            "test",
            "--profile=sim",
            "--package=holdfast-sim",
            "--features=planted-bugs",
            "--test=it",
            "--",
            "planted::",
            "races::",
            "explore::",
        ];
        self.cargo("planted", &engine, many);
        // A fast build of the server takes longer than these tests.
        let server = [
            "test",
            "--package=holdfast-server-sim",
            "--features=planted-bugs",
            "--test=it",
            "planted::",
        ];
        self.cargo("planted", &server, &[]);
    }
}
