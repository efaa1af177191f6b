//! Deletes terminating pods instead of kwok. kwok deletes by name, so after a pause of its API server it
//! would delete the successor. This test uses the uid as a precondition.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_audit::json::items;
use holdfast_e2e::client::Client;
use holdfast_e2e::fixture::fixture;
use http::Method;
use serde_json::{Value, json};

/// The time that containers take to end.
const GRACE: Duration = Duration::from_millis(500);
/// Time limit of one API server, before the next is tried.
const LIMIT: Duration = Duration::from_secs(2);

/// Runs until `stop` is set, through any API server that answers.
pub fn run(pods: &str, stop: &AtomicBool) {
    let connect = |n| Client::new(&fixture().kubeconfig_of("admin", n)).expect("it is in use");
    let clients: Vec<Client> = (0..fixture().apiservers()).map(connect).collect();
    let mut since: BTreeMap<String, Instant> = BTreeMap::new();
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        if round(&clients[turn % clients.len()], pods, &mut since).is_err() {
            turn += 1;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Deletes the pods that have been terminating for long enough.
fn round(client: &Client, pods: &str, since: &mut BTreeMap<String, Instant>) -> Result<(), String> {
    let list = client.attempt(Method::GET, pods, None, LIMIT)?;
    if !list.is_success() {
        return Err(list.message().to_owned());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = items(list.body);
    let leaving = all.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
    let leaving: BTreeMap<String, String> = leaving
        .map(|pod| (text(&pod["metadata"]["uid"]), text(&pod["metadata"]["name"])))
        .collect();
    since.retain(|uid, _| leaving.contains_key(uid));
    for (uid, name) in &leaving {
        if since.entry(uid.clone()).or_insert_with(Instant::now).elapsed() < GRACE {
            continue;
        }
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": uid},
        });
        client.attempt(Method::DELETE, &format!("{pods}/{name}"), Some(&options), LIMIT)?;
    }
    Ok(())
}
