//! What a pod event and a verdict cost, by the size of the cluster and of the budget.

// Each program that measures uses a part of it.
#[allow(dead_code, reason = "shared with the examples, which use the rest")]
mod cluster;

use std::time::Duration;

use cluster::{Cluster, Size};
use criterion::{BenchmarkId, Criterion};
use holdfast_core::Input;

/// 5,000 budgets, as many as a cluster of 150,000 pods may have.
const BUDGETS: usize = 5_000;

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type MakeInput = fn(&mut Cluster, usize) -> Input;

fn main() {
    let mut criterion = Criterion::default()
        .configure_from_args()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3));
    for pods in [1_000, 10_000, 150_000] {
        let size = Size { pods, budgets: BUDGETS, first: 0 };
        measure(&mut criterion, "cluster", size);
    }
    for (first, what) in [(0, "budget-of-pods"), (1, "budget-of-replicas")] {
        for pods in [500, 5_000] {
            measure(&mut criterion, what, Size { pods, budgets: 1, first });
        }
    }
    criterion.final_summary();
}

fn measure(criterion: &mut Criterion, what: &str, size: Size) {
    let mut cluster = Cluster::new(size);
    let mut n = 0;
    let mut group = criterion.benchmark_group(what);
    let inputs = [Cluster::pod_event as MakeInput, Cluster::dry_run];
    for (name, input) in ["event", "verdict"].into_iter().zip(inputs) {
        group.bench_function(BenchmarkId::new(name, size.pods), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut sum = Duration::ZERO;
                let count = usize::try_from(iterations).expect("as many fit into memory");
                cluster.run(count, &mut n, input, |took| sum += took);
                sum
            });
        });
    }
    group.finish();
}
