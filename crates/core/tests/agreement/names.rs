//! Names, uids and references, by their small numbers.

use holdfast_core::Kind;
use holdfast_core::model::{
    BudgetKey, ControllerRef, GroupApi, GroupKind, GroupReference, LwsMember, ObjectKey, Owner,
};

use super::ops::{OwnerRef, ReferenceOp};

pub fn namespace(index: u8) -> &'static str {
    if index == 0 { "a" } else { "b" }
}

pub fn pod_key(namespace_index: u8, slot: u8) -> ObjectKey {
    ObjectKey::new(namespace(namespace_index), format!("p{slot}"))
}

pub fn budget_key(namespace_index: u8, slot: u8) -> BudgetKey {
    BudgetKey::pdb(namespace(namespace_index), format!("b{slot}"))
}

pub fn api(holdfast: bool) -> GroupApi {
    if holdfast { GroupApi::Holdfast } else { GroupApi::Kubernetes }
}

/// Kind 7 has no `Owner` objects: only its scale can be read.
pub fn owner_kind(kind: u8) -> GroupKind {
    match kind {
        0 => GroupKind::new("", "ReplicationController"),
        1 => GroupKind::new("apps", "ReplicaSet"),
        2 => GroupKind::new("apps", "Deployment"),
        3 => GroupKind::new("apps", "StatefulSet"),
        4 => GroupKind::new("batch", "Job"),
        5 => GroupKind::new(Owner::JOBSET_GROUP, "JobSet"),
        6 => GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet"),
        _ => GroupKind::new("example.com", "Thing"),
    }
}

pub fn owner_name(kind: u8, slot: u8) -> String {
    // Pods name a LeaderWorkerSet by label too.
    if kind == 6 { format!("l{slot}") } else { format!("o{slot}") }
}

pub fn owner_uid(kind: u8, slot: u8, stale: bool) -> String {
    format!("uid-{}-{slot}{}", owner_kind(kind).kind, if stale { "-other" } else { "" })
}

pub fn controller(reference: OwnerRef) -> ControllerRef {
    let OwnerRef { kind, slot, stale } = reference;
    ControllerRef {
        group_kind: owner_kind(kind),
        version: "v1".to_owned(),
        name: owner_name(kind, slot),
        uid: owner_uid(kind, slot, stale),
    }
}

pub fn watched(index: u8) -> Kind {
    match index {
        0 => Kind::Pod,
        1 => Kind::Budget,
        2 => Kind::BuiltinBudget,
        3 => Kind::PodGroup(GroupApi::Kubernetes),
        4 => Kind::PodGroup(GroupApi::Holdfast),
        5 => Kind::Workload(GroupApi::Kubernetes),
        6 => Kind::Workload(GroupApi::Holdfast),
        other => Kind::Owner(owner_kind(other - 7)),
    }
}

pub fn reference(op: &ReferenceOp) -> (Option<GroupReference>, Option<LwsMember>) {
    let group = |slot: &u8| GroupReference::PodGroup { name: format!("g{slot}") };
    match op {
        ReferenceOp::None => (None, None),
        ReferenceOp::PodGroup { slot } => (Some(group(slot)), None),
        ReferenceOp::Entry { workload, entry, key } => (
            Some(GroupReference::WorkloadEntry {
                workload: format!("w{workload}"),
                entry: format!("e{entry}"),
                replica_key: key.map(|key| key.to_string()),
            }),
            None,
        ),
        ReferenceOp::Annotation { slot } => {
            (Some(GroupReference::Annotation { name: format!("g{slot}") }), None)
        }
        ReferenceOp::Lws { slot, index, unindexed, size, group: named } => (
            named.as_ref().map(group),
            Some(LwsMember {
                lws: format!("l{slot}"),
                group_key: format!("l{slot}-{index}"),
                group_index: (!unindexed).then_some(i64::from(*index)),
                size: *size,
            }),
        ),
    }
}
