//! How many units of a budget work, counted plainly from objects.

use std::collections::BTreeMap;

use holdfast_core::model::{
    Budget, GroupPolicy, GroupReference, LabelSelector, Phase, Pod, Scope, Threshold,
};
use holdfast_sim::View;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub healthy: i64,
    pub desired: i64,
}

/// Pods that are `gone` do not count, whatever they look like.
pub fn count(budget: &Budget, view: &View, gone: &dyn Fn(&Pod) -> bool) -> Count {
    let selected = || view.pods.values().filter(|pod| selects(budget, pod));
    let works = |pod: &Pod| {
        let running = budget.spec.scope == Scope::Pod || pod.phase == Phase::Running;
        pod.ready && !pod.terminating && running && !gone(pod)
    };
    let healthy = match budget.spec.scope {
        Scope::Pod => selected().filter(|pod| works(pod)).count(),
        Scope::Workload => {
            let mut working: BTreeMap<&str, i64> = BTreeMap::new();
            for pod in selected().filter(|pod| works(pod)) {
                *working.entry(group_of(pod)).or_default() += 1;
            }
            let whole = |(name, pods): (&&str, &i64)| {
                let mut groups = view.groups.values().filter(|group| group.key.name == **name);
                groups.next().is_some_and(|group| match group.policy {
                    GroupPolicy::Gang { min_count } => *pods >= min_count,
                    _ => false,
                })
            };
            working.iter().filter(|entry| whole((entry.0, entry.1))).count()
        }
    };
    let spec = &budget.spec;
    let desired = match (&spec.min_available, &spec.max_unavailable) {
        (Some(min), _) => of(min, expected(budget, view)),
        (None, Some(max)) => {
            let expected = expected(budget, view);
            (expected - of(max, expected)).max(0)
        }
        (None, None) => 0,
    };
    Count { healthy: i64::try_from(healthy).expect("few"), desired }
}

pub fn selects(budget: &Budget, pod: &Pod) -> bool {
    let matches = |selector: &LabelSelector| {
        selector.match_labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
    };
    budget.spec.selector.as_ref().is_some_and(matches)
}

pub fn group_of(pod: &Pod) -> &str {
    match &pod.reference {
        Some(GroupReference::PodGroup { name }) => name,
        _ => "",
    }
}

/// In these worlds a budget selects by label `half`, and everything of one half has one owner of the
/// same name.
fn expected(budget: &Budget, view: &View) -> i64 {
    let labels = budget.spec.selector.as_ref().map(|selector| &selector.match_labels);
    let half = labels.and_then(|labels| labels.get("half"));
    let of_half = |name: &str| half.is_none_or(|half| half == name);
    match budget.spec.scope {
        Scope::Pod => {
            let owners = view.owners.values().filter(|owner| of_half(&owner.key.name));
            owners.map(|owner| owner.replicas.unwrap_or(0)).sum()
        }
        Scope::Workload => {
            let groups = view.groups.values().filter(|group| {
                group.controller.as_ref().is_some_and(|owner| of_half(&owner.name))
            });
            i64::try_from(groups.count()).expect("few")
        }
    }
}

fn of(threshold: &Threshold, expected: i64) -> i64 {
    match threshold {
        Threshold::Count(count) => *count,
        Threshold::Percent(percent) => (percent * expected + 99).div_euclid(100),
        Threshold::Invalid(why) => panic!("{why}"),
    }
}
