//! The real descheduler, a client that evicts pods and does not know replicas.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::process::Process;
use holdfast_e2e::server::Server;
use holdfast_e2e::world::World;
use serde_json::json;

/// Replicas of two pods each, one on each node.
const REPLICAS: [&str; 5] = ["a", "b", "c", "d", "e"];

pub fn the_descheduler_takes_whole_replicas_and_no_more_than_there_is_room_for() {
    let mut server = Server::start("descheduler").expect("it starts");
    let world = World::new("descheduler");
    let nodes = [world.node("n0"), world.node("n1")];
    for replica in REPLICAS {
        world.group(replica, 2);
        for (i, node) in nodes.iter().enumerate() {
            let pod = Pod::new(format!("{replica}-{i}")).of(replica).on(node);
            // Otherwise it ignores pods without a controller.
            world.pod(&pod.annotation("descheduler.alpha.kubernetes.io/evict", "true"));
        }
    }
    for pod in world.pods() {
        world.wait_ready(&pod);
    }
    world.budget("job", json!({"minAvailable": 4, "budgetScope": "Workload"}));
    world.wait_status("job", "has room", |status| status["disruptionsAllowedReplicas"] == 1);
    let observer = world.observe();

    // It evicts every pod once: one of five replicas may be disrupted, and all of its pods are evicted.
    deschedule(&world, "first");
    assert_eq!(whole_replicas(&world), 4);
    assert_eq!(observer.least(), 4);
    deschedule(&world, "again");
    assert_eq!(whole_replicas(&world), 4);

    world.edit_budget("job", &json!({"minAvailable": 2}));
    world.wait_status("job", "has room", |status| status["disruptionsAllowedReplicas"] == 2);
    deschedule(&world, "more");
    assert_eq!(whole_replicas(&world), 2);
    assert_eq!(observer.least(), 2);

    // Every eviction was decided by the budget, and each replica cost one unit.
    let decisions = server.decisions(&world.namespace);
    let evicted = decisions.iter().filter(|decision| decision.verdict == "allow");
    assert_eq!(evicted.clone().count(), 6, "{decisions:#?}");
    assert_eq!(evicted.map(|decision| decision.cost).sum::<i64>(), 3, "{decisions:#?}");
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

/// Runs it once over all pods of the namespace, and waits for its end.
#[track_caller]
fn deschedule(world: &World, name: &str) {
    let fixture = fixture();
    let policy = fixture.dir.join(format!("descheduler-{name}.json"));
    fs::write(&policy, policy_of(&world.namespace)).expect("the policy can be written");
    let mut command = Command::new(fixture.descheduler());
    command
        .arg("--client-connection-kubeconfig")
        .arg(fixture.dir.join("kubeconfigs/descheduler.kubeconfig"))
        .arg("--policy-config-file")
        .arg(&policy)
        // It runs once and does not listen.
        .args(["--descheduling-interval=0", "--secure-port=0", "--disable-metrics", "--v=2"])
        .current_dir(fixture.dir.join("home"))
        .env("HOME", fixture.dir.join("home"));
    let mut process = Process::start(command, &fixture.log(&format!("descheduler-{name}")));
    let status = process.wait(Duration::from_mins(1));
    assert!(status.success(), "{status}\n{}", process.output());
}

/// Returns its configuration in JSON, which is also YAML.
fn policy_of(namespace: &str) -> String {
    let policy = json!({
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [{
            "name": "all",
            "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
            "pluginConfig": [
                {"name": "PodLifeTime", "args": {
                    "namespaces": {"include": [namespace]},
                    "states": ["Running"],
                }},
            ],
        }],
    });
    format!("{policy:#}\n")
}

/// Returns the number of replicas, after checking that none is incomplete.
#[track_caller]
fn whole_replicas(world: &World) -> usize {
    let left: BTreeSet<String> = world.healthy_pods().into_iter().collect();
    let pods = |replica: &&str| [format!("{replica}-0"), format!("{replica}-1")];
    let whole = |replica: &&&str| pods(replica).iter().all(|pod| left.contains(pod));
    let whole: Vec<&str> = REPLICAS.iter().filter(whole).copied().collect();
    assert_eq!(left, whole.iter().flat_map(pods).collect(), "a replica is there by half");
    whole.len()
}
