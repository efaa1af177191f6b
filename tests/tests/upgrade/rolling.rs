//! The instances are replaced by another release one after the other. Finally Holdfast is uninstalled.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_e2e::everything::everything;
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::fleet::Fleet;
use holdfast_e2e::job::{Job, Shape};
use holdfast_e2e::load::under_load;
use holdfast_e2e::lws::{Set, Story};
use holdfast_e2e::wait::{SetWhenDropped, until};
use holdfast_e2e::world::World;
use holdfast_e2e::{holdfast, printed, server};
use serde_json::json;

/// The name of the namespaces and nodes of this test.
const NAME: &str = "upgrade";

/// How long two releases run together, and each alone.
const TOGETHER: Duration = Duration::from_secs(8);

/// Only Holdfast allows groups to be taken down, so it knows every loss at once.
const NO_LAG: Duration = Duration::ZERO;

/// An eviction succeeds, is denied, or is for a pod that is gone. It must not fail.
const ANSWERS: [u16; 3] = [201, 404, 429];

const WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/holdfast";

pub fn upgrade_rollback_and_uninstall_under_a_running_drain() {
    printed::await_namespace_gone();
    let before = own_apart(everything());
    let old = fixture().previous().expect("it was looked for");
    let mut fleet = Fleet::start_of(old, NAME, 2, &[]);
    let meanwhile = own_apart(everything());

    // Scope Workload, over PodGroups and a LeaderWorkerSet, and scope Pod.
    let shape = Shape { budgets: 2, replicas: 6, pods: 3, min_count: 2, min_available: 5 };
    let groups = Job::create(&format!("{NAME}-groups"), shape);
    let shape = Shape { budgets: 1, replicas: 6, pods: 1, min_count: 1, min_available: 5 };
    let pods = Job::create(&format!("{NAME}-pods"), shape);
    pods.world.edit_budget("b0", &json!({"budgetScope": "Pod"}));
    let world = World::new(&format!("{NAME}-lws"));
    let set = Set::new(&world, 4, &json!({}));
    world.budget("serve", json!({"maxUnavailable": 1, "budgetScope": "Workload"}));

    let observers = [groups.observe(), pods.observe()];
    let history = set.watch();
    let done = AtomicBool::new(false);
    let mut of_pods = None;
    let of_groups = std::thread::scope(|scope| {
        let ending = SetWhenDropped(&done);
        let draining = scope.spawn(|| drain_one_after_the_other(&world, &set, &done));
        let of_groups = under_load(&groups, 8, || {
            of_pods = Some(under_load(&pods, 4, || {
                std::thread::sleep(TOGETHER);
                roll(&mut fleet, &fixture().holdfast, &groups, "upgrade");
                roll(&mut fleet, old, &groups, "rollback");
            }));
        });
        drop(ending);
        let drains = draining.join().expect("every drain ends well");
        println!("{drains} nodes drained one after the other");
        assert!(drains > 0);
        of_groups
    });
    let of_pods = of_pods.expect("it was under load");
    let least = [groups.assert_never_below(&observers[0]), pods.assert_never_below(&observers[1])];
    println!("PodGroups: {of_groups}; fewest healthy replicas of a budget {} of 6", least[0]);
    println!("pods: {of_pods}; fewest healthy {} of 6", least[1]);
    for tally in [&of_groups, &of_pods] {
        tally.assert_only(&ANSWERS);
        assert!(tally.count(201) > 0 && tally.count(429) > 0, "{tally}");
    }
    for job in [&groups, &pods] {
        job.wait_whole();
        job.wait_status_is_true(Duration::from_secs(30));
    }
    set.wait_healthy(4);
    let story = Story::of(&history.end(), NO_LAG);
    story.assert_kept();
    println!(
        "LeaderWorkerSet: {} groups disrupted, fewest healthy {} of 4",
        story.groups.len(),
        story.least
    );
    assert!(story.least >= 3 && story.evicted() > 0, "{story:#?}");

    uninstall_under_a_drain(&world, &set, &[&groups, &pods]);
    fleet.stop();
    drop((groups, pods));
    until("all is as it was", || {
        let after = own_apart(everything());
        let difference: Vec<&String> = after.symmetric_difference(&before).collect();
        if difference.is_empty() { Ok(()) } else { Err(format!("{difference:#?}")) }
    });
    let ours: Vec<&String> = meanwhile.difference(&before).collect();
    println!("{} objects before and after; meanwhile also {ours:#?}", before.len());
}

/// Replaces every instance by this release. Both releases run together for some time.
fn roll(fleet: &mut Fleet, program: &Path, job: &Job, what: &str) {
    program.clone_into(&mut fleet.program);
    for i in 0..fleet.servers.len() {
        let began = Instant::now();
        fleet.replace(i);
        println!("{what}: instance {i} replaced in {:.1} s", began.elapsed().as_secs_f64());
        let version = || {
            let webhook = fixture().admin.get(WEBHOOK).ok().body;
            webhook["metadata"]["resourceVersion"].clone()
        };
        std::thread::sleep(TOGETHER / 2);
        let settled = version();
        std::thread::sleep(TOGETHER / 2);
        assert_eq!(version(), settled, "{what}: two releases write it in turns");
        let decisions = |i: usize| fleet.servers[i].decisions(&job.world.namespace).len();
        let decided: Vec<usize> = (0..fleet.servers.len()).map(decisions).collect();
        println!("{what}: decided by each instance until now {decided:?}");
        assert!(decided.iter().all(|n| *n > 0), "{decided:?}");
    }
}

/// Drains one node after the other. Returns how many.
fn drain_one_after_the_other(world: &World, set: &Set<'_>, done: &AtomicBool) -> usize {
    for (drained, node) in set.nodes().iter().cycle().enumerate() {
        if done.load(Ordering::Relaxed) {
            return drained;
        }
        let (code, output) = world.drain(node).finish();
        assert_eq!(code, Some(0), "{output}");
        set.set_schedulable(true);
    }
    0
}

/// The uninstallation is refused while budgets would lose their protection. After that it causes no failed
/// eviction.
fn uninstall_under_a_drain(world: &World, set: &Set<'_>, jobs: &[&Job; 2]) {
    world.edit_budget("serve", &json!({"maxUnavailable": 0}));
    world.wait_status("serve", "has no room", |status| status["disruptionsAllowed"] == 0);
    let (node, _) = set.busiest_node();
    let mut drain = world.drain(&node);
    drain.wait_for("will retry after 5s");
    let serve = format!("poddisruptionbudget {}/serve (counts replicas)", world.namespace);
    let pods = format!("poddisruptionbudget {}/b0: Holdfast will not", jobs[1].world.namespace);
    let refused = server::uninstall_with(&[]).expect_err("budgets would be lost");
    let (code, listed) = holdfast(&["uninstall", "--dry-run"]);
    assert_eq!(code, Some(1), "{listed}");
    for told in [&refused, &listed] {
        assert!(told.contains(&serve) && told.contains(&pods), "{told}");
    }
    assert!(refused.contains("--allow-loss"), "{refused}");
    assert!(drain.is_running(), "{}", drain.output());
    assert_eq!(set.pods().len(), 4 * holdfast_e2e::lws::SIZE);

    let mut told = String::new();
    let began = Instant::now();
    let mut of_pods = None;
    let of_groups = under_load(jobs[0], 8, || {
        of_pods = Some(under_load(jobs[1], 4, || {
            told = server::uninstall_with(&["--delete-budgets"]).expect("it can be uninstalled");
            std::thread::sleep(Duration::from_secs(1));
        }));
    });
    let of_pods = of_pods.expect("it was under load");
    println!("uninstalled in {:.1} s: {of_groups}; {of_pods}", began.elapsed().as_secs_f64());
    assert!(told.contains(&format!("{serve}: will be deleted")), "{told}");
    for tally in [of_groups, of_pods] {
        tally.assert_only(&ANSWERS);
    }
    let (code, output) = drain.finish();
    assert_eq!(code, Some(0), "{output}");
    let (code, listed) = holdfast(&["uninstall", "--dry-run"]);
    assert_eq!(code, Some(0), "{listed}");
}

/// Leaves out the objects of tests, which may be terminating.
fn own_apart(mut all: BTreeSet<String>) -> BTreeSet<String> {
    all.retain(|object| !object.contains("e2e-"));
    all
}
