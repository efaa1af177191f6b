//! `pkg/registry/core/pod/storage/eviction_test.go` (upstream 6.2): verdicts and messages.

use std::time::Duration;

use holdfast_core::io::{Change, ScaleOutcome};
use holdfast_core::model::Threshold::{Count, Percent};
use holdfast_core::model::{
    Budget, BudgetKey, BuiltinBudget, ConditionStatus, ControllerRef, GroupKind, LabelSelector,
    ObjectKey, Operation, Phase, Pod, ResourceVersion, UnhealthyPolicy,
};
use holdfast_core::verdict::{AllowReason, CANNOT_EVICT, Denial, DenyReason, Verdict};
use holdfast_core::{Command, Config, Engine, Eviction, Input};

use super::lone::{Lone, NAMESPACE, START, always_allow, labels, min_available, pod, selecting};

type Check = fn(&Verdict);

/// The one grant that a plain allow records.
#[track_caller]
fn assert_granted(verdict: &Verdict, cost: i64) {
    let Verdict::Allow(allowed) = verdict else { panic!("{verdict:?}") };
    assert_eq!(allowed.reason, AllowReason::Granted);
    assert_eq!(allowed.grants, [(BudgetKey::pdb(NAMESPACE, "pdb"), cost)]);
}

#[track_caller]
fn assert_free(verdict: &Verdict, reason: AllowReason) {
    let Verdict::Allow(allowed) = verdict else { panic!("{verdict:?}") };
    assert_eq!((allowed.reason, allowed.grants.len()), (reason, 0));
}

#[track_caller]
fn denial(verdict: &Verdict, reason: DenyReason) -> &Denial {
    let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
    assert_eq!(denial.reason, reason, "{denial:?}");
    assert!(denial.message.starts_with(CANNOT_EVICT), "{}", denial.message);
    denial
}

#[track_caller]
fn assert_cause(denial: &Denial, text: &str) {
    let key = BudgetKey::pdb(NAMESPACE, "pdb");
    let found =
        denial.causes.iter().any(|c| c.budget == Some(key.clone()) && c.message.contains(text));
    assert!(found, "no {text:?} in {:?}", denial.causes);
}

/// `TestEvictionWithETCD`, for both policies.
#[test]
fn test_eviction_with_etcd() {
    let blocked = min_available("pdb", Count(1));
    let roomy = min_available("pdb", Count(0));
    let elsewhere = selecting(min_available("pdb", Count(1)), Some(labels(&[("foo", "other")])));
    let everything = selecting(min_available("pdb", Count(1)), Some(LabelSelector::default()));
    let phase = |phase| Pod { phase, ready: false, ..pod("pod") };
    let is_denied: Check = |verdict| {
        denial(verdict, DenyReason::BudgetExhausted);
    };
    let is_ended: Check = |verdict| assert_free(verdict, AllowReason::PodEnded);
    let cases: Vec<(&str, Budget, Pod, Check)> = vec![
        ("no disruptions allowed, running", blocked.clone(), pod("pod"), is_denied),
        ("no disruptions allowed, pending", blocked.clone(), phase(Phase::Pending), |v| {
            assert_granted(v, 0);
        }),
        ("no disruptions allowed, succeeded", blocked.clone(), phase(Phase::Succeeded), is_ended),
        ("no disruptions allowed, failed", blocked.clone(), phase(Phase::Failed), is_ended),
        ("terminating", blocked, Pod { terminating: true, ..pod("pod") }, is_ended),
        ("disruptions allowed", roomy, pod("pod"), |v| assert_granted(v, 1)),
        ("non-matching", elsewhere, pod("pod"), |v| assert_free(v, AllowReason::NotCovered)),
        ("empty selector", everything, pod("pod"), is_denied),
    ];
    for (name, budget, pod, check) in cases {
        for budget in [budget.clone(), always_allow(budget)] {
            let mut lone = Lone::new();
            lone.pod(pod.clone());
            lone.budget(budget);
            let before = lone.writes;
            let dry = lone.evict_with("pod", |eviction| eviction.dry_run = true);
            check(&dry);
            assert_eq!(lone.writes, before, "{name}: a dry run writes nothing");
            check(&lone.evict("pod"));
        }
    }
}

/// `TestEviction`: the pod's health, the budget's health and the policy. The cost None is a denial.
#[test]
fn test_eviction_unhealthy_policies() {
    let if_healthy = UnhealthyPolicy::IfHealthyBudget;
    let always = UnhealthyPolicy::AlwaysAllow;
    for (is_ready, others, minimum, policy, cost) in [
        // Healthy pods spend, whatever the policy.
        (true, 1, 2, if_healthy, None),
        (true, 1, 2, always, None),
        (true, 1, 1, if_healthy, Some(1)),
        (true, 1, 1, always, Some(1)),
        // Unhealthy pods are free while the budget is healthy,
        (false, 1, 1, if_healthy, Some(0)),
        (false, 1, 1, always, Some(0)),
        // blocked while it is not,
        (false, 1, 2, if_healthy, None),
        (false, 1, 2, always, Some(0)),
        // and spend where nothing is desired (upstream 2.1, step 9 falls through).
        (false, 1, 0, if_healthy, Some(1)),
        (false, 0, 0, if_healthy, None),
    ] {
        let mut lone = Lone::new();
        lone.pod(Pod { ready: is_ready, ..pod("pod") });
        for i in 0..others {
            lone.pod(pod(&format!("other-{i}")));
        }
        let budget = min_available("pdb", Count(minimum));
        lone.budget(if policy == always { always_allow(budget) } else { budget });
        let verdict = lone.evict("pod");
        if let Some(cost) = cost {
            assert_granted(&verdict, cost);
            continue;
        }
        let denial = denial(&verdict, DenyReason::BudgetExhausted);
        let healthy = others + i64::from(is_ready);
        if healthy <= minimum {
            let has = format!("{minimum} healthy pods and has {healthy} currently");
            assert_cause(denial, &format!("The disruption budget pdb needs {has}"));
        }
    }
}

/// Upstream 2.2 B (1).
#[test]
fn sync_failed_message() {
    let mut lone = Lone::new();
    let controller = ControllerRef {
        group_kind: GroupKind::new("apps", "DaemonSet"),
        version: "v1".to_owned(),
        name: "ds".to_owned(),
        uid: "uid-ds".to_owned(),
    };
    lone.scales.insert("ds".to_owned(), ScaleOutcome::NotImplemented("daemonsets.apps".to_owned()));
    lone.pod(Pod { controller: Some(controller), ..pod("pod") });
    lone.pod(pod("other"));
    lone.budget(min_available("pdb", Percent(10)));
    let verdict = lone.evict("other");
    assert_cause(
        denial(&verdict, DenyReason::FailedClosed),
        "The disruption budget pdb does not allow evicting pods currently because it failed sync: \
         daemonsets.apps does not implement the scale subresource",
    );
    // Only pods that are not ready, and only under AlwaysAllow, pass a budget that cannot be computed.
    lone.change_pod("other", |pod| pod.ready = false);
    denial(&lone.evict("other"), DenyReason::FailedClosed);
    lone.budget(Budget { generation: 2, ..always_allow(min_available("pdb", Percent(10))) });
    assert_granted(&lone.evict("other"), 0);
}

/// `TestEvictionPDBStatus`: the condition flips only when nothing is left.
#[test]
fn test_eviction_pdb_status() {
    let mut lone = Lone::new();
    for i in 0..3 {
        lone.pod(pod(&format!("foo-{i}")));
    }
    lone.budget(min_available("pdb", Count(1)));
    lone.verify("pdb", (2, 3, 1, 3));
    assert_granted(&lone.evict("foo-0"), 1);
    // The write that records the grant carries the numbers that follow from it.
    lone.verify("pdb", (1, 2, 1, 3));
    assert_eq!(lone.condition("pdb", "DisruptionAllowed").status, ConditionStatus::True);
    assert_granted(&lone.evict("foo-1"), 1);
    lone.verify("pdb", (0, 1, 1, 3));
    let condition = lone.condition("pdb", "DisruptionAllowed");
    assert_eq!(
        (condition.status, condition.reason.as_str()),
        (ConditionStatus::False, "InsufficientPods")
    );
    denial(&lone.evict("foo-2"), DenyReason::BudgetExhausted);
    let names: Vec<&String> = lone.status("pdb").disrupted_pods.keys().collect();
    assert_eq!(names, ["foo-0", "foo-1"]);
}

/// `TestAddConditionAndDelete`: preconditions are the API server's to refuse.
#[test]
fn test_preconditions() {
    let mut lone = Lone::new();
    lone.pod(pod("pod"));
    lone.budget(min_available("pdb", Count(1)));
    let other = |eviction: &mut Eviction| eviction.uid = Some("other".to_owned());
    assert_free(&lone.evict_with("pod", other), AllowReason::UidMismatch);
    let same = |eviction: &mut Eviction| eviction.uid = Some("uid-pod".to_owned());
    denial(&lone.evict_with("pod", same), DenyReason::BudgetExhausted);
    assert_free(&lone.evict("nobody"), AllowReason::PodGone);
}

/// "pending→running continues to PDB": the live read counts, and then the cache has to catch up.
#[test]
fn pending_in_the_cache_only() {
    let mut lone = Lone::new();
    lone.pod(Pod { phase: Phase::Pending, ready: false, ..pod("pod") });
    lone.pod(pod("other"));
    lone.budget(min_available("pdb", Count(2)));
    let running = Pod { version: ResourceVersion::from(1_000_000), ..pod("pod") };
    lone.pods.insert("pod".to_owned(), running);
    denial(&lone.evict("pod"), DenyReason::BeingProcessed);
}

/// Running in the cache, though: no live read, and the cache decides.
#[test]
fn evicting_a_running_pod_needs_no_live_read() {
    let mut lone = Lone::new();
    lone.budget(min_available("pdb", Count(0)));
    lone.pod(pod("pod"));
    lone.pods.clear();
    assert_granted(&lone.evict("pod"), 1);
}

/// Upstream 2.2 A, here while the scale has not been read.
#[test]
fn still_being_processed() {
    let controller = ControllerRef {
        group_kind: GroupKind::new("example.com", "Thing"),
        version: "v1".to_owned(),
        name: "thing".to_owned(),
        uid: "uid-thing".to_owned(),
    };
    let mut lone = Lone::new();
    lone.are_scales_silent = true;
    lone.pod(Pod { controller: Some(controller.clone()), ..pod("pod") });
    lone.budget(min_available("pdb", Percent(10)));
    assert_eq!(lone.writes, 0, "nothing to say yet");
    let verdict = lone.evict("pod");
    let processed = "The disruption budget pdb is still being processed by the server.";
    assert_cause(denial(&verdict, DenyReason::BeingProcessed), processed);
    let outcome = ScaleOutcome::Found { uid: controller.uid.clone(), replicas: 0 };
    let namespace = NAMESPACE.to_owned();
    lone.are_scales_silent = false;
    lone.scales.insert("thing".to_owned(), outcome.clone());
    lone.feed(Input::ScaleRead { namespace, owner: controller, outcome });
    lone.settle();
    lone.verify("pdb", (0, 1, 0, 0));
    denial(&lone.evict("pod"), DenyReason::BudgetExhausted);
}

/// And while the caches have not been filled.
#[test]
fn not_synced() {
    let mut engine = Engine::new(Config::default());
    let eviction = Eviction {
        id: "one".to_owned(),
        pod: ObjectKey::new(NAMESPACE, "pod"),
        uid: None,
        requester: "drain".to_owned(),
        dry_run: false,
        operation: Operation::Evict,
        object: None,
        generation: 0,
        exempt: false,
        by_name: false,
        deadline: START + Duration::from_secs(5),
    };
    engine.handle(START, Input::Evict(eviction));
    let Some(Command::Reply { verdict, .. }) = engine.poll() else { panic!("no reply") };
    denial(&verdict, DenyReason::BeingProcessed);
}

/// Upstream 2.2 D and the ruling's 2000.
#[test]
fn too_many_grants() {
    let mut budget = min_available("pdb", Count(1));
    let mut lone = Lone::new();
    for i in 0..2001 {
        let name = format!("pod-{i}");
        budget.status.disrupted_pods.insert(name.clone(), lone.now);
        lone.feed(Input::Pod(Change::Applied(Pod {
            version: ResourceVersion::from(7),
            ..pod(&name)
        })));
    }
    for name in ["a", "b", "c"] {
        lone.pod(pod(name));
    }
    lone.budget(budget);
    denial(&lone.evict("a"), DenyReason::TooManyGrants);
}

/// More than one budget on a pod: upstream answers 500, here every one must allow.
#[test]
fn more_than_one_budget() {
    let mut lone = Lone::new();
    lone.pod(pod("pod"));
    lone.pod(pod("other"));
    lone.budget(min_available("pdb", Count(1)));
    lone.budget(min_available("zzz", Count(2)));
    let verdict = lone.evict("pod");
    let denied = denial(&verdict, DenyReason::BudgetExhausted);
    let blamed: Vec<_> = denied.causes.iter().map(|cause| cause.budget.clone()).collect();
    assert_eq!(blamed, [Some(BudgetKey::pdb(NAMESPACE, "zzz"))]);
    assert!(lone.status("pdb").grants.is_empty(), "nothing reserved");
    lone.budget(Budget { generation: 2, ..min_available("zzz", Count(1)) });
    let Verdict::Allow(allowed) = lone.evict("pod") else { panic!() };
    let both = [(BudgetKey::pdb(NAMESPACE, "pdb"), 1), (BudgetKey::pdb(NAMESPACE, "zzz"), 1)];
    assert_eq!(allowed.grants, both);
    for name in ["pdb", "zzz"] {
        assert_eq!(lone.status(name).grants.len(), 1);
        assert_eq!(lone.status(name).grants[0].budgets, ["uid-pdb", "uid-zzz"]);
        lone.verify(name, (0, 1, 1, 2));
    }
}

fn builtin(name: &str, allowed: i64, (healthy, desired): (i64, i64)) -> BuiltinBudget {
    BuiltinBudget {
        key: ObjectKey::new(NAMESPACE, name),
        version: ResourceVersion::from(5),
        generation: 3,
        selector: Some(labels(&[("foo", "bar")])),
        unhealthy_policy: UnhealthyPolicy::IfHealthyBudget,
        observed_generation: 3,
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: desired,
        disrupted_pods: 0,
    }
}

/// The handler behind us (upstream 2.1, steps 8 to 10; 2.2 A to E).
#[test]
fn builtin_budgets() {
    let room = || builtin("builtin", 1, (3, 2));
    let cases: Vec<(&str, Vec<BuiltinBudget>, bool, bool)> = vec![
        ("room", vec![room()], true, true),
        ("no room", vec![builtin("builtin", 0, (2, 2))], true, false),
        ("not observed", vec![BuiltinBudget { observed_generation: 2, ..room() }], true, false),
        ("negative", vec![builtin("builtin", -1, (1, 2))], true, false),
        ("2001 disrupted", vec![BuiltinBudget { disrupted_pods: 2001, ..room() }], true, false),
        ("2000 disrupted", vec![BuiltinBudget { disrupted_pods: 2000, ..room() }], true, true),
        ("two of them", vec![room(), builtin("second", 1, (3, 2))], true, false),
        ("unready, healthy budget", vec![builtin("builtin", 0, (2, 2))], false, true),
        ("unready, unhealthy budget", vec![builtin("builtin", 0, (1, 2))], false, false),
        (
            "unready, always",
            vec![BuiltinBudget {
                unhealthy_policy: UnhealthyPolicy::AlwaysAllow,
                ..builtin("builtin", 0, (1, 2))
            }],
            false,
            true,
        ),
        (
            "not covering",
            vec![BuiltinBudget { selector: None, ..builtin("builtin", 0, (1, 2)) }],
            true,
            true,
        ),
    ];
    for (name, budgets, ready, allowed) in cases {
        let mut lone = Lone::new();
        lone.pod(Pod { ready, ..pod("pod") });
        lone.pod(pod("other"));
        lone.budget(min_available("pdb", Count(1)));
        for budget in budgets {
            lone.feed(Input::BuiltinBudget(Change::Applied(budget)));
        }
        let verdict = lone.evict("pod");
        assert_eq!(verdict.is_allow(), allowed, "{name}: {verdict:?}");
        if !allowed {
            denial(&verdict, DenyReason::BuiltinBudget);
            assert!(lone.status("pdb").grants.is_empty(), "{name}: denied before charging");
        }
    }
}
