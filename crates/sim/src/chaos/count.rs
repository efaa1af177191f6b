//! How many units of a budget work, counted plainly from objects. Shares nothing with the engine.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::model::{
    Budget, Grant, GroupApi, GroupPolicy, GroupReference, LabelGroups, LabelSelector, ObjectKey,
    Operation, Owner, Phase, Pod, Scope, Threshold, UnhealthyPolicy,
};

use crate::view::View;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub healthy: i64,
    pub desired: i64,
}

/// Pods that are `gone` do not count, whatever they look like.
pub fn count(budget: &Budget, view: &View, gone: &dyn Fn(&Pod) -> bool) -> Count {
    let healthy = match budget.spec.scope {
        Scope::Pod => selected(budget, view).filter(|pod| works(budget, pod, gone)).count(),
        Scope::Workload => whole_replicas(budget, view, gone).len(),
    };
    let spec = &budget.spec;
    let desired = match (&spec.min_available, &spec.max_unavailable) {
        (Some(min), _) => of(min, expected(budget, view)),
        (None, Some(max)) => {
            let expected = expected(budget, view);
            (expected - of(max, expected)).max(0)
        }
        (None, None) => 0,
    };
    Count { healthy: i64::try_from(healthy).expect("few"), desired }
}

pub fn selects(budget: &Budget, pod: &Pod) -> bool {
    let matches = |selector: &LabelSelector| {
        selector.match_labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
    };
    budget.spec.selector.as_ref().is_some_and(matches)
}

pub fn selected<'a>(budget: &'a Budget, view: &'a View) -> impl Iterator<Item = &'a Pod> {
    view.pods.values().filter(|pod| selects(budget, pod))
}

/// The unit that a pod belongs to: its `LeaderWorkerSet` group, its `PodGroup`, or a group by label.
fn unit_of<'a>(budget: &Budget, pod: &'a Pod) -> &'a str {
    if let Some(groups) = groups(budget) {
        return pod.labels.get(&groups.label).map_or("", String::as_str);
    }
    replica_of(pod)
}

fn groups(budget: &Budget) -> Option<&LabelGroups> {
    budget.spec.unavailable.as_ref()?.groups.as_ref()
}

/// Whether the budget has a say in it.
pub fn concerns(budget: &Budget, operation: Operation) -> bool {
    operation == Operation::Evict || budget.spec.unavailable.is_some()
}

fn replica_of(pod: &Pod) -> &str {
    match (&pod.lws, &pod.reference) {
        (Some(lws), _) => &lws.group_key,
        (None, Some(GroupReference::PodGroup { name })) => name,
        _ => "",
    }
}

/// None for a replica that cannot be told the size of.
fn min_count(budget: &Budget, pod: &Pod, view: &View) -> Option<i64> {
    if let Some(groups) = groups(budget) {
        return Some(groups.min_ready);
    }
    if let Some(lws) = &pod.lws {
        return lws.size;
    }
    let name = ObjectKey::new(pod.key.namespace.clone(), replica_of(pod));
    view.groups.get(&(GroupApi::Kubernetes, name)).and_then(|group| match group.policy {
        GroupPolicy::Gang { min_count } => Some(min_count),
        _ => None,
    })
}

/// A running pod of a replica that nobody can tell the size of: the budget can allow nothing.
pub fn unresolved<'a>(budget: &'a Budget, view: &'a View) -> Option<&'a Pod> {
    let mut running =
        selected(budget, view).filter(|pod| pod.phase == Phase::Running && !pod.terminating);
    let per_replica = budget.spec.scope == Scope::Workload;
    running.find(|pod| per_replica && min_count(budget, pod, view).is_none())
}

/// Whether a budget says no to a pod that has no grant in it, by what everybody can see. A pod with a
/// grant in any budget counts as gone; a grant for an earlier pod of the same name may have passed to
/// it, or have ended.
pub fn blocks(budget: &Budget, view: &View, pod: &Pod, operation: Operation) -> bool {
    let granted = |other: &Pod, passed: bool| {
        let mut grants = view.budgets.values().flat_map(|b| &b.status.grants);
        let of = |g: &Grant| g.pod == other.key.name && (passed || g.uid == other.uid);
        other.uid != pod.uid && grants.any(of)
    };
    !allows(budget, view, pod, operation, &|other| granted(other, false))
        || !allows(budget, view, pod, operation, &|other| granted(other, true))
}

/// Semantics 6.
fn allows(
    budget: &Budget,
    view: &View,
    pod: &Pod,
    operation: Operation,
    granted: &dyn Fn(&Pod) -> bool,
) -> bool {
    let always = budget.spec.unhealthy_policy == UnhealthyPolicy::AlwaysAllow;
    let is_pub = budget.spec.unavailable.is_some();
    let ended = pod.is_terminal() || pod.terminating || pod.phase == Phase::Pending;
    if ended || (!pod.ready && always && !is_pub) {
        return true;
    }
    if budget.spec.scope == Scope::Workload && !computable(budget, view) {
        return false;
    }
    let Count { healthy, desired } = count(budget, view, granted);
    let without = count(budget, view, &|other| granted(other) || other.uid == pod.uid);
    let enough = healthy >= desired;
    let room = healthy > desired && total(budget, view) > 0;
    let sound = works(budget, pod, &|_| false);
    if is_pub {
        let evicts = operation == Operation::Evict;
        let breaks = without.healthy < healthy;
        let whole = whole_replicas(budget, view, granted).contains(unit_of(budget, pod));
        return match budget.spec.scope {
            Scope::Pod => !sound || healthy > desired,
            Scope::Workload if breaks => healthy > desired,
            Scope::Workload => {
                let broken =
                    !whole_replicas(budget, view, &|_| false).contains(unit_of(budget, pod));
                (whole && sound) || enough || (!evicts && (broken || whole))
            }
        };
    }
    match budget.spec.scope {
        Scope::Pod => room || (!pod.ready && enough && desired > 0),
        Scope::Workload => {
            let whole = whole_replicas(budget, view, granted).contains(unit_of(budget, pod));
            // Broken by more than grants that may yet be refunded.
            let broken = !whole_replicas(budget, view, &|_| false).contains(unit_of(budget, pod));
            match (whole, sound) {
                (true, true) => without.healthy == healthy || room,
                (true, false) => enough,
                (false, _) => enough || (always && broken),
            }
        }
    }
}

/// What the status calls expected: where the thresholds do not need to know, the pods that are there.
fn total(budget: &Budget, view: &View) -> i64 {
    if budget.spec.scope == Scope::Pod && !needs_total(budget) {
        return i64::try_from(selected(budget, view).count()).expect("few");
    }
    expected(budget, view)
}

fn needs_total(budget: &Budget) -> bool {
    budget.spec.max_unavailable.is_some()
        || matches!(budget.spec.min_available, Some(Threshold::Percent(_)))
}

/// Whether every replica, and if it matters their number, can be told.
fn computable(budget: &Budget, view: &View) -> bool {
    let mut unfinished = selected(budget, view).filter(|pod| !pod.is_terminal());
    let all_known = unfinished.all(|pod| min_count(budget, pod, view).is_some());
    unresolved(budget, view).is_none() && (!needs_total(budget) || all_known)
}

fn works(budget: &Budget, pod: &Pod, gone: &dyn Fn(&Pod) -> bool) -> bool {
    let any_phase = budget.spec.scope == Scope::Pod && budget.spec.unavailable.is_none();
    let running = any_phase || pod.phase == Phase::Running;
    pod.ready && !pod.terminating && running && !gone(pod)
}

fn whole_replicas<'a>(
    budget: &'a Budget,
    view: &'a View,
    gone: &dyn Fn(&Pod) -> bool,
) -> BTreeSet<&'a str> {
    let mut working: BTreeMap<&str, (&Pod, i64)> = BTreeMap::new();
    for pod in selected(budget, view).filter(|pod| works(budget, pod, gone)) {
        working.entry(unit_of(budget, pod)).or_insert((pod, 0)).1 += 1;
    }
    // A LeaderWorkerSet deletes what is left of a group that lost a pod.
    let intact = |pod: &Pod| match (groups(budget), &pod.lws) {
        (Some(_), Some(lws)) => {
            let of_group = |other: &&Pod| unit_of(budget, other) == unit_of(budget, pod);
            let runs = |pod: &Pod| pod.phase == Phase::Running && !pod.terminating;
            let stays = |other: &&Pod| runs(other) && !gone(other);
            let members = selected(budget, view).filter(of_group).filter(stays).count();
            lws.size.is_some_and(|size| i64::try_from(members).expect("few") >= size)
        }
        _ => true,
    };
    let whole = |pod: &Pod, pods: i64| {
        intact(pod)
            && !is_leaving(pod, view)
            && min_count(budget, pod, view).is_some_and(|min| pods >= min)
    };
    working.into_iter().filter(|(_, (pod, n))| whole(pod, *n)).map(|(name, _)| name).collect()
}

/// A group of a `LeaderWorkerSet` that was scaled away.
fn is_leaving(pod: &Pod, view: &View) -> bool {
    let Some(lws) = &pod.lws else { return false };
    let scale = lws_scale(view, &lws.lws);
    scale.zip(lws.group_index).is_some_and(|(scale, index)| index >= scale)
}

fn lws_scale(view: &View, name: &str) -> Option<i64> {
    let mut sets = view.owners.values().filter(|owner| owner.group_kind.group == Owner::LWS_GROUP);
    sets.find(|set| set.key.name == name).and_then(|set| set.replicas)
}

/// In these worlds a budget selects by label `part`, and everything of one part has one owner of the
/// same name.
fn expected(budget: &Budget, view: &View) -> i64 {
    if let Some(total) = budget.spec.unavailable.as_ref().and_then(|spec| spec.total) {
        return total;
    }
    let labels = budget.spec.selector.as_ref().map(|selector| &selector.match_labels);
    let part = labels.and_then(|labels| labels.get("part"));
    let of_part = |name: &str| part.is_none_or(|part| part == name);
    if budget.spec.scope == Scope::Pod {
        let owners: BTreeSet<&str> = selected(budget, view)
            .filter_map(|pod| pod.controller.as_ref().map(|c| c.name.as_str()))
            .collect();
        let owners = view.owners.values().filter(|owner| owners.contains(owner.key.name.as_str()));
        return owners
            .filter(|owner| owner.group_kind.group != Owner::LWS_GROUP)
            .map(|owner| owner.replicas.unwrap_or(0))
            .sum();
    }
    let unfinished = || selected(budget, view).filter(|pod| !pod.is_terminal());
    let live = unfinished().filter(|pod| !pod.terminating && !is_leaving(pod, view));
    let live: BTreeSet<&str> = live.map(|pod| unit_of(budget, pod)).collect();
    let sets: BTreeSet<&str> =
        unfinished().filter_map(|pod| pod.lws.as_ref().map(|l| l.lws.as_str())).collect();
    let from_sets: i64 = sets.iter().filter_map(|name| lws_scale(view, name)).sum();
    let owned = |group: &&holdfast_core::model::PodGroup| {
        !group.terminating && group.controller.as_ref().is_some_and(|owner| of_part(&owner.name))
    };
    // Groups by label have no objects.
    let by_object = groups(budget).is_none();
    let groups = view.groups.values().filter(|group| by_object && owned(group)).count();
    let source = from_sets + i64::try_from(groups).expect("few");
    source.max(i64::try_from(live.len()).expect("few"))
}

fn of(threshold: &Threshold, expected: i64) -> i64 {
    match threshold {
        Threshold::Count(count) => *count,
        Threshold::Percent(percent) => (percent * expected + 99).div_euclid(100),
        Threshold::Invalid(why) => panic!("{why}"),
    }
}
