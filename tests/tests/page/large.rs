//! The web page with a large cluster.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use holdfast_e2e::browser::{END, LEFT};
use holdfast_e2e::pod::Pod;
use holdfast_e2e::wait::until_within;
use holdfast_e2e::world::World;
use serde_json::json;

use super::browser_at;

const REPLICAS: usize = 2000;

pub fn two_thousand_replicas_are_drawn_and_found() {
    let world = World::new("large");
    let nodes: Vec<String> = (0..10).map(|n| world.node(&format!("n{n}"))).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let index @ 0..REPLICAS = next.fetch_add(1, Ordering::Relaxed) {
                    let pod = Pod::new(format!("serve-{index}"))
                        .on(&nodes[index % nodes.len()])
                        .label("leaderworkerset.sigs.k8s.io/name", "serve")
                        .label("leaderworkerset.sigs.k8s.io/group-index", &index.to_string())
                        .label("leaderworkerset.sigs.k8s.io/group-key", &format!("key-{index}"))
                        .annotation("leaderworkerset.sigs.k8s.io/size", "1");
                    world.pod(&pod);
                }
            });
        }
    });
    world.budget("job", json!({"minAvailable": REPLICAS - 1, "budgetScope": "Workload"}));
    let browser = browser_at(&world);
    let healthy = "return document.querySelectorAll('#budgets .cell.healthy').length";
    until_within(Duration::from_mins(3), "all are drawn", || {
        let seen = browser.run(healthy);
        if seen == json!(REPLICAS) { Ok(()) } else { Err(seen.to_string()) }
    });
    let times = browser.run(
        "const took = (what) => { const began = performance.now(); what(); return Math.round(performance.now() - began) }; \
         const first = took(() => { budgets.replaceChildren(); draw(); budgets.offsetHeight }); \
         return [first, took(() => { draw(); budgets.offsetHeight })]",
    );
    println!("{REPLICAS} replicas: drawn anew and again in {times} ms");
    browser.picture("two-thousand");

    browser.run("document.querySelector('#budgets .cell').focus()");
    browser.press(END);
    browser.press(LEFT);
    let last = "return [...document.querySelectorAll('#budgets .cell')].at(-2).dataset.unit";
    let last = browser.run(last);
    browser.wait_text("#details h2", last.as_str().expect("a replica has a name"));
    browser.run("document.getElementById('filter').value = ''");
    browser.click("#filter");
    browser.press("serve-1234");
    let bright = "return [...document.querySelectorAll('#budgets .cell:not(.dim)')].map((cell) => cell.dataset.unit)";
    browser.wait("one is found", bright, &json!(["LeaderWorkerSet serve group 1234"]));
    browser.picture("found");
}
