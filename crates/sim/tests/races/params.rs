//! What a seed chooses before the first step.

use holdfast_sim::Random;

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a kind of fault, which is on or off")]
pub struct Params {
    pub instances: usize,
    pub groups: usize,
    pub size: usize,
    pub min_count: i64,
    pub steps: usize,
    /// Replacements have the name of what they replace, as in a `StatefulSet`.
    pub same_name: bool,
    /// In percent of the calls.
    pub lost_answers: usize,
    /// In percent of the watch deliveries: whether they come at once or one by one.
    pub lag: usize,
    pub crashes: bool,
    pub relists: bool,
    pub leaders: bool,
    pub skew: bool,
    /// In percent of the evictions.
    pub repeats: usize,
    pub dry_runs: usize,
    pub preconditions: usize,
    /// Changes that nobody asked us about: readiness lost, plain deletes, edits of every kind.
    pub involuntary: bool,
}

impl Params {
    pub fn draw(random: &mut Random, involuntary: bool) -> Self {
        let size = 1 + random.below(3);
        Self {
            instances: 1 + random.below(3),
            groups: 2 + random.below(3),
            size,
            min_count: random.between(1, i64::try_from(size).expect("small")),
            steps: 80 + random.below(220),
            same_name: random.chance(60),
            lost_answers: if random.chance(60) { random.below(40) } else { 0 },
            lag: random.below(100),
            crashes: random.chance(40),
            relists: random.chance(40),
            leaders: random.chance(50),
            skew: random.chance(50),
            repeats: random.below(50),
            dry_runs: random.below(15),
            preconditions: random.below(40),
            involuntary,
        }
    }
}
