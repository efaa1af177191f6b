//! Each part of the cluster behaves as its original does, as far as a drain can tell.

use std::time::Duration;

use holdfast_core::Config;
use holdfast_core::model::{ObjectKey, Phase};

use crate::{Behaviour, PodBuilder, Replica, Span, World, group, node, owner, pod};

const STARTUP: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(1);

fn living() -> World {
    let mut world = World::new(Config::default());
    world.behave(Behaviour { startup: STARTUP.into(), grace: GRACE.into(), seed: 7 });
    world.sync();
    world
}

fn of(kind: &str, owner: &str, name: &str) -> PodBuilder {
    pod(name).owned_by("apps", kind, owner)
}

fn names(world: &World) -> Vec<&str> {
    world.pods().map(|pod| pod.key.name.as_str()).collect()
}

fn is_ready(world: &World, pod: &str) -> bool {
    world.pod(pod).is_some_and(|pod| pod.ready && pod.phase == Phase::Running)
}

#[test]
fn a_pod_starts_and_ends_in_its_own_time() {
    let mut world = living();
    world.add_node("n1");
    world.apply_pod(pod("p"));
    assert_eq!(world.node_of("p"), Some("n1"));
    world.advance(STARTUP.saturating_sub(MOMENT));
    assert!(!is_ready(&world, "p"));
    world.advance(MOMENT);
    assert!(is_ready(&world, "p"));

    world.request_delete("p");
    assert!(world.pod("p").unwrap().terminating);
    world.advance(GRACE.saturating_sub(MOMENT));
    assert!(world.pod("p").is_some());
    world.advance(MOMENT);
    assert!(world.pod("p").is_none());
}

#[test]
fn a_replica_set_replaces_a_pod_that_begins_to_go_under_a_new_name() {
    let mut world = living();
    world.add_node("n1");
    world.apply_owner(owner("apps", "ReplicaSet", "web").replicas(1));
    world.apply_pod(of("ReplicaSet", "web", "web-abcde").label("app", "web").node("n1").ready());
    world.request_delete("web-abcde");
    assert_eq!(world.pods().count(), 2, "the old one is still terminating");
    world.advance(STARTUP);
    let names = names(&world);
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].starts_with("web-") && names[0].len() == "web-abcde".len());
    assert!(is_ready(&world, names[0]));
    assert_eq!(world.pods().next().unwrap().labels["app"], "web");
}

#[test]
fn a_stateful_set_recreates_the_name_once_it_is_free() {
    let mut world = living();
    world.add_node("n1");
    world.apply_pod(of("StatefulSet", "db", "db-0").node("n1").ready());
    let before = world.pod("db-0").unwrap().uid.clone();
    world.request_delete("db-0");
    assert_eq!(world.pods().count(), 1);
    world.advance(GRACE);
    let after = world.pod("db-0").unwrap();
    assert_ne!(after.uid, before);
    assert_eq!((after.phase, after.terminating), (Phase::Pending, false));
    world.advance(STARTUP);
    assert!(is_ready(&world, "db-0"));
}

#[test]
fn when_one_pod_of_an_lws_group_goes_the_whole_group_goes_and_comes_back() {
    let mut world = living();
    world.add_node("n1");
    for (name, index) in [("llm-0", 0), ("llm-0-1", 0), ("llm-0-2", 0), ("llm-1", 1)] {
        world.apply_pod(pod(name).lws("llm", index, 3).node("n1").ready());
    }
    let uid = |world: &World, name: &str| world.pod(name).unwrap().uid.clone();
    let before = ["llm-0", "llm-0-1", "llm-0-2", "llm-1"].map(|name| uid(&world, name));
    world.request_delete("llm-0-2");
    let terminating = world.pods().filter(|pod| pod.terminating).count();
    assert_eq!(terminating, 3);
    world.advance(GRACE + STARTUP);
    assert_eq!(names(&world), ["llm-0", "llm-0-1", "llm-0-2", "llm-1"]);
    assert!(world.pods().all(|pod| pod.ready));
    let after = ["llm-0", "llm-0-1", "llm-0-2", "llm-1"].map(|name| uid(&world, name));
    let kept: Vec<bool> = before.iter().zip(&after).map(|(b, a)| b == a).collect();
    assert_eq!(kept, [false, false, false, true]);
}

#[test]
fn nobody_replaces_what_its_controller_does_not_want() {
    let mut world = living();
    world.add_node("n1");
    world.apply_owner(owner("apps", "ReplicaSet", "web").replicas(2));
    world.apply_owner(owner("apps", "StatefulSet", "db").replicas(1));
    for name in ["web-a", "web-b"] {
        world.apply_pod(of("ReplicaSet", "web", name).node("n1").ready());
    }
    world.apply_pod(of("StatefulSet", "db", "db-0").node("n1").ready());
    world.apply_pod(pod("bare").node("n1").ready());
    world.apply_owner(owner("apps", "ReplicaSet", "web").replicas(1));
    world.delete_owner(&holdfast_core::model::GroupKind::new("apps", "StatefulSet"), "db");
    for name in ["web-a", "db-0", "bare"] {
        world.request_delete(name);
    }
    world.advance(GRACE + STARTUP);
    assert_eq!(names(&world), ["web-b"]);
}

#[test]
fn pods_wait_until_there_is_room() {
    let mut world = living();
    world.apply_node(node("small").room("cpu", 1000).room("pods", 10));
    world.apply_node(node("gpu").room("cpu", 4000).room("nvidia.com/gpu", 1));
    world.apply_pod(pod("a").request("nvidia.com/gpu", 1));
    world.apply_pod(pod("b").request("nvidia.com/gpu", 1));
    world.apply_pod(pod("c").request("cpu", 1000));
    assert_eq!(world.node_of("a"), Some("gpu"));
    assert_eq!(world.node_of("b"), None);
    assert_eq!(world.node_of("c"), Some("small"));
    assert_eq!(world.unplaced().count(), 1);
    world.advance(STARTUP);
    assert_eq!(world.pod("b").unwrap().phase, Phase::Pending);

    world.request_delete("a");
    world.advance(GRACE);
    assert_eq!(world.node_of("b"), Some("gpu"), "room came back with the end of a");
    assert_eq!(world.unplaced().count(), 0);
}

#[test]
fn cordoned_and_unsuitable_nodes_take_nothing() {
    let mut world = living();
    let taint = crate::Taint {
        key: "dedicated".to_owned(),
        value: "gpu".to_owned(),
        effect: "NoSchedule".to_owned(),
    };
    world.apply_node(node("cordoned").cordoned(true).label("zone", "a"));
    world.apply_node(node("tainted").taint(taint).label("zone", "a"));
    world.apply_node(node("elsewhere").label("zone", "b"));
    let in_zone_a = crate::Shape {
        node_selector: [("zone".to_owned(), "a".to_owned())].into(),
        ..crate::Shape::default()
    };
    world.apply_pod(pod("a").shape(in_zone_a.clone()));
    world.apply_pod(pod("b").shape(crate::Shape {
        tolerations: vec![crate::Toleration {
            key: "dedicated".to_owned(),
            ..crate::Toleration::default()
        }],
        ..in_zone_a
    }));
    assert_eq!((world.node_of("a"), world.node_of("b")), (None, Some("tainted")));
    world.uncordon("cordoned");
    assert_eq!(world.node_of("a"), Some("cordoned"));
}

#[test]
fn finished_pods_take_no_room() {
    let mut world = living();
    world.apply_node(node("n1").room("pods", 1));
    world.apply_pod(pod("done").node("n1").ready());
    world.apply_pod(pod("next"));
    assert_eq!(world.node_of("next"), None);
    world.edit_pod("done", |pod| pod.phase = Phase::Succeeded);
    assert_eq!(world.node_of("next"), Some("n1"));
    assert_eq!(world.pods_on("n1").len(), 2);
}

#[test]
fn a_stuck_pod_goes_when_it_is_let_go() {
    let mut world = living();
    world.apply_pod(of("StatefulSet", "db", "db-0").node("n1").ready());
    world.stick("db-0");
    world.request_delete("db-0");
    world.advance(GRACE * 10);
    assert!(world.pod("db-0").unwrap().terminating);
    world.unstick("db-0");
    world.advance(GRACE);
    assert!(!world.pod("db-0").unwrap().terminating, "its successor is there");
}

#[test]
fn a_flapping_pod_is_back_after_its_time() {
    let mut world = living();
    world.apply_pod(pod("p").node("n1").ready());
    world.flap("p", GRACE);
    assert!(!is_ready(&world, "p"));
    world.advance(GRACE);
    assert!(is_ready(&world, "p"));
}

#[test]
fn pods_of_a_dead_node_neither_work_nor_go_until_it_is_removed() {
    let mut world = living();
    world.add_node("spare");
    world.apply_pod(of("StatefulSet", "db", "db-0").node("n1").ready());
    world.fail_node("n1");
    assert!(!is_ready(&world, "db-0"));
    world.request_delete("db-0");
    world.advance(GRACE * 10);
    assert_eq!(world.node_of("db-0"), Some("n1"));
    world.remove_node("n1");
    assert_eq!(world.node_of("db-0"), Some("spare"));
    world.advance(STARTUP);
    assert!(is_ready(&world, "db-0"));
    assert_eq!(world.nodes().collect::<Vec<_>>(), ["spare"]);
}

#[test]
fn a_dead_node_may_come_back_with_its_pods() {
    let mut world = living();
    world.apply_pod(pod("stays").node("n1").ready());
    world.apply_pod(pod("goes").node("n1").ready());
    world.fail_node("n1");
    world.request_delete("goes");
    world.advance(GRACE * 10);
    world.revive_node("n1");
    world.advance(GRACE + STARTUP);
    assert_eq!(names(&world), ["stays"]);
    assert!(is_ready(&world, "stays"));
}

#[test]
fn times_differ_within_their_span_and_are_decided_by_the_seed() {
    let run = |seed: u64| {
        let mut world = World::new(Config::default());
        let startup = Span { least: Duration::from_secs(5), most: Duration::from_secs(50) };
        world.behave(Behaviour { startup, seed, ..Behaviour::default() });
        world.add_node("n1");
        let pods: Vec<ObjectKey> =
            (0..20).map(|n| world.apply_pod(pod(&format!("p-{n}")))).collect();
        world.advance(Duration::from_millis(4_999));
        assert!(pods.iter().all(|key| !world.pod(key).unwrap().ready));
        world.advance(Duration::from_secs(20));
        let ready: Vec<bool> = pods.iter().map(|key| world.pod(key).unwrap().ready).collect();
        world.advance(Duration::from_secs(26));
        assert!(pods.iter().all(|key| world.pod(key).unwrap().ready));
        ready
    };
    let first = run(1);
    assert!(first.contains(&true) && first.contains(&false));
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
}

#[test]
fn changes_and_the_health_of_replicas_are_told() {
    let mut world = living();
    world.apply_pod_group(group("g").gang(2));
    for name in ["a", "b"] {
        world.apply_pod(of("StatefulSet", "g", name).group("g").node("n1").ready());
    }
    assert_eq!(world.take_changed_pods().len(), 2);
    assert!(world.take_changed_pods().is_empty());
    let replica = Replica::of(world.pod("a").unwrap()).expect("it names a group");
    assert_eq!(replica.to_string(), "PodGroup g");
    assert!(world.health_of(&replica, None).expect("it has pods").healthy);
    world.request_delete("a");
    assert_eq!(world.take_changed_pods().len(), 1);
    let health = world.health_of(&replica, None).expect("it has pods");
    assert_eq!((health.healthy_pods, health.min, health.healthy), (1, Ok(2), false));
    assert_eq!(world.replicas().collect::<Vec<_>>(), [&replica]);
}
