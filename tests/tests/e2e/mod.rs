//! Evictions decided by one Holdfast on one cluster. Every test has its own namespace and nodes. All tests
//! run at the same time.

mod ask;
mod conditions;
mod drain;
mod input;
mod lws;
mod observe;
mod owners;
mod people;
mod replicas;
mod requests;
mod scope;
mod simulate;
mod storm;
mod whole;

use std::process::ExitCode;

use holdfast_e2e::fixture::{Mode, fixture};
use holdfast_e2e::gang::Shape;
use holdfast_e2e::shared;
use holdfast_e2e::suite::{self, Test};
use holdfast_e2e::tests;
use holdfast_e2e::why;
use libtest_mimic::Arguments;

/// Tests mostly wait, so many can run at the same time.
const THREADS: usize = 12;

pub fn run() -> ExitCode {
    // Start the long tests first, so that none of them runs alone at the end.
    let of_lws = tests![
        lws::a_surging_rollout_and_a_scale_down_leave_no_room_for_a_drain,
        lws::a_drain_takes_one_group_at_a_time,
        whole::three_nodes_are_drained_and_no_replica_is_broken_twice,
        lws::a_group_that_is_recreated_is_charged_once_and_to_itself_alone,
        lws::a_group_that_is_not_recreated_needs_its_size,
    ];
    let mut tests: Vec<Test> = of_lws.into_iter().map(Test::with_lws).collect();
    let beside = tests![whole::kubectl_breaks_more_replicas_and_takes_longer];
    tests.extend(beside.into_iter().map(|test| test.with_lws().long()));
    tests.extend(tests![
        drain::a_second_replica_is_held_back_until_the_budget_gives_way,
        owners::a_deployment_leaves_a_node_one_pod_at_a_time,
        drain::a_drain_finishes_the_replica_it_broke_at_no_further_cost,
        drain::a_server_side_dry_run_spends_nothing,
        whole::a_replica_with_pods_to_spare_stays_whole,
        whole::an_interrupted_drain_says_what_is_left_and_goes_on_when_run_again,
        storm::eighty_evictions_at_once_break_one_replica_of_ten,
        storm::two_budgets_on_every_pod_hold_and_agree_in_a_storm,
        replicas::surplus_pods_are_free_and_the_third_eviction_costs_one,
        replicas::a_free_eviction_in_flight_lets_no_second_replica_go,
        replicas::a_pod_under_two_budgets_needs_both,
        replicas::a_broken_replica_may_move_but_no_other_may_break,
        owners::a_replica_that_lost_all_its_pods_still_counts,
        owners::a_share_of_an_unknown_number_allows_nothing,
        scope::without_a_scope_and_with_scope_pod_single_pods_are_counted,
        scope::switching_the_scope_of_a_live_budget_takes_effect_at_once,
        conditions::a_pod_that_names_no_replica_is_not_evicted,
        conditions::creating_the_missing_pod_group_is_all_it_takes,
        conditions::a_group_without_a_minimum_is_not_evicted,
        ask::a_blocked_pod_is_told_which_replica_must_recover_and_goes_when_it_has,
        observe::a_denial_names_the_decision_and_the_log_and_the_metrics_have_it,
        observe::the_log_level_changes_while_it_runs,
        ask::lint_finds_a_budget_that_selects_nothing,
        simulate::a_copy_of_the_cluster_is_drained_and_the_cluster_left_alone,
        requests::evictions_of_both_versions_are_decided,
        requests::a_dry_run_is_answered_and_not_recorded,
        requests::pending_and_ended_pods_pass,
        requests::a_repeated_eviction_costs_nothing_more,
    ]);
    // The gate decides by name, and there are no built-in budgets after it.
    let by_uid = tests![
        requests::an_allowed_eviction_is_pinned_to_the_pod_that_was_decided_about,
        requests::an_eviction_of_an_earlier_pod_of_that_name_is_not_charged,
    ];
    tests.extend(by_uid.into_iter().map(|test| test.not_native("the gate is asked by name")));
    let built_in = tests![requests::a_built_in_budget_without_room_refuses_first];
    tests.extend(built_in.into_iter().map(|test| test.not_native("no budget is built-in")));
    let of_the_api = tests![input::each_rule_of_the_schema_names_its_field];
    let messages = "messages are upstream's, and compared with them";
    let of_the_api = of_the_api.into_iter().map(Test::without_nodes);
    tests.extend(of_the_api.map(|test| test.not_native(messages)));
    let without_nodes = tests![
        people::who_may_edit_a_namespace_may_edit_its_budgets,
        observe::what_is_said_again_is_counted,
    ];
    tests.extend(without_nodes.into_iter().map(Test::without_nodes));
    let long = tests![requests::a_grant_that_came_to_nothing_expires];
    tests.extend(long.into_iter().map(Test::long));
    let start = || {
        why::ask_first();
        // Once with the fewest features and once with the most.
        let features = match fixture().mode {
            Mode::Webhook => &[][..],
            Mode::Native => &["--pod-unavailable-budgets", Shape::of_cluster().flag()],
        };
        shared::start("e2e", features, &[])
    };
    suite::run(Arguments::from_args(), THREADS, &tests, start, shared::stop)
}
