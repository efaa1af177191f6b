//! What a cluster of a given size costs the engine in memory: bytes asked for, and pages held.
//!
//! ```sh
//! cargo run --profile dist -p holdfast-core --example memory -- 150000 5000
//! ```
#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a program that prints")]

#[path = "../benches/cluster/mod.rs"]
#[allow(dead_code, reason = "shared with the benches, which use the rest")]
mod cluster;

use cluster::{Cluster, Size};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const USAGE: &str = "memory PODS BUDGETS";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [pods, budgets] = &args[..] else { panic!("usage: {USAGE}") };
    let number = |text: &String| text.parse::<usize>().expect(USAGE);
    let (pods, budgets) = (number(pods), number(budgets));
    let (heap, resident) = (HEAP.current_usage(), resident_kib());
    let cluster = Cluster::new(Size { pods, budgets, first: 0 });
    let heap = HEAP.current_usage() - heap;
    // The driver's own copies of the budgets are not the engine's.
    let driver = {
        let before = HEAP.current_usage();
        let copy = cluster.copy_of_budgets();
        let bytes = HEAP.current_usage() - before;
        drop(copy);
        bytes
    };
    let engine = heap - driver;
    println!("engine_bytes {engine}");
    println!("bytes_per_pod {}", engine / pods);
    println!("resident_kib {}", resident_kib() - resident);
    drop(cluster);
}

/// `VmRSS`; 0 where there is no /proc.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
