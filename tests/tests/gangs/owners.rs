//! Jobs and `StatefulSets` that ask for groups get them, and nothing is left after their deletion.

use std::collections::BTreeMap;

use holdfast_e2e::asking::{ASKS, controller, min_count};
use holdfast_e2e::object::{group_of, name};
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

/// Story 1 of KEP-5832.
pub fn a_job_grows_from_four_to_eight_in_the_same_group() {
    let world = World::new("story");
    world.small_node("n", 8);
    let job = world.job("train", 4);
    world.create(&job);
    let group = only_group(&world, "train");
    assert_eq!(min_count(&group), Some(4), "{group:#}");
    world.wait_bound(&name(&group), 4);
    world.wait_started(&name(&group), 4);
    let before = uids(&world);

    world.edit(&job, &json!({"spec": {"parallelism": 8, "completions": 8}}));
    world.wait_bound(&name(&group), 8);
    until("eight are needed from now on", || {
        let group = only_group(&world, "train");
        if min_count(&group) == Some(8) { Ok(()) } else { Err(format!("{group:#}")) }
    });
    let workload = &world.admin.list(&world.workload_path(""))[0];
    let template = &workload["spec"]["podGroupTemplates"][0];
    assert_eq!(template["schedulingPolicy"]["gang"]["minCount"], 8, "{workload:#}");
    assert_eq!(uids(&world), before, "nothing was made anew");
}

pub fn a_job_waits_whole_and_takes_its_group_along() {
    let world = World::new("job");
    world.small_node("n0", 2);
    let job = world.job("train", 3);
    world.create(&job);
    let group = only_group(&world, "train");
    let owner = &group["metadata"]["ownerReferences"][0];
    assert_eq!([&owner["kind"], &owner["controller"]], [&json!("Job"), &json!(true)], "{group:#}");
    until("all pods are there", || match world.bound().get(&name(&group)) {
        Some(_) if world.pods().len() == 3 => Ok(()),
        bound => Err(format!("{bound:?} of {:?}", world.pods())),
    });
    world.stays_pending(&name(&group));
    world.wait_unschedulable(&name(&group));
    world.small_node("n1", 1);
    world.wait_bound(&name(&group), 3);
    world.remove(&job);
    world.wait_no_groups();
}

/// Otherwise its pods would wait for ever.
pub fn a_group_that_somebody_deletes_is_made_again() {
    let world = World::new("remade");
    world.create(&world.job("train", 2));
    let group = only_group(&world, "train");
    until("both pods are there", || {
        let pods = world.pods();
        if pods.len() == 2 { Ok(()) } else { Err(format!("{pods:?}")) }
    });
    let path = world.pod_group_path(&name(&group));
    let _ = world.admin.delete(&path).ok();
    // Remove the finalizers that protect it.
    world.admin.patch(&path, &json!({"metadata": {"finalizers": null}}));
    until("it is another", || {
        let again = world.admin.get(&path);
        let is_new =
            again.is_success() && again.body["metadata"]["uid"] != group["metadata"]["uid"];
        if is_new { Ok(()) } else { Err(again.body.to_string()) }
    });
    world.small_node("n", 2);
    world.wait_bound(&name(&group), 2);
}

pub fn a_namespace_asks_for_its_workloads_and_one_declines() {
    let world = World::new("namespace");
    world.small_node("n", 100);
    let asks = json!({"metadata": {"annotations": {ASKS: "true"}}});
    let _ = world.admin.patch(&format!("/api/v1/namespaces/{}", world.namespace), &asks).ok();
    let mut n = 0;
    // A namespace is not held back until the webhook is ready, as a workload is. So the Jobs must wait.
    until("its Jobs have groups", || {
        n += 1;
        let mut job = world.job(&format!("asks-{n}"), 2);
        job["metadata"]["annotations"] = json!({});
        world.create(&job);
        until("both pods are there", || {
            let pods = world.all_pods();
            let own = pods.iter().filter(|pod| controller(pod) == name(&job)).count();
            if own == 2 { Ok(()) } else { Err(own.to_string()) }
        });
        let groups = world.pod_groups();
        let grouped = groups.iter().any(|group| controller(group) == name(&job));
        if grouped { Ok(()) } else { Err(format!("none of {n}")) }
    });
    let mut job = world.job("declines", 2);
    job["metadata"]["annotations"][ASKS] = json!("false");
    world.create(&job);
    until("those of the one that declines are in none", || {
        let pods = world.all_pods();
        let own = pods.iter().filter(|pod| controller(pod) == "declines");
        let without =
            own.filter(|pod| group_of(pod).is_none() && pod["spec"]["nodeName"].is_string());
        if without.count() == 2 { Ok(()) } else { Err(format!("{pods:#?}")) }
    });
}

pub fn a_stateful_set_has_groups_of_consecutive_ordinals() {
    let world = World::new("ordinals");
    world.small_node("n", 9);
    let set = world.stateful_set("web", 7, 3);
    world.create(&set);
    wait_ordinals(&world, &[3, 3, 1]);
    let status = world.budget("web", json!({"maxUnavailable": 1, "budgetScope": "Workload"}));
    assert_eq!(status["expectedReplicas"], 3, "{status:#}");
    world.wait_status("web", "counts three", |s| s["currentHealthyReplicas"] == 3);
    world.evict("web-1").assert_evicted();
    world.evict("web-3").assert_denied(&["web needs 2 healthy replicas and has 2"]);
    world.wait_status("web", "counts three again", |s| s["currentHealthyReplicas"] == 3);

    world.edit(&set, &json!({"spec": {"replicas": 9}}));
    wait_ordinals(&world, &[3, 3, 3]);
    world.edit(&set, &json!({"spec": {"replicas": 2}}));
    wait_ordinals(&world, &[2]);
    world.wait_status("web", "counts one", |s| s["expectedReplicas"] == 1);
    world.remove(&set);
    world.wait_no_groups();
}

/// Waits until the set has groups with these minimums, in order, and all of their pods are on nodes.
#[track_caller]
fn wait_ordinals(world: &World, sizes: &[u64]) {
    let groups = world.wait_groups("web", sizes.len());
    let groups: Vec<String> = groups.values().map(name).collect();
    until("the groups are as large as they should be", || {
        let mut seen = Vec::new();
        for group in &groups {
            seen.push(min_count(&world.admin.get(&world.pod_group_path(group)).ok().body));
        }
        let wanted: Vec<Option<u64>> = sizes.iter().copied().map(Some).collect();
        if seen == wanted { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    let mut ordinal = 0;
    for (group, size) in groups.iter().zip(sizes) {
        world.wait_bound(group, usize::try_from(*size).expect("it is small"));
        for _ in 0..*size {
            world.wait_pod(&format!("web-{ordinal}"), &format!("is in {group}"), |pod| {
                group_of(pod) == Some(group)
            });
            ordinal += 1;
        }
    }
}

#[track_caller]
fn only_group(world: &World, owner: &str) -> Value {
    world.wait_groups(owner, 1).into_values().next().expect("there is one")
}

/// Returns the uids of all groups and Workloads.
#[track_caller]
fn uids(world: &World) -> BTreeMap<String, Value> {
    let mut all = world.admin.list(&world.pod_group_path(""));
    all.extend(world.admin.list(&world.workload_path("")));
    all.iter().map(|object| (name(object), object["metadata"]["uid"].clone())).collect()
}
