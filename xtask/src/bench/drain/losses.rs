//! The effect of a drain on the groups of a `LeaderWorkerSet`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use holdfast_audit::cluster::ClusterAudit;

use super::GROUPS;

#[derive(Debug, Default)]
pub struct Losses {
    /// The groups with a pod on the nodes to drain.
    concerned: BTreeSet<usize>,
    /// How often each group stopped being healthy.
    lost: BTreeMap<usize, usize>,
    /// The number of new leaders of each group.
    recreated: BTreeMap<usize, usize>,
    most_down: usize,
    /// The violations that the auditor found.
    broken: Vec<String>,
}

impl Losses {
    pub fn of(audit: &ClusterAudit, concerned: BTreeSet<usize>) -> Self {
        let number = |n: i64| usize::try_from(n).unwrap_or_default();
        let mut lost = BTreeMap::new();
        for group in audit.disruptions().iter().filter_map(|disruption| disruption.group_index) {
            *lost.entry(number(group)).or_default() += 1;
        }
        let recreated = audit.leaders().iter().map(|(group, times)| (number(*group), *times));
        let least = audit.fewest().values().map(|fewest| number(fewest.healthy)).min();
        let broken = audit.findings().into_iter().map(|(_, finding)| finding.to_string());
        Self {
            concerned,
            lost,
            recreated: recreated.collect(),
            most_down: GROUPS.saturating_sub(least.unwrap_or_default()),
            broken: broken.collect(),
        }
    }

    /// Returns the violations that the auditor found. There must be none, also with `kubectl drain`.
    pub fn broken(&self) -> &[String] {
        &self.broken
    }

    /// Returns what `holdfast drain` must not do: each group with a pod on the nodes must be lost and recreated once, one
    /// at a time, and no other group may be lost.
    pub fn unexpected(&self) -> Vec<String> {
        let mut unexpected = Vec::new();
        for group in 0..GROUPS {
            let wanted = usize::from(self.concerned.contains(&group));
            for (what, counts) in [("lost", &self.lost), ("recreated", &self.recreated)] {
                let times = counts.get(&group).copied().unwrap_or_default();
                if times != wanted {
                    unexpected
                        .push(format!("group {group} was {what} {times} times, not {wanted}"));
                }
            }
        }
        if self.most_down > 1 {
            unexpected.push(format!("{} groups were down at once", self.most_down));
        }
        unexpected
    }

    pub fn most(&self) -> usize {
        self.lost.values().max().copied().unwrap_or_default()
    }

    pub fn most_recreated(&self) -> usize {
        self.recreated.values().max().copied().unwrap_or_default()
    }

    pub fn most_down(&self) -> usize {
        self.most_down
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |counts: &BTreeMap<usize, usize>| {
            let times = (0..GROUPS).map(|group| counts.get(&group).copied().unwrap_or_default());
            times.map(|times| times.to_string()).collect::<Vec<_>>().join(" ")
        };
        let (lost, recreated) = (times(&self.lost), times(&self.recreated));
        let concerned = self.concerned.len();
        write!(
            f,
            "{concerned} groups on the nodes; lost {lost}; recreated {recreated}; {} down at once",
            self.most_down
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_on_the_nodes_goes_once_and_no_other() {
        let once = |groups: &[usize]| -> BTreeMap<usize, usize> {
            groups.iter().map(|group| (*group, 1)).collect()
        };
        let good = || Losses {
            concerned: [1, 2].into(),
            lost: once(&[1, 2]),
            recreated: once(&[1, 2]),
            most_down: 1,
            broken: Vec::new(),
        };
        assert_eq!(good().unexpected(), [""; 0]);
        let twice = Losses { lost: [(1, 2), (2, 1)].into(), ..good() };
        assert_eq!(twice.unexpected(), ["group 1 was lost 2 times, not 1"]);
        let never = Losses { recreated: once(&[1]), ..good() };
        assert_eq!(never.unexpected(), ["group 2 was recreated 0 times, not 1"]);
        let another = Losses { lost: once(&[0, 1, 2]), most_down: 2, ..good() };
        let unexpected = ["group 0 was lost 1 times, not 0", "2 groups were down at once"];
        assert_eq!(another.unexpected(), unexpected);
    }
}
