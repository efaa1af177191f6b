use holdfast_api::decode::{self, Decoded, decode};
use holdfast_core::io::{Kind, ScaleOutcome};
use holdfast_core::model::{GroupKind, Owner};
use serde_json::{Value, json};

fn owner(group: &str, kind: &str, annotations: &Value, spec: &Value) -> Owner {
    let json = json!({
        "metadata": {"name": "o", "namespace": "ns", "uid": "u", "annotations": annotations},
        "spec": spec,
    });
    match decode(&Kind::Owner(GroupKind::new(group, kind)), json.to_string().as_bytes()) {
        Ok(Decoded::Owner(owner)) => owner,
        other => panic!("{other:?}\n{json}"),
    }
}

#[test]
fn replicas_of_every_kind() {
    let cases = [
        ("", "ReplicationController", json!({"replicas": 3}), Some(3)),
        ("apps", "ReplicaSet", json!({"replicas": 0}), Some(0)),
        ("apps", "Deployment", json!({"replicas": 5}), Some(5)),
        ("apps", "Deployment", json!({}), Some(1)),
        ("apps", "StatefulSet", json!({"replicas": 7}), Some(7)),
        ("batch", "Job", json!({"parallelism": 4, "completions": 4}), None),
        (Owner::JOBSET_GROUP, "JobSet", json!({}), Some(0)),
        (
            Owner::JOBSET_GROUP,
            "JobSet",
            json!({"replicatedJobs": [{"name": "a", "replicas": 3}, {"name": "b"},
                {"name": "c", "replicas": null}, {"name": "d", "replicas": 0}]}),
            Some(5),
        ),
        (
            Owner::JOBSET_GROUP,
            "JobSet",
            json!({"replicatedJobs": [{"replicas": i64::MAX}, {"replicas": i64::MAX}]}),
            Some(i64::MAX),
        ),
        (Owner::LWS_GROUP, "LeaderWorkerSet", json!({"replicas": 4}), Some(4)),
        (Owner::LWS_GROUP, "LeaderWorkerSet", json!({}), Some(1)),
    ];
    for (group, kind, spec, replicas) in cases {
        let owner = owner(group, kind, &Value::Null, &spec);
        assert_eq!(owner.replicas, replicas, "{kind} {spec}");
        assert_eq!(owner.group_kind, GroupKind::new(group, kind));
        assert!(!owner.lws_keeps_group, "{kind} {spec}");
    }
}

#[test]
fn group_size_is_of_stateful_sets_only() {
    let size = |text: &str| json!({"holdfast.dev/group-size": text});
    for (group, kind, text, expected) in [
        ("apps", "StatefulSet", "4", Some(4)),
        ("apps", "StatefulSet", "0", None),
        ("apps", "StatefulSet", "-4", None),
        ("apps", "StatefulSet", "four", None),
        ("apps", "Deployment", "4", None),
    ] {
        let owner = owner(group, kind, &size(text), &json!({}));
        assert_eq!(owner.group_size, expected, "{kind} {text}");
    }
}

#[test]
fn leader_worker_sets_that_keep_a_broken_group() {
    for (policy, keeps) in [
        (json!("None"), true),
        (json!("Default"), true),
        (json!("RecreateGroupOnPodRestart"), false),
        (json!("RecreateGroupAfterStart"), false),
        (Value::Null, false),
    ] {
        let spec = json!({"leaderWorkerTemplate": {"size": 8, "restartPolicy": policy}});
        let owner = owner(Owner::LWS_GROUP, "LeaderWorkerSet", &Value::Null, &spec);
        assert_eq!(owner.lws_keeps_group, keeps, "{policy}");
    }
}

#[test]
fn every_listed_kind_is_read_and_no_other() {
    let json = br#"{"metadata": {"name": "o", "namespace": "ns"}}"#;
    for (group, kind) in Owner::WATCHED {
        let decoded = decode(&Kind::Owner(GroupKind::new(group, kind)), json);
        assert!(matches!(decoded, Ok(Decoded::Owner(_))), "{kind}");
    }
    let error = decode(&Kind::Owner(GroupKind::new("apps", "DaemonSet")), json)
        .expect_err("daemon sets have no replicas");
    assert_eq!(
        error.to_string(),
        "cannot read DaemonSet.apps ns/o: not a kind that Holdfast reads"
    );
}

#[test]
fn scales() {
    let found = |uid: &str, replicas| ScaleOutcome::Found { uid: uid.into(), replicas };
    let read = |json: Value| decode::scale(json.to_string().as_bytes());
    let scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": "o", "uid": "u"}, "spec": {"replicas": 3}, "status": {"replicas": 2}});
    assert_eq!(read(scale), Ok(found("u", 3)));
    assert_eq!(read(json!({"metadata": {"uid": "u"}, "spec": {}})), Ok(found("u", 0)));
    let error = read(json!({"metadata": {"name": "o"}})).expect_err("it has no uid");
    assert_eq!(error.field.as_deref(), Some("metadata"));
    assert!(error.message.contains("uid"), "{error}");
}

/// The labels that pods will have: those of the template, and those that the controller always adds.
#[test]
fn pod_templates_of_every_kind_that_has_them() {
    let template = json!({"metadata": {"labels": {"app": "a"}},
        "spec": {"schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "c"}]}});
    let plain = json!({"metadata": {"labels": {"app": "b"}}});
    let lws =
        json!({"leaderWorkerTemplate": {"leaderTemplate": template, "workerTemplate": plain}});
    let jobset =
        json!({"replicatedJobs": [{"name": "w", "template": {"spec": {"template": template}}}]});
    let name = "leaderworkerset.sigs.k8s.io/name";
    let cases = [
        (
            Owner::LWS_GROUP,
            "LeaderWorkerSet",
            lws,
            vec![(vec![("app", "a"), (name, "o")], true), (vec![("app", "b"), (name, "o")], false)],
        ),
        (
            "batch",
            "Job",
            json!({"template": plain}),
            vec![(
                vec![("app", "b"), ("batch.kubernetes.io/job-name", "o"), ("job-name", "o")],
                false,
            )],
        ),
        (
            Owner::JOBSET_GROUP,
            "JobSet",
            jobset,
            vec![(
                vec![
                    ("app", "a"),
                    ("jobset.sigs.k8s.io/jobset-name", "o"),
                    ("jobset.sigs.k8s.io/replicatedjob-name", "w"),
                ],
                true,
            )],
        ),
        ("apps", "StatefulSet", json!({"template": template}), vec![(vec![("app", "a")], true)]),
        ("apps", "Deployment", json!({"template": template}), vec![]),
    ];
    for (group, kind, spec, expected) in cases {
        let owner = owner(group, kind, &Value::Null, &spec);
        let found: Vec<(Vec<(&str, &str)>, bool)> = (owner.pods.templates.iter())
            .map(|template| {
                let labels = template.labels.iter().map(|(k, v)| (k.as_str(), v.as_str()));
                (labels.collect(), template.reference.is_some())
            })
            .collect();
        assert_eq!(found, expected, "{kind}");
    }
}

#[test]
fn jobs_and_job_sets_that_make_no_pods() {
    let read = |group, kind, spec: Value, condition: &str| {
        let json = json!({"metadata": {"name": "o", "namespace": "ns"}, "spec": spec,
            "status": {"conditions": [{"type": condition, "status": "True"}]}});
        match decode(&Kind::Owner(GroupKind::new(group, kind)), json.to_string().as_bytes()) {
            Ok(Decoded::Owner(owner)) => (owner.pods.finished, owner.pods.suspended),
            other => panic!("{other:?}"),
        }
    };
    let suspended = json!({"suspend": true});
    assert_eq!(read("batch", "Job", json!({}), "Complete"), (true, false));
    assert_eq!(read("batch", "Job", json!({}), "Failed"), (true, false));
    assert_eq!(read("batch", "Job", suspended.clone(), "Suspended"), (false, true));
    assert_eq!(read(Owner::JOBSET_GROUP, "JobSet", json!({}), "Completed"), (true, false));
    assert_eq!(read(Owner::JOBSET_GROUP, "JobSet", suspended, "Suspended"), (false, true));
    assert_eq!(read("apps", "StatefulSet", json!({}), "Failed"), (false, false));
}
