//! What a tenant could try (SECURITY.md): it costs its own namespace, and nobody else's.
//!
//! Times are for a debug build on a machine with other things to do. What they must not be is the square of
//! what was tried.

use std::time::{Duration, Instant};

use holdfast_core::model::{LabelSelector, Operator, Requirement};
use holdfast_core::verdict::{DenyReason, Verdict};
use holdfast_core::{Command, Config};
use holdfast_sim::{World, budget, pod};

const LONG: Duration = Duration::from_secs(20);

/// With somebody else's pods and budget in it, which allows one.
fn world() -> World {
    let mut world = World::new(Config::default());
    world.sync();
    world.apply_budget(budget("shop/b").select("app", "shop").min_available(2));
    for i in 0..3 {
        world.apply_pod(pod(&format!("shop/p{i}")).label("app", "shop").ready());
    }
    world
}

/// Others are decided about as ever: right, and soon.
#[track_caller]
fn assert_others_are_fine(world: &mut World) {
    let began = Instant::now();
    assert!(world.evict_without_delete("shop/p0").is_allow());
    let denied = world.evict_without_delete("shop/p1");
    assert_eq!(reason(&denied), Some(DenyReason::BudgetExhausted), "{denied:?}");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    world.engine().verify();
}

fn reason(verdict: &Verdict) -> Option<DenyReason> {
    match verdict {
        Verdict::Allow(_) => None,
        Verdict::Deny(denial) => Some(denial.reason),
    }
}

#[test]
fn hundreds_of_budgets_on_one_pod() {
    let mut world = world();
    let began = Instant::now();
    world.apply_pod(pod("evil/p").label("app", "evil").ready());
    for i in 0..500 {
        world.apply_budget(budget(&format!("evil/b{i}")).select("app", "evil").min_available(0));
    }
    println!("applied after {:?}", began.elapsed());
    // Each has room, and each has to record it. Who has more than can be written in time is denied.
    let _ = world.evict_without_delete("evil/p");
    println!("evicted after {:?}", began.elapsed());
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    assert_others_are_fine(&mut world);
}

#[test]
fn selectors_as_long_as_an_object_may_be() {
    let mut world = world();
    let began = Instant::now();
    // Some 1.5 MiB, as much as etcd takes.
    let values: Vec<String> = (0..100_000).map(|i| format!("value-{i:06}")).collect();
    let one = Requirement { key: "app".to_owned(), operator: Operator::NotIn, values };
    let many = (0..5000).map(|i| Requirement {
        key: format!("key-{i}"),
        operator: Operator::NotIn,
        values: vec!["v".to_owned()],
    });
    for (name, requirements) in [("one", vec![one]), ("many", many.collect())] {
        let selector =
            LabelSelector { match_expressions: requirements, ..LabelSelector::default() };
        let name = format!("evil/{name}");
        world.apply_budget(
            budget(&name).spec(|spec| spec.selector = Some(selector)).max_unavailable(0),
        );
    }
    for i in 0..200 {
        world.apply_pod(pod(&format!("evil/p{i}")).label("app", "evil").ready());
    }
    let denied = world.evict_without_delete("evil/p0");
    assert_eq!(reason(&denied), Some(DenyReason::BudgetExhausted), "{denied:?}");
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    assert_others_are_fine(&mut world);
}

#[test]
fn a_storm_of_labels() {
    let mut world = world();
    let began = Instant::now();
    for i in 0..50 {
        world.apply_budget(budget(&format!("evil/b{i}")).select("app", "evil").min_available(1));
    }
    world.apply_pod(pod("evil/p").label("app", "evil").ready());
    for i in 0..2000 {
        // In and out of every budget, each time with a value that was never seen before.
        let app = if i % 2 == 0 { "good" } else { "evil" };
        world.edit_pod("evil/p", |pod| {
            pod.labels.insert("app".to_owned(), app.to_owned());
            pod.labels.insert("new".to_owned(), i.to_string());
        });
    }
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    let denied = world.evict_without_delete("evil/p");
    assert_eq!(reason(&denied), Some(DenyReason::BudgetExhausted), "{denied:?}");
    assert_others_are_fine(&mut world);
}

#[test]
fn ten_thousand_pods_in_one_budget() {
    let mut world = world();
    let began = Instant::now();
    world.apply_budget(budget("evil/b").select("app", "evil").min_available(0));
    let pods: Vec<_> = (0..10_000)
        .map(|i| world.apply_pod(pod(&format!("evil/p{i}")).label("app", "evil").ready()))
        .collect();
    // As many grants as an object has room for, and the others are told.
    println!("applied after {:?}", began.elapsed());
    let pods = &pods[..3000];
    let verdicts = world.evict_together(pods);
    println!("evicted after {:?}", began.elapsed());
    let granted = verdicts.iter().filter(|verdict| verdict.is_allow()).count();
    assert!((1000..=2000).contains(&granted), "{granted}");
    let told = |verdict: &Verdict| reason(verdict) == Some(DenyReason::TooManyGrants);
    assert_eq!(verdicts.iter().filter(|verdict| told(verdict)).count(), pods.len() - granted);
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    assert_others_are_fine(&mut world);
}

#[test]
fn a_thousand_owners_of_kinds_that_do_not_exist() {
    const OWNERS: usize = 1000;
    let mut world = world();
    let began = Instant::now();
    // Without this total nothing can be said about the budget.
    world.apply_budget(budget("evil/b").select("app", "evil").max_unavailable(500));
    world.hold_calls();
    for i in 0..OWNERS {
        let (pod, group) = (pod(&format!("evil/p{i}")), format!("g{i}.example"));
        let name = format!("o{i}");
        world.apply_pod(pod.label("app", "evil").owned_by(&group, "MadeUp", &name).ready());
    }
    let asked = |world: &World| {
        world.calls_under_way().filter(|call| matches!(call, Command::ReadScale { .. })).count()
    };
    // Each is asked about once, whatever happens until there is an answer. The shell sends 16 of them at a time.
    assert_eq!(asked(&world), OWNERS);
    for i in 0..OWNERS / 10 {
        let new = ("new".to_owned(), i.to_string());
        world.edit_pod(&format!("evil/p{i}"), |pod| pod.labels.extend([new]));
    }
    world.advance(Duration::from_mins(5));
    assert_eq!(asked(&world), OWNERS);
    world.release_calls();
    // The answers are that there are none, and after half a minute they are asked about again.
    world.advance(Duration::from_secs(35));
    let denied = world.evict_without_delete("evil/p0");
    assert_eq!(reason(&denied), Some(DenyReason::FailedClosed), "{denied:?}");
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    assert_others_are_fine(&mut world);
}

#[test]
fn the_same_request_again_and_again() {
    let mut world = world();
    // A forged review has any uid, any pod and any requester; what it gets is what is there for all.
    let mut allowed = 0;
    for i in 0..1000 {
        let mut eviction = world.eviction(&format!("shop/p{}", i % 3));
        eviction.id = "the-same".to_owned();
        eviction.requester = "x".repeat(100_000);
        allowed += usize::from(world.decide(eviction).is_allow());
    }
    let status = world.status("shop/b");
    assert_eq!(status.grants.len(), 1, "{allowed} answers for one grant");
    assert!(status.grants.iter().all(|grant| grant.requester.len() <= 128));
}
