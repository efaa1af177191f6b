//! Replays pod events or verdicts on a cluster of a given size and prints what each took. The same
//! program counts instructions under `valgrind --tool=callgrind --toggle-collect='*Cluster::measured*'`.
//!
//! ```sh
//! cargo run --profile dist -p holdfast-core --example replay -- 150000 5000 0 event 100000
//! ```
#![allow(clippy::disallowed_macros, reason = "a program that prints")]

#[path = "../benches/cluster/mod.rs"]
#[allow(dead_code, reason = "shared with the benches, which use the rest")]
mod cluster;

use cluster::{Cluster, Size};

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "replay PODS BUDGETS FIRST event|verdict COUNT";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [pods, budgets, first, what, count] = &args[..] else { panic!("usage: {USAGE}") };
    let number = |text: &String| text.parse::<usize>().expect(USAGE);
    let size = Size { pods: number(pods), budgets: number(budgets), first: number(first) };
    let mut cluster = Cluster::new(size);
    let input = if what == "event" { Cluster::pod_event } else { Cluster::dry_run };
    let mut took = Vec::with_capacity(number(count));
    cluster.run(number(count), &mut 0, input, |time| took.push(time));
    took.sort_unstable();
    if let Some(last) = took.len().checked_sub(1) {
        let at = |percent: usize| took[last * percent / 100].as_nanos();
        println!("p50_ns {}", at(50));
        println!("p99_ns {}", at(99));
        println!("max_ns {}", at(100));
    }
}
