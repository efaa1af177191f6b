//! `holdfast drain` and `holdfast plan drain`, on a real `LeaderWorkerSet`.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::gang::Shape;
use holdfast_e2e::holdfast;
use holdfast_e2e::lws::{Set, Story};
use holdfast_e2e::process::Process;
use holdfast_e2e::shared::server;
use holdfast_e2e::world::{WORLD, World};
use rustix::process::Signal;
use serde_json::{Value, json};

const GROUPS: usize = 8;

/// The longest time of a drain. A grant that no eviction uses delays a drain by at least 60 s (semantics 5). Without
/// other load a drain takes at most 20 s (`cargo xtask bench --only drain`); here other tests run beside it.
const LONGEST: Duration = Duration::from_mins(1);

/// The result of a drain of three of six nodes with eight groups of four. One group may be down.
#[derive(Debug)]
struct Drained {
    /// How often each group broke.
    broken: BTreeMap<usize, usize>,
    /// The number of new leaders of each group.
    recreated: BTreeMap<usize, usize>,
    most_down: usize,
    took: Duration,
}

impl Drained {
    fn by(name: &str, drain: impl FnOnce(&World, &[String])) -> Self {
        let world = World::new(name);
        let set = Set::over(&world, 6, GROUPS, 4);
        world.budget("job", json!({"maxUnavailable": 1, "budgetScope": "Workload"}));
        let history = set.watch();
        let began = Instant::now();
        drain(&world, &set.nodes()[..3]);
        let took = began.elapsed();
        set.wait_healthy(GROUPS);
        let left = set.pods();
        let left = left
            .iter()
            .filter(|pod| set.nodes()[..3].iter().any(|n| pod["spec"]["nodeName"] == **n));
        assert_eq!(left.count(), 0, "the nodes are empty");
        let story = Story::of(&history.end(), Duration::ZERO);
        story.assert_kept();
        let (broken, recreated) = (story.disrupted(), story.recreated());
        Self { broken, recreated, most_down: GROUPS - story.least, took }
    }

    fn by_holdfast(name: &str) -> Self {
        let drained = Self::by(name, |_, nodes| {
            let mut args = vec!["drain", "--timeout=200s"];
            args.extend(nodes.iter().map(String::as_str));
            let (code, output) = holdfast(&args);
            assert_eq!(code, Some(0), "{output}");
            for node in nodes {
                assert!(output.contains(&format!("node/{node} drained")), "{output}");
            }
        });
        assert!(drained.took < LONGEST, "{drained:?}");
        drained
    }

    fn breaks(&self) -> usize {
        self.broken.values().sum()
    }
}

pub fn three_nodes_are_drained_and_no_replica_is_broken_twice() {
    let drained = Drained::by_holdfast("whole");
    println!("holdfast drain: {drained:?}");
    assert!(drained.broken.values().all(|times| *times == 1), "{drained:?}");
    // If a leader meets workers of the previous group, LeaderWorkerSet before 0.9 recreates the group once
    // more.
    assert_eq!(drained.recreated, drained.broken, "{drained:?}");
    assert_eq!(drained.most_down, 1, "{drained:?}");
}

/// Takes minutes, because kubectl tries again only every five seconds.
pub fn kubectl_breaks_more_replicas_and_takes_longer() {
    let kubectl = Drained::by("kubectl", |world, nodes| {
        for node in nodes {
            let (code, output) = world.drain(node).finish();
            assert_eq!(code, Some(0), "{output}");
        }
    });
    let ours = Drained::by_holdfast("beside");
    for (name, drained) in [("kubectl drain", &kubectl), ("holdfast drain", &ours)] {
        let Drained { broken, most_down, took, .. } = drained;
        let worst = broken.values().max().copied().unwrap_or(0);
        println!(
            "{name}: {} replicas broken, {} breaks, one {worst} times, {most_down} down at once, {:.1} s",
            broken.len(),
            drained.breaks(),
            took.as_secs_f32()
        );
    }
    assert!(ours.broken.values().all(|times| *times == 1), "{ours:?}");
    assert_eq!(ours.most_down, 1, "{ours:?}");
    assert!(ours.breaks() <= kubectl.breaks(), "{ours:?} {kubectl:?}");
}

/// Three pods, of which two are needed, and a budget that would allow the replica to break.
pub fn a_replica_with_pods_to_spare_stays_whole() {
    let world = World::new("spare");
    world.group("job", 2);
    let nodes: Vec<String> = (0..3).map(|i| world.node(&format!("n{i}"))).collect();
    let mut set = json!({
        "metadata": {"name": "job"},
        "spec": {
            "replicas": 3,
            "podManagementPolicy": "Parallel",
            "serviceName": "job",
            "selector": {"matchLabels": {"app": "job"}},
            "template": {
                "metadata": {"labels": {"app": "job"}},
                "spec": {
                    "nodeSelector": {WORLD: world.namespace},
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "main", "image": "example.com/main"}],
                },
            },
        },
    });
    Shape::of_cluster().put(&mut set["spec"]["template"], "job");
    let _ = world.admin.post(&world.path("apis/apps/v1", "statefulsets", ""), &set).ok();
    (0..3).for_each(|pod| world.wait_ready(&format!("job-{pod}")));
    world.budget("job", json!({"minAvailable": 0, "budgetScope": "Workload"}));
    world.wait_status("job", "sees it healthy", |s| s["currentHealthyReplicas"] == 1);

    let drained: Vec<&str> = nodes[..2].iter().map(String::as_str).collect();
    let before = world.admin.list(&world.path("api/v1", "pods", ""));
    let is_drained = |pod: &&Value| drained.iter().any(|node| pod["spec"]["nodeName"] == **node);
    assert!(before.iter().filter(is_drained).count() >= 2, "{before:#?}");
    let (code, output) = holdfast(&[&["drain", "--timeout=60s"], &*drained].concat());
    assert_eq!(code, Some(0), "{output}");
    let decisions = server().decisions(&world.namespace);
    assert!(decisions.iter().all(|decision| decision.cost == 0), "{decisions:#?}\n{output}");
}

pub fn an_interrupted_drain_says_what_is_left_and_goes_on_when_run_again() {
    let world = World::new("interrupted");
    let node = world.node("n");
    world.replica("a", 2, 2, &[&node]);
    world.replica("b", 2, 2, &[&node]);
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));

    let (code, plan) = holdfast(&["plan", "drain", &node, "--force", "-o", "json"]);
    let file = fixture().dir.join(format!("{}-plan.json", world.namespace));
    std::fs::write(&file, &plan).expect("the plan can be written");
    let plan: Value = serde_json::from_str(&plan).expect("the plan is JSON");
    assert_eq!((code, plan["waves"].as_array().map(Vec::len)), (Some(0), Some(2)), "{plan:#}");
    // What kubectl refuses is refused with its message.
    let (code, output) = holdfast(&["drain", &node, "--dry-run"]);
    assert_eq!(code, Some(1), "{output}");
    let refusal = "cannot delete Pods that declare no controller (use --force to override)";
    assert!(output.contains(refusal), "{output}");
    assert_eq!(world.pods().len(), 4);

    // Nothing restores the first replica, so the second is denied.
    let mut command = Command::new(&fixture().holdfast);
    command.args(["drain", &node, "--force", "--kubeconfig"]).arg(&fixture().admin_kubeconfig);
    let mut process = Process::start(command, &fixture().log("drain-interrupted"));
    holdfast_e2e::wait::until("the first replica is gone and the second held", || {
        let output = process.output();
        let held = output.contains("waiting: Budget job needs 1 healthy replica")
            && world.pods().len() == 2;
        if held { Ok(()) } else { Err(output) }
    });
    process.signal(Signal::INT);
    let status = process.wait(Duration::from_secs(10));
    let output = process.output();
    assert_eq!(status.code(), Some(130), "{output}");
    for said in ["interrupted", "not drained: ", "cordoned: ", "hint: run it again"] {
        assert!(output.contains(said), "{said}: {output}");
    }

    // The state is in the cluster: the eviction is denied again, until the budget changes.
    let (code, output) = holdfast(&["drain", &node, "--force", "--timeout=1s"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("global timeout reached: 1s"), "{output}");
    world.edit_budget("job", &json!({"minAvailable": 0}));
    // A plan may be older than the present state.
    let file = file.to_string_lossy();
    let (code, output) = holdfast(&["drain", "--plan", &file, "--force", "--timeout=60s"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains(&format!("node/{node} already cordoned")), "{output}");
    assert_eq!(world.pods().len(), 0, "{output}");
}
