//! Several instances of Holdfast behind a load balancer. The tests run one after the other.

mod certificates;
mod groups;
mod leader;
mod quiet;
mod registration;
mod restart;
mod storm;

use std::process::ExitCode;

use holdfast_e2e::suite::{self, Test};
use holdfast_e2e::{server, tests};
use libtest_mimic::Arguments;

pub fn run() -> ExitCode {
    let mut tests = tests![
        groups::no_more_groups_are_down_than_allowed,
        storm::kills_and_pauses_in_a_storm_break_no_budget,
        restart::a_rolling_restart_under_load_breaks_no_budget,
        certificates::certificates_rotate_under_load_and_no_admission_fails,
        leader::a_paused_leader_is_replaced_and_two_at_once_break_no_budget,
    ];
    let long = tests![
        storm::three_minutes_of_storm,
        groups::two_minutes_of_groups,
        quiet::a_quiet_minute_has_no_writes,
        registration::each_keeps_its_certificate_and_deleting_stays_deleted,
    ];
    tests.extend(long.into_iter().map(Test::long));
    let clean = || server::uninstall().map(drop);
    suite::run(Arguments::from_args(), 1, &tests, clean, |()| clean())
}
