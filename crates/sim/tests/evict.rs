//! What a client of the Eviction API sees happen.

use holdfast_core::model::DisruptionTarget;
use holdfast_core::{Change, Config, Input};
use holdfast_sim::{World, budget, pod};

#[test]
fn an_allowed_eviction_marks_the_pod_and_then_removes_it() {
    let mut world = World::new(Config::default());
    world.sync();
    world.apply_pod(pod("p0").node("n1").ready());
    world.hold_watch();
    assert!(world.evict("p0").is_allow());

    assert_eq!(world.pod("p0"), None);
    assert!(world.pods_on("n1").is_empty());
    let steps: Vec<(Option<&str>, bool, bool)> = world
        .watch_under_way()
        .map(|input| {
            let (pod, deleted) = match input {
                Input::Pod(Change::Applied(pod)) => (pod, false),
                Input::Pod(Change::Deleted(pod)) => (pod, true),
                other => panic!("unexpected {other:?}"),
            };
            let reason = pod.disruption_target.as_ref().map(|target| target.reason.as_str());
            (reason, pod.terminating, deleted)
        })
        .collect();
    let marked = Some(DisruptionTarget::EVICTION_API);
    // The kubelet removes it by a deletion of its own, with a grace period of zero.
    let going = (marked, true, false);
    assert_eq!(steps, [(marked, false, false), going, going, (marked, true, true)]);
}

#[test]
fn a_denied_or_unfinished_eviction_leaves_the_pod() {
    let mut world = World::new(Config::default());
    world.sync();
    world.apply_budget(budget("b").min_available(1));
    world.apply_pod(pod("p0").ready());
    assert!(!world.evict("p0").is_allow());
    assert!(world.pod("p0").is_some());

    world.apply_budget(budget("b").min_available(0));
    assert!(world.evict_without_delete("p0").is_allow());
    assert!(!world.pod("p0").unwrap().terminating);
}
