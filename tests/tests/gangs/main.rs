//! Gangs start whole or not at all. One set of tests for two kinds of clusters: where kube-scheduler starts
//! gangs, and where Holdfast does ([`holdfast_e2e::gang::Shape`]).

mod contest;
mod scheduling;
mod validation;

use std::process::ExitCode;

use holdfast_e2e::suite;
use holdfast_e2e::{shared, tests};
use libtest_mimic::Arguments;

/// Tests wait most of the time.
const THREADS: usize = 10;

fn main() -> ExitCode {
    let together = tests![
        contest::one_runs_whole_and_the_other_waits_whole_20_times,
        scheduling::a_gang_waits_for_its_group_and_then_for_room,
        scheduling::a_gang_starts_when_its_group_and_room_are_there,
        scheduling::a_pod_beyond_the_minimum_starts_by_itself,
        scheduling::a_lost_pod_of_a_gang_that_runs_is_replaced_by_itself,
        scheduling::a_gang_waits_for_its_minimum,
        scheduling::pods_start_within_seconds_of_their_group,
        scheduling::what_does_not_fit_beyond_the_minimum_waits_for_room,
        scheduling::a_gang_and_a_single_pod_take_turns,
        scheduling::pods_of_a_basic_group_start_one_by_one,
        scheduling::a_smaller_minimum_lets_go_what_has_room,
        scheduling::a_smaller_minimum_is_reached_by_fewer,
        scheduling::a_group_outlives_its_pods,
        scheduling::room_is_where_the_pods_may_go,
        validation::what_is_refused_is_told_why,
        validation::references_stay_and_minimums_change,
    ];
    let start = || shared::start("gangs");
    suite::run(Arguments::from_args(), THREADS, &together, start, shared::stop)
}
