//! What is seen of a few replicas.

use holdfast_e2e::browser::{Browser, ENTER, ESCAPE, RIGHT, TAB, exchange};
use holdfast_e2e::shared::server;
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::json;

use super::browser_at;

/// Three replicas of two pods on two nodes, of which one may be lost; and a browser that looks at them.
fn looked_at(name: &str) -> (World, Browser, [String; 2]) {
    let world = World::new(name);
    let nodes = [world.node("a"), world.node("b")];
    for replica in ["r0", "r1", "r2"] {
        world.replica(replica, 2, 2, &[&nodes[0], &nodes[1]]);
    }
    world.budget("job", json!({"minAvailable": 2, "budgetScope": "Workload"}));
    world.wait_status("job", "has three", |s| s["currentHealthyReplicas"] == 3);
    let browser = browser_at(&world);
    browser.wait("three cells", CELLS, &json!(["healthy", "healthy", "healthy"]));
    (world, browser, nodes)
}

/// The states of the cells, in order.
const CELLS: &str =
    "return [...document.querySelectorAll('#budgets .cell')].map((cell) => cell.classList[1])";

pub fn replicas_are_seen_to_break_and_evictions_to_be_decided() {
    let (world, browser, _) = looked_at("look");
    let card =
        browser.wait_text("#budgets article", "needs 2 of 3 replicas healthy and has 3: allows 1");
    assert!(card.contains(&format!("{}/job", world.namespace)), "{card}");
    // Not by the colour alone: its sign, and what is read out, say it too.
    let light = browser.picture("whole");
    world.annotate("r1-0", "localkube/ready", "false");
    browser.wait("a broken one", CELLS, &json!(["healthy", "broken", "healthy"]));
    browser.wait_text("#budgets article", "allows none now");
    let cell = "const cell = document.querySelector('#budgets .cell.broken'); return [cell.textContent, cell.ariaLabel]";
    browser.wait(
        "its sign",
        cell,
        &json!(["×", "PodGroup r1: broken, 1 of 2 pods healthy, needs 2"]),
    );

    browser.point_at("#budgets .cell.broken");
    let details = browser.wait_text("#details", "r1-0");
    assert!(details.contains("Running, not ready") && details.contains("-b"), "{details}");

    world.evict("r0-0").assert_denied(&["job needs 2 healthy replicas"]);
    let denied = browser.wait_text("#decisions li", "✗ denied");
    assert!(denied.contains("r0-0") && denied.contains("job needs 2 healthy replicas"), "{denied}");
    world.annotate("r1-0", "localkube/ready", "true");
    browser.wait("whole again", CELLS, &json!(["healthy", "healthy", "healthy"]));
    browser.wait_text("#details", "healthy, 2 of 2 pods healthy");
    world.evict_in_vain("r0-0");
    let allowed = browser.wait_text("#decisions li", "✓ allowed");
    assert!(allowed.contains("cost 1"), "{allowed}");
    let flight = browser.wait_text("#budgets article", "in flight: pod r0-0 of PodGroup r0");
    assert!(flight.contains("allows none now"), "{flight}");
    browser.wait_text("#budgets .cell.granted", "•");

    let broken = browser.picture("in-flight");
    assert!(broken.len() > 20_000 && broken != light, "a picture is all but empty");
    let features = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    browser.devtools("Emulation.setEmulatedMedia", &features);
    assert_ne!(browser.picture("dark"), broken);
    for sight in ["deuteranopia", "protanopia", "tritanopia", "achromatopsia"] {
        browser.devtools("Emulation.setEmulatedVisionDeficiency", &json!({"type": sight}));
        browser.picture(sight);
    }
}

pub fn a_keyboard_is_enough() {
    let (_world, browser, nodes) = looked_at("keys");
    let focus =
        "return document.activeElement.getAttribute('aria-label') || document.activeElement.id";
    let reach = |wanted: &str| {
        for _ in 0..40 {
            if browser.run(focus).as_str().is_some_and(|label| label.contains(wanted)) {
                return;
            }
            browser.press(TAB);
        }
        panic!("Tab does not get to {wanted}");
    };
    reach("PodGroup r0");
    browser.press(RIGHT);
    browser.wait_text("#details", "r1-0");
    browser.press(ENTER);
    browser.press(RIGHT);
    browser.wait(
        "the focus goes on",
        focus,
        &json!("PodGroup r2: healthy, 2 of 2 pods healthy, needs 2"),
    );
    let kept = browser.texts("#details").join("\n");
    assert!(kept.contains("r1-0") && !kept.contains("r2-0"), "{kept}");
    browser.press(ESCAPE);
    // One stop for all cells of a budget, and then on.
    reach(&format!("What if I drain {}?", nodes[0]));
    browser.press(ENTER);
    browser.wait_text("#plan", "To do it: holdfast drain");
}

pub fn a_drain_is_planned_and_what_would_go_is_marked() {
    let (_world, browser, nodes) = looked_at("plan");
    browser.click("#force");
    browser.click(&format!("tr[data-node='{}'] button", nodes[0]));
    let plan = browser.wait_text("#plan", "To do it");
    assert!(plan.contains(&format!("{} can be drained", nodes[0])), "{plan}");
    assert!(plan.contains("3 waves, 3 pods; breaks 3 replicas, each once"), "{plan}");
    let command =
        format!("holdfast drain {} --ignore-daemonsets --delete-emptydir-data --force", nodes[0]);
    assert!(plan.contains(&command), "{plan}");
    browser.wait(
        "all are marked",
        "return document.querySelectorAll('#budgets .cell.planned').length",
        &json!(3),
    );
    browser.picture("plan");
    browser.click("#forget");
    browser.wait(
        "none is",
        "return document.querySelectorAll('#budgets .cell.planned').length",
        &json!(0),
    );
    for node in &nodes {
        browser.click(&format!("tr[data-node='{node}'] input"));
    }
    browser.click("#force");
    browser.click("#ask");
    // The words of kubectl.
    browser.wait_text("#plan", "cannot delete Pods that declare no controller");
}

pub fn nothing_comes_from_elsewhere_and_nobody_else_gets_in() {
    let (_world, browser, _) = looked_at("trust");
    let elsewhere = "return performance.getEntriesByType('resource').map((r) => r.name)\
        .filter((name) => !name.startsWith(location.origin))";
    assert_eq!(browser.run(elsewhere), json!([]));
    let colour =
        "return getComputedStyle(document.querySelector('#budgets .cell.healthy')).backgroundColor";
    assert_eq!(browser.run(colour), "rgb(0, 114, 178)", "the style is applied");

    let host = &host();
    assert_eq!(ask("GET", "/", host).0, 200);
    assert_eq!(ask("GET", "/", "evil.example").0, 403, "a name that resolves to this machine");
    for path in ["/", "/api/state", "/api/plan?node=n"] {
        assert_eq!(ask("POST", path, host).0, 405, "{path}");
    }
    assert_eq!(ask("GET", "/api/plan", host), (400, "node is missing\n".to_owned()));
    assert_eq!(
        ask("GET", "/api/plan?node=no-such", host),
        (404, "there is no node no-such\n".to_owned())
    );
    assert_eq!(ask("GET", "/api/state?version=x", host).0, 400);
    until("who asked is known", || {
        let (code, body) = ask("GET", "/api/decisions", host);
        if code == 200 && body.contains("\"decisions\":") { Ok(()) } else { Err(body) }
    });
}

/// Also where there is no browser.
pub fn the_rights_that_are_printed_are_enough_to_read_the_cluster() {
    let (code, state) = ask("GET", "/api/state", &host());
    assert_eq!(code, 200, "{state}");
    assert!(state.contains("\"nodes\":") && !state.contains("\"problem\":"), "{state}");
}

fn ask(method: &str, path: &str, name: &str) -> (u16, String) {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    exchange(&host(), &request).expect("it answers")
}

fn host() -> String {
    server().board().trim_start_matches("http://").trim_end_matches('/').to_owned()
}
