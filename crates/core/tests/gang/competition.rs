//! Any number of gangs on any cluster, whatever the scheduler does first: none is left with some of its pods
//! on nodes, and whoever fits gets to run.

use std::time::Duration;

use holdfast_core::gang::{Action, GroupApi, Pod};
use proptest::prelude::*;

use super::cluster::{Cluster, member};

#[derive(Clone, Debug)]
struct Setting {
    nodes: Vec<i64>,
    /// How many pods each has, and how many CPUs one takes.
    gangs: Vec<(usize, i64)>,
    /// Which of the things that can happen happens next.
    choices: Vec<u16>,
}

fn settings() -> impl Strategy<Value = Setting> {
    let nodes = prop::collection::vec(1..6_i64, 1..5);
    let gangs = prop::collection::vec((1..6_usize, 1..3_i64), 1..6);
    (nodes, gangs, prop::collection::vec(any::<u16>(), 400))
        .prop_map(|(nodes, gangs, choices)| Setting { nodes, gangs, choices })
}

/// The most pods of this size that the empty cluster holds.
fn capacity(nodes: &[i64], cpus: i64) -> usize {
    nodes.iter().map(|node| usize::try_from(node / cpus).unwrap()).sum()
}

fn fits(cluster: &Cluster, pod: &Pod, node: &str) -> bool {
    let used: i64 = cluster
        .pods
        .values()
        .filter(|other| other.node.as_deref() == Some(node))
        .map(|other| other.requests["cpu"])
        .sum();
    cluster.nodes[node].allocatable["cpu"] - used >= pod.requests["cpu"]
}

fn run(setting: &Setting) {
    let mut c = Cluster::with(GroupApi::Holdfast, Duration::from_mins(5), Duration::ZERO);
    for (i, cpus) in setting.nodes.iter().enumerate() {
        c.node(&format!("node-{i}"), *cpus);
    }
    let name = |i: usize| format!("g{i}");
    for (i, (count, cpus)) in setting.gangs.iter().enumerate() {
        c.group(&name(i), i64::try_from(*count).unwrap());
        for j in 0..*count {
            let mut pod = member(&format!("g{i}-{j}"), &name(i));
            pod.requests.insert("cpu".to_owned(), cpus * 1000);
            let _ = c.create(pod);
        }
    }
    let possible: Vec<bool> =
        setting.gangs.iter().map(|(n, cpus)| capacity(&setting.nodes, *cpus) >= *n).collect();
    let mut ran = vec![false; setting.gangs.len()];
    let mut actions: Vec<Action> = Vec::new();
    let mut choices = setting.choices.iter().copied().cycle();
    let mut choose = move |n: usize| usize::from(choices.next().unwrap()) % n;
    for _ in 0..600 {
        // What can be bound now, anywhere.
        let nodes: Vec<String> = c.nodes.keys().cloned().collect();
        let bindings: Vec<(String, String)> = c
            .pods
            .values()
            .filter(|pod| !pod.gated && pod.node.is_none())
            .flat_map(|pod| nodes.iter().map(move |node| (pod, node)))
            .filter(|(pod, node)| fits(&c, pod, node))
            .map(|(pod, node)| (pod.key.name.clone(), node.clone()))
            .collect();
        if actions.is_empty() && bindings.is_empty() {
            actions = c.world.plan(c.now).actions;
            if actions.is_empty() {
                // At rest: every gang is whole or waits whole. Those that run end.
                let mut ended = false;
                for (i, (count, _)) in setting.gangs.iter().enumerate() {
                    let bound = c.bound(&name(i));
                    assert!(bound == 0 || bound == *count, "{} has {bound} of {count}", name(i));
                    if bound > 0 {
                        (ran[i], ended) = (true, true);
                        (0..*count).for_each(|j| drop(c.delete_pod(&format!("g{i}-{j}"))));
                    }
                }
                if !ended {
                    break;
                }
            }
            continue;
        }
        match choose(3) {
            0 if !bindings.is_empty() => {
                let (pod, node) = &bindings[choose(bindings.len())];
                let bound = c.pods[pod].clone();
                c.see_pod(Pod { node: Some(node.clone()), ..bound });
            }
            1 if !actions.is_empty() => {
                let action = actions.swap_remove(choose(actions.len()));
                if !matches!(&action, Action::Lift { pod, .. } if !c.pods.contains_key(&pod.name)) {
                    c.perform(&action);
                }
            }
            // A plan may be made at any time: what is under way is in it again.
            _ => actions = c.world.plan(c.now).actions,
        }
        assert_eq!(c.evictions, 0);
    }
    assert_eq!(ran, possible, "whoever fits alone has run");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn gangs_run_whole_or_wait_whole(setting in settings()) {
        run(&setting);
    }
}
