//! Histories of a real cluster: a set of three groups of two pods, of which two groups have to be healthy.

use std::time::Duration;

use holdfast_audit::Rule;
use holdfast_audit::cluster::{ClusterAudit, Write, read};
use serde_json::{Value, json};

const GROUPS: usize = 3;
const LWS: &str = "leaderworkerset.sigs.k8s.io";
const LAG: Duration = Duration::from_secs(30);

#[derive(Clone)]
struct Change {
    object: Value,
    gone: bool,
}

#[test]
fn an_eviction_without_room_is_found_when_it_takes_its_pod() {
    let allowed = [grant(&["0"]), evict("0"), gone("0"), grant(&["0", "0-1"]), evict("0-1")];
    let kept = audit(LAG, &allowed);
    assert_eq!((rules(&kept), kept.evicted(), fewest(&kept)), (vec![], 2, 2));
    // Each record had room when it was written, and the first one ended too early.
    let history = [grant(&["0"]), grant(&["1-1"]), evict("1-1"), evict("0")];
    let broken = audit(LAG, &history);
    assert_eq!((rules(&broken), fewest(&broken)), (vec![Rule::S1], 1));
}

#[test]
fn a_grant_without_room_is_found_although_it_takes_no_pod() {
    for lag in [Duration::ZERO, LAG] {
        let audit = audit(lag, &[grant(&["0"]), grant(&["0", "1-1"])]);
        assert_eq!((rules(&audit), audit.evicted()), (vec![Rule::S1], 0));
    }
    assert_eq!(rules(&audit(LAG, &[grant(&["0"]), grant(&["0", "0-1"])])), []);
}

#[test]
fn an_eviction_without_a_record_is_found() {
    assert_eq!(rules(&audit(LAG, &[evict("0")])), [Rule::S3]);
    assert_eq!(rules(&audit(LAG, &[grant(&["1"]), evict("0")])), [Rule::S3]);
    // The second pod of the broken group needs a record too.
    let history = [grant(&["0"]), evict("0"), gone("0"), evict("0-1")];
    assert_eq!(rules(&audit(LAG, &history)), [Rule::S3]);
}

#[test]
fn a_pod_that_goes_in_one_write_is_taken_by_its_eviction() {
    let at_once = |name: &str| Change { gone: true, ..marked(name) };
    let taken = audit(LAG, &[grant(&["0"]), marked("0"), at_once("0")]);
    assert_eq!((rules(&taken), taken.evicted()), (vec![], 1));
    assert_eq!(rules(&audit(LAG, &[marked("0"), at_once("0")])), [Rule::S3]);
}

#[test]
fn a_grant_that_is_not_pinned_is_a_record_for_the_next_pod_of_the_name() {
    let by_name = |pinned: bool| {
        let mut grant = grant(&["0"]);
        grant.object["status"]["grants"][0]["pinned"] = json!(pinned);
        let mut next = evict("0");
        next.object["metadata"]["uid"] = json!("next");
        let mut there = put("s-0", pod("0"));
        there.object["metadata"]["uid"] = json!("next");
        rules(&audit(LAG, &[grant, evict("0"), gone("0"), there, next]))
    };
    assert_eq!((by_name(false), by_name(true)), (vec![], vec![Rule::S3]));
}

#[test]
fn a_loss_without_an_eviction_counts_when_every_process_knows_of_it() {
    let lost = put("s-0", leaving(pod("0")));
    let history = |wait: u64| {
        let wait = std::iter::repeat_n(grant(&[]), usize::try_from(wait).expect("short"));
        let taken = [grant(&["1"]), evict("1")];
        [lost.clone()].into_iter().chain(wait).chain(taken).collect::<Vec<Change>>()
    };
    let early = audit(LAG, &history(1));
    assert_eq!((rules(&early), fewest(&early)), (vec![], 1));
    let late = audit(LAG, &history(LAG.as_secs()));
    // By the record, and by the eviction.
    assert_eq!(rules(&late), [Rule::S1, Rule::S1]);
    assert_eq!(rules(&audit(Duration::ZERO, &history(1))), [Rule::S1, Rule::S1]);
}

#[test]
fn the_rest_of_a_broken_group_is_no_second_loss() {
    let rest = put("s-0-1", leaving(pod("0-1")));
    let history = [grant(&["0"]), evict("0"), rest.clone(), gone("0-1"), gone("0")];
    let kept = audit(LAG, &history);
    assert_eq!((rules(&kept), kept.evicted(), fewest(&kept)), (vec![], 1, 2));
    // It gives no room either.
    let history = [grant(&["0"]), evict("0"), rest, grant(&["0", "1"]), evict("1")];
    assert_eq!(rules(&audit(LAG, &history)), [Rule::S1, Rule::S1]);
}

#[test]
fn a_new_scale_breaks_no_rule_and_counts_when_every_process_knows_of_it() {
    let lag = Duration::from_secs(3);
    let history = |wait: usize| {
        let wait = std::iter::repeat_n(grant(&[]), wait);
        let taken = [grant(&["0"]), evict("0")];
        [set(GROUPS + 1)].into_iter().chain(wait).chain(taken).collect::<Vec<Change>>()
    };
    assert_eq!(rules(&audit(lag, &history(0)[..1])), []);
    assert_eq!(rules(&audit(lag, &history(0))), []);
    assert_eq!(rules(&audit(lag, &history(4))), [Rule::S1, Rule::S1]);
}

#[test]
fn a_pod_that_stops_being_ready_breaks_no_rule() {
    let unready = |name: &str| {
        let mut pod = pod(name);
        pod["status"]["conditions"] = json!([]);
        put(&format!("s-{name}"), pod)
    };
    let second = Duration::from_secs(1);
    assert_eq!(rules(&audit(second, &[unready("0"), unready("1")])), []);
    let back = put("s-0", pod("0"));
    let history = [unready("0"), back, grant(&["1"]), evict("1")];
    assert_eq!(rules(&audit(second, &history)), []);
    let history = [unready("0"), grant(&[]), grant(&["1"]), evict("1")];
    assert_eq!(rules(&audit(second, &history)), [Rule::S1, Rule::S1]);
}

#[test]
fn it_tells_how_often_each_group_was_disrupted_and_recreated() {
    let again = |name: &str, uid: &str| {
        let mut pod = pod(name);
        pod["metadata"]["uid"] = json!(uid);
        put(&format!("s-{name}"), pod)
    };
    let history = [
        grant(&["1"]),
        evict("1"),
        gone("1"),
        grant(&[]),
        again("1", "second"),
        grant(&["1-1"]),
        evict("1-1"),
        gone("1-1"),
        put("s-1", leaving(again("1", "second").object)),
        again("1", "third"),
        again("1-1", "second"),
        grant(&[]),
        set(2),
    ];
    let audit = audit(Duration::ZERO, &history);
    assert_eq!(rules(&audit), []);
    let groups = audit.disruptions().iter().map(|disruption| disruption.group_index);
    assert_eq!(groups.collect::<Vec<_>>(), [Some(1), Some(1)], "not the one above the new scale");
    assert_eq!(audit.leaders().iter().collect::<Vec<_>>(), [(&1, &2)]);
}

/// One write a second.
fn audit(lag: Duration, history: &[Change]) -> ClusterAudit {
    let first = first();
    let mut audit = ClusterAudit::new(lag, first.iter().filter_map(|c| read(&c.object, 1)));
    for (change, revision) in history.iter().zip(10..) {
        let at = Duration::from_secs(revision - 10);
        let write = Write::read(revision, at, change.gone, &change.object);
        audit.take(write.expect("the auditor knows these kinds"));
    }
    audit
}

fn first() -> Vec<Change> {
    let mut first = vec![set(GROUPS), grant(&[])];
    for group in 0..GROUPS {
        first.push(put(&format!("s-{group}"), pod(&group.to_string())));
        first.push(put(&format!("s-{group}-1"), pod(&format!("{group}-1"))));
    }
    first
}

fn set(replicas: usize) -> Change {
    let template = json!({"metadata": {"labels": {"app": "job"}}});
    let set = json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "spec": {"replicas": replicas, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}},
    });
    put("s", set)
}

fn rules(audit: &ClusterAudit) -> Vec<Rule> {
    audit.findings().into_iter().map(|(_, finding)| finding.rule).collect()
}

fn fewest(audit: &ClusterAudit) -> i64 {
    audit.fewest().values().map(|fewest| fewest.healthy).min().expect("there is a budget")
}

fn marked(name: &str) -> Change {
    let mut pod = pod(name);
    let target =
        json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"});
    pod["status"]["conditions"].as_array_mut().expect("a list").push(target);
    put(&format!("s-{name}"), pod)
}

fn evict(name: &str) -> Change {
    put(&format!("s-{name}"), leaving(marked(name).object))
}

fn gone(name: &str) -> Change {
    Change { gone: true, ..put(&format!("s-{name}"), pod(name)) }
}

/// The budget with grants for these pods.
fn grant(pods: &[&str]) -> Change {
    let grant = |pod: &&str| json!({"pod": format!("s-{pod}"), "uid": format!("u-{pod}"), "cost": 1, "pinned": true});
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

/// `0` is the leader of group 0, `0-1` its worker.
fn pod(name: &str) -> Value {
    let (group, worker) = name.split_once('-').unwrap_or((name, "0"));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "uid": format!("u-{name}"),
            "labels": {
                "app": "job",
                format!("{LWS}/name"): "s",
                format!("{LWS}/group-index"): group,
                format!("{LWS}/worker-index"): worker,
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
    object["metadata"]["name"] = json!(name);
    object["metadata"]["namespace"] = json!("space");
    Change { object, gone: false }
}
