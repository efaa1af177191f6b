//! Kruise's webhook tests, as far as the engine decides them: `TestValidateUpdatePodForPub`,
//! `TestValidateEvictPodForPub`, `TestValidateDeletePodForPub`, `TestPodUnavailableBudgetValidatePod`
//! and `TestIsNeedPubProtection`. Which requests are operations at all is the webhook's to say.

use std::collections::BTreeSet;

use holdfast_core::model::Operation::{Delete, Evict, Resize, Update};
use holdfast_core::model::Threshold::{Count, Percent};
use holdfast_core::model::{Budget, Operation, Owner, Phase, Pod};
use holdfast_core::verdict::{AllowReason, DenyReason, Verdict};

use super::make::{
    assert_denied, assert_granted, assert_passed, bare, case, denial, deployed, deployment, max,
    min, named, protecting, total, under, with,
};
use crate::upstream::lone::{Lone, labels, max_unavailable, owned, selecting};

type Check = fn(&Verdict);
type Case = (&'static str, Budget, Operation, fn(&mut Pod), Check);

const GRANTED: Check = |verdict| assert_granted(verdict, 1);
const FREE: Check = |verdict| assert_granted(verdict, 0);
const DENIED: Check = |verdict| assert_denied(verdict);
const ENDED: Check = |verdict| assert_passed(verdict, AllowReason::PodEnded);
const UNCOVERED: Check = |verdict| assert_passed(verdict, AllowReason::NotCovered);
const EXEMPT: Check = |verdict| assert_passed(verdict, AllowReason::Exempt);

/// One pod of three is asked about; first in a dry run, which must answer alike and write nothing.
#[test]
fn test_validate_pod_for_pub() {
    let full = || max(Count(0));
    let roomy = || max(Count(1));
    let other = || selecting(full(), Some(labels(&[("foo", "other")])));
    let ignoring = || with(full(), |spec| spec.ignored = Some(labels(&[("foo", "bar")])));
    let heeding = || with(full(), |spec| spec.ignored = Some(labels(&[("foo", "other")])));
    let leave: fn(&mut Pod) = |_| {};
    let deleting: fn(&mut Pod) = |pod| pod.terminating = true;
    let done: fn(&mut Pod) = |pod| (pod.phase, pod.ready) = (Phase::Succeeded, false);
    let pending: fn(&mut Pod) = |pod| (pod.phase, pod.ready) = (Phase::Pending, false);
    let not_ready: fn(&mut Pod) = |pod| pod.ready = false;
    let unsettled: fn(&mut Pod) = |pod| pod.settled = false;
    let no_protect: fn(&mut Pod) = |pod| pod.no_protect = true;
    let cases: Vec<Case> = vec![
        // TestValidateUpdatePodForPub.
        ("update, allow", roomy(), Update, leave, GRANTED),
        ("update, reject", full(), Update, leave, DENIED),
        ("update, deletion ignored", full(), Update, deleting, ENDED),
        // Kruise records none of those that pass; here they are, because the pod may be ready before the
        // request lands (semantics 6).
        ("update, not ready ignored", full(), Update, not_ready, FREE),
        ("update, no PUB", other(), Update, leave, UNCOVERED),
        // A consistent pod, whether by sidecars, by its main container or by digests (kruise#2570).
        ("update, consistent", full(), Update, |pod| pod.applied = false, DENIED),
        ("update, protects DELETE", protecting(full(), &[Delete]), Update, leave, FREE),
        ("update, protects UPDATE", protecting(full(), &[Update]), Update, leave, DENIED),
        // TestValidateEvictPodForPub.
        ("evict, reject", full(), Evict, leave, DENIED),
        ("evict, allow", roomy(), Evict, leave, GRANTED),
        ("evict, desired 0", max(Percent(100)), Evict, leave, GRANTED),
        // TestValidateDeletePodForPub.
        ("delete, reject", full(), Delete, leave, DENIED),
        ("delete, protects UPDATE", protecting(full(), &[Update]), Delete, leave, FREE),
        ("delete, allow", roomy(), Delete, leave, GRANTED),
        // TestPodUnavailableBudgetValidatePod.
        ("allow", roomy(), Resize, leave, GRANTED),
        ("reject", full(), Resize, leave, DENIED),
        ("deleting", full(), Delete, deleting, ENDED),
        ("deleting, evicted", full(), Evict, deleting, ENDED),
        ("ended", full(), Delete, done, ENDED),
        ("pending", full(), Delete, pending, FREE),
        ("not ready", full(), Delete, not_ready, FREE),
        ("not ready, evicted", full(), Evict, not_ready, FREE),
        ("unavailable label, or in-place update incomplete", full(), Delete, unsettled, FREE),
        ("no-protect", full(), Delete, no_protect, FREE),
        ("no-protect, evicted", full(), Evict, no_protect, FREE),
        ("ignoredPodSelector", ignoring(), Delete, leave, FREE),
        ("ignoredPodSelector of others", heeding(), Delete, leave, DENIED),
        // Thresholds.
        ("min, room for one", min(Count(2)), Delete, leave, GRANTED),
        ("min, no room", min(Count(3)), Delete, leave, DENIED),
        ("total says that some are missing", total(roomy(), 4), Delete, leave, DENIED),
    ];
    for (name, budget, operation, change, check) in cases {
        case(name);
        let mut lone = deployed(3, 3);
        lone.change_pod("p0", change);
        lone.budget(budget);
        let writes = lone.writes;
        let dry = lone.operate_with("p0", operation, |request| request.dry_run = true);
        check(&dry);
        assert_eq!(lone.writes, writes, "a dry run writes nothing");
        let verdict = lone.operate("p0", operation);
        check(&verdict);
        lone.settle();
        let Verdict::Allow(allowed) = verdict else {
            assert!(lone.status("pub").grants.is_empty());
            continue;
        };
        let recorded: Vec<_> = lone.status("pub").grants.iter().collect();
        assert_eq!(recorded.len(), allowed.grants.len());
        if let [grant] = recorded[..] {
            let generation = if operation.keeps_pod() { 2 } else { 0 };
            assert_eq!((grant.uid.as_str(), grant.operation), ("uid-p0", operation));
            assert!(operation == Delete || grant.generation == generation, "{grant:?}");
            assert!(lone.status("pub").disrupted_pods.contains_key("p0"));
            // Asked again: recorded already, in Kruise's words.
            check(&lone.operate("p0", operation));
            lone.settle();
            assert_eq!(lone.status("pub").grants.len(), 1);
        }
    }
}

/// `TestIsNeedPubProtection`: what is protected, and what only recorded. (That a list with UPDATE and
/// without RESIZE protects from both is for whoever reads the list.)
#[test]
fn test_is_need_pub_protection() {
    let lists: [&[Operation]; 6] =
        [Operation::ALL, &[Delete], &[Evict], &[Update], &[Resize], &[Delete, Evict]];
    for list in lists {
        for operation in Operation::ALL {
            case(format!("{operation:?} under {list:?}"));
            let mut lone = under(protecting(max(Count(0)), list), 1);
            let verdict = lone.operate("p0", *operation);
            if list.contains(operation) { DENIED(&verdict) } else { FREE(&verdict) }
        }
    }
}

/// Kruise lets everything pass until its controller has looked at a new budget or a changed one.
#[test]
fn a_fresh_budget_is_in_force() {
    let mut lone = deployed(3, 3);
    lone.are_writes_held = true;
    lone.budget(max(Count(0)));
    DENIED(&lone.operate("p0", Delete));
    lone.write_all();
    let mut loosened = lone.budgets["pub"].clone();
    (loosened.spec.max_unavailable, loosened.generation) = (Some(Count(1)), 2);
    lone.budget(loosened.clone());
    let mut tightened = lone.budgets["pub"].clone();
    (tightened.spec.max_unavailable, tightened.generation) = (Some(Count(0)), 3);
    lone.are_writes_held = true;
    lone.budget(tightened);
    DENIED(&lone.operate("p0", Delete));
    lone.write_all();
    lone.verify("pub", (0, 3, 3, 3));
}

/// Kruise's stale annotation: another budget takes over, and pods that are there already are under it.
#[test]
fn another_budget_takes_over() {
    let mut lone = under(named("a", max(Count(1))), 3);
    lone.delete_budget("a");
    UNCOVERED(&lone.operate("p0", Delete));
    lone.budget(named("b", max(Count(0))));
    DENIED(&lone.operate("p0", Delete));
}

/// Kruise looks at its cached copy and charges twice.
#[test]
fn two_deletes_at_once_charge_once() {
    let mut lone = under(max(Count(2)), 5);
    lone.are_writes_held = true;
    let asked: Vec<String> = (0..2).map(|_| lone.ask("p0", Delete, |_| {})).collect();
    lone.write_all();
    for id in asked {
        assert!(lone.answer(&id).is_allow());
    }
    lone.verify("pub", (1, 4, 3, 5));
    assert_eq!(lone.status("pub").grants.len(), 1);
}

/// One write for many, and not one too many.
#[test]
fn sixteen_at_once() {
    let mut lone = under(max(Count(3)), 16);
    lone.are_writes_held = true;
    let asked: Vec<String> =
        (0..16).map(|i| lone.ask(&format!("p{i}"), Operation::ALL[i % 4], |_| {})).collect();
    lone.write_all();
    let allowed = asked.iter().filter(|id| lone.answer(id).is_allow()).count();
    assert_eq!(allowed, 3);
    lone.verify("pub", (0, 13, 13, 16));
}

/// What is not asked for permission may go together with what is: that one is then more than the budget
/// can spare is nobody's mistake.
#[test]
fn exempt_beside_granted() {
    let mut lone = under(max(Count(1)), 4);
    lone.are_writes_held = true;
    let first = lone.ask("p0", Evict, |request| request.exempt = true);
    let paid = lone.ask("p1", Delete, |_| {});
    let exempt = lone.ask("p2", Delete, |request| request.exempt = true);
    lone.write_all();
    assert_granted(&lone.answer(&first), 0);
    assert_denied(&lone.answer(&paid));
    assert_granted(&lone.answer(&exempt), 0);
    let mut lone = under(max(Count(2)), 4);
    lone.are_writes_held = true;
    let first = lone.ask("p0", Delete, |_| {});
    let paid = lone.ask("p1", Delete, |_| {});
    let exempt = lone.ask("p2", Delete, |request| request.exempt = true);
    lone.write_all();
    for (id, cost) in [(first, 1), (paid, 1), (exempt, 0)] {
        assert_granted(&lone.answer(&id), cost);
    }
    lone.verify("pub", (0, 1, 2, 4));
    let violations = lone.engine.violations();
    let broken = holdfast_core::invariant::Invariant::ALL.iter().map(|i| violations.of(*i));
    assert_eq!(broken.sum::<u64>(), 0);
}

/// The system at work passes, recorded, whatever there is room for; and counts from then on.
#[test]
fn exempt_passes_without_room() {
    for operation in Operation::ALL {
        let mut lone = under(max(Count(1)), 3);
        assert_granted(&lone.operate("p0", Delete), 1);
        let verdict = lone.operate_with("p1", *operation, |request| request.exempt = true);
        assert_granted(&verdict, 0);
        lone.settle();
        lone.verify("pub", (0, 1, 2, 3));
    }
}

/// A free grant of an update is no licence to delete: Kruise checks each by itself.
#[test]
fn a_free_update_does_not_pay_for_a_delete() {
    let cases: Vec<(&str, Budget, Operation, Check)> = vec![
        ("delete", protecting(max(Count(0)), &[Delete]), Delete, DENIED),
        ("evict", protecting(max(Count(0)), &[Evict]), Evict, DENIED),
        ("resize", protecting(max(Count(0)), &[Resize]), Resize, DENIED),
        ("room for it", protecting(max(Count(1)), &[Delete]), Delete, GRANTED),
        ("neither is protected", protecting(max(Count(0)), &[Evict]), Delete, FREE),
    ];
    for (name, budget, operation, check) in cases {
        case(name);
        let mut lone = under(budget, 3);
        FREE(&lone.operate("p0", Update));
        lone.settle();
        check(&lone.operate("p0", operation));
        lone.settle();
        assert_eq!(lone.status("pub").grants.len(), 1);
    }
    // One that was paid for does: the pod counts as gone already.
    let mut lone = under(max(Count(1)), 3);
    GRANTED(&lone.operate("p0", Update));
    assert!(lone.operate("p0", Delete).is_allow());
    lone.settle();
    let grants = &lone.status("pub").grants;
    assert_eq!(grants.iter().map(|g| (g.cost, g.operation)).collect::<Vec<_>>(), [(1, Delete)]);
    lone.verify("pub", (0, 2, 2, 3));
}

/// A stale cache takes a pod for its successor of the same name, or the other way round: it waits.
#[test]
fn a_pod_that_the_cache_does_not_know_yet() {
    let mut lone = under(max(Count(1)), 3);
    let known = lone.pods["p0"].clone();
    let newer = Pod { uid: "uid-new".to_owned(), version: 9999.into(), ..known };
    lone.pods.insert("p0".to_owned(), newer);
    denial(&lone.operate("p0", Delete), DenyReason::BeingProcessed);
    assert!(lone.status("pub").grants.is_empty());
}

/// Pods of another controller, and bare ones, are under a selector too.
#[test]
fn a_budget_on_bare_pods_by_total() {
    let mut lone = Lone::new();
    lone.budget(total(max(Count(1)), 2));
    lone.pod(bare("a"));
    lone.pod(bare("b"));
    GRANTED(&lone.operate("a", Delete));
    DENIED(&lone.operate("b", Delete));
}

/// Kruise refuses until its controller has looked at the workload again, and GC tries for long.
#[test]
fn what_goes_anyway_passes() {
    let mut lone = under(min(Count(2)), 2);
    DENIED(&lone.operate("p0", Delete));
    lone.owner(Owner { terminating: true, ..deployment(2) });
    EXEMPT(&lone.operate("p0", Delete));
    EXEMPT(&lone.operate("p0", Evict));
    lone.owner(deployment(0));
    EXEMPT(&lone.operate("p1", Delete));
    lone.owner(deployment(2));
    DENIED(&lone.operate("p1", Delete));
}

/// An eviction needs both kinds of budgets, all or none.
#[test]
fn an_eviction_needs_pdb_and_pub() {
    let cases = [(1, 1, true), (0, 1, false), (1, 0, false), (0, 0, false)];
    for (of_pdb, of_pub, allowed) in cases {
        case(format!("PDB {of_pdb}, PUB {of_pub}"));
        let mut lone = under(max(Count(of_pub)), 3);
        lone.budget(max_unavailable("pdb", Count(of_pdb)));
        let verdict = lone.operate("p0", Evict);
        assert_eq!(verdict.is_allow(), allowed, "{verdict:?}");
        lone.settle();
        let grants = |name: &str| lone.status(name).grants.len();
        let expected = usize::from(allowed);
        assert_eq!((grants("pdb"), grants("pub")), (expected, expected));
        if let Verdict::Deny(denial) = verdict {
            let named: BTreeSet<_> =
                denial.causes.iter().filter_map(|cause| cause.budget.clone()).collect();
            let blocking = usize::from(of_pdb == 0) + usize::from(of_pub == 0);
            assert_eq!(named.len(), blocking, "each that blocks, and no other: {denial:?}");
        }
    }
}

/// A budget of disruptions has no say in a delete, and counts the pod as disrupted.
#[test]
fn a_delete_asks_only_the_pub() {
    let mut lone = under(max(Count(2)), 3);
    lone.budget(max_unavailable("pdb", Count(1)));
    lone.budget(named("full", selecting(max(Count(0)), Some(labels(&[("foo", "other")])))));
    lone.verify("pdb", (1, 3, 2, 3));
    GRANTED(&lone.operate("p0", Delete));
    lone.settle();
    lone.verify("pdb", (0, 2, 2, 3));
    assert!(lone.status("pdb").grants.is_empty());
    // Two may be unavailable by the one, and the other does not say no to what is no eviction.
    DENIED(&lone.operate("p1", Evict));
    GRANTED(&lone.operate("p1", Update));
    lone.settle();
    lone.verify("pdb", (0, 1, 2, 3));
    lone.verify("pub", (0, 1, 1, 3));
}

/// The message opens with what cannot be done, and has the arithmetic.
#[test]
fn denials_in_words() {
    for (operation, opening) in [
        (Evict, "Cannot evict pod as it would violate the pod's disruption budget."),
        (Delete, "Cannot delete pod as it would violate the pod's unavailable budget."),
        (Update, "Cannot update pod as it would violate the pod's unavailable budget."),
        (Resize, "Cannot resize pod as it would violate the pod's unavailable budget."),
    ] {
        let mut lone = under(max(Count(1)), 3);
        lone.change_pod("p2", |pod| pod.ready = false);
        let verdict = lone.operate("p0", operation);
        let denial = denial(&verdict, DenyReason::BudgetExhausted);
        assert!(denial.message.starts_with(opening), "{}", denial.message);
        let numbers = "PodUnavailableBudget pub needs 2 available pods and has 2 of 3";
        assert!(denial.message.contains(numbers), "{}", denial.message);
        assert!(denial.message.contains("when 1 more pod is available"), "{}", denial.message);
    }
}

/// More than 2000 are not recorded. The system at work passes all the same.
#[test]
fn too_many_grants() {
    let mut budget = max(Percent(100));
    for i in 0..2000 {
        budget.status.disrupted_pods.insert(format!("gone-{i}"), crate::upstream::lone::START);
    }
    let mut lone = under(budget, 2);
    denial(&lone.operate("p0", Delete), DenyReason::TooManyGrants);
    EXEMPT(&lone.operate_with("p0", Delete, |request| request.exempt = true));
}

/// Two owners of one name in turn: what the new one makes is not what the old one leaves behind.
#[test]
fn an_owner_comes_back_under_its_name() {
    let old = deployment(2);
    let mut lone = under(max(Count(0)), 2);
    lone.owner(Owner { terminating: true, ..old });
    EXEMPT(&lone.operate("p0", Delete));
    lone.delete_pod("p0");
    lone.delete_pod("p1");
    let new = Owner { uid: "uid-new".to_owned(), ..deployment(1) };
    let set = Owner { uid: "uid-new-set".to_owned(), ..super::make::set_of(&new) };
    lone.owner(new);
    lone.owner(set.clone());
    lone.pod(owned("n0", &set));
    DENIED(&lone.operate("n0", Delete));
}
