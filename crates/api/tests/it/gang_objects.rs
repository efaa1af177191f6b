//! The objects on which gangs depend, except pods.

use holdfast_api::gang::{Object, decode};
use holdfast_core::gang::{
    Group, JobSize, Kind, Namespace, Node, Owner, OwnerSpec, ReplicatedJob, Seen, Taint,
    TaintEffect,
};
use holdfast_core::io::Change;
use holdfast_core::model::{
    Condition, ConditionStatus, GroupApi, GroupKind, GroupPolicy, TemplateRef, Timestamp,
};
use serde_json::{Value, json};

fn read(kind: &Kind, mut json: Value) -> Object {
    json["metadata"]["name"] = json!("x");
    decode(kind, GroupApi::Holdfast, "v1", json.to_string().as_bytes())
        .unwrap_or_else(|error| panic!("{error}\n{json}"))
}

fn node(json: Value) -> Node {
    match read(&Kind::Node, json) {
        Object::Node(node) => node,
        other => panic!("{other:?}"),
    }
}

fn namespace(json: Value) -> Namespace {
    match read(&Kind::Namespace, json) {
        Object::Namespace(namespace) => namespace,
        other => panic!("{other:?}"),
    }
}

fn owner(group: &str, kind: &str, json: Value) -> Owner {
    match read(&Kind::Owner(GroupKind::new(group, kind)), json) {
        Object::Owner(owner) => owner,
        other => panic!("{other:?}"),
    }
}

fn group(json: Value) -> Group {
    match read(&Kind::Group, json) {
        Object::Group(group) => group,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nodes() {
    let taint = |key: &str, effect| Taint { key: key.into(), value: String::new(), effect };
    let found = node(json!({
        "metadata": {"resourceVersion": "3", "labels": {"zone": "a"}},
        "spec": {"taints": [{"key": "t", "effect": "NoExecute"}, {"key": "u", "effect": "NoAdmit"}]},
        "status": {"capacity": {"cpu": "8"},
            "allocatable": {"cpu": "7500m", "memory": "1Ki", "pods": "110", "example.com/gpu": "x"}},
    }));
    assert_eq!((found.name.as_str(), found.version, found.terminating), ("x", 3.into(), false));
    assert_eq!(json!(found.labels), json!({"zone": "a"}));
    assert_eq!(found.taints, [taint("t", TaintEffect::NoExecute)]);
    let allocatable = json!({"cpu": 7500, "memory": 1_024_000, "pods": 110_000});
    assert_eq!(json!(found.allocatable), allocatable);

    let cordoned = taint("node.kubernetes.io/unschedulable", TaintEffect::NoSchedule);
    let tainted = json!([{"key": cordoned.key, "effect": "NoSchedule"}]);
    for spec in [json!({"unschedulable": true}), json!({"unschedulable": true, "taints": tainted})]
    {
        assert_eq!(node(json!({"spec": spec})).taints, std::slice::from_ref(&cordoned), "{spec}");
    }
}

#[test]
fn asking() {
    for (text, of_namespace, of_owner) in [
        (json!("true"), true, Some(true)),
        (json!("false"), false, Some(false)),
        (json!("yes"), false, Some(false)),
        (json!(null), false, None),
    ] {
        let json = json!({"metadata": {"annotations": {"holdfast.dev/pod-groups": text}}});
        assert_eq!(namespace(json.clone()).asks, of_namespace, "{text}");
        assert_eq!(owner("batch", "Job", json).asks, of_owner, "{text}");
    }
}

#[test]
fn owners() {
    let lws = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet");
    let of_lws = |replicas, size, leader_ready, exclusive, keeps_group| {
        OwnerSpec::LeaderWorkerSet { replicas, size, leader_ready, exclusive, keeps_group }
    };
    let jobset = ("jobset.x-k8s.io", "JobSet");
    let job = ("batch", "Job");
    let size =
        |parallelism, completions, succeeded| JobSize { parallelism, completions, succeeded };
    let replicated = |name: &str, size, depends| ReplicatedJob { name: name.into(), size, depends };
    let set = ("apps", "StatefulSet");
    let of_set = |replicas, start, group_size, ordered| OwnerSpec::StatefulSet {
        replicas,
        start,
        group_size,
        ordered,
    };
    let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    let cases = [
        (lws, json!({}), of_lws(1, 1, false, false, false)),
        (
            lws,
            json!({"spec": {"replicas": 4, "startupPolicy": "LeaderCreated",
                "leaderWorkerTemplate": {"size": 8, "restartPolicy": "RecreateGroupOnPodRestart"}}}),
            of_lws(4, 8, false, false, false),
        ),
        (
            lws,
            json!({"spec": {"startupPolicy": "LeaderReady",
                "leaderWorkerTemplate": {"restartPolicy": "None"}}}),
            of_lws(1, 1, true, false, true),
        ),
        (
            lws,
            annotated("leaderworkerset.sigs.k8s.io/exclusive-topology", "rack"),
            of_lws(1, 1, false, true, false),
        ),
        (jobset, json!({}), OwnerSpec::JobSet { exclusive: false, jobs: vec![] }),
        (
            jobset,
            json!({"spec": {"startupPolicy": {"startupPolicyOrder": "InOrder"}, "replicatedJobs": [
                {"name": "a", "replicas": 3, "template": {"spec": {"parallelism": 4, "completions": 4}}},
                {"name": "b", "dependsOn": [{"name": "a", "status": "Ready"}], "template": {}},
            ]}}),
            OwnerSpec::JobSet {
                exclusive: false,
                jobs: vec![
                    replicated("a", size(4, Some(4), 0), false),
                    replicated("b", size(1, None, 0), true),
                ],
            },
        ),
        (
            jobset,
            annotated("alpha.jobset.sigs.k8s.io/exclusive-topology", "rack"),
            OwnerSpec::JobSet { exclusive: true, jobs: vec![] },
        ),
        (
            jobset,
            json!({"spec": {"replicatedJobs": [{"name": "a", "template":
                annotated("alpha.jobset.sigs.k8s.io/exclusive-topology", "rack")}]}}),
            OwnerSpec::JobSet {
                exclusive: true,
                jobs: vec![replicated("a", size(1, None, 0), false)],
            },
        ),
        (job, json!({}), OwnerSpec::Job(size(1, None, 0))),
        (
            job,
            json!({"spec": {"parallelism": 0, "completions": 9}, "status": {"succeeded": 2}}),
            OwnerSpec::Job(size(0, Some(9), 2)),
        ),
        (
            job,
            json!({"spec": {"parallelism": 9, "completions": 9},
                "status": {"succeeded": 2, "failedIndexes": "0,3-5,8"}}),
            OwnerSpec::Job(size(9, Some(9), 7)),
        ),
        (set, json!({}), of_set(1, 0, None, true)),
        (
            set,
            json!({"metadata": {"annotations": {"holdfast.dev/group-size": "4"}},
                "spec": {"replicas": 8, "podManagementPolicy": "Parallel", "ordinals": {"start": 2}}}),
            of_set(8, 2, Some(4), false),
        ),
        (set, annotated("holdfast.dev/group-size", "0"), of_set(1, 0, None, true)),
    ];
    for ((api_group, kind), json, expected) in cases {
        assert!(Owner::KINDS.contains(&(api_group, kind)), "{kind}");
        let found = owner(api_group, kind, json.clone());
        assert_eq!(found.spec, expected, "{json}");
        assert_eq!((found.group_kind.kind.as_str(), found.api_version.as_str()), (kind, "v1"));
    }
}

#[test]
fn kinds_that_no_groups_are_made_for() {
    let kind = Kind::Owner(GroupKind::new("apps", "ReplicaSet"));
    let json = br#"{"metadata": {"name": "r", "namespace": "ns"}}"#;
    let error = decode(&kind, GroupApi::Holdfast, "v1", json).expect_err("not one of ours");
    assert_eq!(
        error.to_string(),
        "cannot read ReplicaSet.apps ns/r: not a kind that pod groups are made for"
    );
}

#[test]
fn groups() {
    let found = group(json!({
        "metadata": {"uid": "u", "generation": 2, "creationTimestamp": "2026-11-15T20:00:00Z",
            "annotations": {"holdfast.dev/slot": "3"},
            "finalizers": ["a", "scheduling.holdfast.dev/podgroup-protection"]},
        "spec": {"workloadRef": {"name": "w"}, "podGroupTemplateName": "t",
            "schedulingPolicy": {"gang": {"minCount": 8}}},
        "status": {"scheduledPods": 3, "conditions": [{"type": "PodGroupScheduled", "status": "False",
            "reason": "Unschedulable", "message": "m", "observedGeneration": 2,
            "lastTransitionTime": "2026-11-15T20:00:00Z"}]},
    }));
    let created = Timestamp::from_secs(1_794_772_800);
    assert_eq!((found.created, found.generation, found.protected), (created, 2, true));
    assert_eq!((found.slot.as_deref(), found.object.uid.as_str()), (Some("3"), "u"));
    assert_eq!(found.object.policy, GroupPolicy::Gang { min_count: 8 });
    let template = TemplateRef { workload: "w".into(), template: "t".into() };
    assert_eq!(found.object.template, Some(template));
    let condition = Condition {
        kind: "PodGroupScheduled".into(),
        status: ConditionStatus::False,
        reason: "Unschedulable".into(),
        message: "m".into(),
        observed_generation: 2,
        last_transition: created,
    };
    assert_eq!((found.status.scheduled_pods, found.status.conditions), (3, vec![condition]));

    let empty = group(json!({"metadata": {"finalizers": null}, "spec": null, "status": null}));
    assert!(!empty.protected && empty.slot.is_none() && empty.status.conditions.is_empty());
}

/// The annotation is only for budgets: the pods of such a group do not wait for each other.
#[test]
fn basic_stays_basic() {
    let found = group(json!({"metadata": {"annotations": {"holdfast.dev/min-count": "8"}},
        "spec": {"schedulingPolicy": {"basic": {}}}}));
    assert_eq!(found.object.policy, GroupPolicy::Basic);
}

#[test]
fn what_a_watch_tells() {
    let workload =
        || read(&Kind::Workload, json!({"spec": {"podGroupTemplates": [{"name": "t"}]}}));
    assert!(
        matches!(workload().applied(), Seen::Workload(Change::Applied(w)) if w.entries.len() == 1)
    );
    assert!(matches!(workload().deleted(), Seen::Workload(Change::Deleted(_))));
    let gone = read(&Kind::Pod, json!({})).deleted();
    assert!(matches!(gone, Seen::Pod(Change::Deleted(pod)) if pod.key.name == "x"));
}
