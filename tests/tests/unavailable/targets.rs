//! Budgets of one workload, by its name.

use holdfast_e2e::lws::{SIZE, Set};
use holdfast_e2e::pod::Pod;
use holdfast_e2e::unavailable::counts;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::json;

use super::workload;

/// The budget is created first. In Kruise, pods that are created later may never count.
pub fn a_deployment_that_comes_after_its_budget() {
    let world = World::new("target");
    let nodes = workload::nodes(&world, 1);
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let status = world.guard("web", json!({"maxUnavailable": "34%", "targetRef": target}));
    assert_eq!(counts(&status), [0, 0, 0, 0], "{status:#}");
    workload::create(&world, "Deployment", 3);
    // ceil(34% of 3) is 2.
    world.wait_counts("web", [2, 3, 1, 3]);
    world.edit_guard("web", &json!({"maxUnavailable": 0}));
    world.wait_counts("web", [0, 3, 3, 3]);
    for pod in world.pods() {
        world.delete(&pod).assert_refused(&["web needs 3 available pods and has 3"]);
    }
    // It has the same labels, but is not a pod of the Deployment.
    world.pod(&Pod::new("bare").on(&nodes[0]));
    world.wait_ready("bare");
    world.delete("bare").assert_passed();
    workload::scale(&world, "Deployment", 4);
    world.wait_counts("web", [0, 4, 4, 4]);
}

pub fn a_leader_worker_set() {
    let world = World::new("target-lws");
    let set = Set::new(&world, 2, &json!({}));
    let api = "leaderworkerset.x-k8s.io/v1";
    let target = json!({"apiVersion": api, "kind": "LeaderWorkerSet", "name": "serve"});
    let label = "leaderworkerset.sigs.k8s.io/group-index";
    let policy = json!({"groupLabelKey": label, "minReadyReplicas": SIZE});
    let spec = json!({"maxUnavailable": 1, "targetRef": target, "podGroupPolicy": policy});
    let status = world.guard("serve", spec);
    assert_eq!(counts(&status), [1, 2, 1, 2], "{status:#}");
    set.set_schedulable(false);
    world.delete("serve-0-1").assert_passed();
    world.delete("serve-1").assert_refused(&["serve needs 1 available group and has 1"]);
    set.set_schedulable(true);
    set.wait_healthy(2);
    world.wait_counts("serve", [1, 2, 1, 2]);
    world.delete("serve-1").assert_passed();
    set.wait_healthy(2);
}

/// Kruise is not installed, and its definitions here have no `/scale`. Holdfast reads the number from the
/// objects.
pub fn sets_of_kruise_without_kruise() {
    for kind in ["CloneSet", "StatefulSet", "DaemonSet"] {
        let plural = format!("{}s", kind.to_lowercase());
        let world = World::new(&plural);
        let _definition = Definition::new(&world, kind, &plural);
        let node = world.node("n");
        let api = "apps.kruise.io/v1beta1";
        let mut owner = json!({"apiVersion": api, "kind": kind, "name": "web"});
        let target = owner.clone();
        let set = json!({"apiVersion": api, "kind": kind, "metadata": {"name": "web"}, "spec": {"replicas": 3}});
        let path = world.path(&format!("apis/{api}"), &plural, "");
        // The kind is served shortly after its definition.
        let set = until("it is created", || {
            let answer = world.admin.post(&path, &set);
            if answer.is_success() { Ok(answer.body) } else { Err(answer.message().to_owned()) }
        });
        owner["uid"] = set["metadata"]["uid"].clone();
        owner["controller"] = json!(true);
        for i in 0..2 {
            world.pod(&Pod::new(format!("web-{i}")).on(&node));
            let owned = json!({"metadata": {"ownerReferences": [owner]}});
            let pod = world.path("api/v1", "pods", &format!("web-{i}"));
            let _ = world.admin.patch(&pod, &owned).ok();
            world.wait_ready(&format!("web-{i}"));
        }
        let spec = match kind {
            // It has no field with the number of pods.
            "DaemonSet" => json!({"maxUnavailable": 1, "protectTotalReplicas": 3}),
            _ => json!({"maxUnavailable": 1, "targetRef": target}),
        };
        world.guard("web", spec);
        world.wait_counts("web", [0, 2, 2, 3]);
        world.delete("web-0").assert_refused(&["web needs 2 available pods and has 2"]);
    }
}

/// A definition of one of Kruise's kinds, until it is dropped.
struct Definition<'a>(&'a World, String);

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

impl<'a> Definition<'a> {
    fn new(world: &'a World, kind: &str, plural: &str) -> Self {
        let name = format!("{plural}.apps.kruise.io");
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": "apps.kruise.io",
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural},
                "versions": [{
                    "name": "v1beta1",
                    "served": true,
                    "storage": true,
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        });
        let _ = world.admin.post(DEFINITIONS, &definition).ok();
        Self(world, name)
    }
}

impl Drop for Definition<'_> {
    fn drop(&mut self) {
        let _ = self.0.admin.delete(&format!("{DEFINITIONS}/{}", self.1));
    }
}
