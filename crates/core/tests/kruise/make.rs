//! Budgets, workloads and pods as the tests of this directory need them.

use holdfast_core::model::{
    Budget, BudgetKey, BudgetSpec, BudgetStatus, GroupKind, LabelGroups, LwsMember, Operation,
    Owner, Pod, ResourceVersion, Scope, Target, Threshold, UnavailableSpec,
};
use holdfast_core::verdict::{AllowReason, Denial, DenyReason, Verdict};

use crate::upstream::lone::{
    Lone, NAMESPACE, labels, owned, owner, pod, reference_to, replica_set,
};

pub const GROUP: &str = "leaderworkerset.sigs.k8s.io/group-index";

/// Says which line of a table it is, should it fail.
#[allow(clippy::disallowed_macros, reason = "the test harness shows it with a failure only")]
pub fn case(name: impl std::fmt::Display) {
    println!("{name}");
}

fn budget(name: &str, spec: BudgetSpec) -> Budget {
    Budget {
        key: BudgetKey::unavailable(NAMESPACE, name),
        uid: format!("uid-{name}"),
        version: ResourceVersion::default(),
        generation: 1,
        spec: BudgetSpec {
            selector: Some(labels(&[("foo", "bar")])),
            unavailable: Some(Box::default()),
            ..spec
        },
        status: BudgetStatus::default(),
    }
}

pub fn max(threshold: Threshold) -> Budget {
    budget("pub", BudgetSpec { max_unavailable: Some(threshold), ..BudgetSpec::default() })
}

pub fn min(threshold: Threshold) -> Budget {
    budget("pub", BudgetSpec { min_available: Some(threshold), ..BudgetSpec::default() })
}

pub fn named(name: &str, mut budget: Budget) -> Budget {
    budget.key = BudgetKey::unavailable(NAMESPACE, name);
    budget.uid = format!("uid-{name}");
    budget
}

pub fn with(mut budget: Budget, change: impl FnOnce(&mut UnavailableSpec)) -> Budget {
    change(budget.spec.unavailable.as_mut().expect("a PodUnavailableBudget"));
    budget
}

pub fn targeting(budget: Budget, group: &str, kind: &str, name: &str) -> Budget {
    let group_kind = GroupKind::new(group, kind);
    let target = Target { group_kind, name: name.to_owned() };
    let mut budget = with(budget, |spec| spec.target = Some(target));
    budget.spec.selector = None;
    budget
}

pub fn total(budget: Budget, total: i64) -> Budget {
    with(budget, |spec| spec.total = Some(total))
}

pub fn protecting(budget: Budget, operations: &[Operation]) -> Budget {
    with(budget, |spec| spec.operations = operations.iter().copied().collect())
}

/// With a `podGroupPolicy`.
pub fn grouped(budget: Budget, label: &str, min_ready: i64) -> Budget {
    let groups = LabelGroups { label: label.to_owned(), min_ready };
    let mut budget = with(budget, |spec| spec.groups = Some(groups));
    budget.spec.scope = Scope::Workload;
    budget
}

pub fn deployment(replicas: i64) -> Owner {
    owner("apps", "Deployment", "d", replicas)
}

/// Of the Deployment.
pub fn set_of(deployment: &Owner) -> Owner {
    Owner { controller: Some(reference_to(deployment)), ..replica_set("d-1", 10) }
}

/// A Deployment `d` of this scale with so many pods, `p0` and on, all ready.
pub fn deployed(replicas: i64, pods: usize) -> Lone {
    let mut lone = Lone::new();
    let deployment = deployment(replicas);
    let set = set_of(&deployment);
    lone.owner(deployment);
    lone.owner(set.clone());
    for i in 0..pods {
        lone.pod(owned(&format!("p{i}"), &set));
    }
    lone
}

/// The budget over as many ready pods as the Deployment should have.
pub fn under(budget: Budget, pods: usize) -> Lone {
    let mut lone = deployed(i64::try_from(pods).expect("few"), pods);
    lone.budget(budget);
    lone
}

/// As a container image, an annotation or a label would make it.
pub fn each(lone: &mut Lone, pods: std::ops::Range<usize>, change: impl Fn(&mut Pod)) {
    for i in pods {
        lone.change_pod(&format!("p{i}"), &change);
    }
}

pub fn lws(name: &str, replicas: i64) -> Owner {
    owner(Owner::LWS_GROUP, "LeaderWorkerSet", name, replicas)
}

/// Pod `<lws>-<group>-<index>` as lws v0.8.0 labels it; the leader has index 0.
pub fn member(lws: &str, group: i64, index: i64, size: i64) -> Pod {
    let name = format!("{lws}-{group}-{index}");
    let set = if index == 0 { lws.to_owned() } else { format!("{lws}-{group}") };
    let mut pod = owned(&name, &owner("apps", "StatefulSet", &set, size - 1));
    for (key, value) in [
        ("leaderworkerset.sigs.k8s.io/name", lws.to_owned()),
        (GROUP, group.to_string()),
        ("leaderworkerset.sigs.k8s.io/worker-index", index.to_string()),
    ] {
        pod.labels.insert(key.to_owned(), value);
    }
    pod.lws = Some(LwsMember {
        lws: lws.to_owned(),
        group_key: format!("{lws}-key-{group}"),
        group_index: Some(group),
        size: Some(size),
    });
    pod
}

/// Groups of one leader and `size - 1` workers each.
pub fn serve(lone: &mut Lone, name: &str, groups: i64, size: i64) {
    lone.owner(lws(name, groups));
    lone.owner(owner("apps", "StatefulSet", name, groups));
    for group in 0..groups {
        lone.owner(owner("apps", "StatefulSet", &format!("{name}-{group}"), size - 1));
        for index in 0..size {
            lone.pod(member(name, group, index, size));
        }
    }
}

pub fn labelled(pod: Pod, key: &str, value: &str) -> Pod {
    let mut pod = pod;
    pod.labels.insert(key.to_owned(), value.to_owned());
    pod
}

/// A pod that nobody has made.
pub fn bare(name: &str) -> Pod {
    pod(name)
}

/// Allowed, and recorded at this cost in one budget.
#[track_caller]
pub fn assert_granted(verdict: &Verdict, cost: i64) {
    let Verdict::Allow(allowed) = verdict else { panic!("{verdict:?}") };
    let costs: Vec<i64> = allowed.grants.iter().map(|(_, cost)| *cost).collect();
    assert_eq!((allowed.reason, costs), (AllowReason::Granted, vec![cost]));
}

#[track_caller]
pub fn assert_passed(verdict: &Verdict, reason: AllowReason) {
    let Verdict::Allow(allowed) = verdict else { panic!("{verdict:?}") };
    assert_eq!((allowed.reason, allowed.grants.len()), (reason, 0));
}

#[track_caller]
pub fn denial(verdict: &Verdict, reason: DenyReason) -> &Denial {
    let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
    assert_eq!(denial.reason, reason, "{denial:?}");
    denial
}

/// Denied for want of room.
#[track_caller]
pub fn assert_denied(verdict: &Verdict) {
    denial(verdict, DenyReason::BudgetExhausted);
}
