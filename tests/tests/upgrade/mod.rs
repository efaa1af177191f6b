//! Two releases of Holdfast: the program under test and the program of an earlier revision, in both modes.
//! The tests run one after the other.

mod grants;
mod restarted;
mod rolling;

use std::process::ExitCode;

use holdfast_e2e::fixture::{self, Mode, fixture};
use holdfast_e2e::suite::{self, Test};
use holdfast_e2e::{server, tests};
use libtest_mimic::Arguments;

pub fn run() -> ExitCode {
    let mut tests = tests![grants::what_one_release_granted_the_other_honours];
    let with_lws = match fixture::mode() {
        Mode::Webhook => tests![rolling::upgrade_rollback_and_uninstall_under_a_running_drain],
        Mode::Native => tests![restarted::a_native_server_comes_and_goes_back_with_live_budgets],
    };
    tests.extend(with_lws.into_iter().map(Test::with_lws));
    let clean = || server::uninstall().map(drop);
    let start = || fixture().previous().and_then(|_| clean());
    suite::run(Arguments::from_args(), 1, &tests, start, |()| clean())
}
