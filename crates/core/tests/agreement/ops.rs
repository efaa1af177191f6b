//! What may happen to a small world, as plain values: a failing case prints as a list of them.

use holdfast_core::model::{BudgetSpec, GroupPolicy, Phase};

/// What a case is about. Worlds where everything is odd fail closed at once and show nothing, so each
/// case draws how odd it is and which kinds of reference its pods use.
#[derive(Clone, Debug)]
pub struct Flavour {
    pub references: Vec<u8>,
    /// How many of 20 draws are odd.
    pub odd: u32,
    pub lws: bool,
    pub multi_pod_pdbs: bool,
    pub excluded: bool,
}

#[derive(Clone, Debug)]
pub enum Op {
    Pod(PodOp),
    PodGone {
        namespace: u8,
        slot: u8,
        evidence: bool,
    },
    Budget {
        namespace: u8,
        slot: u8,
        spec: Box<BudgetSpec>,
    },
    BudgetGone {
        namespace: u8,
        slot: u8,
    },
    Builtin(BuiltinOp),
    BuiltinGone {
        slot: u8,
    },
    Group(GroupOp),
    GroupGone {
        namespace: u8,
        holdfast: bool,
        slot: u8,
    },
    Workload {
        namespace: u8,
        holdfast: bool,
        slot: u8,
        entries: Vec<EntryOp>,
    },
    WorkloadGone {
        namespace: u8,
        holdfast: bool,
        slot: u8,
    },
    Owner(OwnerOp),
    OwnerGone {
        namespace: u8,
        kind: u8,
        slot: u8,
    },
    /// The watch delivers an object of this kind again.
    Repeat {
        kind: u8,
        which: u8,
    },
    /// The watch broke while `missed` happened, so the kind is listed.
    Relist {
        kind: u8,
        missed: Vec<Op>,
    },
    Advance {
        ms: u16,
    },
    Evict {
        pods: Vec<(u8, u8)>,
        fates: Vec<Fate>,
        after: Aftermath,
    },
}

#[derive(Clone, Debug)]
pub struct PodOp {
    pub namespace: u8,
    pub slot: u8,
    pub app: u8,
    pub tier: bool,
    pub controller: Option<OwnerRef>,
    pub phase: Phase,
    pub ready: bool,
    pub terminating: bool,
    pub marked: Option<bool>,
    pub reference: ReferenceOp,
}

/// `stale`: with another uid than the object's.
#[derive(Clone, Copy, Debug)]
pub struct OwnerRef {
    pub kind: u8,
    pub slot: u8,
    pub stale: bool,
}

#[derive(Clone, Debug)]
pub enum ReferenceOp {
    None,
    PodGroup { slot: u8 },
    Entry { workload: u8, entry: u8, key: Option<u8> },
    Annotation { slot: u8 },
    Lws { slot: u8, index: u8, unindexed: bool, size: Option<i64>, group: Option<u8> },
}

#[derive(Clone, Debug)]
pub struct BuiltinOp {
    pub slot: u8,
    pub app: Option<u8>,
    pub always: bool,
    pub behind: bool,
    pub allowed: i64,
    pub healthy: i64,
    pub desired: i64,
}

#[derive(Clone, Debug)]
pub struct GroupOp {
    pub namespace: u8,
    pub holdfast: bool,
    pub slot: u8,
    pub terminating: bool,
    pub controller: Option<OwnerRef>,
    pub policy: GroupPolicy,
    pub template: Option<(u8, u8)>,
    pub shape: GroupShape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupShape {
    Plain,
    /// `disruptionMode` all.
    Whole,
    /// With a composite parent.
    Composite,
}

#[derive(Clone, Debug)]
pub struct EntryOp {
    pub slot: u8,
    pub policy: GroupPolicy,
    pub replicas: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct OwnerOp {
    pub namespace: u8,
    pub kind: u8,
    pub slot: u8,
    pub stale: bool,
    pub above: Option<(u8, bool)>,
    pub replicas: i64,
    pub group_size: Option<i64>,
    pub keeps_group: bool,
    pub template: Option<TemplateOp>,
}

/// The pod template of a `LeaderWorkerSet`, Job, `JobSet` or `StatefulSet`.
#[derive(Clone, Debug)]
pub struct TemplateOp {
    pub app: u8,
    pub tier: bool,
    pub reference: ReferenceOp,
    pub grouped: bool,
    /// 0 is finished, 1 is suspended.
    pub state: u8,
}

/// What becomes of a status write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Normal,
    /// Somebody else's entry for the pod in this slot came first, with or without a uid.
    Conflict {
        slot: u8,
        anonymous: bool,
    },
    /// Written, but nobody knows.
    UnknownWritten,
    UnknownLost,
    /// Written; the answer comes after the next thing that happens.
    Late,
}

/// What becomes of the pods whose eviction was allowed.
#[derive(Clone, Copy, Debug)]
pub enum Aftermath {
    Nothing,
    Terminating,
    Deleted,
    /// Gone by another hand, with a new pod of that name in its place.
    Replaced,
}
