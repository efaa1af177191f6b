//! A kube-apiserver that serves few requests at a time: `--max-requests-inflight=20
//! --max-mutating-requests-inflight=20`. The tests run one after the other, each with its own server.

mod fairness;

use std::process::ExitCode;

use holdfast_e2e::suite::{self, Test};
use holdfast_e2e::{server, tests};
use libtest_mimic::Arguments;

pub fn run() -> ExitCode {
    let mut tests = tests![fairness::three_hundred_evictions_at_once_are_all_answered];
    let long = tests![fairness::without_our_flow_schema_they_wait_for_each_other];
    tests.extend(long.into_iter().map(Test::long));
    let clean = || server::uninstall().map(drop);
    suite::run(Arguments::from_args(), 1, &tests, clean, |()| clean())
}
