//! Native mode comes, serves, is away and goes. One test after the other, each with servers of its own.

mod away;

use std::process::ExitCode;

use holdfast_e2e::suite;
use holdfast_e2e::{server, tests};
use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let tests = tests![away::without_it_nothing_is_evicted_and_everything_else_goes_on];
    let clean = || server::uninstall().map(drop);
    suite::run(Arguments::from_args(), 1, &tests, clean, |()| clean())
}
