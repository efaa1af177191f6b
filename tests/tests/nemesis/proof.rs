//! Tests that the judgement finds violations, with short histories written by hand.

use std::time::Duration;

use holdfast_audit::Rule;
use holdfast_e2e::audit::{Audit, LAG};
use serde_json::{Value, json};

use super::etcd::Change;
use super::judge::judge;

const GROUPS: usize = 3;
const LWS: &str = "leaderworkerset.sigs.k8s.io";

pub fn an_eviction_without_room_is_found() {
    let allowed = [grant(&["0"]), evict("0"), gone("0"), evict("0-1")];
    // The second pod of the broken group needs a record too.
    assert_eq!(rules(&judged(&allowed)), [Rule::S3]);
    let allowed = [grant(&["0", "0-1"]), evict("0"), gone("0"), evict("0-1")];
    let audit = judged(&allowed);
    assert_eq!((rules(&audit), audit.evicted(), fewest(&audit)), (vec![], 2, 2));

    let audit = judged(&[grant(&["0"]), evict("0"), grant(&["0", "1-1"]), evict("1-1")]);
    assert_eq!((rules(&audit), fewest(&audit)), (vec![Rule::S1], 1));
}

pub fn an_eviction_without_a_record_is_found() {
    assert_eq!(rules(&judged(&[evict("0")])), [Rule::S3]);
    assert_eq!(rules(&judged(&[grant(&["1"]), evict("0")])), [Rule::S3]);
}

pub fn a_loss_without_an_eviction_counts_when_every_instance_knows_of_it() {
    let (lost, write) = (put("s-0", leaving(pod("0"))), grant(&[]));
    let early = judged(&[lost.clone(), write.clone(), grant(&["1"]), evict("1")]);
    assert_eq!((rules(&early), fewest(&early)), (vec![], 1));

    let wait = std::iter::repeat_n(write, usize::try_from(LAG.as_secs()).expect("short"));
    let history: Vec<Change> =
        [lost].into_iter().chain(wait).chain([grant(&["1"]), evict("1")]).collect();
    assert_eq!(rules(&judged(&history)), [Rule::S1]);
}

pub fn the_rest_of_a_broken_group_is_no_second_loss() {
    let rest = put("s-0-1", leaving(pod("0-1")));
    let audit = judged(&[grant(&["0"]), evict("0"), rest, gone("0-1"), gone("0")]);
    assert_eq!((rules(&audit), audit.evicted(), fewest(&audit)), (vec![], 1, 2));
    // It gives no room either.
    let rest = put("s-0-1", leaving(pod("0-1")));
    let audit = judged(&[grant(&["0"]), evict("0"), rest, grant(&["0", "1"]), evict("1")]);
    assert_eq!(rules(&audit), [Rule::S1]);
}

/// Audits a history with one write per second, after a set of three groups of two. Two groups must be
/// healthy.
fn judged(history: &[Change]) -> Audit {
    let numbered = history.iter().cloned().zip(10..);
    let history: Vec<Change> =
        numbered.map(|(change, revision)| Change { revision, ..change }).collect();
    judge(&first(), &history, |revision| Duration::from_secs(revision.saturating_sub(10)))
}

fn first() -> Vec<Change> {
    let template = json!({"metadata": {"labels": {"app": "job"}}});
    let set = json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "spec": {"replicas": GROUPS, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}},
    });
    let mut first = vec![put("s", set), grant(&[])];
    for group in 0..GROUPS {
        first.push(put(&format!("s-{group}"), pod(&group.to_string())));
        first.push(put(&format!("s-{group}-1"), pod(&format!("{group}-1"))));
    }
    first
}

fn rules(audit: &Audit) -> Vec<Rule> {
    audit.findings().into_iter().map(|(_, finding)| finding.rule).collect()
}

fn fewest(audit: &Audit) -> i64 {
    audit.fewest()["space/b"].healthy
}

fn evict(name: &str) -> Change {
    let mut pod = leaving(pod(name));
    let target =
        json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"});
    pod["status"]["conditions"].as_array_mut().expect("a list").push(target);
    put(&format!("s-{name}"), pod)
}

fn gone(name: &str) -> Change {
    Change { object: None, ..put(&format!("s-{name}"), pod(name)) }
}

/// Returns the budget with grants for these pods.
fn grant(pods: &[&str]) -> Change {
    let grant =
        |pod: &&str| json!({"pod": format!("s-{pod}"), "uid": format!("u-{pod}"), "cost": 1});
    let budget = json!({
        "apiVersion": "policy.holdfast.dev/v1",
        "kind": "PodDisruptionBudget",
        "spec": {
            "maxUnavailable": 1,
            "budgetScope": "Workload",
            "selector": {"matchLabels": {"app": "job"}},
        },
        "status": {"grants": pods.iter().map(grant).collect::<Vec<Value>>()},
    });
    put("b", budget)
}

/// Returns a pod: `0` is the leader of group 0, `0-1` its worker.
fn pod(name: &str) -> Value {
    let (group, _) = name.split_once('-').unwrap_or((name, "0"));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "uid": format!("u-{name}"),
            "labels": {
                "app": "job",
                format!("{LWS}/name"): "s",
                format!("{LWS}/group-index"): group,
                format!("{LWS}/group-key"): group,
            },
            "annotations": {format!("{LWS}/size"): "2"},
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn leaving(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    pod
}

fn put(name: &str, mut object: Value) -> Change {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    object["metadata"]["name"] = json!(name);
    object["metadata"]["namespace"] = json!("space");
    Change { revision: 1, key: format!("/registry/{kind}/space/{name}"), object: Some(object) }
}
