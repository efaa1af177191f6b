//! Statuses that nobody waits for are written a few at a time, and keep nobody waiting.

use std::time::Duration;

use holdfast_core::{Command, Config};
use holdfast_sim::{Fate, World, budget, pod};

const BUDGETS: usize = 20;

/// Twenty budgets of one pod each that have no status yet, and an API server that does not answer.
fn world() -> World {
    let mut world = world_of(BUDGETS);
    world.hold_calls();
    world.sync();
    world.advance(Duration::from_secs(2));
    world
}

fn world_of(budgets: usize) -> World {
    let mut world = World::new(Config::default());
    for index in 0..budgets {
        let app = format!("app{index}");
        world.apply_pod(pod(&app).label("app", &app).ready());
        world.apply_budget(budget(&app).select("app", &app).min_available(0));
    }
    world
}

/// The start is long over, and the last of the budgets has a grant: the request that wrote it.
fn granted(budgets: usize) -> (World, String, String) {
    let mut world = world_of(budgets);
    world.sync();
    world.advance(Duration::from_secs(4));
    let app = format!("app{}", budgets - 1);
    let eviction = world.eviction(&*app);
    let id = world.submit(eviction);
    assert!(world.reply(&id).expect("answered").is_allow());
    assert_eq!(world.status(&*app).grants.len(), 1);
    (world, app, id)
}

fn make_anew(world: &mut World, app: &str) {
    world.delete_budget(app);
    world.apply_budget(budget(app).select("app", app).min_available(0));
}

fn writes(world: &World) -> usize {
    world.calls_under_way().filter(|call| matches!(call, Command::WriteStatus { .. })).count()
}

#[test]
fn a_few_at_a_time_until_all_are_written() {
    let mut world = world();
    assert_eq!(writes(&world), 4);
    world.release_calls();
    world.advance(Duration::from_secs(2));
    for index in 0..BUDGETS {
        let status = &world.budget(&*format!("app{index}")).expect("it is there").status;
        assert_eq!((status.observed_generation, status.current_healthy), (1, 1), "app{index}");
    }
}

#[test]
fn an_eviction_does_not_wait_for_its_turn() {
    let mut world = world();
    let eviction = world.eviction("app19");
    world.submit(eviction);
    // Other budgets are there, so the pod's labels are read first.
    let calls = world.instance(0).calls_waiting();
    let read = calls.iter().position(|call| matches!(call, Command::ReadPod { .. }));
    world.instance(0).end_call(read.expect("it reads the pod"), Fate::Answered);
    assert_eq!(writes(&world), 5);
}

#[test]
fn a_budget_that_goes_makes_room() {
    let mut world = world();
    let call = |call: &Command| match call {
        Command::WriteStatus { budget, .. } => Some(budget.clone()),
        _ => None,
    };
    let under_way: Vec<_> = world.calls_under_way().filter_map(call).collect();
    for budget in &under_way {
        world.delete_budget(budget);
    }
    assert_eq!(writes(&world), 8, "four that nobody waits for any more, and four new ones");
}

#[test]
fn a_lone_change_after_a_storm_is_shown_at_once() {
    let mut world = world_of(100);
    world.sync();
    world.advance(Duration::from_secs(4));
    for app in ["app0", "app7", "app99"] {
        assert_eq!(world.status(app).current_healthy, 1, "{app}");
        world.edit_pod(app, |pod| pod.ready = false);
        world.advance(Duration::from_millis(1));
        assert_eq!(world.status(app).current_healthy, 0, "{app}");
    }
}

#[test]
fn grants_of_a_budget_that_comes_back_wait_for_nobodys_turn() {
    let (mut world, app, _) = granted(100);
    // All of them are made anew at the same time.
    for index in 0..100 {
        make_anew(&mut world, &format!("app{index}"));
    }
    world.advance(Duration::from_millis(5));
    assert_eq!(world.status(&*app).grants.len(), 1);
}

#[test]
fn nor_do_they_when_somebody_is_quicker() {
    let (mut world, app, _) = granted(100);
    world.hold_calls();
    make_anew(&mut world, &app);
    world.advance(Duration::from_millis(1));
    assert_eq!(writes(&world), 1);
    // The write that carries them conflicts.
    world.edit_status(&*app, |status| status.current_healthy = 7);
    world.release_calls();
    assert_eq!(world.status(&*app).grants.len(), 0);
    world.advance(Duration::from_millis(1));
    assert_eq!(world.status(&*app).grants.len(), 1);
}

/// The eviction is asked for again, and that comes to nothing: the first may still be under way.
#[test]
fn nor_are_they_lost_with_a_renewal_that_is() {
    let (mut world, app, first) = granted(1);
    world.hold_calls();
    make_anew(&mut world, &app);
    // The pod watch passes the version of the new budget, so that no list is needed.
    world.edit_pod(&*app, |pod| pod.generation += 1);
    let second = world.eviction(&*app);
    let second = world.submit(second);
    assert_eq!(writes(&world), 1);
    world.advance(Duration::from_secs(10));
    assert!(!world.reply(&second).expect("its deadline is over").is_allow());
    // The write that carries the renewal conflicts.
    world.edit_status(&*app, |status| status.current_healthy = 7);
    world.release_calls();
    world.advance(Duration::from_millis(1));
    let grants: Vec<_> = world.status(&*app).grants.iter().map(|g| g.eviction.clone()).collect();
    assert_eq!(grants, [first]);
}

#[test]
fn what_changes_while_a_status_is_written_is_shown_too() {
    let mut world = world_of(1);
    world.hold_calls();
    world.sync();
    world.advance(Duration::from_secs(1));
    assert_eq!(writes(&world), 1);
    // It is to be looked at again while the answer is still on its way.
    world.edit_pod("app0", |pod| pod.ready = false);
    world.advance(Duration::from_secs(3));
    world.release_calls();
    world.advance(Duration::from_secs(1));
    assert_eq!(world.status("app0").current_healthy, 0);
}

#[test]
fn a_status_that_is_as_it_was_written_is_not_looked_at_again() {
    let mut world = world_of(1);
    world.sync();
    world.advance(Duration::from_millis(1));
    let looked_at = world.engine().stats().counters.pod_reconciliations;
    world.advance(Duration::from_mins(1));
    assert_eq!(world.engine().stats().counters.pod_reconciliations, looked_at);
    // What somebody else makes of it is.
    world.edit_status("app0", |status| status.current_healthy = 7);
    world.advance(Duration::from_secs(1));
    assert_eq!(world.status("app0").current_healthy, 1);
}
