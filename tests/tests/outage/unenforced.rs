//! Budgets that are left, and nobody to enforce them.

use holdfast_e2e::holdfast;
use holdfast_e2e::server::{self, Server};
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::json;

pub fn a_drain_that_nothing_would_hold_back_is_refused_and_why_says_so() {
    let mut server = Server::start("unenforced").expect("it starts");
    let world = World::new("unenforced");
    let node = world.node("n");
    world.replica("a", 2, 2, &[&node]);
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    let (code, text) = holdfast(&["why", "a-0", "-n", &world.namespace]);
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(server.metric(ASKED), Some(1.0));
    // An alert can tell that somebody has weakened the webhook, and that it was set right.
    for (policy, asked) in [("Ignore", 0.0), ("Fail", 1.0)] {
        let path = "/webhooks/0/failurePolicy";
        let patch = json!([{"op": "replace", "path": path, "value": policy}]);
        let _ = world.admin.json_patch(WEBHOOK, &patch).ok();
        await_asked(&server, asked);
    }

    // A mark that anybody may write hides nothing.
    world.annotate_budget("job", "holdfast.dev/imported-from", "1a2b");
    let lost = format!("poddisruptionbudget {}/job (counts replicas)", world.namespace);
    let told = server::uninstall_with(&[]).expect_err("a budget would be lost");
    assert!(told.contains(&lost) && told.contains("--allow-loss"), "{told}");
    let (code, told) = holdfast(&["uninstall", "--dry-run"]);
    assert!(code == Some(1) && told.contains(&lost), "{told}");
    // Nothing has changed.
    let (code, text) = holdfast(&["why", "a-0", "-n", &world.namespace]);
    assert_eq!(code, Some(1), "{text}");

    server::uninstall_with(&["--allow-loss"]).expect("it uninstalls, and keeps the budgets");
    let _ = world.admin.get(&world.budget_path("job")).ok();
    await_asked(&server, 0.0);
    server.terminate();
    assert!(server.wait().success());
    let (code, text) = holdfast(&["why", "a-0", "-n", &world.namespace]);
    assert_eq!(code, Some(0), "nobody holds it back: {text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("Budget job is not enforced: Holdfast's webhook is not registered"),
        "{text}"
    );
    let (code, text) = holdfast(&["drain", &node, "--force", "--timeout=20s"]);
    assert_eq!(code, Some(1), "{text}");
    let budget = format!("nobody enforces budget {}/job", world.namespace);
    assert!(
        text.contains(&budget) && text.contains("hint: start `holdfast serve --install`"),
        "{text}"
    );
    assert_eq!(world.pods().len(), 2);
    let object = world.admin.get(&format!("/api/v1/nodes/{node}")).ok().body;
    assert_ne!(object["spec"]["unschedulable"], true, "it is left as it was");
}

const WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/holdfast";

const ASKED: &str = "holdfast_asked ";

#[track_caller]
fn await_asked(server: &Server, asked: f64) {
    until("it is known whether evictions are asked about", || match server.metric(ASKED) {
        now if now == Some(asked) => Ok(()),
        now => Err(format!("{ASKED}is {now:?}")),
    });
}
