//! Several API servers on one etcd, with faults in all of them while clients evict.
//!
//! ```text
//!  32 clients ──> API servers ──> etcd ──> history of stored objects ──> auditor
//!                  ^   |
//!      instances of Holdfast, one at each API server; the API servers ask all of them, in turn
//!  faults: kills, pauses and restarts API servers, instances and etcd
//! ```
//!
//! The check believes neither Holdfast nor an API server's watch: it reads what etcd has stored.

mod clients;
mod etcd;
mod faults;
mod instances;
mod judge;
mod kubelet;
mod proof;
mod storm;
mod workload;

use std::process::ExitCode;

use holdfast_e2e::suite::{self, Test};
use holdfast_e2e::{server, tests};
use libtest_mimic::Arguments;

pub fn run() -> ExitCode {
    let mut tests: Vec<Test> = tests![
        proof::an_eviction_without_room_is_found,
        proof::an_eviction_without_a_record_is_found,
        proof::a_loss_without_an_eviction_counts_when_every_instance_knows_of_it,
        proof::the_rest_of_a_broken_group_is_no_second_loss,
    ]
    .into_iter()
    .map(Test::without_nodes)
    .collect();
    let storm = tests![storm::faults_in_every_part_break_no_budget];
    tests.extend(storm.into_iter().map(Test::on_several_apiservers));
    let clean = || server::uninstall().map(drop);
    suite::run(Arguments::from_args(), 1, &tests, clean, |()| clean())
}
