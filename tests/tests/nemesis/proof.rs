//! That the verdict finds what it is there to find: short histories, written by hand.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::count::{self, State};
use crate::etcd::Change;
use crate::verdict::{Verdict, judge};

const GROUPS: usize = 3;
const LWS: &str = "leaderworkerset.sigs.k8s.io";

pub fn an_eviction_without_room_is_found() {
    let first = first();
    let allowed = [evict("0"), gone("0"), evict("0-1")];
    let verdict = judged(&first, &allowed);
    assert!(verdict.violations.is_empty(), "{verdict:#?}");
    assert_eq!((verdict.taken.len(), fewest(&verdict)), (1, 2));

    let verdict = judged(&first, &[evict("0"), evict("1-1")]);
    let [violation] = &verdict.violations[..] else { panic!("{verdict:#?}") };
    assert_eq!((violation.counts.healthy, violation.counts.needed), (1, 2));
    assert_eq!(violation.loss.group, ("s".to_owned(), 1));
    assert_eq!(fewest(&verdict), 1);
}

pub fn a_loss_excuses_only_what_was_granted_before_it() {
    let (first, lost) = (first(), put(count::PODS, "s-0", &leaving(pod("0", "u"))));
    let later = judged(&first, &[grant("s-1"), lost.clone(), evict("1")]);
    assert_eq!((later.violations.len(), later.excused.len()), (0, 1), "{later:#?}");
    assert_eq!((later.lost.len(), fewest(&later)), (1, 1), "{later:#?}");

    let earlier = judged(&first, &[lost.clone(), grant("s-1"), evict("1")]);
    assert_eq!((earlier.violations.len(), earlier.excused.len()), (1, 0), "{earlier:#?}");

    let unrecorded = judged(&first, &[lost, evict("1")]);
    assert_eq!((unrecorded.violations.len(), unrecorded.excused.len()), (1, 0), "{unrecorded:#?}");
}

pub fn the_rest_of_a_broken_group_is_no_second_loss() {
    let rest = put(count::PODS, "s-0-1", &leaving(pod("0-1", "u")));
    let verdict = judged(&first(), &[evict("0"), rest, gone("0-1"), gone("0")]);
    assert!(verdict.violations.is_empty() && verdict.lost.is_empty(), "{verdict:#?}");
    assert_eq!((verdict.taken.len(), fewest(&verdict)), (1, 2));
}

pub fn workers_of_an_earlier_leader_do_not_count() {
    let first = first();
    assert_eq!(State::of(&first).healthy().len(), GROUPS);
    let again = put(count::PODS, "s-0", &pod("0", "another"));
    let verdict = judged(&first, &[evict("0"), gone("0"), again, evict("1")]);
    assert_eq!(verdict.violations.len(), 1, "{verdict:#?}");
}

/// A set of three groups of two, of which two have to be healthy.
fn first() -> Vec<Change> {
    let labels = json!({"app": "job"});
    let template = json!({"metadata": {"labels": labels}});
    let set = json!({"metadata": {"name": "s"}, "spec": {
        "replicas": GROUPS,
        "leaderWorkerTemplate": {"size": 2, "workerTemplate": template},
    }});
    let mut first =
        vec![put(count::SETS, "s", &set), put(count::BUDGETS, "b", &budget(&json!([])))];
    for group in 0..GROUPS {
        let leader = format!("u-{group}");
        let workers = json!({"metadata": {"uid": format!("w-{group}"), "ownerReferences": [
            {"uid": leader, "controller": true},
        ]}});
        first.push(put(count::STATEFUL_SETS, &format!("s-{group}"), &workers));
        for name in [group.to_string(), format!("{group}-1")] {
            first.push(put(count::PODS, &format!("s-{name}"), &pod(&name, "u")));
        }
    }
    first
}

fn judged(first: &[Change], history: &[Change]) -> Verdict {
    let numbered = history.iter().cloned().zip(10..);
    let history: Vec<Change> =
        numbered.map(|(change, revision)| Change { revision, ..change }).collect();
    judge(first, &history, &BTreeSet::new())
}

fn fewest(verdict: &Verdict) -> usize {
    verdict.fewest["b"].0.healthy
}

fn evict(pod_of: &str) -> Change {
    let mut pod = leaving(pod(pod_of, "u"));
    let target =
        json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"});
    pod["status"]["conditions"].as_array_mut().expect("a list").push(target);
    put(count::PODS, &format!("s-{pod_of}"), &pod)
}

fn gone(pod_of: &str) -> Change {
    Change { object: None, ..put(count::PODS, &format!("s-{pod_of}"), &Value::Null) }
}

fn grant(pod: &str) -> Change {
    let uid = pod.replace("s-", "u-");
    put(count::BUDGETS, "b", &budget(&json!([{"pod": pod, "uid": uid, "cost": 1}])))
}

fn budget(grants: &Value) -> Value {
    json!({
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "job"}}},
        "status": {"grants": grants},
    })
}

/// `0` is the leader of group 0, `0-1` its worker.
fn pod(name: &str, uid: &str) -> Value {
    let (group, worker) = name.split_once('-').unwrap_or((name, "0"));
    let owner = if worker == "0" { "set".to_owned() } else { format!("w-{group}") };
    json!({
        "metadata": {
            "name": format!("s-{name}"),
            "uid": format!("{uid}-{name}"),
            "labels": {
                format!("{LWS}/name"): "s",
                format!("{LWS}/group-index"): group,
                format!("{LWS}/worker-index"): worker,
            },
            "ownerReferences": [{"uid": owner, "controller": true}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn leaving(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    pod
}

fn put(kind: &str, name: &str, object: &Value) -> Change {
    let key = format!("/registry/{kind}/space/{name}");
    Change { revision: 1, key, object: Some(object.clone()) }
}
