//! The cost of an eviction for a budget that counts replicas.

use holdfast_e2e::evict::Eviction;
use holdfast_e2e::fixture::{Mode, fixture};
use holdfast_e2e::pod::Pod;
use holdfast_e2e::world::{World, grants};
use serde_json::{Value, json};

use holdfast_e2e::shared::server;

fn workload(min_available: usize) -> Value {
    json!({"minAvailable": min_available, "budgetScope": "Workload"})
}

pub fn surplus_pods_are_free_and_the_third_eviction_costs_one() {
    let world = World::new("surplus");
    let node = world.node("n");
    world.replica("a", 10, 8, &[&node]);
    world.replica("b", 8, 8, &[&node]);
    world.budget("job", workload(1));

    // The status records each while it is in flight, with its cost.
    for pod in ["a-0", "a-1", "a-2"] {
        world.evict_in_vain(pod);
    }
    let status = world.status("job");
    assert_eq!(
        grants(&status),
        [("a-0".into(), 0), ("a-1".into(), 0), ("a-2".into(), 1)],
        "{status:#}"
    );
    assert_eq!(status["disruptionsAllowedReplicas"], 0, "{status:#}");
    world.evict("b-0").assert_denied(&["job needs 1 healthy replica and has 1", "PodGroup b"]);

    // Evict the same pods again, this time for real: no more than before is used up.
    for pod in ["a-0", "a-1", "a-2"] {
        world.evict(pod).assert_evicted();
    }
    // In native mode each pod was evicted twice by name, and their shared grant stays until it expires.
    let ended = |status: &Value| grants(status).is_empty() || fixture().mode == Mode::Native;
    let status = world.wait_status("job", "has no grants left", ended);
    assert_eq!(status["currentHealthyReplicas"], 1, "{status:#}");
    world.evict("b-0").assert_denied(&["job needs 1 healthy replica and has 1"]);
    let decisions = server().decisions(&world.namespace);
    let costs: Vec<i64> =
        decisions.iter().filter(|d| d.verdict == "allow").map(|d| d.cost).collect();
    // A renewal is decided as if its pod held no grant (semantics 6.0). The grants of the other two leave the
    // replica just enough pods, so each of the three breaks it.
    assert_eq!(costs, [0, 0, 1, 1, 1, 1], "{decisions:#?}");
}

/// Two replicas of two, one of them broken. The eviction of its healthy pod costs nothing. While that
/// eviction is in flight, the other pod becomes Ready. Counted by readiness alone, both replicas would look
/// whole.
pub fn a_free_eviction_in_flight_lets_no_second_replica_go() {
    let broken_then_repaired = |name: &str, in_flight: bool| {
        let world = World::new(name);
        let node = world.node("n");
        world.group("a", 2);
        world.pod(&Pod::new("a-0").of("a").on(&node).not_ready());
        world.pod(&Pod::new("a-1").of("a").on(&node));
        world.wait_ready("a-1");
        world.replica("b", 2, 2, &[&node]);
        world.wait_pod("a-0", "runs", |pod| pod["status"]["phase"] == "Running");
        world.budget("job", workload(1));
        world.wait_status("job", "counts one replica", |s| s["currentHealthyReplicas"] == 1);
        if in_flight {
            world.evict_in_vain("a-1");
            assert_eq!(grants(&world.status("job")), [("a-1".into(), 0)]);
        }
        world.annotate("a-0", "localkube/ready", "true");
        world.wait_ready("a-0");
        let pods = if in_flight { 3 } else { 4 };
        world.wait_status("job", "counts the repaired pod", |s| s["currentHealthy"] == pods);
        world
    };

    let world = broken_then_repaired("in-flight", true);
    assert_eq!(world.healthy_replicas(), 2, "as far as readiness goes");
    world.evict("b-0").assert_denied(&["job needs 1 healthy replica and has 1", "PodGroup b"]);
    assert_eq!(world.healthy_replicas(), 2);

    let world = broken_then_repaired("not-in-flight", false);
    world.evict("b-0").assert_evicted();
}

pub fn a_broken_replica_may_move_but_no_other_may_break() {
    let world = World::new("broken");
    let node = world.node("n");
    world.group("a", 2);
    world.pod(&Pod::new("a-0").of("a").on(&node).not_ready());
    world.pod(&Pod::new("a-1").of("a").on(&node));
    world.replica("b", 2, 2, &[&node]);
    world.budget("job", workload(1));
    world.wait_status("job", "counts one replica", |s| s["currentHealthyReplicas"] == 1);

    world.evict("b-0").assert_denied(&["job needs 1 healthy replica and has 1", "PodGroup b"]);
    world.evict("a-0").assert_evicted();
    world.evict("a-1").assert_evicted();
    assert_eq!(world.healthy_replicas(), 1);

    // With too few healthy replicas, the broken replica must be able to recover.
    let world = World::new("recover");
    let node = world.node("n");
    world.group("a", 2);
    world.pod(&Pod::new("a-0").of("a").on(&node).not_ready());
    world.pod(&Pod::new("a-1").of("a").on(&node));
    world.wait_ready("a-1");
    world.budget("job", workload(1));
    world.wait_status("job", "counts the pods", |s| s["currentHealthy"] == 1);
    world.evict("a-1").assert_denied(&["job needs 1 healthy replica and has 0", "PodGroup a"]);
    world.evict("a-0").assert_denied(&["job needs 1 healthy replica and has 0", "PodGroup a"]);
    world.edit_budget("job", &json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}));
    world.evict_soon("a-0");
}

pub fn a_pod_under_two_budgets_needs_both() {
    let world = World::new("two");
    let node = world.node("n");
    world.replica("a", 2, 2, &[&node]);
    world.replica("b", 2, 2, &[&node]);
    world.budget("wide", workload(1));
    world.budget("narrow", json!({"minAvailable": 4}));

    let denied = world.evict("a-0");
    denied.assert_denied(&["narrow needs 4 healthy pods and has 4"]);
    assert_eq!(denied.causes.len(), 1, "the other has room: {denied:#?}");
    for budget in ["wide", "narrow"] {
        let status = world.status(budget);
        assert_eq!(grants(&status), [], "{budget}: {status:#}");
        assert!(status["disruptedPods"].is_null(), "{budget}: {status:#}");
    }

    world.edit_budget("narrow", &json!({"minAvailable": 3}));
    world.wait_status("narrow", "has room", |s| s["disruptionsAllowed"] == 1);
    world.send(&Eviction::of("a-0").that_comes_to_nothing()).assert_came_to_nothing();
    let uid = |budget| {
        let object = world.admin.get(&world.budget_path(budget)).ok().body;
        object["metadata"]["uid"].clone()
    };
    for budget in ["wide", "narrow"] {
        let status = world.status(budget);
        assert_eq!(grants(&status), [("a-0".into(), 1)], "{budget}: {status:#}");
        assert!(status["disruptedPods"]["a-0"].is_string(), "{budget}: {status:#}");
        let covering = json!(["narrow", "wide"].map(uid));
        assert_eq!(status["grants"][0]["budgets"], covering, "{budget}: {status:#}");
    }
    let denied = world.evict("b-0");
    assert_eq!(denied.causes.len(), 2, "now neither has room: {denied:#?}");
    world.evict("a-0").assert_evicted();
}
