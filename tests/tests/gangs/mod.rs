//! Gangs start whole or not at all. One set of tests for two kinds of clusters: those where kube-scheduler
//! starts gangs, and those where Holdfast does ([`holdfast_e2e::gang::Shape`]).

mod contest;
mod impossible;
mod left_alone;
mod owners;
mod scheduling;
mod sets;
mod uninstalled;
mod validation;
mod waiting;

use std::process::ExitCode;

use holdfast_e2e::gang::Shape;
use holdfast_e2e::suite::{self, Test};
use holdfast_e2e::{server, shared, tests};
use libtest_mimic::Arguments;

/// Tests mostly wait, so many can run at the same time.
const THREADS: usize = 10;

/// Without room no gang starts, however long it waits.
const PATIENT: [&str; 2] = ["--gang-room-wait", "0s"];

pub fn run() -> ExitCode {
    // Start the long tests first, so that none of them runs alone at the end.
    let of_lws = tests![
        sets::a_leader_worker_set_is_drained_scaled_rolled_and_deleted,
        sets::a_group_that_is_recreated_starts_whole_again,
        impossible::a_leader_that_has_to_be_ready_first,
        impossible::a_group_that_has_its_place_to_itself,
    ];
    let of_jobset = tests![
        sets::a_job_set_starts_job_by_job_and_a_budget_counts_them,
        impossible::jobs_that_come_after_others,
        impossible::jobs_that_have_their_place_to_themselves,
    ];
    let mut together: Vec<Test> = of_lws.into_iter().map(Test::with_lws).collect();
    together.extend(of_jobset.into_iter().map(Test::with_jobset));
    together.extend(tests![
        contest::one_runs_whole_and_the_other_waits_whole_20_times,
        owners::a_stateful_set_has_groups_of_consecutive_ordinals,
        owners::a_job_grows_from_four_to_eight_in_the_same_group,
        owners::a_job_waits_whole_and_takes_its_group_along,
        owners::a_group_that_somebody_deletes_is_made_again,
        owners::a_namespace_asks_for_its_workloads_and_one_declines,
        impossible::pods_that_come_one_by_one,
        left_alone::a_job_that_brings_its_own_group,
        left_alone::a_job_that_runs_when_it_begins_to_ask,
        left_alone::workloads_that_do_not_ask,
        left_alone::what_cannot_be_read_is_refused_by_field,
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
        scheduling::a_pod_that_others_hold_back_is_waited_for,
        scheduling::pods_of_a_gang_that_keep_apart_get_nodes_of_their_own,
        scheduling::room_is_where_the_pods_may_go,
        // Do not run it beside the other contest: each has twenty namespaces at the same time.
        contest::a_pod_that_found_no_place_splits_no_gang_20_times,
    ]);
    let objects = tests![validation::both_kinds_are_created_read_changed_and_deleted];
    together.extend(objects.into_iter().map(Test::without_nodes));
    let own = tests![
        validation::what_is_refused_is_told_why,
        validation::references_stay_and_minimums_change,
    ];
    together.extend(own.into_iter().map(Test::without_nodes).map(Test::without_pod_groups));
    let ordered = tests![contest::the_one_of_higher_priority_is_first_to_get_the_room];
    together.extend(ordered.into_iter().map(Test::without_pod_groups));
    let mut hasty = tests![waiting::an_autoscaler_sees_the_gang_and_it_starts];
    let of_holdfast = tests![
        waiting::a_gang_that_is_not_whole_in_time_is_taken_back,
        waiting::a_job_that_says_so_is_taken_back_too,
        waiting::the_one_that_waits_longest_is_let_go_alone,
    ];
    hasty.extend(of_holdfast.into_iter().map(Test::without_pod_groups));
    let alone = tests![uninstalled::gates_and_finalizers_go_with_holdfast];
    let alone: Vec<Test> = alone.into_iter().map(Test::without_pod_groups).collect();

    let args = Arguments::from_args();
    let run = |name: &'static str, flags: &'static [&str], tests: &[Test]| {
        let start = || shared::start(name, &[Shape::of_cluster().flag()], flags);
        suite::run(args.clone(), THREADS, tests, start, shared::stop)
    };
    let clean = || server::uninstall().map(drop);
    let codes = [
        run("gangs", &PATIENT, &together),
        run("gangs-hasty", &waiting::FLAGS, &hasty),
        suite::run(args.clone(), 1, &alone, clean, |()| clean()),
    ];
    codes.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS)
}
