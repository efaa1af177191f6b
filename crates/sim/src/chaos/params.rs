//! What a seed chooses before the first step.

use std::collections::BTreeSet;
use std::fmt;

use super::fault::Fault;
use crate::random::Random;

/// What kind of world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Small worlds, and faults mixed at random.
    Swarm,
    /// The same in native mode: the API server asks by name, and deletes by name.
    Native,
    /// `PodUnavailableBudgets` among the others: pods are deleted and updated too.
    Unavailable,
    /// Small worlds, and one kind of fault in each.
    Lite,
    /// Ten thousand pods, and few faults.
    Scale,
}

impl Profile {
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Swarm, Self::Native, Self::Unavailable, Self::Lite, Self::Scale]
            .into_iter()
            .find(|p| p.to_string() == name)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Swarm => "swarm",
            Self::Native => "native",
            Self::Unavailable => "unavailable",
            Self::Lite => "lite",
            Self::Scale => "scale",
        })
    }
}

/// What makes the pods of the workloads `h0` and `h1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// One `StatefulSet` or `ReplicaSet` for all groups of the workload.
    Sets,
    /// One `StatefulSet` for all groups, with the annotation `holdfast.dev/group-size`.
    SizedSets,
    /// One `StatefulSet` for each group.
    GroupSets,
    /// One Job for each group.
    Jobs,
    /// One Job for each group, under one `JobSet`.
    JobSets,
}

#[allow(clippy::struct_excessive_bools, reason = "independent facts about one world")]
#[derive(Clone, Debug)]
pub struct Params {
    pub profile: Profile,
    pub instances: usize,
    /// Replicas of the two workloads that are made of `PodGroup`s, and of the `LeaderWorkerSet`.
    pub groups: usize,
    pub lws_groups: usize,
    pub size: usize,
    pub min_count: i64,
    pub nodes: usize,
    /// Pods that a node has room for.
    pub room: usize,
    pub budgets: usize,
    pub steps: usize,
    /// Replacements have the name of what they replace, as in a `StatefulSet`.
    pub same_name: bool,
    pub faults: BTreeSet<Fault>,
    /// `PodGroup`s are disrupted as a whole.
    pub whole: bool,
    pub owners: Owners,
    /// The owners have pod templates, so they count without pods (semantics 4).
    pub templates: bool,
    /// Every loss is one that we granted.
    pub quiet: bool,
    /// In percent of the calls, and of the steps.
    pub call_faults: usize,
    pub other_faults: usize,
    /// In percent of the watch deliveries: whether events come one by one or all at once.
    pub one_by_one: usize,
    /// In percent of the evictions.
    pub repeats: usize,
    pub dry_runs: usize,
    pub preconditions: usize,
}

impl Params {
    pub fn draw(seed: u64, profile: Profile) -> Self {
        let mut random = Random::new(seed);
        let size = 1 + random.below(3);
        let (groups, lws_groups) = match random.below(4) {
            0 => (2 + random.below(3), 1 + random.below(3)),
            1 => (0, 2 + random.below(3)),
            _ => (2 + random.below(3), 0),
        };
        let pods = (groups + lws_groups) * size;
        let nodes = 2 + random.below(3);
        // Enough for all while one node is drained, or a little less.
        let room = pods.div_ceil(nodes - 1) + random.below(2);
        let faults = draw_faults(&mut random, seed, profile);
        let mut params = Self {
            profile,
            instances: 1 + random.below(3),
            groups,
            lws_groups,
            size,
            min_count: random.between(1, i64::try_from(size).expect("small")),
            nodes,
            room,
            budgets: 1 + random.below(3),
            steps: 120 + random.below(400),
            same_name: random.chance(60),
            quiet: !faults.iter().any(|fault| fault.is_involuntary()),
            faults,
            call_faults: [0, 5, 15, 40][random.below(4)],
            other_faults: [3, 8, 15, 30][random.below(4)],
            one_by_one: random.below(100),
            repeats: random.below(50),
            dry_runs: random.below(15),
            preconditions: random.below(40),
            whole: random.chance(25),
            owners: Owners::Sets,
            templates: false,
        };
        if profile == Profile::Lite {
            params.call_faults = 25;
            params.other_faults = 15;
        }
        if profile == Profile::Scale {
            params.scale();
        }
        if !params.faults.contains(&Fault::NameReused) {
            params.same_name = false;
        }
        params.draw_owners(Random::new(seed ^ 0x07e3));
        params
    }

    /// From a source of its own, so that the other draws of a seed stay as they are.
    fn draw_owners(&mut self, mut random: Random) {
        let kinds = [Owners::SizedSets, Owners::GroupSets, Owners::Jobs, Owners::JobSets];
        let (mut kind, other) = (kinds[random.below(kinds.len())], random.chance(70));
        // An older release does not read JobSets. It records the PodGroups as the source, which then counts besides.
        if kind == Owners::JobSets && self.has(Fault::OlderRelease) {
            kind = Owners::Jobs;
        }
        self.templates = random.chance(60);
        // Their pods come back under the same name.
        if other && self.same_name && self.profile != Profile::Scale {
            self.owners = kind;
        }
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    fn scale(&mut self) {
        (self.groups, self.lws_groups, self.size, self.min_count) = (1200, 50, 8, 7);
        (self.nodes, self.room, self.budgets) = (250, 48, 20);
        (self.instances, self.steps) = (2, 150);
    }
}

fn draw_faults(random: &mut Random, seed: u64, profile: Profile) -> BTreeSet<Fault> {
    let all: Vec<Fault> = Fault::ALL.to_vec();
    if profile == Profile::Lite {
        let alone = usize::try_from(seed % all.len() as u64).expect("small");
        return BTreeSet::from([all[alone]]);
    }
    let quiet = random.chance(50);
    let share = [20, 50, 80][random.below(3)];
    let chosen: BTreeSet<Fault> = all.into_iter().filter(|_| random.chance(share)).collect();
    chosen.into_iter().filter(|fault| !quiet || !fault.is_involuntary()).collect()
}
