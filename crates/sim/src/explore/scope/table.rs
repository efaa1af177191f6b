//! Scopes by name. The first six each hold one hole that a review found; see docs/simulator.md.

use super::Shape::{Gang, LeaderWorkerSet, Scaled, Templated, Whole};
use super::Wants::{MaxUnavailable, MinAvailable};
use super::{BudgetShape, Replica, Request, Scope, Shape, Span, Wants};
use crate::explore::step::Watched::{Budget, Owner, Pod};

/// Nothing goes wrong in it.
const QUIET: Scope = Scope {
    name: "",
    about: "",
    instances: 1,
    replicas: &[],
    budgets: &[],
    requests: &[],
    lagging: &[],
    slow_calls: &[],
    slow_budget_lists: false,
    by_name: false,
    losses: 0,
    crashing: &[],
    crashes: 0,
    deletions: 0,
    creations: 0,
    flaps: 0,
    edits: 0,
    recreations: 0,
    scale_ups: 0,
    refusals: 0,
    spans: &[],
    grant_secs_max: None,
    in_every_test: false,
};

const fn replica(name: &'static str, pods: u8, shape: Shape) -> Replica {
    Replica { name, pods, shape }
}

const fn budget(name: &'static str, covers: &'static [usize], threshold: Wants) -> BudgetShape {
    BudgetShape { name, covers, threshold, other: None }
}

const fn ask(instance: usize, pod: usize) -> Request {
    Request { instance, pod, attempts: 1 }
}

const fn span(secs: u32, uses: u8) -> Span {
    Span { secs, uses }
}

/// Replicas of one pod each.
const TWO: &[Replica] = &[replica("a", 1, Gang(1)), replica("b", 1, Gang(1))];
const THREE: &[Replica] =
    &[replica("a", 1, Gang(1)), replica("b", 1, Gang(1)), replica("c", 1, Gang(1))];
/// One of the two may be lost.
const ONE_OF_TWO: &[BudgetShape] = &[budget("one", &[0, 1], MinAvailable(1))];

/// Two instances that are asked for one replica each. The second one learns of pods late.
const PAIR: Scope = Scope {
    instances: 2,
    replicas: TWO,
    budgets: ONE_OF_TWO,
    requests: &[ask(0, 0), ask(1, 1)],
    lagging: &[(1, Pod)],
    ..QUIET
};

/// The leader and two others, which all learn of pods late and wait for the API server.
const TRIO: Scope = Scope {
    instances: 3,
    lagging: &[(0, Pod), (1, Pod), (2, Pod)],
    slow_calls: &[0, 1, 2],
    ..QUIET
};

pub const SCOPES: &[Scope] = &[
    Scope {
        name: "rising-watermark",
        about: "a pod watch slower than a list, while another instance writes",
        slow_calls: &[1],
        flaps: 1,
        spans: &[span(2, 2)],
        ..PAIR
    },
    Scope {
        name: "emptied-owner",
        about: "two LeaderWorkerSets of one replica under one budget",
        replicas: &[replica("x", 1, LeaderWorkerSet), replica("y", 1, LeaderWorkerSet)],
        budgets: &[budget("one", &[0, 1], MaxUnavailable(1))],
        creations: 1,
        spans: &[span(2, 2)],
        in_every_test: true,
        ..PAIR
    },
    Scope {
        name: "templated-owner",
        about: "the same with pod templates, and a pod that others delete",
        replicas: &[replica("x", 1, Templated), replica("y", 1, Templated)],
        budgets: &[budget("one", &[0, 1], MaxUnavailable(1))],
        deletions: 1,
        creations: 1,
        spans: &[span(2, 2)],
        in_every_test: true,
        ..PAIR
    },
    Scope {
        name: "whole-group",
        about: "two PodGroups with disruptionMode all",
        replicas: &[replica("a", 2, Whole), replica("b", 2, Whole)],
        requests: &[ask(0, 0), ask(1, 2)],
        creations: 1,
        spans: &[span(2, 2)],
        in_every_test: true,
        ..PAIR
    },
    Scope {
        name: "refused-eviction",
        about: "an eviction that the API server refuses, and that its client repeats",
        replicas: TWO,
        budgets: ONE_OF_TWO,
        requests: &[Request { instance: 0, pod: 0, attempts: 4 }, ask(0, 1)],
        refusals: 4,
        spans: &[span(2, 1), span(100, 5)],
        grant_secs_max: Some(300),
        in_every_test: true,
        ..QUIET
    },
    Scope {
        name: "recreated-budget",
        about: "a budget that is created again, and a lagging pod watch",
        slow_calls: &[0],
        recreations: 1,
        spans: &[span(2, 2)],
        in_every_test: true,
        ..PAIR
    },
    Scope {
        name: "expired-not-found",
        about: "an instance that is down while an eviction is carried out",
        crashing: &[0],
        crashes: 1,
        spans: &[span(2, 1), span(130, 1)],
        in_every_test: true,
        ..PAIR
    },
    Scope {
        name: "lagging",
        about: "an instance whose watches lag, and pods that come back",
        lagging: &[(1, Pod), (1, Budget)],
        creations: 1,
        spans: &[span(2, 2)],
        in_every_test: true,
        ..PAIR
    },
    Scope {
        name: "scaled-up",
        about: "a LeaderWorkerSet that is scaled up, and a lagging watch of owners",
        replicas: &[replica("x", 3, Scaled)],
        budgets: &[budget("one", &[0], MaxUnavailable(1))],
        requests: &[ask(0, 0), ask(1, 1), ask(1, 2)],
        lagging: &[(1, Pod), (1, Owner)],
        scale_ups: 1,
        spans: &[span(2, 2)],
        in_every_test: true,
        ..PAIR
    },
    Scope {
        name: "by-name",
        about: "evictions by name, and a pod that others delete and that comes back",
        by_name: true,
        deletions: 1,
        creations: 1,
        spans: &[span(2, 1), span(30, 1), span(60, 1)],
        ..PAIR
    },
    Scope {
        name: "listed-successor",
        about: "a recreated budget that lists show before the watch shows its predecessor's end",
        lagging: &[(1, Pod), (1, Budget)],
        slow_calls: &[1],
        slow_budget_lists: true,
        recreations: 1,
        spans: &[span(6, 1)],
        ..PAIR
    },
    Scope {
        name: "lost-answers",
        about: "status writes whose answers are lost, or that arrive late",
        lagging: &[(0, Budget), (1, Budget)],
        slow_calls: &[0, 1],
        losses: 2,
        spans: &[span(2, 2), span(15, 1)],
        ..PAIR
    },
    Scope {
        name: "two-budgets",
        about: "a pod under two budgets, and a lagging pod watch",
        budgets: &[
            budget("one", &[0, 1], MinAvailable(1)),
            budget("two", &[0, 1], MinAvailable(1)),
        ],
        slow_calls: &[0],
        losses: 1,
        crashing: &[0],
        crashes: 1,
        spans: &[span(2, 1), span(16, 1)],
        ..PAIR
    },
    Scope {
        name: "edited-budget",
        about: "thresholds that change while requests are under way",
        replicas: THREE,
        budgets: &[BudgetShape {
            name: "one",
            covers: &[0, 1, 2],
            threshold: MinAvailable(1),
            other: Some(MinAvailable(2)),
        }],
        requests: &[ask(0, 0), ask(1, 1), ask(0, 2)],
        lagging: &[(0, Budget), (1, Budget)],
        slow_calls: &[0, 1],
        slow_budget_lists: true,
        edits: 2,
        spans: &[span(2, 1)],
        ..PAIR
    },
    Scope {
        name: "three-instances",
        about: "three instances, three replicas of two pods, everything lags",
        replicas: &[replica("a", 2, Gang(2)), replica("b", 2, Gang(2)), replica("c", 2, Gang(2))],
        budgets: &[budget("one", &[0, 1, 2], MinAvailable(2))],
        requests: &[ask(0, 0), ask(1, 2), ask(2, 4)],
        losses: 1,
        creations: 1,
        spans: &[span(2, 2)],
        ..TRIO
    },
    Scope {
        name: "three-crashing",
        about: "three instances, one of which crashes, and pods that come back",
        replicas: THREE,
        budgets: &[budget("one", &[0, 1, 2], MinAvailable(2))],
        requests: &[ask(0, 0), ask(1, 1), ask(2, 2)],
        losses: 1,
        crashing: &[0, 1],
        crashes: 1,
        creations: 1,
        spans: &[span(2, 1), span(130, 1)],
        ..TRIO
    },
    Scope {
        name: "surplus-pods",
        about: "replicas with a pod to spare, and pods that others delete and that stop being ready",
        replicas: &[replica("a", 2, Gang(1)), replica("b", 2, Gang(1))],
        requests: &[ask(0, 0), ask(1, 1), ask(1, 2)],
        slow_calls: &[1],
        deletions: 1,
        creations: 1,
        flaps: 1,
        spans: &[span(2, 1)],
        ..PAIR
    },
    Scope {
        name: "everything",
        about: "two instances, two budgets, and one of every disturbance",
        replicas: &[replica("a", 2, Gang(2)), replica("b", 1, Gang(1)), replica("c", 1, Gang(1))],
        budgets: &[
            BudgetShape {
                name: "one",
                covers: &[0, 1, 2],
                threshold: MinAvailable(2),
                other: Some(MinAvailable(1)),
            },
            budget("two", &[0, 1], MinAvailable(1)),
        ],
        requests: &[ask(0, 0), ask(1, 2), ask(1, 3)],
        lagging: &[(0, Pod), (1, Pod), (1, Budget)],
        slow_calls: &[0, 1],
        slow_budget_lists: true,
        losses: 1,
        crashing: &[0, 1],
        crashes: 1,
        deletions: 1,
        creations: 2,
        flaps: 1,
        edits: 1,
        recreations: 1,
        refusals: 1,
        spans: &[span(2, 2), span(130, 1)],
        ..PAIR
    },
];
