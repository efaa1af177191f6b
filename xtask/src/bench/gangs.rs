//! The time until every pod of many gangs has a node, with kube-scheduler's own `PodGroups` and with
//! Holdfast's gates, on one cluster with one scheduler.

use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    Bench,
    controller::Mode,
    load::{each, until},
    report::{Build, Comparison, Results},
};
use crate::localkube::Localkube;

pub const COMPARISONS: [Comparison; 2] = [
    Comparison {
        metrics: "until all gangs have nodes",
        ours: "holdfast",
        base: Some("kube-scheduler"),
        target: None,
    },
    Comparison {
        metrics: "until all gangs have nodes",
        ours: "kube-scheduler",
        base: Some("no gangs"),
        target: None,
    },
];

const SIZE: usize = 8;

/// The number of pods for which a node has room: in total twice as many as the gangs need.
const ROOM: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Pods without a gang.
    Alone,
    /// `scheduling.k8s.io`.
    Scheduler,
    /// `scheduling.holdfast.dev`.
    Gates,
}

pub fn run(bench: &Bench, results: &mut Results) -> Result<()> {
    let gangs = if bench.quick { 50 } else { 200 };
    Localkube::restart(bench.localkube.dir(), "kube-scheduler", &[])?;
    let nodes: Vec<usize> = (0..gangs * SIZE * 2 / ROOM).collect();
    each(&bench.admin, &nodes, |client, i| {
        let name = format!("gang-node-{i}");
        client.post("/api/v1/nodes", &json!({"metadata": {"name": name}}))?.ok()?;
        let room = json!({"cpu": ROOM.to_string(), "memory": "64Gi", "pods": "110"});
        let status = json!({"status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        client.patch(&format!("/api/v1/nodes/{name}/status"), &status)?.ok()?;
        // The controller that would remove the taint does not run.
        client.patch(&format!("/api/v1/nodes/{name}"), &json!({"spec": {"taints": null}}))?.ok()?;
        Ok(())
    })?;
    for round in 0..bench.repeat {
        for (name, way) in
            [("no gangs", Way::Alone), ("kube-scheduler", Way::Scheduler), ("holdfast", Way::Gates)]
        {
            bench.interrupt.check()?;
            let holdfast = (way == Way::Gates)
                .then(|| {
                    bench.holdfast_with(Build::After, Mode::Webhook, &["--pod-groups=holdfast"])
                })
                .transpose()?;
            let namespace = format!("bench-gangs-{round}-{}", name.replace(' ', "-"));
            let seconds = start(bench, &namespace, way, gangs)?;
            results.push("until all gangs have nodes".to_owned(), "s", name, seconds);
            if let Some(holdfast) = holdfast {
                bench.retire(&holdfast, Mode::Webhook)?;
            }
            clear(bench, &namespace, gangs)?;
        }
    }
    each(&bench.admin, &nodes, |client, i| {
        client.delete(&format!("/api/v1/nodes/gang-node-{i}"))?.ok().map(|_| ())
    })?;
    bench.localkube.stop_component("kube-scheduler")
}

/// Returns the time from the first created pod to the last bound pod.
fn start(bench: &Bench, namespace: &str, way: Way, gangs: usize) -> Result<f64> {
    let mut client = bench.admin.client();
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": namespace}}))?.ok()?;
    let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    until("the namespace has its ServiceAccount", || Ok(client.get(&account)?.code == 200))?;
    let api = match way {
        Way::Alone => None,
        Way::Scheduler => Some("scheduling.k8s.io/v1beta1"),
        Way::Gates => Some("scheduling.holdfast.dev/v1alpha1"),
    };
    if let Some(api) = api {
        let groups: Vec<usize> = (0..gangs).collect();
        each(&bench.admin, &groups, |client, i| {
            let group = json!({
                "apiVersion": api,
                "kind": "PodGroup",
                "metadata": {"name": group(*i)},
                "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}},
            });
            let path = format!("/apis/{api}/namespaces/{namespace}/podgroups");
            client.post(&path, &group)?.ok().map(|_| ())
        })?;
    }
    let pods: Vec<usize> = (0..gangs * SIZE).collect();
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let began = Instant::now();
    each(&bench.admin, &pods, |client, i| client.post(&path, &pod(*i, way))?.ok().map(|_| ()))?;
    // A request to the watch cache for the number of pods without a node.
    let unbound = format!("{path}?fieldSelector=spec.nodeName%3D&limit=1&resourceVersion=0");
    until("every pod has a node", || {
        let list = client.get(&unbound)?.ok()?.json();
        Ok(list["items"].as_array().context("a list")?.is_empty())
    })?;
    Ok(began.elapsed().as_secs_f64())
}

fn clear(bench: &Bench, namespace: &str, gangs: usize) -> Result<()> {
    let pods: Vec<usize> = (0..gangs * SIZE).collect();
    each(&bench.admin, &pods, |client, i| {
        client.delete(&format!("/api/v1/namespaces/{namespace}/pods/pod-{i}"))?.ok().map(|_| ())
    })?;
    bench.admin.client().delete(&format!("/api/v1/namespaces/{namespace}"))?.ok().map(|_| ())
}

fn group(i: usize) -> String {
    format!("gang-{i}")
}

fn pod(i: usize, way: Way) -> Value {
    let mut pod = json!({
        "metadata": {"name": format!("pod-{i}")},
        "spec": {
            "containers": [{
                "name": "main",
                "image": "example.com/main",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }],
            "terminationGracePeriodSeconds": 0,
        },
    });
    let group = group(i / SIZE);
    match way {
        Way::Alone => {}
        Way::Scheduler => pod["spec"]["schedulingGroup"] = json!({"podGroupName": group}),
        Way::Gates => pod["metadata"]["annotations"] = json!({"holdfast.dev/pod-group": group}),
    }
    pod
}
