//! Every decoder with what it was not made for. Nothing that comes from outside may make us panic, hang or
//! allow.
//!
//! Without coverage of the compiler's, which needs a nightly one: inputs whose outcome is new, as it
//! is told in words, are kept and changed further. `HOLDFAST_FUZZ_SECONDS` is for each target,
//! `HOLDFAST_FUZZ_SEED` for other changes. An input that was found goes to the seeds of its target.

mod mutate;
mod targets;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use holdfast_sim::Random;

/// What is kept at a time, of each target.
const CORPUS_MAX: usize = 512;

/// As much as the largest of our bounds takes to read, unoptimized, on a machine that does other things too.
const SLOW: Duration = Duration::from_secs(5);

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// What became of it, in words. Numbers in it are places and lengths, and not news.
type Target = fn(&[u8]) -> String;

fn fuzz(name: &str, seeds: &[&[u8]], target: Target) {
    let time = Duration::from_secs(variable("HOLDFAST_FUZZ_SECONDS").unwrap_or(1));
    let seed = variable("HOLDFAST_FUZZ_SEED").unwrap_or(1);
    let mut random = Random::new(seed);
    let mut corpus: Vec<Vec<u8>> = seeds.iter().map(|&seed| seed.to_owned()).collect();
    let mut outcomes = BTreeSet::new();
    let (began, mut tried, mut slowest) = (Instant::now(), 0_u64, Duration::ZERO);
    for seed in &corpus {
        let outcome = run(name, seed, target);
        assert!(outcome.contains("yes"), "{name} does not read its seed: {outcome}");
        outcomes.insert(outcome);
    }
    while began.elapsed() < time {
        let input = mutate::mutated(&corpus, &mut random);
        let started = Instant::now();
        let outcome = run(name, &input, target);
        slowest = slowest.max(started.elapsed());
        assert!(slowest < SLOW, "{name} took {slowest:?} for {}", input.escape_ascii());
        if outcomes.insert(outcome) {
            if corpus.len() < CORPUS_MAX {
                corpus.push(input);
            } else {
                let i = seeds.len() + random.below(CORPUS_MAX - seeds.len());
                corpus[i] = input;
            }
        }
        tried += 1;
    }
    println!("{name}: {tried} inputs, {} outcomes, slowest {slowest:?}", outcomes.len());
}

fn run(name: &str, input: &[u8], target: Target) -> String {
    let outcome = catch_unwind(AssertUnwindSafe(|| target(input)));
    let outcome = outcome.unwrap_or_else(|_| panic!("{name}: b\"{}\"", input.escape_ascii()));
    outcome.chars().filter(|c| !c.is_ascii_digit()).take(200).collect()
}
