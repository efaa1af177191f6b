//! Native mode: installation, serving, failure and uninstallation. The tests run one after the other, each
//! with its own servers.

mod away;
mod certificates;
mod control_plane;
mod descheduler;
mod gate;
mod import;
mod instances;
mod older;
mod parity;
mod preflight;
mod printed;
mod starting;
mod trust;
mod unavailable;

use std::process::ExitCode;

use holdfast_e2e::server::{self, Server};
use holdfast_e2e::suite::{self, Test};
use holdfast_e2e::tests;
use libtest_mimic::Arguments;

pub fn run() -> ExitCode {
    let mut tests = tests![
        parity::kubectl_says_the_same_of_both,
        parity::a_drain_ends_the_same_under_both,
        gate::the_webhook_decides_and_without_it_the_gate_does,
        preflight::what_would_be_lost_or_bypassed_is_named_before_anything_changes,
        older::what_an_older_client_does_not_know_it_does_not_erase,
        instances::two_behind_one_service_hold_a_budget_while_one_crashes,
        import::budgets_change_hands_while_a_node_is_drained,
        unavailable::evictions_and_deletes_need_room_in_both_kinds_of_budget,
        away::without_it_nothing_is_evicted_and_everything_else_goes_on,
    ];
    let on_localkube = tests![
        printed::what_is_printed_takes_over_with_no_other_rights,
        printed::a_static_pod_takes_over_with_no_other_rights,
        trust::only_the_front_proxy_is_believed,
        control_plane::scheduler_and_controllers_start_and_work_without_errors,
        control_plane::an_api_server_that_restarts_finds_policy_as_it_left_it,
        starting::no_eviction_passes_from_the_moment_the_port_opens,
    ];
    tests.extend(on_localkube.into_iter().map(Test::on_localkube));
    // It waits half a minute for a controller that is off.
    let long = tests![control_plane::it_stays_as_long_as_no_controller_would_take_over];
    tests.extend(long.into_iter().map(Test::on_localkube).map(Test::long));
    let rotated = tests![
        certificates::the_aggregator_follows_certificates_as_they_rotate,
        import::budgets_that_went_with_their_definition_stay_built_in,
    ];
    tests.extend(rotated.into_iter().map(Test::long));
    let descheduler = tests![
        descheduler::the_descheduler_takes_whole_replicas_and_no_more_than_there_is_room_for,
    ];
    tests.extend(descheduler.into_iter().map(Test::with_descheduler).map(Test::long));
    let clean = || server::uninstall().map(drop);
    suite::run(Arguments::from_args(), 1, &tests, clean, |()| clean())
}

/// Gives `policy/v1` back, which needs a running instance, and then ends the instance.
fn remove(mut server: Server) {
    server::uninstall().expect("it can be uninstalled");
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}
