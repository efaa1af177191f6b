//! `pkg/controller/disruption/disruption_test.go` (upstream 6.1), except stale marks and grants.

use holdfast_core::io::{Regarding, ScaleOutcome};
use holdfast_core::model::Threshold::{Count, Percent};
use holdfast_core::model::{
    Condition, ConditionStatus, ControllerRef, GroupKind, LabelSelector, Operator, Pod,
    Requirement, Threshold,
};
use holdfast_core::{Change, Input, Kind};

use super::lone::{
    Lone, START, labels, max_unavailable, min_available, owned, owner, pod, reference_to,
    replica_set, selecting,
};

fn disruption_allowed(lone: &Lone, name: &str) -> (ConditionStatus, String) {
    let condition = lone.condition(name, "DisruptionAllowed");
    (condition.status, condition.reason.clone())
}

fn insufficient() -> (ConditionStatus, String) {
    (ConditionStatus::False, "InsufficientPods".to_owned())
}

fn sync_failed() -> (ConditionStatus, String) {
    (ConditionStatus::False, "SyncFailed".to_owned())
}

#[test]
fn test_no_selector() {
    let mut lone = Lone::new();
    lone.budget(selecting(min_available("pdb", Count(3)), Some(LabelSelector::default())));
    lone.verify("pdb", (0, 0, 3, 0));
    lone.pod(pod("yo-yo-yo"));
    lone.verify("pdb", (0, 1, 3, 1));
    assert_eq!(disruption_allowed(&lone, "pdb"), insufficient());
}

#[test]
fn null_selector_selects_none() {
    let mut lone = Lone::new();
    lone.budget(selecting(min_available("pdb", Count(3)), None));
    lone.pod(pod("yo-yo-yo"));
    lone.verify("pdb", (0, 0, 3, 0));
}

#[test]
fn test_unavailable() {
    let mut lone = Lone::new();
    lone.budget(min_available("pdb", Count(3)));
    for i in 0..4 {
        lone.verify("pdb", (0, i, 3, i));
        lone.pod(pod(&format!("yo-yo-yo-{i}")));
    }
    lone.verify("pdb", (1, 4, 3, 4));
    assert_eq!(
        disruption_allowed(&lone, "pdb"),
        (ConditionStatus::True, "SufficientPods".to_owned())
    );
    lone.change_pod("yo-yo-yo-0", |pod| pod.ready = false);
    lone.verify("pdb", (0, 3, 3, 4));
    assert_eq!(disruption_allowed(&lone, "pdb"), insufficient());
    assert_eq!(lone.condition("pdb", "DisruptionAllowed").message, "");
}

/// The API server would store other numbers, and the status would be written again for ever.
#[test]
fn numbers_beyond_int32_are_written_as_the_largest() {
    let mut lone = Lone::new();
    let large = i64::from(i32::MAX);
    lone.scales
        .insert("huge".to_owned(), ScaleOutcome::Found { uid: "u".into(), replicas: 3 << 31 });
    let owner = ControllerRef {
        group_kind: GroupKind::new("custom.example", "Thing"),
        version: "v1".to_owned(),
        name: "huge".to_owned(),
        uid: "u".to_owned(),
    };
    lone.pod(Pod { controller: Some(owner), ..pod("a") });
    lone.budget(max_unavailable("pdb", Count(1)));
    lone.verify("pdb", (0, 1, large, large));
    let writes = lone.writes;
    lone.advance(std::time::Duration::from_mins(2));
    assert_eq!(lone.writes, writes);
}

#[test]
fn no_pods_event() {
    let mut lone = Lone::new();
    lone.budget(min_available("pdb", Count(3)));
    let events = lone.events_of("NoPods");
    assert!(!events.is_empty());
    assert_eq!(events[0].message, "No matching pods found");
    assert!(!events[0].warning);
    assert!(matches!(&events[0].regarding, Regarding::Budget { uid, .. } if uid == "uid-pdb"));
}

/// `TestIntegerMaxUnavailable`, `TestNakedPod`, `TestStatusForUnmanagedPod`, `TestTotalUnmanagedPods`.
#[test]
fn test_naked_pods() {
    for budget in [max_unavailable("pdb", Count(1)), min_available("pdb", Percent(28))] {
        let mut lone = Lone::new();
        lone.budget(budget);
        lone.verify("pdb", (0, 0, 0, 0));
        lone.pod(pod("naked"));
        lone.verify("pdb", (0, 1, 0, 0));
        assert_eq!(disruption_allowed(&lone, "pdb"), insufficient(), "not SyncFailed");
        let events = lone.events_of("UnmanagedPods");
        assert!(!events.is_empty());
        assert!(events[0].warning);
        assert!(events[0].message.contains("were found to be unmanaged"), "{}", events[0].message);
    }
}

/// Integer minAvailable needs no owners, so nobody hears of unmanaged pods.
#[test]
fn unmanaged_pods_count_for_integers() {
    let mut lone = Lone::new();
    lone.budget(min_available("pdb", Count(1)));
    lone.pod(pod("naked"));
    lone.verify("pdb", (0, 1, 1, 1));
    assert_eq!(lone.events_of("UnmanagedPods").len(), 0);
}

#[test]
fn test_integer_max_unavailable_with_scaling() {
    let mut lone = Lone::new();
    lone.budget(max_unavailable("pdb", Count(2)));
    lone.owner(replica_set("rs", 7));
    lone.pod(owned("pod", &replica_set("rs", 7)));
    lone.verify("pdb", (0, 1, 5, 7));
    // Upstream waits for the next pod event; here the scale change itself counts.
    lone.owner(replica_set("rs", 5));
    lone.verify("pdb", (0, 1, 3, 5));
}

#[test]
fn test_percentage_max_unavailable_with_scaling() {
    let mut lone = Lone::new();
    lone.budget(max_unavailable("pdb", Percent(30)));
    lone.owner(replica_set("rs", 7));
    lone.pod(owned("pod", &replica_set("rs", 7)));
    lone.verify("pdb", (0, 1, 4, 7));
    lone.owner(replica_set("rs", 3));
    lone.verify("pdb", (0, 1, 2, 3));
}

fn custom(name: &str) -> ControllerRef {
    ControllerRef {
        group_kind: GroupKind::new("apps.test.io", "TestWorkload"),
        version: "v1".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
    }
}

/// `TestUnsupportedControllerPod`, and the three answers of `TestScaleFinderNoResource`.
#[test]
fn test_unsupported_controller_pod() {
    let not_implemented = ScaleOutcome::NotImplemented("testworkloads.apps.test.io".to_owned());
    let other = ScaleOutcome::Found { uid: "uid-of-another".to_owned(), replicas: 3 };
    for (outcome, message) in [
        (not_implemented, "testworkloads.apps.test.io does not implement the scale subresource"),
        (ScaleOutcome::NotFound, "found no controllers for pod"),
        (other, "found no controllers for pod"),
        (ScaleOutcome::Failed("no route to host".to_owned()), "no route to host"),
    ] {
        let mut lone = Lone::new();
        lone.budget(min_available("pdb", Percent(28)));
        lone.scales.insert("fake-controller".to_owned(), outcome);
        lone.pod(Pod { controller: Some(custom("fake-controller")), ..pod("naked") });
        // failSafe: what was last written stays, and nothing is allowed.
        lone.verify("pdb", (0, 0, 0, 0));
        assert_eq!(disruption_allowed(&lone, "pdb"), sync_failed());
        let condition = lone.condition("pdb", "DisruptionAllowed").message.clone();
        assert!(condition.contains(message), "{condition}");
        let events = lone.events_of("CalculateExpectedPodCountFailed");
        assert!(!events.is_empty());
        let prefix = "Failed to calculate the number of expected pods: ";
        assert!(events[0].warning && events[0].message.starts_with(prefix), "{:?}", events[0]);
    }
}

/// The numbers stay as last written, not as first.
#[test]
fn sync_failed_keeps_numbers() {
    let mut lone = Lone::new();
    lone.budget(max_unavailable("pdb", Count(1)));
    lone.owner(replica_set("rs", 3));
    for i in 0..3 {
        lone.pod(owned(&format!("pod-{i}"), &replica_set("rs", 3)));
    }
    lone.verify("pdb", (1, 3, 2, 3));
    lone.pod(Pod { controller: Some(custom("gone")), ..pod("stranger") });
    lone.verify("pdb", (0, 3, 2, 3));
    assert_eq!(disruption_allowed(&lone, "pdb"), sync_failed());
    // And once the stranger is gone, so is the failure.
    lone.delete_pod("stranger");
    lone.verify("pdb", (1, 3, 2, 3));
    assert_eq!(lone.condition("pdb", "DisruptionAllowed").message, "");
}

#[test]
fn test_replica_set() {
    let mut lone = Lone::new();
    lone.budget(min_available("pdb", Percent(20)));
    lone.owner(replica_set("rs", 10));
    lone.pod(owned("pod", &replica_set("rs", 10)));
    lone.verify("pdb", (0, 1, 2, 10));
}

#[test]
fn test_scale_resource() {
    let mut lone = Lone::new();
    let found = ScaleOutcome::Found { uid: "uid-custom".to_owned(), replicas: 10 };
    lone.scales.insert("custom".to_owned(), found);
    lone.budget(max_unavailable("pdb", Count(5)));
    for i in 0..4 {
        lone.pod(Pod { controller: Some(custom("custom")), ..pod(&format!("pod-{i}")) });
    }
    lone.verify("pdb", (0, 4, 5, 10));
}

#[test]
fn test_multiple_controllers() {
    let mut lone = Lone::new();
    lone.budget(min_available("pdb", Percent(1)));
    lone.pod(pod("pod-0"));
    lone.pod(pod("pod-1"));
    assert_eq!(lone.status("pdb").disruptions_allowed, 0);
    let first = owner("", "ReplicationController", "rc-1", 1);
    lone.owner(first.clone());
    for name in ["pod-0", "pod-1"] {
        lone.change_pod(name, |pod| pod.controller = Some(reference_to(&first)));
    }
    assert_eq!(lone.status("pdb").disruptions_allowed, 1);
}

/// `TestReplicationController` and `TestStatefulSetController`: 34% of 3 rounds up to 2, and without
/// pods nobody knows of the controller.
#[test]
fn test_replication_controller_and_stateful_set() {
    for owner in
        [owner("", "ReplicationController", "foobar", 3), owner("apps", "StatefulSet", "foobar", 3)]
    {
        let mut lone = Lone::new();
        lone.budget(min_available("pdb", Percent(34)));
        lone.owner(owner.clone());
        lone.verify("pdb", (0, 0, 0, 0));
        for i in 0..3 {
            lone.pod(owned(&format!("foobar-{i}"), &owner));
            lone.verify("pdb", (i64::from(i == 2), i64::from(i) + 1, 2, 3));
        }
        lone.pod(pod("rogue"));
        assert_eq!(lone.status("pdb").disruptions_allowed, 2);
    }
}

#[test]
fn test_two_controllers() {
    let rc = owner("", "ReplicationController", "rc", 11);
    let rs = replica_set("rs", 11);
    let mut lone = Lone::new();
    lone.budget(min_available("pdb", Percent(28)));
    lone.owner(rc.clone());
    lone.verify("pdb", (0, 0, 0, 0));
    for i in 1..=11i64 {
        lone.pod(Pod { ready: i > 6, ..owned(&format!("quux-{i}"), &rc) });
        lone.verify("pdb", (i64::from(i == 11), (i - 6).max(0), 4, 11));
    }
    lone.owner(rs.clone());
    lone.verify("pdb", (1, 5, 4, 11));
    for i in 1..=11i64 {
        lone.pod(Pod { ready: i > 7, ..owned(&format!("quuux-{i}"), &rs) });
        let healthy = 5 + (i - 7).max(0);
        lone.verify("pdb", ((healthy - 7).max(0), healthy, 7, 22));
    }
    lone.verify("pdb", (2, 9, 7, 22));
    lone.change_pod("quux-11", |pod| pod.ready = false);
    lone.verify("pdb", (1, 8, 7, 22));
    lone.change_pod("quux-10", |pod| pod.ready = false);
    lone.verify("pdb", (0, 7, 7, 22));
    lone.change_pod("quux-11", |pod| pod.ready = true);
    lone.verify("pdb", (1, 8, 7, 22));
}

/// `TestInvalidSelectors`, with `SyncFailed` and its event.
#[test]
fn test_invalid_selectors() {
    let illegal_operator = LabelSelector {
        match_labels: std::collections::BTreeMap::new(),
        match_expressions: vec![Requirement {
            key: "foo".to_owned(),
            operator: Operator::Other("illegal".to_owned()),
            values: vec!["bar".to_owned()],
        }],
    };
    for selector in [labels(&[("k8s.io/too/many/slashes", "value")]), illegal_operator] {
        let mut lone = Lone::new();
        lone.pod(pod("pod"));
        lone.budget(selecting(min_available("pdb", Count(3)), Some(selector)));
        lone.verify("pdb", (0, 0, 0, 0));
        assert_eq!(disruption_allowed(&lone, "pdb"), sync_failed());
        assert_eq!(lone.status("pdb").observed_generation, 0, "left as it was");
        let events = lone.events_of("NoPods");
        assert!(events.iter().any(|event| event.warning), "{events:?}");
    }
}

#[test]
fn invalid_threshold() {
    let mut lone = Lone::new();
    lone.budget(min_available("pdb", Threshold::Invalid("not a percentage".to_owned())));
    lone.pod(pod("pod"));
    lone.verify("pdb", (0, 0, 0, 0));
    assert_eq!(disruption_allowed(&lone, "pdb"), sync_failed());
}

#[test]
fn test_keep_existing_pdb_condition_during_sync() {
    let mut budget = selecting(min_available("pdb", Count(3)), Some(LabelSelector::default()));
    budget.status.conditions.push(Condition {
        kind: "ExistingTestCondition".to_owned(),
        status: ConditionStatus::True,
        reason: "Test".to_owned(),
        message: "This is a test condition".to_owned(),
        observed_generation: 7,
        last_transition: START,
    });
    let kept = budget.status.conditions[0].clone();
    let mut lone = Lone::new();
    lone.budget(budget);
    lone.verify("pdb", (0, 0, 3, 0));
    assert_eq!(lone.status("pdb").conditions.len(), 2);
    assert_eq!(*lone.condition("pdb", "ExistingTestCondition"), kept);
}

/// `lastTransitionTime` moves only when the status flips.
#[test]
fn transition_times() {
    let mut lone = Lone::new();
    lone.budget(min_available("pdb", Count(1)));
    let first = lone.condition("pdb", "DisruptionAllowed").last_transition;
    lone.advance(std::time::Duration::from_secs(10));
    lone.pod(pod("one"));
    assert_eq!(lone.condition("pdb", "DisruptionAllowed").last_transition, first);
    lone.advance(std::time::Duration::from_secs(10));
    lone.pod(pod("two"));
    assert!(lone.condition("pdb", "DisruptionAllowed").last_transition > first);
}

/// What does not change is not written.
#[test]
fn no_write_without_a_change() {
    let mut lone = Lone::new();
    lone.budget(min_available("pdb", Count(1)));
    lone.pod(pod("one"));
    let writes = lone.writes;
    lone.change_pod("one", |_| {});
    lone.pod(Pod { labels: std::collections::BTreeMap::new(), ..pod("other") });
    assert_eq!(lone.writes, writes);
}

/// Upstream refreshes only the budget of the new labels, and only one of several (7.1).
#[test]
fn label_moves_and_overlaps_refresh_every_budget() {
    let mut lone = Lone::new();
    lone.budget(min_available("bar", Count(0)));
    lone.budget(selecting(min_available("qux", Count(0)), Some(labels(&[("foo", "qux")]))));
    lone.budget(selecting(min_available("all", Count(0)), Some(LabelSelector::default())));
    lone.pod(pod("pod"));
    lone.verify("bar", (1, 1, 0, 1));
    lone.verify("qux", (0, 0, 0, 0));
    lone.verify("all", (1, 1, 0, 1));
    lone.change_pod("pod", |pod| {
        pod.labels.insert("foo".to_owned(), "qux".to_owned());
    });
    lone.verify("bar", (0, 0, 0, 0));
    lone.verify("qux", (1, 1, 0, 1));
    lone.change_pod("pod", |pod| pod.ready = false);
    lone.verify("qux", (0, 0, 0, 1));
    lone.verify("all", (0, 0, 0, 1));
    lone.delete_pod("pod");
    lone.verify("all", (0, 0, 0, 0));
}

/// The answer to a write has shown the mended state before the watch tells of the one that could not be read.
#[test]
fn a_budget_that_was_mended_before_it_was_seen_to_be_broken_is_not_broken() {
    let mut lone = Lone::new();
    lone.pod(pod("a"));
    lone.budget(min_available("pdb", Count(0)));
    let mended = lone.budgets["pdb"].clone();
    let (kind, key) = (Kind::Budget, mended.key.object.clone());
    lone.feed(Input::Lead(false));
    lone.feed(Input::Unreadable { kind, key, why: "garbled".to_owned(), salvaged: None });
    assert!(!lone.evict("a").is_allow());
    lone.feed(Input::Budget(Change::Applied(mended)));
    assert!(lone.evict("a").is_allow());
}
