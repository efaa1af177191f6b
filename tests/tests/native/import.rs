//! Many budgets are taken over and given back during a drain.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_e2e::client::Client;
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::server::Server;
use holdfast_e2e::wait::SetWhenDropped;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

use super::remove;

const AT_A_TIME: usize = 8;

pub fn budgets_change_hands_while_a_node_is_drained() {
    let world = World::new("import");
    let nodes = [world.node("n"), world.node("spare")];
    let protected = drained_pods(&world, &nodes[0]);
    create(&world);
    let before = budgets(&world);
    assert_eq!(before.len(), count() + 1);

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| keep_evicting(&world, &protected, &done));
        let ending = SetWhenDropped(&done);
        let first = Server::start("import").expect("it installs");
        assert_same(&before, &budgets(&world));

        // Changes, deletions and new budgets while Holdfast serves them.
        let changed = change(&world);
        assert_same(&changed, &budgets(&world));
        remove(first);
        assert_same(&changed, &budgets(&world));

        let second = Server::start("import-again").expect("it installs again");
        assert_same(&changed, &budgets(&world));
        remove(second);
        drop(ending);
        let (asked, evicted) = drain.join().expect("evictions are answered");
        assert!(asked > 50, "only {asked} evictions were tried");
        assert_eq!(evicted, 0, "the budget has no room");
    });
    assert_eq!(world.pods().len(), protected.len(), "no pod was left without protection");
}

/// Returns a thousand with `--full`.
fn count() -> usize {
    if std::env::var_os("HOLDFAST_E2E_FULL").is_some() { 1000 } else { 100 }
}

/// Creates pods that no client may evict.
fn drained_pods(world: &World, node: &str) -> Vec<String> {
    let names: Vec<String> = (0..4).map(|n| format!("held-{n}")).collect();
    for name in &names {
        world.pod(&holdfast_e2e::pod::Pod::new(name).on(node));
        world.wait_ready(name);
    }
    let manifest = json!({
        "metadata": {"name": "held"},
        "spec": {"minAvailable": 4, "selector": {"matchLabels": {"app": "job"}}},
    });
    let _ = world.admin.post(&world.budget_path(""), &manifest).ok();
    world.wait_status("held", "counts all", |status| status["currentHealthy"] == 4);
    names
}

/// Evicts all the time, as several drains would. Returns how many evictions were tried and how many
/// succeeded.
fn keep_evicting(world: &World, pods: &[String], done: &AtomicBool) -> (usize, usize) {
    let (mut asked, mut evicted) = (0, 0);
    while !done.load(Ordering::Relaxed) {
        for pod in pods {
            let outcome = world.evict(pod);
            asked += 1;
            evicted += usize::from(outcome.is_evicted());
            let denied = outcome.code == 429 || outcome.code >= 500;
            assert!(denied, "{outcome:#?}");
        }
    }
    (asked, evicted)
}

fn create(world: &World) {
    in_parallel(|client, n| {
        let mut manifest = json!({
            "metadata": {
                "name": format!("b-{n}"),
                "labels": {"n": n.to_string()},
                "annotations": {"note": format!("of {n}")},
            },
            "spec": {"minAvailable": n % 7, "selector": {"matchLabels": {"none": n.to_string()}}},
        });
        if n % 3 == 0 {
            let expression = json!({"key": "none", "operator": "In", "values": [n.to_string()]});
            let selector = json!({"matchExpressions": [expression]});
            manifest["spec"] =
                json!({"maxUnavailable": format!("{}%", n % 100), "selector": selector});
        }
        let path = format!("{}?fieldManager=creator-{}", world.budget_path(""), n % 5);
        let _ = client.post(&path, &manifest).ok();
    });
}

/// Changes every tenth budget, deletes every tenth plus one, and adds some. Returns the budgets after that.
fn change(world: &World) -> BTreeMap<String, Value> {
    in_parallel(|client, n| match n % 10 {
        0 => {
            let path = format!("{}?fieldManager=changer", world.budget_path(&format!("b-{n}")));
            let patch = json!({"metadata": {"labels": {"changed": "yes"}}, "spec": {"selector": {"matchLabels": {"now": "this"}}}});
            let _ = client.patch(&path, &patch).ok();
        }
        1 => {
            let _ = client.delete(&world.budget_path(&format!("b-{n}"))).ok();
        }
        2 if n < 100 => {
            let manifest = json!({"metadata": {"name": format!("new-{n}")}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"none": ""}}}});
            let _ = client.post(&world.budget_path(""), &manifest).ok();
        }
        _ => {}
    });
    budgets(world)
}

fn in_parallel(work: impl Fn(&Client, usize) + Sync) {
    std::thread::scope(|scope| {
        for first in 0..AT_A_TIME {
            let work = &work;
            scope.spawn(move || {
                for n in (first..count()).step_by(AT_A_TIME) {
                    work(&fixture().admin, n);
                }
            });
        }
    });
}

/// Returns budgets by name, without fields that cannot be kept and without the status, which is computed
/// again.
fn budgets(world: &World) -> BTreeMap<String, Value> {
    let list = world.admin.list(&world.budget_path(""));
    let entry = |mut budget: Value| {
        let name = budget["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let metadata = budget["metadata"].as_object_mut().expect("it has metadata");
        for lost in ["uid", "creationTimestamp", "generation", "resourceVersion"] {
            metadata.remove(lost);
        }
        let managed = metadata.get("managedFields").and_then(Value::as_array).cloned();
        // Managers of the status, and of the mark of a copy in its first hour.
        let theirs =
            |entry: &Value| entry["subresource"].is_null() && entry["manager"] != "holdfast";
        let mut managed: Vec<Value> =
            managed.unwrap_or_default().into_iter().filter(theirs).collect();
        managed.sort_by_key(|entry| entry["manager"].to_string());
        metadata.insert("managedFields".to_owned(), json!(managed));
        (name, json!({"metadata": budget["metadata"], "spec": budget["spec"]}))
    };
    list.into_iter().map(entry).collect()
}

#[track_caller]
fn assert_same(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) {
    let names = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(before), names(after), "none is lost and none comes back");
    for (name, budget) in before {
        assert_eq!(budget, &after[name], "{name}");
    }
}

/// Budgets that are missing because their definition was deleted do not count as deleted by a user.
pub fn budgets_that_went_with_their_definition_stay_built_in() {
    let world = World::new("lost");
    let path = world.budget_path("kept");
    let budget = json!({
        "metadata": {"name": "kept"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "job"}}},
    });
    let _ = world.admin.post(&world.budget_path(""), &budget).ok();
    let mut server = Server::start("lost").expect("it installs");
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/poddisruptionbudgets.policy.holdfast.dev";
    let _ = world.admin.delete(definition).ok();
    let server = Server::start("lost-again").expect("it starts without them");
    assert_eq!(world.admin.get(&path).code, 404);
    remove(server);
    let _ = world.admin.get(&path).ok();
}
