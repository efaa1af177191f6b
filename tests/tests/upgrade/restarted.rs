//! Native mode with a single server: it is down while another release replaces it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_e2e::evict::Eviction;
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::lws::{Set, Story};
use holdfast_e2e::pod::Pod;
use holdfast_e2e::server::{self, Server};
use holdfast_e2e::wait::SetWhenDropped;
use holdfast_e2e::world::World;
use serde_json::json;

/// How long each release serves.
const SERVES: Duration = Duration::from_secs(8);
const NO_LAG: Duration = Duration::ZERO;

pub fn a_native_server_comes_and_goes_back_with_live_budgets() {
    let old = fixture().previous().expect("it was looked for");
    let mut server = Server::start_of(old, "restarted-0", &[]).expect("it starts");
    let world = World::new("restarted");
    let set = Set::new(&world, 4, &json!({}));
    let web = World::new("restarted-web");
    for pod in (0..4).map(|i| format!("web-{i}")) {
        web.pod(&Pod::new(&pod).on(&set.nodes()[0]));
        web.wait_ready(&pod);
    }
    world.budget("serve", json!({"maxUnavailable": 1, "budgetScope": "Workload"}));
    web.budget("web", json!({"minAvailable": 3}));
    // Read the storage of Holdfast, because `policy/v1` is not served for some moments.
    let history =
        set.watch_with(world.path("apis/policy.holdfast.dev/v1", "poddisruptionbudgets", ""));

    let done = AtomicBool::new(false);
    let (server, answers) = std::thread::scope(|scope| {
        let ending = SetWhenDropped(&done);
        let evicting = scope.spawn(|| evict_all_the_time(&[&world, &web], &done));
        for (n, program) in [(1, fixture().holdfast.as_path()), (2, old)] {
            std::thread::sleep(SERVES);
            let began = Instant::now();
            server.terminate();
            assert_eq!(server.wait().code(), Some(0), "{}", server.log());
            server = Server::start_of(program, &format!("restarted-{n}"), &[]).expect("it starts");
            println!("restart {n}: {:.1} s", began.elapsed().as_secs_f64());
        }
        std::thread::sleep(SERVES);
        drop(ending);
        (server, evicting.join().expect("every eviction is answered"))
    });
    println!("answers {answers:?}");
    assert!(answers.contains_key(&201) && answers.contains_key(&429), "{answers:?}");
    let known = |code: &u16| [201, 404, 409, 429, 500, 503].contains(code);
    assert!(answers.keys().all(known), "{answers:?}");

    set.wait_healthy(4);
    let story = Story::of(&history.end(), NO_LAG);
    story.assert_kept();
    println!("{} groups disrupted, fewest healthy {} of 4", story.groups.len(), story.least);
    assert!(story.least >= 3 && story.evicted() > 0, "{story:#?}");
    // No controller replaces them: only one could be evicted, by either release.
    assert_eq!(web.pods().len(), 3);

    let mut server = server;
    let _ = server::uninstall().expect("it can be uninstalled");
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

/// Returns the number of answers by status code.
fn evict_all_the_time(worlds: &[&World], done: &AtomicBool) -> BTreeMap<u16, usize> {
    let mut answers = BTreeMap::new();
    while !done.load(Ordering::Relaxed) {
        for (world, pod) in
            worlds.iter().flat_map(|world| world.pods().into_iter().map(move |pod| (world, pod)))
        {
            let outcome = world.send(&Eviction::of(&pod));
            *answers.entry(outcome.code).or_default() += 1;
        }
    }
    answers
}
