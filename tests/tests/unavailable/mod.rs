//! `PodUnavailableBudgets`: deletes, evictions and updates of pods. Most tests share one Holdfast and run at
//! the same time. Tests that start and stop it run after them, one by one.

mod api;
mod both;
mod defects;
mod enforced;
mod groups;
mod operations;
mod story;
mod switched;
mod system;
mod targets;
mod workload;

use std::process::ExitCode;

use holdfast_e2e::suite::{self, Test};
use holdfast_e2e::tests;
use holdfast_e2e::{server, shared, why};
use libtest_mimic::Arguments;

/// Tests mostly wait, so many can run at the same time.
const THREADS: usize = 10;

pub fn run() -> ExitCode {
    // Start the long tests first, so that none of them runs alone at the end.
    let of_lws = tests![
        story::a_drain_takes_one_group_at_a_time,
        story::three_groups_of_a_leader_and_two_workers,
        targets::a_leader_worker_set,
        system::a_leader_worker_set_is_deleted_and_another_scaled_to_nothing,
    ];
    let mut together: Vec<Test> = of_lws.into_iter().map(Test::with_lws).collect();
    together.extend(tests![
        targets::sets_of_kruise_without_kruise,
        defects::a_drain_waits_and_finishes,
        defects::a_pod_of_a_stateful_set_that_came_back_needs_a_grant_of_its_own,
        system::a_namespace_is_deleted,
        system::whatever_owns_them_is_deleted,
        system::deployments_are_deleted,
        system::a_deployment_is_scaled_to_nothing_and_another_down_to_what_is_needed,
        system::a_node_is_gone,
        system::a_taint_drives_pods_out,
        defects::what_says_that_it_is_enforced_guards_at_once,
        defects::a_tightened_budget_is_enforced_at_once,
        defects::pods_that_name_another_budget_are_guarded_by_the_one_that_selects_them,
        defects::a_dry_run_is_answered_and_spends_nothing,
        defects::images_by_digest_are_guarded,
        groups::both_thresholds_hold,
        groups::pods_without_the_label_are_guarded_one_by_one,
        both::an_eviction_needs_both_and_is_charged_to_both_or_none,
        both::a_pod_under_two_needs_both,
        enforced::namespaces_are_asked_about_while_they_have_budgets,
        operations::what_is_not_protected_passes,
        operations::a_resize_is_guarded,
        operations::evictions_of_one_pod_at_once_are_charged_once,
        targets::a_deployment_that_comes_after_its_budget,
    ]);
    let of_the_api = tests![
        enforced::an_excluded_namespace_is_told_so,
        api::both_versions_are_served_and_the_old_one_drops_nothing,
        api::what_is_refused_is_told_why,
        api::the_columns_are_those_of_kruise,
    ];
    together.extend(of_the_api.into_iter().map(Test::without_nodes));
    let mut alone = tests![
        switched::deleting_the_configuration_lets_everything_pass_until_a_restart,
        switched::a_restart_leaves_no_gap,
    ];
    alone.extend(
        tests![switched::a_foreign_definition_is_left_alone_unless_told_otherwise]
            .into_iter()
            .map(Test::without_nodes),
    );
    let args = Arguments::from_args();
    let start = || {
        why::ask_first();
        shared::start("unavailable", &["--pod-unavailable-budgets"], &[])
    };
    let first = suite::run(args.clone(), THREADS, &together, start, shared::stop);
    let clean = || server::uninstall().map(drop);
    let second = suite::run(args, 1, &alone, clean, |()| clean());
    if first == ExitCode::SUCCESS { second } else { first }
}
