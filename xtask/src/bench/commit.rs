//! The latency of the webhook itself, called as the API server calls it. It compares a recorded answer with
//! an update of the same status, and it measures an answer without a write.

use std::{thread, time::Instant};

use anyhow::{Context as _, Result, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
use serde_json::{Value, json};

use super::{
    Bench,
    controller::{Controller, Mode},
    http::{Client, Server},
    load::{Api, Budgets, Load},
    report::{Build, Comparison, Results, Target},
    stats::Latencies,
};

pub const COMPARISONS: [Comparison; 3] = [
    Comparison {
        metrics: "record p99",
        ours: "commit",
        base: Some("bare status PUT"),
        target: Some(Target::AtMost(1.5)),
    },
    Comparison {
        metrics: "record p50",
        ours: "commit",
        base: Some("bare status PUT"),
        target: None,
    },
    Comparison {
        metrics: "uncovered p",
        ours: "webhook",
        base: None,
        target: Some(Target::AtMost(5.0)),
    },
];

const COMMITS: usize = 100;
const UNCOVERED: usize = 500;
const STRANGERS: usize = 20;

pub fn run(bench: &Bench, results: &mut Results) -> Result<()> {
    for round in 0..bench.repeat {
        for build in bench.builds(round, true) {
            bench.interrupt.check()?;
            results.build = build;
            measure(bench, results)?;
        }
    }
    results.build = Build::After;
    Ok(())
}

/// Both cells with one build.
fn measure(bench: &Bench, results: &mut Results) -> Result<()> {
    let holdfast = bench.holdfast_with(results.build, Mode::Webhook, &[])?;
    let webhook = webhook(bench, &holdfast)?;
    let mut free = Load::new(&bench.admin, "uncovered", Api::Holdfast, Budgets::None, 1)?;
    free.fill(STRANGERS)?;
    for clients in [1, 16] {
        let latencies = ask_uncovered(&webhook, &free, clients)?;
        for percent in [50, 99] {
            let metric = format!("uncovered p{percent}, {clients} clients");
            results.push(metric, "ms", "webhook", latencies.percentile(percent));
        }
    }
    free.clear()?;
    let mut load = Load::new(&bench.admin, "commit", Api::Holdfast, Budgets::Pods, 1)?;
    load.fill(2 * COMMITS)?;
    load.settle()?;
    let commits = commit(&webhook, &load)?;
    // From here on no other client writes the object.
    bench.retire(&holdfast, Mode::Webhook)?;
    let puts = put(bench, &load)?;
    for percent in [50, 99] {
        let metric = format!("record p{percent}");
        results.push(&*metric, "ms", "commit", commits.percentile(percent));
        results.push(&*metric, "ms", "bare status PUT", puts.percentile(percent));
    }
    load.clear()
}

/// Sends requests. Each adds one grant to the status and is answered after that write.
fn commit(webhook: &Server, load: &Load) -> Result<Latencies> {
    let mut client = webhook.client();
    let mut latencies = Latencies::default();
    for (n, pod) in load.pods().iter().take(COMMITS).enumerate() {
        let uid = format!("{}-{n}", load.namespace);
        let began = Instant::now();
        ask(&mut client, &uid, &load.namespace, pod)?;
        latencies.push(began.elapsed());
    }
    Ok(latencies)
}

/// Updates the same object again and again, with as many grants as it had at the same point above, as the
/// same user and with the same fields as Holdfast.
fn put(bench: &Bench, load: &Load) -> Result<Latencies> {
    let mut client = bench.holdfast_user.client();
    let path = load.budget_path("/budget-0");
    let mut object = client.get(&path)?.ok()?.json();
    let grants = object["status"]["grants"].as_array().cloned().unwrap_or_default();
    if grants.len() != COMMITS {
        bail!("{} grants are recorded, not {COMMITS}", grants.len());
    }
    let entries = object["status"]["disruptedPods"].as_object().cloned().unwrap_or_default();
    let path = format!("{path}/status");
    let mut latencies = Latencies::default();
    for n in 1..=grants.len() {
        let metadata = &object["metadata"];
        let mut update = json!({
            "apiVersion": object["apiVersion"],
            "kind": object["kind"],
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "status": object["status"],
        });
        update["status"]["grants"] = json!(grants[..n]);
        update["status"]["disruptedPods"] =
            entries.iter().take(n).map(|(pod, at)| (pod.clone(), at.clone())).collect();
        let began = Instant::now();
        let answer = client.put(&path, &update)?;
        latencies.push(began.elapsed());
        object = answer.ok()?.json();
    }
    Ok(latencies)
}

/// Running pods that no budget selects are allowed at once, from the cache.
fn ask_uncovered(webhook: &Server, free: &Load, clients: usize) -> Result<Latencies> {
    let results: Vec<Result<Latencies>> = thread::scope(|scope| {
        let asking: Vec<_> = (0..clients)
            .map(|c| {
                scope.spawn(move || {
                    let mut client = webhook.client();
                    let mut latencies = Latencies::default();
                    // The first request opens the connection.
                    for (n, pod) in (0..=UNCOVERED).zip(free.pods().iter().cycle()) {
                        let uid = format!("{}-{c}-{n}", free.namespace);
                        let began = Instant::now();
                        ask(&mut client, &uid, &free.namespace, pod)?;
                        if n > 0 {
                            latencies.push(began.elapsed());
                        }
                    }
                    Ok(latencies)
                })
            })
            .collect();
        asking.into_iter().map(|a| a.join().expect("it does not panic")).collect()
    });
    let mut all = Latencies::default();
    for result in results {
        all.append(result?);
    }
    Ok(all)
}

pub fn ask(client: &mut Client, uid: &str, namespace: &str, pod: &str) -> Result<()> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": "eviction",
            "name": pod,
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {"username": "drainer", "groups": ["system:authenticated"]},
            "object": {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod, "namespace": namespace},
            },
            "dryRun": false,
        },
    });
    let answer = client.post("/evict", &review)?.ok()?.json();
    if answer["response"]["allowed"] != true {
        bail!("the webhook denies: {answer}");
    }
    Ok(())
}

/// Returns the address at which Holdfast registered itself, and the certificate to verify it.
pub fn webhook(bench: &Bench, holdfast: &Controller) -> Result<Server> {
    let url = holdfast.addresses["webhook"].as_str().context("Holdfast says where it is")?;
    let address = url.strip_prefix("https://").and_then(|rest| rest.split('/').next());
    let address = address.context("an https address")?.parse()?;
    let list = bench
        .admin
        .client()
        .get(&format!("{}/{}", super::ADMISSION, super::WEBHOOKS[0]))?
        .ok()?
        .json();
    let hooks = list["items"].as_array().into_iter().flatten();
    let bundle = hooks
        .flat_map(|item| item["webhooks"].as_array().cloned().unwrap_or_default())
        .find_map(|hook: Value| hook["clientConfig"]["caBundle"].as_str().map(str::to_owned));
    let bundle = BASE64.decode(bundle.context("the webhook is registered")?)?;
    Server::at(address, &bundle)
}
