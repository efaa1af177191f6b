//! Holdfast starts, ends and fails to start. The tests run one after the other, each with its own servers.

mod half_sent;
mod install;
mod interrupted;
mod start;
mod undecodable;
mod unenforced;

use std::process::ExitCode;

use holdfast_e2e::suite::{self, Test};
use holdfast_e2e::{server, tests};
use libtest_mimic::Arguments;

pub fn run() -> ExitCode {
    let mut tests = tests![
        interrupted::killed_in_a_drain_nothing_is_evicted_until_it_is_back,
        interrupted::a_crash_in_a_storm_leaves_the_count_right,
        interrupted::a_termination_answers_what_is_in_flight,
        unenforced::a_drain_that_nothing_would_hold_back_is_refused_and_why_says_so,
        undecodable::an_undecodable_object_is_reported_once_and_does_not_stop_the_watch,
    ];
    // Only if the Service can point at this machine.
    let printed = tests![install::what_is_printed_serves_and_goes_without_a_trace];
    tests.extend(printed.into_iter().map(Test::on_localkube));
    let of_the_process = tests![
        start::a_bad_kubeconfig_is_one_clear_line,
        start::a_port_in_use_is_one_clear_line,
        start::an_api_server_that_is_away_is_one_clear_line,
        start::a_wrong_token_is_one_clear_line,
        start::what_is_not_installed_is_named,
        install::what_was_installed_can_be_removed_without_a_trace,
        install::what_is_being_removed_is_waited_for,
        install::whoever_installs_is_waited_for,
    ];
    tests.extend(of_the_process.into_iter().map(Test::without_nodes));
    let long = tests![install::all_at_once_leave_no_half];
    tests.extend(long.into_iter().map(Test::without_nodes).map(Test::long));
    let clean = || server::uninstall().map(drop);
    suite::run(Arguments::from_args(), 1, &tests, clean, |()| clean())
}
