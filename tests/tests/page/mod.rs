//! The web page in a real Chromium on a real cluster. The tests run one after the other, because each sees
//! the whole cluster.

mod large;
mod look;

use std::process::ExitCode;

use holdfast_e2e::browser::Browser;
use holdfast_e2e::suite::{self, Test};
use holdfast_e2e::world::World;
use holdfast_e2e::{shared, tests};
use libtest_mimic::Arguments;

pub fn run() -> ExitCode {
    let tests = tests![
        look::replicas_are_seen_to_break_and_evictions_to_be_decided,
        look::a_keyboard_is_enough,
        look::a_drain_is_planned_and_what_would_go_is_marked,
        look::nothing_comes_from_elsewhere_and_nobody_else_gets_in,
        large::two_thousand_replicas_are_drawn_and_found,
    ];
    let mut tests: Vec<Test> = tests.into_iter().map(Test::with_browser).collect();
    let asked = tests![look::the_rights_that_are_printed_are_enough_to_read_the_cluster];
    tests.extend(asked.into_iter().map(Test::without_nodes));
    let start = || shared::start("page", &["--page", "--pod-unavailable-budgets"], &[]);
    suite::run(Arguments::from_args(), 1, &tests, start, shared::stop)
}

/// Opens the page with a filter for this test's objects, because objects of earlier tests may still exist.
fn browser_at(world: &World) -> Browser {
    let browser = Browser::start();
    browser.open(shared::server().board());
    browser.click("#filter");
    browser.press(&world.namespace);
    browser
}
