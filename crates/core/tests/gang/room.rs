//! What counts as room.

use holdfast_core::gang::{
    Constraints, GroupApi, HostPort, Node, NodeTerm, Pod, Requirement, Taint, TaintEffect, Test,
    Toleration, TolerationTest,
};

use super::cluster::{Cluster, member, pod};

/// Whether a gang of one is let go on a node.
fn goes(with: impl Fn(&mut Node), constraints: Constraints) -> bool {
    let mut c = Cluster::new(GroupApi::Holdfast);
    c.node("a", 2);
    let mut node = c.nodes["a"].clone();
    with(&mut node);
    c.see_node(node);
    c.group("g", 1);
    let _ = c.create(Pod { constraints, ..member("p", "g") });
    let _ = c.settle();
    c.gated("g") == 0
}

fn taint(effect: TaintEffect) -> Taint {
    Taint { key: "k".to_owned(), value: "v".to_owned(), effect }
}

fn toleration(key: &str, test: TolerationTest, effect: Option<TaintEffect>) -> Constraints {
    let toleration = Toleration { key: key.to_owned(), test, effect };
    Constraints { tolerations: vec![toleration], ..Constraints::default() }
}

#[test]
fn taints_and_tolerations() {
    use TaintEffect::{NoExecute, NoSchedule, PreferNoSchedule};
    use TolerationTest::{Equal, Exists, Unreadable};
    let equal = |value: &str| Equal(value.to_owned());
    let tainted = |effect| move |node: &mut Node| node.taints = vec![taint(effect)];
    for (effect, key, test, of, expected) in [
        (NoSchedule, "", equal("none"), None, false),
        (NoExecute, "", equal("none"), None, false),
        (PreferNoSchedule, "", equal("none"), None, true),
        (NoSchedule, "", Exists, None, true),
        (NoSchedule, "k", Exists, None, true),
        (NoSchedule, "other", Exists, None, false),
        (NoSchedule, "k", equal("v"), None, true),
        (NoSchedule, "k", equal("w"), None, false),
        (NoSchedule, "k", Unreadable, None, false),
        (NoSchedule, "k", Exists, Some(NoSchedule), true),
        (NoSchedule, "k", Exists, Some(NoExecute), false),
    ] {
        let constraints = toleration(key, test.clone(), of);
        assert_eq!(
            goes(tainted(effect), constraints),
            expected,
            "{effect:?} {key} {test:?} {of:?}"
        );
    }
}

#[test]
fn selectors_and_affinity() {
    let values = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect();
    let labelled = |node: &mut Node| {
        node.labels.insert("cores".to_owned(), "8".to_owned());
    };
    for (key, test, expected) in [
        ("zone", Test::In(values(&["a", "b"])), true),
        ("zone", Test::In(values(&["b"])), false),
        ("none", Test::In(values(&["b"])), false),
        ("zone", Test::NotIn(values(&["a"])), false),
        ("none", Test::NotIn(values(&["a"])), true),
        ("zone", Test::Exists, true),
        ("none", Test::Exists, false),
        ("none", Test::DoesNotExist, true),
        ("zone", Test::DoesNotExist, false),
        ("cores", Test::Gt(7), true),
        ("cores", Test::Gt(8), false),
        ("cores", Test::Lt(9), true),
        ("zone", Test::Lt(9), false),
        ("zone", Test::Unreadable, false),
    ] {
        let requirement = Requirement { key: key.to_owned(), test: test.clone() };
        let term = NodeTerm { expressions: vec![requirement], fields: Vec::new() };
        let affinity = Some(vec![NodeTerm::default(), term]);
        let constraints = Constraints { affinity, ..Constraints::default() };
        assert_eq!(goes(labelled, constraints), expected, "{key} {test:?}");
    }
    let by_name = |name: &str| {
        let test = Test::In(values(&[name]));
        let fields = vec![Requirement { key: "metadata.name".to_owned(), test }];
        let term = NodeTerm { expressions: Vec::new(), fields };
        Constraints { affinity: Some(vec![term]), ..Constraints::default() }
    };
    assert!(goes(labelled, by_name("a")) && !goes(labelled, by_name("b")));
    assert!(!goes(labelled, Constraints { affinity: Some(Vec::new()), ..Constraints::default() }));
    let selector = |value: &str| Constraints {
        node_selector: [("zone".to_owned(), value.to_owned())].into(),
        ..Constraints::default()
    };
    assert!(goes(labelled, selector("a")) && !goes(labelled, selector("b")));
}

#[test]
fn a_node_that_goes_away_is_no_room() {
    assert!(goes(|_| {}, Constraints::default()));
    assert!(!goes(|node| node.terminating = true, Constraints::default()));
}

#[test]
fn what_a_node_does_not_have_it_has_no_room_for() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    c.node("a", 4);
    c.group("g", 1);
    let mut gpu = member("p", "g");
    gpu.requests.insert("nvidia.com/gpu".to_owned(), 1000);
    let _ = c.create(gpu);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 1);
    let mut node = c.nodes["a"].clone();
    node.allocatable.insert("nvidia.com/gpu".to_owned(), 1000);
    c.see_node(node);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 0);
}

#[test]
fn a_host_port_is_taken_once() {
    let port = |ip: &str, port| HostPort { protocol: "TCP".to_owned(), ip: ip.to_owned(), port };
    let with = |ports| Constraints { ports, ..Constraints::default() };
    let mut c = Cluster::new(GroupApi::Holdfast);
    c.node("a", 10);
    c.group("g", 2);
    for i in 0..2 {
        let constraints = with(vec![port("0.0.0.0", 80)]);
        let _ = c.create(Pod { constraints, ..member(&format!("p{i}"), "g") });
    }
    let _ = c.settle();
    assert_eq!(c.gated("g"), 2, "two on one node would collide");
    c.node("b", 10);
    let on_b = Pod {
        node: Some("b".to_owned()),
        constraints: with(vec![port("127.0.0.1", 80)]),
        ..pod("other")
    };
    c.see_pod(on_b);
    let _ = c.settle();
    assert_eq!(c.gated("g"), 2, "every address includes that one");
    let _ = c.delete_pod("other");
    let _ = c.settle();
    assert_eq!(c.gated("g"), 0);
}

#[test]
fn pods_of_different_sizes_are_packed() {
    for (nodes, expected) in [
        (vec![3, 1], 0),
        (vec![1, 3], 0),
        (vec![2, 2], 0),
        (vec![4], 0),
        (vec![1, 1, 2], 0),
        (vec![3], 3),
        (vec![1, 1, 1, 1], 3),
    ] {
        let mut c = Cluster::new(GroupApi::Holdfast);
        for (i, cpus) in nodes.iter().enumerate() {
            c.node(&format!("n{i}"), *cpus);
        }
        c.group("g", 3);
        for i in 0..3 {
            let mut p = member(&format!("p{i}"), "g");
            // A leader that needs more than its workers.
            let cpus = if i == 0 { 2000 } else { 1000 };
            p.requests.insert("cpu".to_owned(), cpus);
            let _ = c.create(p);
        }
        let _ = c.settle();
        assert_eq!(c.gated("g"), expected, "{nodes:?}");
    }
}

#[test]
fn rooms_that_are_apart_do_not_wait_for_each_other() {
    let mut c = Cluster::new(GroupApi::Holdfast);
    c.node("a", 2);
    c.node("b", 2);
    let mut b = c.nodes["b"].clone();
    b.labels.insert("zone".to_owned(), "b".to_owned());
    c.see_node(b);
    let in_zone = |name: &str, group: &str, zone: &str| {
        let mut p = member(name, group);
        p.constraints.node_selector.insert("zone".to_owned(), zone.to_owned());
        p
    };
    for (group, zone) in [("g", "a"), ("h", "b"), ("i", "a")] {
        c.group(group, 2);
        for i in 0..2 {
            let _ = c.create(in_zone(&format!("{group}-{i}"), group, zone));
        }
    }
    let _ = c.settle();
    assert_eq!((c.gated("g"), c.gated("h"), c.gated("i")), (0, 0, 2));
}
