//! The real server, on a fixed number of seeds. `cargo xtask sim --profile server` goes on from here.

use holdfast_server_sim::run;

/// Some twenty seconds in a debug build. `HOLDFAST_SEEDS` sets ten times another number: a seed of the engine's
/// simulator takes a tenth of the time.
const SEEDS: u64 = 20;

fn seeds() -> u64 {
    let given = std::env::var("HOLDFAST_SEEDS").ok();
    given.map_or(SEEDS, |text| text.parse::<u64>().expect("a whole number") / 10)
}

fn check(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let report = run(seed);
        if let Some(violation) = report.violation {
            panic!("seed {seed}: {violation}\n{}\n{}", report.params, report.trace);
        }
    }
}

#[test]
fn no_rule_is_broken_by_even_seeds() {
    check((0..seeds()).step_by(2));
}

#[test]
fn no_rule_is_broken_by_odd_seeds() {
    check((1..seeds()).step_by(2));
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 40..43 {
        let (first, second) = (run(seed), run(seed));
        assert!(first.trace == second.trace, "seed {seed} differs from run to run");
        assert!(first.carried_out > 0, "seed {seed} evicts nothing");
    }
}
