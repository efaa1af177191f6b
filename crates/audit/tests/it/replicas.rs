//! Semantics 3 and 4: replicas, minCount, and how many are expected.

use holdfast_audit::objects::{Grant, Object, Operation, Reference, Scope};
use serde_json::{Value, json};

use crate::{History, gang, lws, lws_pod, member, pairs, ready_pod, replicas, with};

fn one_may_go() -> Value {
    replicas("b", &json!({"maxUnavailable": 1}))
}

#[test]
fn a_leader_worker_set_group_needs_its_size_and_the_set_says_how_many() {
    let mut history = History::default();
    history.store(lws("x", 3));
    history.store(lws_pod("x", 0, "x-0", 2));
    history.store(lws_pod("x", 0, "x-0-1", 2));
    history.store(lws_pod("x", 1, "x-1", 2));
    history.store(one_may_go());
    assert_eq!(history.numbers("b"), (1, 2, 3));
}

#[test]
fn the_group_key_wins_over_a_pod_group_that_the_pod_names_too() {
    let mut history = History::default();
    history.store(lws("x", 1));
    history.store(gang("g", 1));
    let both = |name| {
        let group = json!({"schedulingGroup": {"podGroupName": "g"}});
        with(lws_pod("x", 0, name, 2), "/spec", group)
    };
    history.store(both("x-0"));
    history.store(one_may_go());
    assert_eq!(history.count("b").healthy, 0, "its size is 2, whatever g needs");
    history.store(with(lws("x", 1), "/spec/leaderWorkerTemplate/restartPolicy", json!("None")));
    assert_eq!(history.count("b").healthy, 1, "a set that keeps the rest goes by the PodGroup");
}

#[test]
fn workers_of_an_earlier_leader_are_no_part_of_the_next_group() {
    let of = |pod, kind: &str, name: &str, uid: &str| {
        let api = if kind == "Pod" { "v1" } else { "apps/v1" };
        let owner = json!([{"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": true}]);
        with(pod, "/metadata/ownerReferences", owner)
    };
    let workers = |leader: &str| {
        let set =
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x-0"}});
        of(set, "Pod", "x-0", leader)
    };
    let mut history = History::default();
    history.store(lws("x", 1));
    history.store(lws_pod("x", 0, "x-0", 2));
    history.store(of(lws_pod("x", 0, "x-0-1", 2), "StatefulSet", "x-0", "uid-x-0"));
    history.store(one_may_go());
    assert_eq!(history.count("b").healthy, 0, "the StatefulSet of the worker is not there");
    history.store(workers("uid-x-0"));
    assert_eq!(history.count("b").healthy, 1);
    history.edit_pod("x-0", |pod| pod.uid = "next".to_owned());
    assert_eq!(history.count("b").healthy, 0, "its StatefulSet belongs to the last leader");
    let leaving = json!("2027-01-01T00:00:00Z");
    history.store(with(workers("next"), "/metadata/deletionTimestamp", leaving));
    assert_eq!(history.count("b").healthy, 0, "its StatefulSet is being deleted");
    history.store(workers("next"));
    assert_eq!(history.count("b").healthy, 1);
}

#[test]
fn a_group_that_is_kept_ends_with_its_leader() {
    let owned_by =
        |pod, owner: serde_json::Value| with(pod, "/metadata/ownerReferences", json!([owner]));
    let of = |kind: &str, uid: &str| json!({"apiVersion": "v1", "kind": kind, "name": "x-0", "uid": uid, "controller": true});
    let mut set = of("StatefulSet", "uid-x-0");
    set["apiVersion"] = json!("apps/v1");
    let workers =
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x-0"}});
    let mut history = History::default();
    history.store(with(lws("x", 1), "/spec/leaderWorkerTemplate/restartPolicy", json!("None")));
    history.store(gang("g", 1));
    history.store(lws_pod("x", 0, "x-0", 2));
    history.store(owned_by(workers, of("Pod", "uid-x-0")));
    history.store(owned_by(lws_pod("x", 0, "x-0-1", 2), set));
    for name in ["x-0", "x-0-1"] {
        history.edit_pod(name, |pod| pod.reference = Some(Reference::PodGroup("g".to_owned())));
    }
    history.store(one_may_go());
    assert_eq!(history.count("b").healthy, 1);
    history.edit_pod("x-0", |pod| pod.ready = false);
    assert_eq!(history.count("b").healthy, 0, "one pod is enough, and it ends with its leader");
}

#[test]
fn a_group_above_the_scale_is_leaving() {
    let mut history = History::default();
    history.store(lws("x", 1));
    history.store(lws_pod("x", 0, "x-0", 1));
    history.store(lws_pod("x", 1, "x-1", 1));
    history.store(one_may_go());
    assert_eq!(history.numbers("b"), (1, 0, 1));
}

#[test]
fn pod_groups_are_counted_by_their_controller() {
    let mut history = pairs(&["a", "b", "c"]);
    history.store(one_may_go());
    assert_eq!(history.numbers("b"), (3, 2, 3));
    history.store(with(gang("c", 2), "/metadata/deletionTimestamp", json!("2027-01-01T00:00:00Z")));
    assert_eq!(history.numbers("b"), (2, 1, 2), "c is being deleted");
}

#[test]
fn a_group_without_policy_goes_by_its_workload_and_its_number() {
    let mut history = History::default();
    let link = json!({"workloadName": "w", "templateName": "t"});
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {"workloadRef": link},
    });
    history.store(group);
    history.store(member("g-0", "g"));
    history.store(one_may_go());
    assert!(history.count("b").closed.is_some(), "the Workload does not exist");
    let entry = |policy| json!({"name": "t", "replicas": 4, "schedulingPolicy": policy});
    let workload = |policy| {
        json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload",
            "metadata": {"name": "w"}, "spec": {"podGroupTemplates": [entry(policy)]}})
    };
    history.store(workload(json!({"gang": {"minCount": 1}})));
    assert_eq!(history.numbers("b"), (1, 3, 4));
    history.store(workload(json!({"basic": {}})));
    assert!(history.count("b").closed.is_some(), "basic has no minCount");
    history.edit_budget("b", |budget| budget.basic_min_count = Some(2));
    assert_eq!(history.numbers("b"), (0, 3, 4));
}

#[test]
fn several_replicas_of_an_entry_without_a_key_are_unresolved() {
    let mut history = History::default();
    let workload = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload", "metadata": {"name": "w"},
        "spec": {"podGroups": [{"name": "e", "replicas": 2, "policy": {"gang": {"minCount": 1}}}]},
    });
    history.store(workload);
    let entry = json!({"workloadRef": {"name": "w", "podGroup": "e"}});
    history.store(with(ready_pod("p"), "/spec", entry));
    history.store(one_may_go());
    assert!(history.count("b").closed.is_some());
    let keyed = json!({"workloadRef": {"name": "w", "podGroup": "e", "podGroupReplicaKey": "0"}});
    history.store(with(ready_pod("p"), "/spec", keyed));
    assert_eq!(history.numbers("b"), (1, 1, 2));
}

#[test]
fn an_annotation_names_a_group_of_holdfast_first() {
    let mut history = History::default();
    history.store(gang("g", 5));
    let own = with(gang("g", 1), "/apiVersion", json!("scheduling.holdfast.dev/v1alpha1"));
    history.store(own);
    let annotations = json!({"holdfast.dev/pod-group": "g"});
    history.store(with(ready_pod("p"), "/metadata/annotations", annotations));
    history.store(one_may_go());
    assert_eq!(history.count("b").healthy, 1);
}

#[test]
fn jobs_job_sets_and_grouped_stateful_sets_say_how_many() {
    let owned = |pod: serde_json::Value, api: &str, kind: &str, name: &str| {
        let reference = json!([{"apiVersion": api, "kind": kind, "name": name,
            "uid": format!("uid-{name}"), "controller": true}]);
        with(pod, "/metadata/ownerReferences", reference)
    };
    let mut history = History::default();
    let lone = |name: &str| with(gang(name, 1), "/metadata/ownerReferences", json!([]));
    history.store(lone("g"));
    history.store(lone("h"));
    history.store(lone("k"));
    history.store(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}));
    history.store(json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "set"},
        "spec": {"replicatedJobs": [{"replicas": 2}, {"replicas": 3}]}}));
    let child = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "child"}});
    history.store(owned(child, "jobset.x-k8s.io/v1alpha2", "JobSet", "set"));
    history.store(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": 7},
        "metadata": {"name": "sts", "annotations": {"holdfast.dev/group-size": "2"}}}));
    history.store(one_may_go());
    history.store(owned(member("p", "g"), "batch/v1", "Job", "job"));
    assert_eq!(history.count("b").expected, 1);
    history.store(owned(member("q", "h"), "batch/v1", "Job", "child"));
    assert_eq!(history.count("b").expected, 1 + 5);
    history.store(owned(member("r", "k"), "apps/v1", "StatefulSet", "sts"));
    assert_eq!(history.count("b").expected, 1 + 5 + 4, "7 pods in groups of 2 are 4");
}

#[test]
fn an_unknown_number_closes_only_a_budget_that_needs_it() {
    let mut history = History::default();
    history.store(with(gang("g", 1), "/metadata/ownerReferences", json!([])));
    history.store(member("g-0", "g"));
    history.store(one_may_go());
    assert!(history.count("b").closed.is_some());
    history.store(replicas("c", &json!({"minAvailable": 1})));
    assert_eq!(history.numbers("c"), (1, 1, 1));
    history.store(replicas("d", &json!({"minAvailable": "50%"})));
    assert!(history.count("d").closed.is_some());
}

/// Both one-replica sets would go.
#[test]
fn an_owner_without_pods_counts_by_its_template() {
    let mut history = History::default();
    history.store(lws("x", 1));
    history.store(lws("y", 1));
    history.store(lws_pod("x", 0, "x-0", 1));
    history.store(lws_pod("y", 0, "y-0", 1));
    history.store(one_may_go());
    history.remove("x-0");
    assert_eq!(history.numbers("b"), (1, 1, 2));
    history.store(with(lws("x", 1), "/metadata/deletionTimestamp", json!("2027-01-01T00:00:00Z")));
    assert_eq!(history.numbers("b"), (1, 0, 1), "an owner that is being deleted does not count");
}

/// An owner with one pod template, whose pods have label `app: a`.
fn templated(api: &str, kind: &str, template: &Value, metadata: &Value) -> Value {
    let template = with(template.clone(), "/metadata", json!({"labels": {"app": "a"}}));
    let inner = if kind == "JobSet" {
        let job = json!({"spec": {"template": template}});
        json!({"replicatedJobs": [{"name": "w", "replicas": 3, "template": job}]})
    } else {
        json!({"replicas": 4, "template": template})
    };
    let object = json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": inner});
    with(object, "/metadata/name", json!("x"))
}

#[test]
fn owners_of_all_kinds_count_by_templates_whose_pods_will_be_in_replicas() {
    let asks = json!({"annotations": {"holdfast.dev/pod-groups": "true"}});
    let sized = json!({"annotations": {"holdfast.dev/group-size": "2"}});
    let (none, plain) = (json!({}), json!({"spec": {}}));
    let named = json!({"spec": {"schedulingGroup": {"podGroupName": "g"}}});
    let jobset = "jobset.x-k8s.io/v1alpha2";
    for (api, kind, template, metadata, expected) in [
        ("batch/v1", "Job", &named, &none, 1),
        ("batch/v1", "Job", &plain, &asks, 1),
        // The namespace or somebody else may put its pods into groups.
        ("batch/v1", "Job", &plain, &none, 1),
        (jobset, "JobSet", &named, &none, 3),
        (jobset, "JobSet", &plain, &asks, 3),
        (jobset, "JobSet", &plain, &none, 3),
        ("apps/v1", "StatefulSet", &plain, &sized, 2),
        ("apps/v1", "StatefulSet", &plain, &asks, 0),
        ("apps/v1", "Deployment", &named, &asks, 0),
    ] {
        let mut history = History::default();
        history.store(gang("g", 1));
        history.store(templated(api, kind, template, metadata));
        history.store(replicas("b", &json!({"maxUnavailable": 1})));
        assert_eq!(history.numbers("b").2, expected, "{kind} {template} {metadata}");
        for end in [json!({"suspend": true}), json!({"replicas": 0})] {
            let mut owner = templated(api, kind, template, metadata);
            for (key, value) in end.as_object().expect("an object") {
                owner["spec"][key] = value.clone();
            }
            // Of a Job and a JobSet there is no such number, and other kinds are not suspended.
            let ends = kind.contains("Job") == (end["suspend"] == true);
            history.store(owner);
            let expected = if ends { 0 } else { expected };
            assert_eq!(history.numbers("b").2, expected, "{kind} {template} {metadata} {end}");
        }
    }
}

#[test]
fn a_label_that_the_controller_adds_may_have_any_value() {
    let exists = |key: &str, operator: &str| json!({"matchExpressions": [{"key": key, "operator": operator, "values": []}]});
    let job = "batch.kubernetes.io/job-name";
    for (selector, expected) in [
        (json!({"matchLabels": {"app": "a", "controller-uid": "any"}}), 1),
        (json!({"matchLabels": {"app": "b"}}), 0),
        (json!({"matchLabels": {job: "x"}}), 1),
        (json!({"matchLabels": {job: "y"}}), 0),
        (exists("controller-uid", "Exists"), 1),
        (exists("controller-uid", "DoesNotExist"), 0),
        (exists("statefulset.kubernetes.io/pod-name", "Exists"), 0),
    ] {
        let mut history = History::default();
        let asks = json!({"annotations": {"holdfast.dev/pod-groups": "true"}});
        history.store(templated("batch/v1", "Job", &json!({"spec": {}}), &asks));
        let budget = replicas("b", &json!({"maxUnavailable": 1}));
        history.store(with(budget, "/spec/selector", selector.clone()));
        assert_eq!(history.numbers("b").2, expected, "{selector}");
    }
}

/// `PodGroups` `a` and `b` of one pod each, with controllers of their own.
fn two_trains() -> History {
    let mut history = History::default();
    for name in ["a", "b"] {
        let references = json!([{"apiVersion": "example.com/v1", "kind": "Train", "name": name,
            "uid": name, "controller": true}]);
        history.store(with(gang(name, 1), "/metadata/ownerReferences", references));
        history.store(member(&format!("{name}-0"), name));
    }
    history
}

/// Whether the status may show two expected replicas, and whether it may show one.
fn may_expect_two_and_one(history: &mut History) -> (bool, bool) {
    let [two, one] = [(0, 1, 1, 2), (1, 1, 0, 1)].map(|numbers| {
        history.edit_budget("b", |budget| {
            let status = &mut budget.status;
            (status.allowed, status.healthy, status.desired, status.expected) = numbers;
        });
        history.auditor.judge_status(&history.budget("b")).is_none()
    });
    (two, one)
}

#[test]
fn a_source_without_a_template_is_kept_by_the_grant_that_emptied_it() {
    let mut history = two_trains();
    history.store(one_may_go());
    history.evict("b", "a-0");
    assert_eq!(history.numbers("b"), (1, 1, 2), "the grant remembers the source");
    history.store(with(member("a-0", "a"), "/metadata/uid", json!("next")));
    assert_eq!(history.numbers("b"), (2, 1, 2));
    history.remove("a-0");
    let both = (true, true);
    assert_eq!(may_expect_two_and_one(&mut history), both, "an instance may have seen a-0 back");
}

#[test]
fn pods_without_a_group_show_that_their_owner_makes_none() {
    let mut history = History::default();
    history.store(templated("batch/v1", "Job", &json!({"spec": {}}), &json!({})));
    history.store(replicas("b", &json!({"maxUnavailable": 1})));
    assert_eq!(history.numbers("b").2, 1);
    let uid = history.auditor.state().owners.values().next().expect("x").uid.clone();
    let references = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": uid,
        "controller": true}]);
    let bare = with(ready_pod("x-0"), "/metadata/ownerReferences", references);
    history.store(bare);
    assert_eq!(history.numbers("b").2, 0);
}

/// Found by seeds 101769 and 113487 of swarm: the grant was refunded while the cache still had the pod.
#[test]
fn a_source_may_be_forgotten_if_no_operation_took_the_granted_pod() {
    let mut history = two_trains();
    history.store(one_may_go());
    history.grant("b", "a-0");
    history.remove("a-0");
    history.drop_grants("b");
    assert_eq!(may_expect_two_and_one(&mut history), (true, true));
    let mut history = two_trains();
    history.store(one_may_go());
    history.evict("b", "a-0");
    assert_eq!(may_expect_two_and_one(&mut history), (true, false));
}

#[test]
fn a_source_that_was_gone_for_a_while_may_be_forgotten() {
    let mut history = two_trains();
    history.store(one_may_go());
    history.evict("b", "a-0");
    let group = history.auditor.state().groups.values().next().expect("a").clone();
    history.auditor.deleted(&Object::PodGroup((*group).clone()));
    assert_eq!(may_expect_two_and_one(&mut history), (false, true));
    history.auditor.stored(Object::PodGroup((*group).clone()));
    assert_eq!(may_expect_two_and_one(&mut history), (true, true));
}

/// Found by seeds 113584, 114311, 119002 and 121867 of swarm.
#[test]
fn a_grant_of_a_budget_that_counted_pods_need_not_remember_the_source() {
    let mut history = two_trains();
    history.store(with(one_may_go(), "/spec/budgetScope", json!("Pod")));
    history.grant("b", "a-0");
    history.edit_budget("b", |budget| budget.scope = Scope::Replica);
    history.take("a-0");
    history.drop_grants("b");
    assert_eq!(may_expect_two_and_one(&mut history), (true, true));
}

/// `PodGroups` `a` and `b` of two pods each that are disrupted as a whole. One replica may go.
fn two_wholes() -> History {
    let mut history = pairs(&["a", "b"]);
    for name in ["a", "b"] {
        history.store(with(gang(name, 1), "/spec/disruptionMode", json!({"all": {}})));
    }
    history.store(replicas("b", &json!({"minAvailable": 1})));
    history
}

/// Whether the status may show one healthy replica of two, and whether it may show two.
fn may_have_one_and_two(history: &mut History) -> (bool, bool) {
    let [one, two] = [(0, 1, 1, 2), (1, 2, 1, 2)].map(|numbers| {
        history.edit_budget("b", |budget| {
            let status = &mut budget.status;
            (status.allowed, status.healthy, status.desired, status.expected) = numbers;
        });
        history.auditor.judge_status(&history.budget("b")).is_none()
    });
    (one, two)
}

/// Found by seed 100986 of swarm: the pod was gone when the grant was recorded.
#[test]
fn a_writer_that_lags_may_have_recorded_a_size() {
    let mut history = two_wholes();
    let known = history.auditor.state().clone();
    let uid = history.pod("a-0").uid;
    history.remove("a-0");
    history.edit_budget("b", |budget| {
        let (pod, eviction) = ("a-0".to_owned(), "late".to_owned());
        let operation = Operation::Evict;
        budget.status.grants.push(Grant {
            pod,
            uid: uid.clone(),
            eviction,
            operation,
            pinned: true,
        });
    });
    let budget = history.budget("b");
    history.drop_grants("b");
    assert_eq!(may_have_one_and_two(&mut history), (false, true));
    history.auditor.learn(&budget, &budget.status.grants, &known);
    assert_eq!(may_have_one_and_two(&mut history), (true, true));
}

#[test]
fn a_size_may_be_forgotten_if_no_operation_took_the_granted_pod() {
    let mut history = two_wholes();
    history.grant("b", "a-0");
    history.remove("a-0");
    history.drop_grants("b");
    assert_eq!(may_have_one_and_two(&mut history), (true, true));
    let mut history = two_wholes();
    history.evict("b", "a-0");
    assert_eq!(may_have_one_and_two(&mut history), (true, false));
}

/// Found by seed 720230 of lite: the first grant was refunded by an instance that still saw its pod.
#[test]
fn a_later_grant_need_not_record_a_size_that_may_be_forgotten() {
    for (refunded, sizes) in [(true, (true, true)), (false, (true, false))] {
        let mut history = two_wholes();
        history.grant("b", "a-0");
        history.remove("a-0");
        if refunded {
            history.drop_grants("b");
        }
        history.evict("b", "a-1");
        history.store(member("a-2", "a"));
        assert_eq!(may_have_one_and_two(&mut history), sizes, "refunded: {refunded}");
    }
}

/// Found by seed 114612 of swarm.
#[test]
fn a_group_is_as_large_as_its_only_controller_wants_while_it_wants_so_few() {
    let mut history = two_wholes();
    let set = |replicas: i64| {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "set"},
            "spec": {"replicas": replicas}})
    };
    history.store(set(2));
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "uid-set",
        "controller": true}]);
    for name in ["a-0", "a-1"] {
        history.store(with(member(name, "a"), "/metadata/ownerReferences", owner.clone()));
    }
    history.evict("b", "a-0");
    assert_eq!(may_have_one_and_two(&mut history), (true, false));
    history.store(set(1));
    assert_eq!(may_have_one_and_two(&mut history), (false, true));
    history.store(set(2));
    assert_eq!(may_have_one_and_two(&mut history), (true, true), "an instance may have noticed");
}

/// minCount shrank with the pod that the grant took.
#[test]
fn a_group_that_is_disrupted_whole_keeps_its_size_until_it_is_refilled() {
    let mut history = two_wholes();
    assert_eq!(history.numbers("b").0, 2);
    history.evict("b", "a-0");
    assert_eq!(history.numbers("b").0, 1, "a had two pods and has one");
    history.store(with(member("a-0", "a"), "/metadata/uid", json!("next")));
    assert_eq!(history.numbers("b").0, 2);
}

#[test]
fn the_size_of_a_whole_group_is_forgotten_after_ten_minutes() {
    let mut history = pairs(&["a", "b"]);
    history.store(with(gang("a", 1), "/spec/disruptionMode", json!("PodGroup")));
    history.store(replicas("b", &json!({"minAvailable": 1})));
    history.evict("b", "a-0");
    history.auditor.pass_time(holdfast_audit::SIZE_KEPT_MS - 1);
    assert_eq!(history.numbers("b").0, 1);
    history.auditor.pass_time(holdfast_audit::SIZE_KEPT_MS);
    assert_eq!(history.numbers("b").0, 2);
}
