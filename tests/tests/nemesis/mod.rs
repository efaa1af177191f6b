//! Several API servers on one etcd, with faults in all of them while clients evict.
//!
//! ```text
//!  32 clients ──> API servers ──> etcd ──> history of stored objects ──> auditor
//!                  ^   |
//!      instances of Holdfast, one at each API server; the API servers ask all of them, in turn
//!  faults: kills, pauses and restarts API servers, instances and etcd
//! ```
//!
//! The check believes neither Holdfast nor an API server's watch: it reads what etcd has stored.

mod clients;
mod etcd;
mod faults;
mod instances;
mod judge;
mod kubelet;
mod storm;
mod workload;

use std::process::ExitCode;

use holdfast_e2e::suite::{self, Test};
use holdfast_e2e::{server, tests};
use libtest_mimic::Arguments;

pub fn run() -> ExitCode {
    let tests = tests![storm::faults_in_every_part_break_no_budget];
    let tests: Vec<Test> = tests.into_iter().map(Test::on_several_apiservers).collect();
    let clean = || server::uninstall().map(drop);
    suite::run(Arguments::from_args(), 1, &tests, clean, |()| clean())
}
