//! The programs of the control plane that read budgets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_e2e::localkube::{errors, restart, restart_with};
use holdfast_e2e::pod::Pod;
use holdfast_e2e::server::{self, Server};
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

const SCHEDULER: &str = "kube-scheduler";
const CONTROLLERS: &str = "kube-controller-manager";
const API_SERVER: &str = "kube-apiserver";

/// A flag of kube-controller-manager that turns off the controller of built-in budgets.
const WITHOUT_DISRUPTION: &str = "--controllers=*,-disruption-controller";

pub fn scheduler_and_controllers_start_and_work_without_errors() {
    let mut server = Server::start("components").expect("it starts");
    restart(SCHEDULER);
    restart(CONTROLLERS);
    schedule_and_preempt("components");
    let without = restart_with(CONTROLLERS, &[WITHOUT_DISRUPTION]);
    schedule_and_preempt("components-without");
    drop(without);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

pub fn it_stays_as_long_as_no_controller_would_take_over() {
    let mut server = Server::start("stays").expect("it starts");
    let world = World::new("stays");
    let node = world.node("n");
    world.replica("a", 1, 1, &[&node]);
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    let without = restart_with(CONTROLLERS, &[WITHOUT_DISRUPTION]);

    let why = uninstall_while_evicting(&world).expect_err("built-in budgets would have no status");
    assert!(why.contains("disruption-controller does not run"), "{why}");
    assert!(why.contains("turn it on first"), "{why}");
    assert!(is_served(&world), "policy/v1 is with Holdfast again");
    world.evict("a-0").assert_denied(&["job needs 1 healthy replica and has 1"]);
    let budget = world.admin.get(&world.budget_path("job")).ok().body;
    assert_eq!(budget["spec"]["budgetScope"], "Workload", "{budget:#}");

    drop(without);
    let told = uninstall_while_evicting(&world).expect("now it can go");
    assert!(told.contains("removed mutatingwebhookconfiguration/holdfast"), "{told}");
    assert!(!is_served(&world), "policy/v1 is with kube-apiserver");
    // The built-in budget denies.
    assert_eq!(world.evict("a-0").code, 429);
    server.terminate();
    server.wait();
}

pub fn an_api_server_that_restarts_finds_policy_as_it_left_it() {
    let mut server = Server::start("restart").expect("it starts");
    let world = World::new("restart");
    let node = world.node("n");
    for name in ["a", "b"] {
        world.replica(name, 1, 1, &[&node]);
    }
    world.budget("job", json!({"minAvailable": 2, "budgetScope": "Workload"}));

    server.kill();
    // This waits for /readyz.
    restart(API_SERVER);
    let refused = world.evict("a-0");
    assert!((500..600).contains(&refused.code), "{refused:#?}");
    assert!(is_ours(&world));
    let mut server = Server::start("restart-back").expect("it comes back");
    world.evict("a-0").assert_denied(&["job needs 2 healthy replicas and has 2"]);

    restart(API_SERVER);
    until("evictions are decided again", || {
        let outcome = world.evict("a-0");
        assert!(!outcome.is_evicted(), "{outcome:#?}");
        if outcome.code == 429 { Ok(()) } else { Err(format!("{outcome:#?}")) }
    });
    world.evict("a-0").assert_denied(&["job needs 2 healthy replicas and has 2"]);
    assert!(is_ours(&world) && is_served(&world));
    world.edit_budget("job", &json!({"minAvailable": 1}));
    world.wait_status("job", "has room", |status| status["disruptionsAllowedReplicas"] == 1);
    world.evict_soon("a-0");
    world.evict("b-0").assert_denied(&["job needs 1 healthy replica and has 1"]);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

/// Tests the work of these programs, and that none of them logs errors about budgets.
#[track_caller]
fn schedule_and_preempt(name: &str) {
    let world = World::new(name);
    let (large, small) = (world.node("large"), world.small_node("small", 2));
    world.budget("job", json!({"minAvailable": 1}));
    world.budget("web", json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}));

    let deployments = world.path("apis/apps/v1", "deployments", "");
    let _ = world.admin.post(&deployments, &deployment(&large)).ok();
    until("the Deployment is up", || {
        let status = world.admin.get(&format!("{deployments}/web")).ok().body["status"].take();
        if status["readyReplicas"] == 3 { Ok(()) } else { Err(status.to_string()) }
    });
    world.wait_status("web", "counts its pods", |status| {
        status["expectedPods"] == 3 && status["disruptionsAllowed"] == 1
    });

    let classes = ["spare", "urgent"].map(|class| format!("{}-{class}", world.namespace));
    for (class, value) in classes.iter().zip([10, 1000]) {
        let class = json!({"metadata": {"name": class}, "value": value});
        let _ = world.admin.post(PRIORITY_CLASSES, &class).ok();
    }
    let [spare, urgent] = &classes;
    schedule(&world, &Pod::new("guarded"), &small, None);
    schedule(&world, &Pod::new("spare").label("app", "spare"), &small, Some(spare));
    world.wait_status("job", "counts its pod", |status| status["currentHealthy"] == 1);
    // Only the budget makes the difference: `guarded` has a lower priority than `spare`.
    schedule(&world, &Pod::new("first").label("app", "urgent"), &small, Some(urgent));
    assert_eq!(on(&world, &small), ["first", "guarded"]);
    // Without a choice, the budget does not protect from preemption.
    schedule(&world, &Pod::new("second").label("app", "urgent"), &small, Some(urgent));
    assert_eq!(on(&world, &small), ["first", "second"]);
    for class in &classes {
        let _ = world.admin.delete(&format!("{PRIORITY_CLASSES}/{class}")).ok();
    }

    for component in [SCHEDULER, CONTROLLERS] {
        let errors = errors(component, &["poddisruptionbudget", "policy"]);
        assert!(errors.is_empty(), "{component}: {errors:#?}");
    }
}

const PRIORITY_CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

fn deployment(node: &str) -> Value {
    let labels = json!({"app": "web"});
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {HOSTNAME: node},
                    "containers": [{"name": "main", "image": "example.com/main"}],
                },
            },
        },
    })
}

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Creates a pod of one CPU that the scheduler must put on this node, and waits until it runs.
#[track_caller]
fn schedule(world: &World, pod: &Pod, node: &str, class: Option<&str>) {
    let mut manifest = pod.manifest();
    manifest["spec"]["nodeSelector"] = json!({HOSTNAME: node});
    manifest["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    if let Some(class) = class {
        manifest["spec"]["priorityClassName"] = json!(class);
    }
    let _ = world.admin.post(&world.path("api/v1", "pods", ""), &manifest).ok();
    world.wait_ready(pod.name());
}

/// Returns the names of the healthy pods on a node.
fn on(world: &World, node: &str) -> Vec<String> {
    let pods = world.path("api/v1", "pods", "");
    let there = world.admin.list(&format!("{pods}?fieldSelector=spec.nodeName={node}"));
    let healthy = there.iter().filter(|pod| holdfast_audit::cluster::is_healthy(pod));
    healthy.map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Runs `holdfast uninstall` with every budget, and checks that no pod is evicted during it.
#[track_caller]
fn uninstall_while_evicting(world: &World) -> Result<String, String> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let evicting = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let outcome = world.evict("a-0");
                assert!(!outcome.is_evicted(), "{outcome:#?}");
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let outcome = server::uninstall();
        done.store(true, Ordering::Relaxed);
        evicting.join().expect("no eviction passes");
        outcome
    })
}

/// Returns true if Holdfast answers for `policy/v1`.
fn is_served(world: &World) -> bool {
    let answer = world.admin.get(&world.budget_path("")).ok();
    answer.headers.contains_key("x-holdfast-served")
}

/// Returns true if the API server would send requests to Holdfast.
fn is_ours(world: &World) -> bool {
    let path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.policy";
    world.admin.get(path).ok().body["spec"]["service"]["name"] == "holdfast"
}
