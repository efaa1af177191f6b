//! The traces of a decision for operators, and how to see more of them.

use std::io::Write as _;
use std::net::TcpStream;

use holdfast_e2e::evict::Outcome;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::shared;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::json;

pub fn a_denial_names_the_decision_and_the_log_and_the_metrics_have_it() {
    let world = World::new("decision");
    let node = world.node("n");
    world.replica("a", 1, 1, &[&node]);
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    let outcome = world.evict("a-0");
    outcome.assert_denied(&["job needs 1 healthy replica"]);
    let decision = decision_of(&outcome);
    let server = shared::server();
    let pod = format!("\"pod\":\"{}/a-0\"", world.namespace);
    let log = server.log();
    let mut lines = log.lines().filter(|line| line.contains("\"message\":\"decided\""));
    let line = lines.find(|line| line.contains(&format!("\"eviction\":\"{decision}")));
    assert!(line.is_some_and(|line| line.contains(&pod)), "{decision}: {line:?}");
    // Each bucket shows its last decision only, and other tests cause decisions too.
    until("the metrics name a decision while it is the last", || {
        let exemplar = format!(" # {{decision=\"{}\"}}", decision_of(&world.evict("a-0")));
        let page = server.page("/metrics");
        if page.contains(&exemplar) { Ok(()) } else { Err(format!("no{exemplar} in {page}")) }
    });
    let blocked = server.metric("holdfast_blocked_seconds");
    assert!(blocked.is_some_and(|seconds| seconds > 0.0), "{blocked:?}");
    assert!(server.metric("holdfast_budgets{state=\"all\"}").is_some_and(|n| n >= 1.0));
}

/// Returns the decision id from the message.
fn decision_of(outcome: &Outcome) -> &str {
    let named = outcome.message.rsplit_once(" (decision ").and_then(|(_, id)| id.strip_suffix(')'));
    named.unwrap_or_else(|| panic!("no decision in {outcome:#?}"))
}

pub fn what_is_said_again_is_counted() {
    let world = World::new("again");
    world.budget("job", json!({"minAvailable": 1}));
    let said = |times: u64| {
        until(&format!("it was said {times} times that there are no pods"), || {
            let mut events = world.admin.list(&world.path("api/v1", "events", ""));
            events.retain(|event| event["reason"] == "NoPods");
            let counts: Vec<_> = events.iter().map(|event| event["count"].as_u64()).collect();
            if counts == [Some(times)] { Ok(()) } else { Err(format!("{events:#?}")) }
        });
    };
    said(1);
    world.pod(&Pod::new("a"));
    world.wait_status("job", "counts the pod", |status| status["expectedPods"] == 1);
    let _ = world.admin.delete(&world.path("api/v1", "pods", "a")).ok();
    said(2);
}

pub fn the_log_level_changes_while_it_runs() {
    let server = shared::server();
    let is_debugging = || server.log().contains("\"level\":\"DEBUG\"");
    assert!(!is_debugging(), "before it was asked for");
    let wrong = server.put("/debug/log-level", "holdfast=loud");
    assert!(wrong.starts_with("HTTP/1.0 400"), "{wrong}");
    let body = |page: String| page.lines().last().map(str::to_owned);
    let before = body(server.page("/debug/log-level"));
    let changed = server.put("/debug/log-level", "trace");
    assert!(changed.contains("holdfast_server=trace"), "{changed}");
    until("what was left out is logged", || {
        // A connection without TLS causes a log line at this level.
        let stranger =
            TcpStream::connect(server.webhook()).and_then(|mut s| s.write_all(b"hello\r\n"));
        if is_debugging() { Ok(()) } else { Err(format!("{stranger:?}")) }
    });
    server.put("/debug/log-level", "info");
    assert_eq!(body(server.page("/debug/log-level")), before);
}
