//! Workers of a `LeaderWorkerSet` whose leader is gone. The garbage collector takes their `StatefulSet`, which the leader
//! owns, and then them, without being asked for. Until then they are Ready, and beside the next leader look like a
//! whole group (semantics 5 and 9).

use holdfast_core::model::Operation::{Delete, Evict};
use holdfast_core::model::Threshold::Count;
use holdfast_core::model::{Budget, ControllerRef, GroupKind, Owner, Pod, Scope};

use super::make::{
    GROUP, assert_denied, assert_granted, case, grouped, max, member, min, named, serve,
};
use crate::upstream::lone::{
    Lone, always_allow, max_unavailable, min_available, owner, reference_to,
};

const LEADER: &str = "uid-llm-2-0";
const NEXT: &str = "uid-next";

/// That of group 2, owned by this leader.
fn workers_of(leader: &str) -> Owner {
    let leader = ControllerRef {
        group_kind: GroupKind::new("", "Pod"),
        version: "v1".to_owned(),
        name: "llm-2-0".to_owned(),
        uid: leader.to_owned(),
    };
    Owner { controller: Some(leader), ..owner("apps", "StatefulSet", "llm-2", 2) }
}

/// The same, made for the next leader.
fn next_workers() -> Owner {
    Owner { uid: "uid-StatefulSet-next".to_owned(), ..workers_of(NEXT) }
}

/// As the watch would tell that this is all that there is of it.
fn replace(lone: &mut Lone, set: Option<&Owner>) {
    match set {
        Some(set) => lone.owner(set.clone()),
        None => lone.delete_owner(workers_of(LEADER)),
    }
}

/// Of both kinds, each with room for one of three groups.
fn budgets() -> Vec<Budget> {
    let of_replicas = |mut budget: Budget| {
        budget.spec.scope = Scope::Workload;
        budget
    };
    vec![
        named("b", grouped(max(Count(1)), GROUP, 3)),
        named("b", grouped(min(Count(2)), GROUP, 3)),
        of_replicas(max_unavailable("b", Count(1))),
        of_replicas(min_available("b", Count(2))),
        always_allow(of_replicas(min_available("b", Count(2)))),
    ]
}

/// Healthy groups, and how many of them may go.
fn counts(lone: &Lone) -> (i64, i64) {
    let status = lone.status("b");
    (status.current_healthy_replicas, status.disruptions_allowed)
}

#[test]
fn workers_of_a_leader_that_is_gone_make_no_whole_group() {
    let going = |leader| Some(Owner { terminating: true, ..workers_of(leader) });
    let cases = [
        // (the leader, Ready, and what has become of the set that made the workers)
        ("gone", NEXT, None),
        ("going", NEXT, going(LEADER)),
        ("going by itself", LEADER, going(LEADER)),
        ("not going yet", NEXT, Some(workers_of(LEADER))),
        ("replaced", NEXT, Some(next_workers())),
    ];
    for (name, leader, set) in cases {
        for budget in budgets() {
            case(format!("{name}: {budget:?}"));
            let mut lone = Lone::new();
            serve(&mut lone, "llm", 3, 3);
            lone.owner(workers_of(LEADER));
            lone.budget(budget);
            assert_eq!(counts(&lone), (3, 1));

            lone.pod(Pod { uid: leader.to_owned(), ..member("llm", 2, 0, 3) });
            replace(&mut lone, set.as_ref());
            assert_eq!(counts(&lone), (2, 0));
            assert_denied(&lone.evict("llm-0-0"));
            assert_denied(&lone.evict("llm-1-1"));

            lone.pod(Pod { uid: NEXT.to_owned(), ..member("llm", 2, 0, 3) });
            replace(&mut lone, Some(&next_workers()));
            assert_eq!(counts(&lone), (2, 0), "the workers are still those of before");
            for index in 1..3 {
                let uid = format!("uid-next-{index}");
                let controller = Some(reference_to(&next_workers()));
                lone.pod(Pod { uid, controller, ..member("llm", 2, index, 3) });
            }
            assert_eq!(counts(&lone), (3, 1));
            assert_granted(&lone.evict("llm-0-0"), 1);
        }
    }
}

/// The watch of `StatefulSet`s may be behind that of the pods. A group whose set was not seen yet is not counted on, and
/// not taken for broken either: what may go only because it is broken stays.
#[test]
fn a_set_that_was_not_seen_yet_is_no_reason_to_let_its_pods_go() {
    for budget in budgets() {
        case(format!("{budget:?}"));
        let is_pub = budget.spec.unavailable.is_some();
        let mut lone = Lone::new();
        serve(&mut lone, "llm", 3, 3);
        lone.delete_owner(workers_of(LEADER));
        lone.budget(budget);
        assert_eq!(counts(&lone), (2, 0));
        lone.change_pod("llm-0-0", |pod| pod.ready = false);
        assert_eq!(counts(&lone), (1, 0));
        for pod in ["llm-2-0", "llm-2-1"] {
            assert_denied(&lone.operate(pod, Evict));
            if is_pub {
                assert_denied(&lone.operate(pod, Delete));
            }
        }
        // It comes, and nothing else has to happen.
        lone.owner(workers_of(LEADER));
        assert_eq!(counts(&lone), (2, 0));
        lone.change_pod("llm-0-0", |pod| pod.ready = true);
        assert_eq!(counts(&lone), (3, 1));
        assert_granted(&lone.evict("llm-2-1"), 1);
    }
}
