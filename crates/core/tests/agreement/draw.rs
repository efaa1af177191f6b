//! How proptest draws what happens. Names come from small ranges so that things meet: references find
//! objects, or miss them, by chance.

use holdfast_core::io::ScaleOutcome;
use holdfast_core::model::{
    BasicMinCount, BudgetSpec, GroupPolicy, LabelSelector, Operator, Phase, Requirement, Scope,
    Threshold, UnhealthyPolicy,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::ops::{
    Aftermath, BuiltinOp, EntryOp, Fate, Flavour, GroupOp, GroupShape, Op, OwnerOp, OwnerRef,
    PodOp, ReferenceOp, TemplateOp,
};

pub fn flavour() -> impl Strategy<Value = Flavour> {
    let references = prop_oneof![
        4 => vec(1u8..=4, 1..=1),
        2 => vec(0u8..=4, 1..=2),
        1 => Just(vec![0, 1, 2, 3, 4]),
    ];
    let odd = prop_oneof![3 => Just(0u32), 3 => Just(1), 1 => Just(6)];
    (
        references,
        odd,
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.95),
        prop::bool::weighted(0.05),
    )
        .prop_map(|(references, odd, lws, multi_pod_pdbs, excluded)| Flavour {
            references,
            odd,
            lws,
            multi_pod_pdbs,
            excluded,
        })
}

fn oddly(flavour: &Flavour) -> impl Strategy<Value = bool> + use<> {
    prop::bool::weighted(f64::from(flavour.odd) / 20.0)
}

fn namespace() -> impl Strategy<Value = u8> {
    prop_oneof![5 => Just(0u8), 1 => Just(1u8)]
}

fn owner_ref(flavour: &Flavour) -> impl Strategy<Value = OwnerRef> + use<> {
    (0u8..8, 0u8..2, oddly(flavour)).prop_map(|(kind, slot, stale)| OwnerRef { kind, slot, stale })
}

fn reference(flavour: &Flavour) -> impl Strategy<Value = ReferenceOp> + use<> {
    let lws =
        (0u8..2, 0u8..3, oddly(flavour), oddly(flavour), 1i64..4, option::weighted(0.2, 0u8..3))
            .prop_map(|(slot, index, unindexed, unsized_, size, group)| ReferenceOp::Lws {
                slot,
                index,
                unindexed,
                size: (!unsized_).then_some(size),
                group,
            });
    let entry = (0u8..2, 0u8..2, option::weighted(0.8, 0u8..3))
        .prop_map(|(workload, entry, key)| ReferenceOp::Entry { workload, entry, key });
    let sane = select(flavour.references.clone());
    (sane, oddly(flavour), 0u8..3, entry, lws).prop_map(
        |(kind, odd, slot, entry, lws)| match kind {
            _ if odd => ReferenceOp::None,
            0 => ReferenceOp::None,
            1 => ReferenceOp::PodGroup { slot },
            2 => entry,
            3 => ReferenceOp::Annotation { slot },
            _ => lws,
        },
    )
}

fn pod(flavour: &Flavour) -> impl Strategy<Value = PodOp> + use<> {
    let phase = prop_oneof![
        8 => Just(Phase::Running),
        1 => Just(Phase::Pending),
        1 => select(vec![Phase::Succeeded, Phase::Failed, Phase::Unknown]),
    ];
    (
        (namespace(), 0u8..7, prop_oneof![4 => Just(0u8), 1 => 1u8..3], any::<bool>()),
        option::weighted(0.7, owner_ref(flavour)),
        (phase, prop::bool::weighted(0.8), prop::bool::weighted(0.08)),
        option::weighted(0.1, any::<bool>()),
        reference(flavour),
    )
        .prop_map(|(at, controller, state, marked, reference)| PodOp {
            namespace: at.0,
            slot: at.1,
            app: at.2,
            tier: at.3,
            controller: controller.map(|owner| OwnerRef { kind: below(owner.kind), ..owner }),
            phase: state.0,
            ready: state.1,
            terminating: state.2,
            marked,
            reference,
        })
}

/// Pods belong to a Deployment's `ReplicaSet` and to a `JobSet`'s Job, never to those themselves.
fn below(kind: u8) -> u8 {
    match kind {
        2 => 1,
        5 => 4,
        other => other,
    }
}

fn selector() -> impl Strategy<Value = Option<LabelSelector>> {
    let label = |value: &str| LabelSelector {
        match_labels: [("app".to_owned(), value.to_owned())].into(),
        match_expressions: Vec::new(),
    };
    let expression = |key: &str, operator, values: &[&str]| LabelSelector {
        match_labels: std::collections::BTreeMap::new(),
        match_expressions: vec![Requirement {
            key: key.to_owned(),
            operator,
            values: values.iter().map(|&v| v.to_owned()).collect(),
        }],
    };
    prop_oneof![
        1 => Just(None),
        6 => Just(Some(LabelSelector::default())),
        8 => Just(Some(label("0"))),
        1 => Just(Some(label("1"))),
        2 => Just(Some(expression("tier", Operator::Exists, &[]))),
        1 => Just(Some(expression("tier", Operator::DoesNotExist, &[]))),
        1 => Just(Some(expression("app", Operator::In, &["0", "1"]))),
        1 => Just(Some(expression("app", Operator::NotIn, &["1"]))),
        1 => Just(Some(expression("app", Operator::Other("Near".to_owned()), &["1"]))),
        1 => Just(Some(expression("app", Operator::In, &[]))),
    ]
}

fn threshold() -> impl Strategy<Value = Threshold> {
    prop_oneof![
        6 => (0i64..5).prop_map(Threshold::Count),
        4 => select(vec![0, 1, 30, 50, 99, 100]).prop_map(Threshold::Percent),
        1 => Just(Threshold::Invalid("half".to_owned())),
    ]
}

fn budget_spec() -> impl Strategy<Value = Box<BudgetSpec>> {
    let thresholds = prop_oneof![
        6 => threshold().prop_map(|t| (Some(t), None)),
        6 => threshold().prop_map(|t| (None, Some(t))),
        1 => Just((None, None)),
    ];
    let basic = prop_oneof![
        6 => Just(BasicMinCount::Absent),
        3 => (1i64..3).prop_map(BasicMinCount::Count),
        1 => Just(BasicMinCount::Unreadable("two".to_owned())),
    ];
    (thresholds, selector(), any::<bool>(), prop::bool::weighted(0.7), basic).prop_map(
        |((min_available, max_unavailable), selector, always, workload, basic_min_count)| {
            Box::new(BudgetSpec {
                unavailable: None,
                min_available,
                max_unavailable,
                selector,
                unhealthy_policy: if always {
                    UnhealthyPolicy::AlwaysAllow
                } else {
                    UnhealthyPolicy::IfHealthyBudget
                },
                scope: if workload { Scope::Workload } else { Scope::Pod },
                basic_min_count,
            })
        },
    )
}

fn policy(flavour: &Flavour) -> impl Strategy<Value = GroupPolicy> + use<> {
    (oddly(flavour), 0u8..3, 1i64..4).prop_map(|(odd, which, min_count)| match which {
        0 if odd => GroupPolicy::Basic,
        1 if odd => GroupPolicy::Gang { min_count: 0 },
        _ if odd => GroupPolicy::Absent,
        _ => GroupPolicy::Gang { min_count },
    })
}

fn group(flavour: &Flavour) -> impl Strategy<Value = GroupOp> + use<> {
    (
        (namespace(), prop::bool::weighted(0.3), 0u8..3, prop::bool::weighted(0.08)),
        option::weighted(0.6, owner_ref(flavour)),
        prop_oneof![3 => policy(flavour), 1 => Just(GroupPolicy::Absent)],
        option::weighted(0.6, (0u8..2, 0u8..2)),
        (prop::bool::weighted(0.15), oddly(flavour)),
    )
        .prop_map(|(at, controller, policy, template, (whole, composite))| GroupOp {
            namespace: at.0,
            holdfast: at.1,
            slot: at.2,
            terminating: at.3,
            controller,
            policy,
            template,
            shape: match (composite, whole) {
                (true, _) => GroupShape::Composite,
                (false, true) => GroupShape::Whole,
                (false, false) => GroupShape::Plain,
            },
        })
}

fn entries(flavour: &Flavour) -> impl Strategy<Value = Vec<EntryOp>> + use<> {
    let one = |slot| {
        (policy(flavour), option::weighted(0.4, 0i64..4))
            .prop_map(move |(policy, replicas)| EntryOp { slot, policy, replicas })
    };
    (one(0), one(1), 0u8..10).prop_map(|(first, second, some)| match some {
        0 => vec![first],
        1 => vec![],
        _ => vec![first, second],
    })
}

fn owner(flavour: &Flavour) -> impl Strategy<Value = OwnerOp> + use<> {
    (
        (namespace(), 0u8..7, 0u8..2, oddly(flavour)),
        option::weighted(0.5, (0u8..2, oddly(flavour))),
        0i64..5,
        option::weighted(0.6, 1i64..4),
        prop::bool::weighted(0.3),
        option::weighted(0.4, template(flavour)),
    )
        .prop_map(|(at, above, replicas, group_size, keeps_group, template)| OwnerOp {
            namespace: at.0,
            kind: at.1,
            slot: at.2,
            stale: at.3,
            above,
            replicas,
            group_size,
            keeps_group,
            template,
        })
}

fn template(flavour: &Flavour) -> impl Strategy<Value = TemplateOp> + use<> {
    let app = prop_oneof![4 => Just(0u8), 1 => 1u8..3];
    (app, any::<bool>(), reference(flavour), any::<bool>(), 0u8..8).prop_map(
        |(app, tier, reference, grouped, state)| TemplateOp {
            app,
            tier,
            reference,
            grouped,
            state,
        },
    )
}

fn builtin() -> impl Strategy<Value = BuiltinOp> {
    (
        0u8..2,
        option::of(0u8..2),
        any::<bool>(),
        prop::bool::weighted(0.2),
        -1i64..3,
        0i64..3,
        0i64..3,
    )
        .prop_map(|(slot, app, always, behind, allowed, healthy, desired)| BuiltinOp {
            slot,
            app,
            always,
            behind,
            allowed,
            healthy,
            desired,
        })
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Normal),
        2 => (0u8..7, any::<bool>()).prop_map(|(slot, anonymous)| Fate::Conflict { slot, anonymous }),
        1 => Just(Fate::UnknownWritten),
        1 => Just(Fate::UnknownLost),
        1 => Just(Fate::Late),
    ]
}

fn evict() -> impl Strategy<Value = Op> {
    let after = select(vec![
        Aftermath::Nothing,
        Aftermath::Terminating,
        Aftermath::Deleted,
        Aftermath::Replaced,
    ]);
    (vec((namespace(), 0u8..7), 1..4), vec(fate(), 0..4), after)
        .prop_map(|(pods, fates, after)| Op::Evict { pods, fates, after })
}

/// A change of one object.
fn change(flavour: &Flavour) -> impl Strategy<Value = Op> + use<> {
    let gone = || (namespace(), any::<bool>(), 0u8..3);
    prop_oneof![
        10 => pod(flavour).prop_map(Op::Pod),
        2 => (namespace(), 0u8..7, any::<bool>())
            .prop_map(|(namespace, slot, evidence)| Op::PodGone { namespace, slot, evidence }),
        4 => (namespace(), 0u8..4, budget_spec())
            .prop_map(|(namespace, slot, spec)| Op::Budget { namespace, slot, spec }),
        1 => (namespace(), 0u8..4)
            .prop_map(|(namespace, slot)| Op::BudgetGone { namespace, slot }),
        1 => builtin().prop_map(Op::Builtin),
        1 => (0u8..2).prop_map(|slot| Op::BuiltinGone { slot }),
        4 => group(flavour).prop_map(Op::Group),
        1 => gone().prop_map(|(namespace, holdfast, slot)| Op::GroupGone { namespace, holdfast, slot }),
        3 => (namespace(), prop::bool::weighted(0.3), 0u8..2, entries(flavour))
            .prop_map(|(namespace, holdfast, slot, entries)| Op::Workload { namespace, holdfast, slot, entries }),
        1 => gone().prop_map(|(namespace, holdfast, slot)| Op::WorkloadGone { namespace, holdfast, slot }),
        4 => owner(flavour).prop_map(Op::Owner),
        1 => (namespace(), 0u8..7, 0u8..2)
            .prop_map(|(namespace, kind, slot)| Op::OwnerGone { namespace, kind, slot }),
    ]
}

/// What is there before the first list.
pub fn beginning(flavour: &Flavour) -> impl Strategy<Value = Vec<Op>> + use<> {
    (
        vec(pod(flavour).prop_map(Op::Pod), 0..14),
        vec((Just(0u8), 0u8..4, budget_spec()), 1..4),
        vec(group(flavour).prop_map(Op::Group), 0..7),
        vec((prop::bool::weighted(0.2), 0u8..2, entries(flavour)), 1..5),
        vec(owner(flavour).prop_map(Op::Owner), 0..12),
    )
        .prop_map(|(mut ops, budgets, groups, workloads, owners)| {
            ops.extend(groups);
            ops.extend(owners);
            ops.extend(workloads.into_iter().map(|(holdfast, slot, entries)| Op::Workload {
                namespace: 0,
                holdfast,
                slot,
                entries,
            }));
            ops.extend(budgets.into_iter().map(|(namespace, slot, spec)| Op::Budget {
                namespace,
                slot,
                spec,
            }));
            ops
        })
}

/// What happens then.
pub fn op(flavour: &Flavour) -> impl Strategy<Value = Op> + use<> {
    prop_oneof![
        12 => change(flavour),
        1 => (0u8..14, any::<u8>()).prop_map(|(kind, which)| Op::Repeat { kind, which }),
        2 => (0u8..14, vec(change(flavour), 0..4))
            .prop_map(|(kind, missed)| Op::Relist { kind, missed }),
        1 => (0u16..2000).prop_map(|ms| Op::Advance { ms }),
        6 => evict(),
    ]
}

/// The answers to reads of `/scale`, one per kind and name.
pub fn scales() -> impl Strategy<Value = Vec<ScaleOutcome>> {
    let outcome = prop_oneof![
        6 => (0i64..5, any::<bool>()).prop_map(|(replicas, stale)| ScaleOutcome::Found {
            uid: if stale { "stale".to_owned() } else { String::new() },
            replicas,
        }),
        1 => Just(ScaleOutcome::NotFound),
        1 => Just(ScaleOutcome::NotImplemented("things.example.com".to_owned())),
        1 => Just(ScaleOutcome::Failed("timeout".to_owned())),
    ];
    vec(outcome, 16..=16)
}
