//! The world keeps the promises that tests of the engine build on.

use std::time::Duration;

use holdfast_core::model::{Phase, ResourceVersion};
use holdfast_core::{Change, Config, Input};
use holdfast_sim::{World, budget, group, owner, pod};

fn synced() -> World {
    let mut world = World::new(Config::default());
    world.sync();
    world
}

/// The version of each waiting watch event, and whether it is a deletion.
fn waiting(world: &World) -> Vec<(ResourceVersion, bool)> {
    let of = |input: &Input| match input {
        Input::Pod(Change::Applied(pod)) => (pod.version.clone(), false),
        Input::Pod(Change::Deleted(pod)) => (pod.version.clone(), true),
        Input::PodGroup(Change::Applied(group)) => (group.version.clone(), false),
        other => panic!("unexpected {other:?}"),
    };
    world.watch_under_way().map(of).collect()
}

#[test]
fn watch_events_come_in_the_order_of_the_changes() {
    let mut world = synced();
    world.hold_watch();
    world.apply_pod(pod("p0"));
    world.apply_pod_group(group("g").gang(2));
    world.edit_pod("p0", |pod| pod.ready = true);
    world.delete_pod("p0");

    let events = waiting(&world);
    let deletions: Vec<bool> = events.iter().map(|(_, deleted)| *deleted).collect();
    assert_eq!(deletions, [false, false, false, false, true]);
    assert!(events.windows(2).all(|pair| pair[0].0.is_older_than(&pair[1].0)));

    world.release_watch();
    assert_eq!(world.watch_under_way().count(), 0);
}

#[test]
fn nothing_is_watched_before_the_first_list_or_of_unwatched_kinds() {
    let mut world = World::new(Config::default());
    world.hold_watch();
    world.apply_pod(pod("p0"));
    assert_eq!(world.watch_under_way().count(), 0);
    world.sync();
    world.apply_owner(owner("example.com", "Custom", "c").replicas(3));
    assert_eq!(world.watch_under_way().count(), 0);
}

#[test]
fn a_relist_loses_the_events_that_were_held() {
    let mut world = synced();
    world.hold_watch();
    world.apply_pod(pod("p0"));
    world.sync();
    assert_eq!(world.watch_under_way().count(), 0);
}

#[test]
fn a_replaced_object_keeps_its_uid_and_a_recreated_one_does_not() {
    let mut world = synced();
    world.apply_pod(pod("p0"));
    let first = world.pod("p0").unwrap().clone();
    world.apply_pod(pod("p0").ready());
    let replaced = world.pod("p0").unwrap().clone();
    assert_eq!(replaced.uid, first.uid);
    assert!(first.version.is_older_than(&replaced.version));
    world.delete_pod("p0");
    world.apply_pod(pod("p0"));
    assert_ne!(world.pod("p0").unwrap().uid, first.uid);
}

#[test]
fn only_a_changed_spec_counts_as_a_generation() {
    let mut world = synced();
    world.apply_budget(budget("b").min_available(1));
    world.apply_budget(budget("b").min_available(1));
    world.edit_status("b", |status| status.expected_pods = 3);
    assert_eq!(world.budget("b").unwrap().generation, 1);
    world.apply_budget(budget("b").min_available(2));
    assert_eq!(world.budget("b").unwrap().generation, 2);
}

#[test]
fn an_owner_reference_gets_the_uid_of_the_owner() {
    let mut world = synced();
    world.apply_owner(owner("apps", "StatefulSet", "web").replicas(1));
    world.apply_pod(pod("web-0").owned_by("apps", "StatefulSet", "web"));
    world.apply_pod(pod("web-1").owned_by("apps", "StatefulSet", "gone"));
    let uid = |name: &str| world.pod(name).unwrap().controller.clone().unwrap().uid;
    assert!(uid("web-0").starts_with("uid-") && uid("web-0") != "uid-of-nobody");
    assert_eq!(uid("web-1"), "uid-of-nobody");
}

#[test]
fn a_replica_is_healthy_with_min_count_working_pods() {
    let mut world = synced();
    world.apply_pod_group(group("g").gang(2));
    world.apply_pod(pod("a").group("g").ready());
    assert!(world.healthy_replicas().is_empty());
    world.apply_pod(pod("b").group("g").ready());
    assert_eq!(world.healthy_replicas().len(), 1);
    world.edit_pod("b", |pod| pod.terminating = true);
    assert!(world.healthy_replicas().is_empty());
}

#[test]
fn a_lost_pod_comes_back_on_the_emptiest_open_node() {
    let mut world = synced();
    world.recover_after(Duration::from_secs(30));
    for node in ["n1", "n2", "n3"] {
        world.add_node(node);
    }
    world.apply_pod(pod("busy").node("n2"));
    world.apply_pod(pod("web-0").owned_by("apps", "StatefulSet", "web").node("n1").ready());
    world.cordon("n1");
    world.delete_pod("web-0");

    assert_eq!(world.node_of("web-0"), Some("n3"));
    assert_eq!(world.pod("web-0").unwrap().phase, Phase::Pending);
    world.advance(Duration::from_secs(29));
    assert!(!world.pod("web-0").unwrap().ready);
    world.advance(Duration::from_secs(1));
    assert!(world.pod("web-0").unwrap().ready);
}
