//! A real `LeaderWorkerSet`: three groups of a leader and two workers, one of which may be down.

use std::time::Duration;

use holdfast_e2e::kubectl::kubectl;
use holdfast_e2e::lws::{SIZE, Set, Story};
use holdfast_e2e::unavailable::counts;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::{World, grants};
use serde_json::{Value, json};

const NEW: &str = "example.com/main:second";

pub fn three_groups_of_a_leader_and_two_workers() {
    let world = World::new("story");
    let set = Set::new(&world, 3, &json!({}));
    let status = world.guard("serve", guard());
    assert_eq!(counts(&status), [1, 3, 2, 3], "{status:#}");
    let history = set.watch_with(world.guard_path(""));
    let before: Vec<_> = (0..3).map(|group| set.group(group)).collect();

    // Recreated pods stay Pending until the nodes accept pods again.
    set.set_schedulable(false);
    world.delete("serve-1-2").assert_passed();
    assert_refused(&world, 0, &before[0]);
    assert_refused(&world, 2, &before[2]);
    let (code, told) = kubectl(&world.namespace, &["delete", "pod", "serve-2-1"]);
    assert_eq!(code, 1, "{told}");
    assert!(
        told.contains("PodUnavailableBudget serve needs 2 available groups and has 2"),
        "{told}"
    );
    // Within the group every operation passes, and so did the set's own deletes of its other pods.
    for pod in before[1].keys() {
        for outcome in [world.update_image(pod, NEW), world.evict(pod), world.delete(pod)] {
            assert!(outcome.is_passed() || outcome.code == 404, "{outcome:#?}");
        }
    }
    until("the whole group is on its way back", || {
        let now = set.group(1);
        let new = now.iter().filter(|(pod, uid)| before[1].get(*pod) != Some(*uid)).count();
        if new >= 1 && new == now.len() { Ok(()) } else { Err(format!("{now:?}")) }
    });
    for group in [0, 2] {
        assert_eq!(set.group(group), before[group], "not a pod of group {group} was touched");
        assert_refused(&world, group, &before[group]);
    }

    // The group is back, and the next may be disrupted, this time by an update.
    set.set_schedulable(true);
    set.wait_healthy(3);
    world.wait_counts("serve", [1, 3, 2, 3]);
    world.update_image("serve-2-1", NEW).assert_passed();
    world.update_image("serve-2", NEW).assert_passed();
    assert_refused(&world, 0, &before[0]);
    for pod in ["serve-2", "serve-2-1"] {
        world.play_kubelet(pod);
    }
    world.wait_counts("serve", [1, 3, 2, 3]);
    world.evict("serve-0").assert_evicted();
    set.wait_healthy(3);
    world.wait_guard("serve", "has no grants left", |status| grants(status).is_empty());

    let story = Story::of(&history.end(), Duration::ZERO);
    story.assert_kept();
    assert_eq!((&*story.groups, story.least), (&[1, 2, 0][..], 2), "{story:#?}");
}

pub fn a_drain_takes_one_group_at_a_time() {
    let world = World::new("story-drain");
    // All leaders run on the first node, if it accepts pods. Workers run anywhere.
    let node = format!("{}-n0", world.namespace);
    let wish = json!([{"weight": 100, "preference": {"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
    ]}}]);
    let leader = json!({
        "metadata": {"labels": {"app": "job"}, "annotations": {"localkube/lingers": "1s"}},
        "spec": {
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish}},
            "nodeSelector": {"e2e.holdfast.dev/world": world.namespace},
            "containers": [{"name": "main", "image": "example.com/main"}],
        },
    });
    let set = Set::new(&world, 3, &json!({"leaderWorkerTemplate": {"leaderTemplate": leader}}));
    world.guard("serve", guard());
    let pods = set.pods();
    let leaders = ["serve-0", "serve-1", "serve-2"];
    let is_there = |pod: &&Value| pod["spec"]["nodeName"] == node;
    let there: Vec<&Value> =
        pods.iter().filter(is_there).map(|pod| &pod["metadata"]["name"]).collect();
    assert!(leaders.iter().all(|leader| there.contains(&&json!(leader))), "{there:?}");
    let history = set.watch_with(world.guard_path(""));

    let (code, output) = world.drain(&node).finish();
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("PodUnavailableBudget serve needs 2 available groups"), "{output}");
    set.wait_healthy(3);
    assert!(set.pods().iter().all(|pod| pod["spec"]["nodeName"] != *node), "{output}");
    world.wait_guard("serve", "has no grants left", |status| grants(status).is_empty());

    let story = Story::of(&history.end(), Duration::ZERO);
    story.assert_kept();
    let each_once = [0, 1, 2].map(|group| (group, 1)).into();
    assert_eq!((story.disrupted(), story.least), (each_once, 2), "{story:#?}");
}

fn guard() -> Value {
    json!({
        "maxUnavailable": 1,
        "podGroupPolicy": {
            "groupLabelKey": "leaderworkerset.sigs.k8s.io/group-index",
            "minReadyReplicas": SIZE,
        },
    })
}

/// Checks that every operation on any pod of the group is denied.
#[track_caller]
fn assert_refused(world: &World, group: usize, pods: &std::collections::BTreeMap<String, String>) {
    let whole =
        format!("group {group} of LeaderWorkerSet serve, which needs 3 available pods and has 3");
    for pod in pods.keys() {
        let numbers = "serve needs 2 available groups and has 2";
        world.evict(pod).assert_denied(&[numbers, &whole, &format!("evicting pod {pod}")]);
        world.delete(pod).assert_refused(&[numbers, &whole, &format!("deleting pod {pod}")]);
        let update = world.update_image(pod, "example.com/main:refused");
        update.assert_refused(&[numbers, &whole, &format!("updating pod {pod}")]);
    }
}
