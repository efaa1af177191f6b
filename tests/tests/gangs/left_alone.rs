//! Pods that Holdfast leaves alone, and requests that it refuses.

use holdfast_e2e::asking::{ASKS, GROUP_SIZE, controller};
use holdfast_e2e::gang::{Shape, gang};
use holdfast_e2e::object::{group_of, name};
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

pub fn a_job_that_brings_its_own_group() {
    let world = World::new("own");
    world.small_node("n", 2);
    let mut job = world.job("train", 2);
    let template = &mut job["spec"]["template"];
    match Shape::of_cluster() {
        Shape::Kubernetes => template["spec"]["schedulingGroup"] = json!({"podGroupName": "own"}),
        Shape::Holdfast => {
            template["metadata"]["annotations"]["holdfast.dev/pod-group"] = json!("own");
        }
    }
    world.create(&job);
    until("both pods are there", || {
        let pods = world.pods();
        if pods.len() == 2 { Ok(()) } else { Err(format!("{pods:?}")) }
    });
    world.stays_pending("own");
    world.pod_group("own", &gang(2));
    world.wait_bound("own", 2);
    let groups = world.pod_groups();
    assert_eq!(groups.iter().map(name).collect::<Vec<_>>(), ["own"], "{groups:#?}");
}

/// Otherwise only a part of its pods would be in a group.
pub fn a_job_that_runs_when_it_begins_to_ask() {
    let world = World::new("late");
    world.small_node("n", 3);
    let mut job = world.job("train", 3);
    job["metadata"]["annotations"] = json!({});
    world.create(&job);
    wait_alone(&world, "train", 3);
    world.edit(&job, &json!({"metadata": {"annotations": {ASKS: "true"}}}));
    let first = world.pods().into_iter().next().expect("there are three");
    world.delete_pod(&first);
    world.wait_gone(&first);
    wait_alone(&world, "train", 3);
    assert_eq!(world.pod_groups(), Vec::<Value>::new());
}

pub fn workloads_that_do_not_ask() {
    let world = World::new("unasked");
    world.small_node("n", 4);
    // This makes API servers call the webhook for all pods of the namespace.
    world.create(&world.job("asks", 2));
    let mut job = world.job("train", 2);
    job["metadata"]["annotations"] = json!({});
    world.create(&job);
    wait_alone(&world, "train", 2);
    world.wait_groups("asks", 1);
    assert_eq!(world.pod_groups().len(), 1);
}

pub fn what_cannot_be_read_is_refused_by_field() {
    let world = World::new("refused");
    let mut job = world.job("train", 2);
    job["metadata"]["annotations"][ASKS] = json!("yes");
    let answer = world.try_create(&job);
    assert!(answer.message().contains(ASKS), "{answer:?}");
    for wrong in ["0", "-1", "two", ""] {
        let mut set = world.stateful_set("web", 2, 1);
        set["metadata"]["annotations"][GROUP_SIZE] = json!(wrong);
        let answer = world.try_create(&set);
        assert!((400..500).contains(&answer.code), "{wrong:?}: {answer:?}");
        assert!(answer.message().contains(GROUP_SIZE), "{wrong:?}: {answer:?}");
    }
}

/// Waits until this many pods of the Job run without a group.
#[track_caller]
fn wait_alone(world: &World, job: &str, n: usize) {
    until(&format!("{n} pods of {job} run"), || {
        let pods = world.all_pods();
        let healthy = world.healthy_pods();
        let runs = |pod: &&Value| controller(pod) == job && healthy.contains(&name(pod));
        let alone = pods.iter().filter(runs).filter(|pod| group_of(pod).is_none()).count();
        if alone == n { Ok(()) } else { Err(format!("{pods:#?}")) }
    });
}
