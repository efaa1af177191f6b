//! The engine agrees with the reference, after every event, on every status and every verdict; and what
//! it records never breaks more than was allowed.
//!
//! `PROPTEST_CASES=20000 cargo test -p holdfast-core agree::` for a long run.

use std::collections::BTreeSet;

use holdfast_core::io::Input;
use holdfast_core::model::{BudgetStatus, Condition, ConditionStatus, ObjectKey, Owner};
use holdfast_core::verdict::{AllowReason, DenyReason, Verdict};
use holdfast_core::{Config, Kind, model::BudgetKey};
use proptest::prelude::*;

use super::agreement::draw;
use super::agreement::harness::Harness;
use super::agreement::names::{budget_key, pod_key, watched};
use super::agreement::ops::{Aftermath, Fate, Flavour, Op};
use super::agreement::world::World;
use super::reference::{Answer, Evaluation, Failure, Snapshot, answer, evaluate};

type Case = (Flavour, Vec<holdfast_core::io::ScaleOutcome>, Vec<Op>, Vec<Op>);

fn case() -> impl Strategy<Value = Case> {
    draw::flavour().prop_flat_map(|flavour| {
        let beginning = draw::beginning(&flavour);
        let then = prop::collection::vec(draw::op(&flavour), 1..25);
        (Just(flavour), draw::scales(), beginning, then)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn engine_agrees_with_reference((flavour, scales, beginning, then) in case()) {
        let mut config =
            Config { lws: flavour.lws, multi_pod_pdbs: flavour.multi_pod_pdbs, ..Config::default() };
        // The reference knows nothing of Kruise's kinds.
        config.kinds.retain(|kind| match kind {
            Kind::UnavailableBudget => false,
            Kind::Owner(kind) => kind.group != Owner::KRUISE_GROUP,
            _ => true,
        });
        if flavour.excluded {
            config.excluded_namespaces.insert("b".to_owned());
        }
        let mut harness = Harness::new(config, World::new(&scales));
        begin(&mut harness, &beginning);
        check(&mut harness);
        for op in &then {
            run(&mut harness, op);
        }
        harness.deliver_late();
        harness.settle();
        check(&mut harness);
        check_written(&harness);
    }
}

/// Everything is there before the first list, and the lists arrive one kind after the other.
fn begin(harness: &mut Harness, ops: &[Op]) {
    for op in ops {
        harness.world.apply(harness.now, op);
    }
    for kind in 0..14 {
        let id = harness.ask(&pod_key(0, 0), true);
        let verdict = harness.reply(&id).expect("a denial needs no time").clone();
        assert!(
            matches!(&verdict, Verdict::Deny(denial) if denial.reason == DenyReason::BeingProcessed),
            "not synced, and yet {verdict:?}"
        );
        relist(harness, kind);
    }
}

fn relist(harness: &mut Harness, kind: u8) {
    let kind = watched(kind);
    harness.feed(Input::ListBegan(kind.clone()));
    for input in harness.world.list(&kind) {
        harness.feed(input);
    }
    let version = harness.world.next_version();
    harness.feed(Input::ListEnded(kind, version));
}

fn run(harness: &mut Harness, op: &Op) {
    let is_late = !harness.late.is_empty();
    match op {
        Op::Repeat { kind, which } => {
            let mut all = harness.world.list(&watched(*kind));
            if !all.is_empty() {
                let index = usize::from(*which) % all.len();
                harness.feed(all.swap_remove(index));
            }
        }
        Op::Relist { kind, missed } => {
            let kind = watched(*kind);
            for op in missed {
                for input in harness.world.apply(harness.now, op) {
                    if kind_of(&input) != Some(kind.clone()) {
                        harness.feed(input);
                    }
                }
            }
            let index = (0..14).find(|&index| watched(index) == kind).expect("a watched kind");
            relist(harness, index);
        }
        Op::Advance { ms } => {
            let at = harness.now + std::time::Duration::from_millis(u64::from(*ms));
            harness.settle();
            harness.tick(at);
        }
        Op::Evict { pods, fates, after } => evict(harness, pods, fates, *after),
        change => {
            for input in harness.world.apply(harness.now, change) {
                harness.feed(input);
            }
        }
    }
    if is_late {
        harness.deliver_late();
    }
    harness.settle();
    check(harness);
}

fn evict(harness: &mut Harness, pods: &[(u8, u8)], fates: &[Fate], after: Aftermath) {
    // Everything else that wants to be written is written, so that the fates hit the evictions.
    harness.settle();
    let keys: Vec<ObjectKey> = pods.iter().map(|&(ns, slot)| pod_key(ns, slot)).collect();
    let before = harness.is_quiet().then(|| harness.snapshot());
    harness.fates = fates.iter().copied().collect();
    let ids: Vec<String> = keys.iter().map(|key| harness.ask(key, false)).collect();
    harness.settle();
    harness.fates.clear();

    if let ([key], [id], [], Some(before)) = (&keys[..], &ids[..], fates, before) {
        let verdict = harness.reply(id).expect("settled");
        assert_verdict(&before, key, verdict);
    }
    for (key, id) in keys.iter().zip(&ids) {
        let granted = matches!(harness.reply(id), Some(Verdict::Allow(allowed))
            if matches!(allowed.reason, AllowReason::Granted | AllowReason::NotCovered));
        if granted {
            follow(harness, key, after);
        }
    }
}

fn follow(harness: &mut Harness, key: &ObjectKey, after: Aftermath) {
    let now = harness.now;
    let inputs: Vec<Input> = match after {
        Aftermath::Nothing => Vec::new(),
        Aftermath::Terminating => harness.world.mark(now, key, true).into_iter().collect(),
        Aftermath::Deleted => harness.world.remove_pod(now, key, true).into_iter().collect(),
        Aftermath::Replaced => {
            let Some(pod) = harness.world.pods.get(key).cloned() else { return };
            let gone = harness.world.remove_pod(now, key, false);
            harness.world.pods.insert(key.clone(), pod);
            gone.into_iter().chain(harness.world.replace_pod(key)).collect()
        }
    };
    for input in inputs {
        harness.feed(input);
    }
}

/// Every status, and a dry run for every pod and for one that does not exist.
fn check(harness: &mut Harness) {
    if !harness.is_quiet() {
        return;
    }
    harness.check_refunds();
    let truth = harness.snapshot();
    for namespace in 0..2 {
        for slot in 0..4 {
            let key = budget_key(namespace, slot);
            let status = harness.engines[0].status(&key);
            match truth.budget(&key) {
                Some(budget) => {
                    let status = status.unwrap_or_else(|| panic!("no status of {key}"));
                    assert_status(&key, &status, &evaluate(&truth, budget));
                }
                None => assert_eq!(status, None, "status of {key}, which does not exist"),
            }
        }
    }
    for namespace in 0..2u8 {
        if namespace == 1 && !harness.config.excluded_namespaces.is_empty() {
            continue;
        }
        for slot in 0..8 {
            let key = pod_key(namespace, slot);
            let id = harness.ask(&key, true);
            let verdict = harness.reply(&id).unwrap_or_else(|| panic!("dry run of {key} waits"));
            assert_verdict(&truth, &key, verdict);
        }
    }
}

/// What the engine computes reaches the API server, and other people's conditions stay.
fn check_written(harness: &Harness) {
    for (key, budget) in &harness.world.budgets {
        let computed = harness.engines[0].status(key).expect("checked before");
        assert_eq!(numbers(&budget.status), numbers(&computed), "{key} as written");
        assert_eq!(
            conditions(&budget.status.conditions),
            conditions(&computed.conditions),
            "{key} as written"
        );
    }
}

fn numbers(status: &BudgetStatus) -> [i64; 8] {
    [
        status.disruptions_allowed_replicas,
        status.current_healthy_replicas,
        status.desired_healthy_replicas,
        status.expected_replicas,
        status.disruptions_allowed,
        status.current_healthy,
        status.desired_healthy,
        status.expected_pods,
    ]
}

fn conditions(conditions: &[Condition]) -> BTreeSet<(String, String, String)> {
    conditions
        .iter()
        .map(|c| (c.kind.clone(), format!("{:?}", c.status), c.reason.clone()))
        .collect()
}

fn assert_status(key: &BudgetKey, status: &BudgetStatus, expected: &Evaluation) {
    let wanted = [
        expected.allowed,
        expected.healthy,
        expected.desired,
        expected.expected,
        expected.allowed,
        expected.healthy_pods,
        expected.desired_pods,
        expected.expected_pods,
    ];
    assert_eq!(numbers(status), wanted, "{key}: {expected:?}");
    let condition = |kind: &str| -> Option<(ConditionStatus, &str)> {
        let found = status.conditions.iter().find(|condition| condition.kind == kind);
        found.map(|condition| (condition.status, condition.reason.as_str()))
    };
    assert_eq!(condition("DisruptionAllowed"), Some(expected.disruption_allowed), "{key}");
    // What a budget that cannot be computed says of its pods is not ruled.
    if expected.failure != Some(Failure::Sync) {
        assert_eq!(condition("BudgetConfigured"), expected.budget_configured, "{key}");
    }
}

fn assert_verdict(truth: &Snapshot, key: &ObjectKey, verdict: &Verdict) {
    if let Verdict::Deny(denial) = verdict
        && denial.reason == DenyReason::NotDeleted
    {
        // A grant is renewed in its first 45 s only (semantics 5). `vectors.rs` has the ages.
        let uid = truth.pods.iter().find(|pod| pod.key == *key).map(|pod| &pod.uid);
        assert!(truth.grants.iter().any(|grant| Some(&grant.uid) == uid), "{key}: {denial:?}");
        return;
    }
    let expected = answer(truth, key, None);
    match (&expected, verdict) {
        (Answer::Allow { reason, grants }, Verdict::Allow(allowed)) => {
            let mut given = allowed.grants.clone();
            given.sort();
            assert_eq!((*reason, grants), (allowed.reason, &given), "{key}");
        }
        (Answer::Deny(refusal), Verdict::Deny(denial)) => {
            assert!(refusal.reasons.contains(&denial.reason), "{key}: {refusal:?}, {denial:?}");
            let blamed: BTreeSet<BudgetKey> =
                denial.causes.iter().filter_map(|cause| cause.budget.clone()).collect();
            // Whoever the handler behind us would refuse need not be told all the rest.
            if refusal.reasons.contains(&DenyReason::BuiltinBudget) {
                assert!(blamed.is_subset(&refusal.budgets), "{key}: {refusal:?}, {denial:?}");
            } else {
                assert_eq!(blamed, refusal.budgets, "{key}: {denial:?}");
            }
        }
        _ => panic!("{key}: expected {expected:?}, got {verdict:?}"),
    }
}

/// Which kind a watch event is of.
fn kind_of(input: &Input) -> Option<holdfast_core::Kind> {
    use holdfast_core::Kind;
    use holdfast_core::io::Change::{Applied, Deleted};
    match input {
        Input::Pod(_) => Some(Kind::Pod),
        Input::Budget(_) => Some(Kind::Budget),
        Input::BuiltinBudget(_) => Some(Kind::BuiltinBudget),
        Input::PodGroup(Applied(g) | Deleted(g)) => Some(Kind::PodGroup(g.api)),
        Input::Workload(Applied(w) | Deleted(w)) => Some(Kind::Workload(w.api)),
        Input::Owner(Applied(o) | Deleted(o)) => Some(Kind::Owner(o.group_kind.clone())),
        _ => None,
    }
}
