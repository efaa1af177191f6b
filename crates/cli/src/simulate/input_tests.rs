//! Input that nobody should write, and what is said to whoever did.

use super::tests::{error, simulate};

const NODES: &str = "
---
{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 9e18, pods: 10}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b}, status: {allocatable: {cpu: 9e18, pods: 10}}}
";

#[test]
fn requests_beyond_all_bounds_are_added_up() {
    let container = "{name: c, resources: {requests: {cpu: 9e18}}}";
    let manifests = format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: 3, \
         template: {{spec: {{nodeName: a, containers: [{container}, {container}]}}}}}}}}{NODES}"
    );
    let report = simulate(&manifests, &["a"], false).unwrap();
    assert_eq!(report.runs[0].unplaced_pods.len(), 2);
}

#[test]
fn pods_are_counted_before_they_are_made() {
    for (api, kind, spec) in [
        ("apps/v1", "Deployment", "replicas: 99999999999"),
        ("apps/v1", "StatefulSet", "replicas: 200001"),
        ("batch/v1", "Job", "parallelism: 99999999999"),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            "replicas: 4294967296, leaderWorkerTemplate: {size: 4294967296}",
        ),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "replicatedJobs: [{name: a, replicas: 99999, template: {spec: {parallelism: 99999}}}]",
        ),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "replicatedJobs: [{name: a, replicas: 99999999999, template: {spec: {parallelism: 0}}}]",
        ),
    ] {
        let manifests =
            format!("{{apiVersion: {api}, kind: {kind}, metadata: {{name: w}}, spec: {{{spec}}}}}");
        let told = error(&(manifests + NODES), &["a"]);
        let expected = "document 1: spec: makes more than 200000 pods in all";
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn pods_are_counted_over_all_workloads() {
    let set = |name: &str, replicas: u32| {
        format!(
            "---\n{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: {name}}}, \
             spec: {{replicas: {replicas}}}}}\n"
        )
    };
    let told = error(&(set("a", 1) + &set("b", 200_000) + NODES), &["a"]);
    assert!(told.contains("document 2: spec: makes more than 200000 pods in all"), "{told}");
}
