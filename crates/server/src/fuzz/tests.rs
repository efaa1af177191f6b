//! Without coverage of the compiler's. `HOLDFAST_FUZZ_SECONDS` is for each target, `HOLDFAST_FUZZ_SEED` for
//! other changes.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::time::{Duration, Instant};

use holdfast_sim::Random;

use super::{TARGETS, Target, mutate, target};

/// What is kept at a time, of each target.
const CORPUS_MAX: usize = 512;

/// As much as the largest of our bounds takes to read, unoptimized, on a machine that does other things too.
const SLOW: Duration = Duration::from_secs(5);

fn variable<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

pub fn fuzz(name: &str) {
    let target = target(name).expect("it is one of the targets");
    let time = Duration::from_secs_f64(variable("HOLDFAST_FUZZ_SECONDS").unwrap_or(1.0));
    let seed = variable("HOLDFAST_FUZZ_SEED").unwrap_or(1);
    let mut random = Random::new(seed);
    let mut corpus = (target.seeds)();
    let (seeds, mut outcomes) = (corpus.len(), BTreeSet::new());
    for seed in &corpus {
        let outcome = run(target, seed);
        assert!(outcome.contains("yes"), "{name} does not read its seed: {outcome}");
        outcomes.insert(outcome);
    }
    let (began, mut tried, mut slowest) = (Instant::now(), 0_u64, Duration::ZERO);
    while began.elapsed() < time {
        let input = mutate::mutated(&corpus, &mut random);
        let started = Instant::now();
        let outcome = run(target, &input);
        slowest = slowest.max(started.elapsed());
        assert!(slowest < SLOW, "{name} took {slowest:?} for {}", input.escape_ascii());
        if outcomes.insert(outcome) {
            if corpus.len() < CORPUS_MAX {
                corpus.push(input);
            } else {
                let i = seeds + random.below(CORPUS_MAX - seeds);
                corpus[i] = input;
            }
        }
        tried += 1;
    }
    println!("{name}: {tried} inputs, {} outcomes, slowest {slowest:?}", outcomes.len());
}

fn run(target: &Target, input: &[u8]) -> String {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let outcome =
        outcome.unwrap_or_else(|_| panic!("{}: b\"{}\"", target.name, input.escape_ascii()));
    outcome.chars().filter(|c| !c.is_ascii_digit()).take(200).collect()
}

#[test]
fn each_target_is_a_program_of_cargo_fuzz() {
    let manifest = include_str!("../../../../fuzz/Cargo.toml");
    let named = manifest.lines().filter_map(|line| line.strip_prefix("name = \""));
    let named: BTreeSet<&str> = named.map(|name| name.trim_end_matches('"')).collect();
    let mut wanted: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
    wanted.insert("holdfast-fuzz");
    assert_eq!(named, wanted);
}
